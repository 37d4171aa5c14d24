"""The table of the theorems: every statement in the settings of the specification, section 3."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from fourierkernels.theory.theorems.base import Evidence
from fourierkernels.theory.theorems.verification import verify


class Case(NamedTuple):
    """A theorem and a setting; `beyond` to measure where an assumption fails, needed or not."""

    theorem: str
    density: str
    kernel: str
    function: str | None = None
    dim: int = 1
    beyond: bool = False


DENSITY_CASES = (
    Case("1", "gaussian", "fourier4"),
    Case("1", "cauchy", "fourier4"),
    Case("1", "gaussian", "fourier6"),
    Case("1", "gaussian", "fourier4", dim=2),
    Case("1", "laplace", "fourier4"),
    Case("1", "gaussian", "fourier3"),
    Case("3a supersmooth", "gaussian", "fourier1"),
    Case("3a supersmooth", "cauchy", "fourier1"),
    Case("3a supersmooth", "cauchy", "fourier1", dim=2),
    Case("3a ordinary smooth", "laplace", "fourier1"),
    Case("3a ordinary smooth", "gamma", "fourier1"),
    Case("3a ordinary smooth", "laplace", "fourier1", dim=2),
    Case("3b supersmooth", "gaussian", "fourier2"),
    Case("3b supersmooth", "gaussian", "fourier2", dim=2),
    Case("3b ordinary smooth", "gamma(4)", "fourier2"),
    Case("3b ordinary smooth", "laplace", "fourier2", beyond=True),
    Case("3b ordinary smooth", "gamma(1.2)", "fourier2", beyond=True),
    Case("density of order 2", "gaussian", "fourier3"),
    Case("density of order 2", "gaussian", "fourier5"),
    Case("density of order 2", "cauchy", "fourier3"),
    Case("density of order 2", "gaussian", "fourier3", dim=2),
    Case("density limited by smoothness", "laplace", "fourier3"),
    Case("density limited by smoothness", "laplace", "fourier4"),
    Case("density limited by smoothness", "laplace", "fourier5"),
    Case("lemma 1", "gaussian", "fourier4"),
)
REGRESSION_CASES = (
    Case("2", "gaussian", "fourier6", "sine"),
    Case("2", "gaussian", "fourier6", "kink"),
    Case("2", "gaussian", "fourier4", "sine", beyond=True),
    Case("4", "gaussian", "fourier1", "sine"),
    Case("4", "gaussian", "fourier1", "kink"),
    Case("4", "gaussian", "fourier1", "kink", beyond=True),
    *(
        Case(name, "gaussian", f"fourier{power}", "sine", dim)
        for dim in (1, 2)
        for power, name in enumerate(
            ("regression of order 1", *("regression of order 2",) * 3), start=2
        )
    ),
)
CASES = (*DENSITY_CASES, *REGRESSION_CASES)


def table(cases: Iterable[Case] = CASES, **options: Any) -> list[Evidence]:
    """Return the evidence for every case; `options` go to :func:`verify`.

    Examples
    --------
    >>> [row.verdict for row in table(DENSITY_CASES[:1])]
    ['holds, loose']
    """
    return [
        verify(
            case.theorem,
            case.density,
            case.kernel,
            case.function,
            dim=case.dim,
            beyond=case.beyond,
            **options,
        )
        for case in cases
    ]
