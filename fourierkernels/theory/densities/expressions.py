"""Densities as text: ``0.3 normal(-2, 0.5) + 0.7 laplace(1, 2)``, ``normal × uniform(0, 2)``.

A sum is a mixture, whose weights stand before the parts; a product has a factor for each dimension.
Text is read by a grammar of its own, nothing is evaluated::

    density = part { "+" part }
    part    = [ number [ "*" ] ] factor { ("×" | "*") factor }
    factor  = name [ "(" [ signed { "," signed } ] ")" ]  |  "(" density ")"
    signed  = [ "+" | "-" ] number
    number  = decimal [ "/" decimal ]
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from fourierkernels.theory.densities.contract import Density, HasComponents, HasMarginals
from fourierkernels.theory.densities.mixed import Mixture, mixture
from fourierkernels.theory.densities.mixtures import GaussianMixture
from fourierkernels.theory.densities.multivariate import MultivariateMixture
from fourierkernels.theory.densities.product import Product

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:/\d+\.?\d*)?"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|(?P<name>[A-Za-z]\w*)|(?P<mark>\S))")
_LONGEST = 2000  # characters
_DEEPEST = 20  # parentheses
_MOST = 2000  # normal components of a product
_RULE = "density must be a family with its numbers, a sum or a product"
_TIMES = ("×", "*")


def read_density(text: str, named: Callable[[str, Sequence[float]], Density]) -> Density:
    """Return the density that a text describes.

    Parameters
    ----------
    text : str
    named : callable (name, numbers) -> Density
        A family with its parameters.

    Raises
    ------
    ValueError
        For a text outside the grammar, and densities that cannot be mixed or multiplied.

    Examples
    --------
    >>> from fourierkernels.theory.densities import as_density
    >>> as_density("1/4 normal(-2, .5) + 3/4 normal").weights
    (0.25, 0.75)
    >>> as_density("normal × uniform").dim
    2
    """
    if len(text) > _LONGEST:
        raise ValueError(f"density must have at most {_LONGEST} characters, got {len(text)}")
    try:
        return _Reader(text, named).whole()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_RULE}, got {text!r}: {error}") from None


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, named: Callable[[str, Sequence[float]], Density]) -> None:
        self._tokens = [(str(m.lastgroup), m[0].strip()) for m in _TOKEN.finditer(text)]
        self._named = named
        self._depth = 0

    def whole(self) -> Density:
        density = self._sum()
        if self._tokens:
            raise ValueError(f"{self._tokens[0][1]!r} is too much")
        return density

    def _next(self) -> tuple[str, str]:
        return self._tokens[0] if self._tokens else ("end", "the end")

    def _take(self, *wanted: str) -> str:
        kind, text = self._next()
        if not {kind, text} & set(wanted):
            raise ValueError(f"{text!r} stands where {' or '.join(wanted)} must")
        self._tokens.pop(0)
        return text

    def _sum(self) -> Density:
        parts = [self._part()]
        while self._next()[1] == "+":
            self._take("+")
            parts.append(self._part())
        if self._next()[1] not in (")", "the end"):
            raise ValueError(f"{self._next()[1]!r} is too much")
        if len(parts) == 1 and parts[0][0] is None:
            return parts[0][1]
        weights = [weight for weight, _ in parts if weight is not None]
        if len(weights) < len(parts):
            raise ValueError("each part of a sum must have a weight before it")
        return _mixed(weights, [density for _, density in parts])

    def _part(self) -> tuple[float | None, Density]:
        weight = None
        if self._next()[0] == "number" or self._next()[1] in ("+", "-"):
            weight = self._number()
            if self._next()[1] == "*":
                self._take("*")
        factors = [self._factor()]
        while self._next()[1] in _TIMES:
            self._take(*_TIMES)
            factors.append(self._factor())
        return weight, factors[0] if len(factors) == 1 else _product(factors)

    def _factor(self) -> Density:
        if self._next()[1] == "(":
            self._take("(")
            self._depth += 1
            if self._depth > _DEEPEST:
                raise ValueError(f"parentheses must be at most {_DEEPEST} deep")
            inner = self._sum()
            self._take(")")
            self._depth -= 1
            return inner
        name = self._take("name")
        numbers: list[float] = []
        if self._next()[1] == "(":
            self._take("(")
            while self._next()[1] != ")":
                if numbers:
                    self._take(",")
                numbers.append(self._number())
            self._take(")")
        return self._named(name, numbers)

    def _number(self) -> float:
        sign = self._take("+", "-") if self._next()[1] in ("+", "-") else "+"
        value = _value(self._take("number"))
        return -value if sign == "-" else value


def _value(text: str) -> float:
    over, _, under = text.partition("/")
    if under:
        return float(over) / float(under) if float(under) else float("nan")
    return int(over) if over.isdecimal() else float(over)


def _product(factors: Sequence[Density]) -> Density:
    lines = [m for f in factors for m in (f.marginals if isinstance(f, HasMarginals) else (f,))]
    return Product(tuple(lines))


def _mixed(weights: Sequence[float], parts: Sequence[Density]) -> Density:
    dims = {part.dim for part in parts}
    if len(dims) > 1:
        raise ValueError(f"parts of a sum must have one dimension, got {sorted(dims)}")
    if dims == {1} and not all(isinstance(part, HasComponents) for part in parts):
        pairs = [pair for w, part in zip(weights, parts, strict=True) for pair in _flat(w, part)]
        return mixture(tuple(w for w, _ in pairs), tuple(part for _, part in pairs))
    normals = [_normals(part) for part in parts]
    shares = np.concatenate([w * own[0] for w, own in zip(weights, normals, strict=True)])
    means, covariances = (np.concatenate([own[k] for own in normals]) for k in (1, 2))
    if dims == {1}:
        return GaussianMixture(shares, means[:, 0], np.sqrt(covariances[:, 0, 0]))  # type: ignore[arg-type]
    return MultivariateMixture(shares, means, covariances)  # type: ignore[arg-type]


def _flat(weight: float, part: Density) -> list[tuple[float, Density]]:
    """Return the parts of a mixture with their weights in the whole; another part as it is."""
    if not isinstance(part, Mixture):
        return [(weight, part)]
    return [(weight * w, inner) for w, inner in zip(part.weights, part.parts, strict=True)]


def _normals(part: Density) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, means and covariances of a normal part."""
    if isinstance(part, HasComponents):
        return part.components
    lines = part.marginals if isinstance(part, HasMarginals) else ()
    if not lines or not all(isinstance(m, HasComponents) for m in lines):
        raise ValueError("parts of a sum in several dimensions must be normal")
    weights, means, covariances = np.ones(1), np.empty((1, 0)), np.empty((1, 0, 0))
    for own in (m.components for m in lines if isinstance(m, HasComponents)):
        k, j, d = len(weights), len(own.weights), means.shape[1]
        if k * j > _MOST:
            raise ValueError(f"products must have at most {_MOST} normal components, got {k * j}")
        weights = np.outer(weights, own.weights).ravel()
        means = np.hstack([np.repeat(means, j, axis=0), np.tile(own.means, (k, 1))])
        wider = np.zeros((k * j, d + 1, d + 1))
        wider[:, :d, :d] = np.repeat(covariances, j, axis=0)
        wider[:, d, d] = np.tile(own.covariances[:, 0, 0], k)
        covariances = wider
    return weights, means, covariances
