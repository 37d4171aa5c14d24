"""Checks of arguments, made once at the public edge.

Every message names the argument, the rule and the value.
"""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray

_NO_REAL_NUMBERS = np.datetime64, np.timedelta64, np.complexfloating


def check_points(name: str, value: ArrayLike, *, dim: int | None = None) -> FloatArray:
    """Return `value` as a finite, non-empty float64 array of shape ``(n, dim)``.

    Raises
    ------
    ValueError
        If it is not two-dimensional, empty, not finite, or has another number of columns.

    Examples
    --------
    >>> check_points("points", [[1, 2]]).shape
    (1, 2)
    """
    points = as_real(name, value)
    if points.ndim != 2:
        raise ValueError(
            f"{name} must be two-dimensional, (n, dim), got shape {points.shape}; "
            "one-dimensional data is a column: reshape(-1, 1)"
        )
    if points.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {points.shape}")
    if dim is not None and points.shape[1] != dim:
        raise ValueError(f"{name} must have {dim} columns, got shape {points.shape}")
    return check_finite(name, points)


def as_real(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a contiguous float64 array.

    Refused are complex numbers, dates, masked entries, which an array would forget, and whatever
    is no number.
    """
    array = np.asarray(value)
    if np.iscomplexobj(array):
        raise ValueError(f"{name} must be real, got complex data of shape {array.shape}")
    check_kind(name, value)
    try:
        return np.asarray(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numeric, got {array.dtype} data") from error


def check_kind(name: str, value: ArrayLike) -> None:
    """Refuse dates and masked entries, which a conversion would take for numbers.

    Refused too are NumPy's dates and complex numbers among objects.

    Raises
    ------
    ValueError, TypeError
    """
    array = np.asarray(value)
    if array.dtype.kind in "mM":
        raise TypeError(f"{name} must be numeric, got {array.dtype} data")
    kinds = set(map(type, array.flat)) if array.dtype == object else set()
    strange = sorted(kind.__name__ for kind in kinds if issubclass(kind, _NO_REAL_NUMBERS))
    if strange:
        raise TypeError(f"{name} must be numeric, got {strange[0]} among objects")
    masked = int(np.sum(value.mask)) if isinstance(value, np.ma.MaskedArray) else 0
    if masked:
        raise ValueError(
            f"{name} must not be masked, got {masked} masked entries; drop or fill them"
        )


def check_rng(rng: object) -> np.random.Generator:
    """Return `rng` if it is a generator; a seed is none.

    Raises
    ------
    TypeError
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, as numpy.random.default_rng(0), got {rng!r}"
        )
    return rng


def check_finite(name: str, array: FloatArray) -> FloatArray:
    """Return `array` unchanged if all of it is finite; name the first place that is not."""
    finite = np.isfinite(array)
    if not finite.all():
        bad = np.argwhere(~finite)
        place = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name} must be finite, got {array[place]} at index {place} "
            f"({len(bad)} such value{'s' if len(bad) > 1 else ''})"
        )
    return array


def check_positive(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a float64 array, positive and finite everywhere."""
    if np.asarray(value).dtype == bool:
        raise TypeError(f"{name} must be a number, got {value!r}")
    array = as_real(name, value)
    bad = array[~(np.isfinite(array) & (array > 0))]
    if array.size == 0 or bad.size:
        offender = bad.flat[0] if bad.size else "an empty array"
        raise ValueError(f"{name} must be positive and finite, got {offender}")
    return array


def check_radius(radius: ArrayLike, dim: int) -> FloatArray:
    """Return `radius` as a new vector of shape ``(dim,)``; a scalar serves every dimension."""
    array = check_positive("radius", radius)
    if array.shape not in {(), (dim,)}:
        raise ValueError(f"radius must be a number or have shape ({dim},), got shape {array.shape}")
    return np.array(np.broadcast_to(array, (dim,)))


def check_period(period: object, dim: int) -> FloatArray:
    """Return periods per dimension, shape ``(dim,)``, infinite where there is none.

    Raises
    ------
    ValueError, TypeError
        If one is not positive and finite, or there is not one number or None per dimension.
    """
    given = period if isinstance(period, Sequence | np.ndarray) else [period] * dim
    if isinstance(given, str) or len(given) != dim:
        raise ValueError(
            f"period must be a number or have one or None per dimension, {dim}, got {period!r}"
        )
    checked = [
        math.inf if each is None else check_number("period", each, above=0.0) for each in given
    ]
    return np.array(checked)


def check_weights(name: str, value: ArrayLike, n: int) -> FloatArray:
    """Return sample weights of shape ``(n,)``: finite, not negative, not all zero."""
    weights = check_finite(name, as_real(name, value))
    if weights.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got shape {weights.shape}")
    if not np.isfinite(weights.max() * n):
        raise ValueError(f"{name} must have a finite sum, got a weight of {weights.max()}")
    if weights.min() < 0 or weights.sum() <= 0:
        raise ValueError(f"{name} must be non-negative and not all zero, got {weights.min()}")
    return weights


def check_integer(name: str, value: object, *, least: int = 1) -> int:
    """Return `value` as an int of at least `least`; floats and booleans are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if int(value) < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def check_number(name: str, value: object, *, above: float = -math.inf) -> float:
    """Return `value` as a finite float greater than `above`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not (math.isfinite(number) and number > above):
        rule = "finite" if above == -math.inf else f"finite and greater than {above:g}"
        raise ValueError(f"{name} must be {rule}, got {value}")
    return number


def lacking(kind: type, candidate: object) -> str:
    """Return the public members of a protocol that an object lacks, as the end of a sentence.

    Examples
    --------
    >>> from typing import Protocol
    >>> class Named(Protocol):
    ...     name: str
    >>> lacking(Named, 3)
    ', which lacks name'
    """
    names = (*kind.__annotations__, *vars(kind))
    missing = sorted({n for n in names if not n.startswith("_") and not hasattr(candidate, n)})
    return f", which lacks {', '.join(missing)}" if missing else ""


def check_choice(name: str, value: object, known: "tuple[str, ...] | list[str]") -> str:
    """Return `value` if it is one of `known`; otherwise list them."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return str(value)


def check_choices(
    name: str, given: Iterable[str] | str, known: Iterable[str], *, with_all: bool = False
) -> tuple[str, ...]:
    """Return the names given that are among `known`, each once; "none" alone for none.

    Parameters
    ----------
    name : str
        What one of them is called in messages.
    with_all : bool
        Whether "all" alone stands for all that are known.

    Examples
    --------
    >>> check_choices("fruit", ["fig", "fig"], ["fig", "plum"]), check_choices("fruit", "none", [])
    (('fig',), ())
    """
    listed, choices = [given] if isinstance(given, str) else list(given), list(known)
    if listed == ["none"]:
        return ()
    if with_all and listed == ["all"]:
        return tuple(choices)
    return tuple(check_choice(name, one, choices) for one in dict.fromkeys(listed))
