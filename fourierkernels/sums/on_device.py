"""The kernel sums of the estimators by the operator of attention, on a GPU or a CPU.

Attention is the sum of responses over the sum of weights, and its operator returns the latter as
significand and exponent: their product is the sum of responses. Always in float64.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.extras import needed_for
from fourierkernels.kernels import Kernel
from fourierkernels.ops.cuda.build import SIZES
from fourierkernels.sums.parts import PARTS, multi_indices
from fourierkernels.sums.problem import compiled_shape
from fourierkernels.sums.result import KernelSums, rounding_of_sum

with needed_for("method 'torch'"):
    import torch
    from torch import Tensor

    from fourierkernels.ops.operator import attend

_EPS = float(np.finfo(float).eps)
_BLOCK = 2**24  # differences of the Gaussian held at once
_LOWEST = -(2.0**62)  # exponent of two, as in the compiled loops; an int64 ends at -2^63
_Parts = tuple[Tensor, Tensor, Tensor]  # numerator (m, k), denominator (m,), exponent (m,)


class TorchSum:
    """Sums over all pairs on a device of torch; arguments as `SampleSum` passes them.

    Errors are estimated from the largest angle, not pair by pair. `SampleSum` sums rows again on
    the CPU where a denominator is so small that the estimate matters: where every pair may be at a
    zero of the sine, of which rounding leaves a remainder.

    Raises
    ------
    ValueError
        If points or responses have more columns than the CUDA kernels can take.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float = 0.0,
        device: str = "cpu",
    ) -> None:
        self._given = points, weights, responses
        self._options: dict[str, Any] = {"kernel": kernel, "radius": radius, "device": device}
        self._of_monomials: dict[tuple[int, int], TorchSum] = {}
        self._device, self._radius = torch.device(device), radius
        self._shape, self._nonnegative = compiled_shape(kernel), kernel.nonnegative
        if self._device.type != "cpu" and not self._shape.gaussian:
            _check_widths(points, responses, device)
        self._centre = np.quantile(points, 0.5, axis=0, method="lower")
        samples = radius * (points - self._centre)
        self._samples, self._reach = self._moved(samples), float(np.abs(samples).max())
        self._log_weights = self._moved(np.log(weights))
        self._mask = None if (weights == 1.0).all() else self._log_weights[None, None, None]
        self._total = float(weights.sum())
        columns = responses if responses.shape[1] else np.ones((len(points), 1))
        self._columns, self._count = self._moved(columns), responses.shape[1]

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums of shapes at queries of shape ``(m, dim)``; `parts` are all "value"."""
        scaled = self._radius * (queries - self._centre)
        summed = self._gaussian if self._shape.gaussian else self._fourier
        numerator, denominator, exponent = (
            part.cpu().numpy() for part in summed(self._moved(scaled))
        )
        step = 2 * _EPS * (1.0 + np.abs(scaled).max(axis=1) + self._reach)  # error of an angle
        error = self._error(denominator, exponent, step)
        return KernelSums(
            numerator[:, : self._count], denominator, error, exponent.astype(np.int64)
        )

    def at_all(
        self,
        queries: FloatArray,
        parts: list[tuple[str, ...]],
        alone: Sequence[tuple[str, ...]] = (),
    ) -> list[KernelSums]:
        """Return the sums of moments, then those of `alone`, which are without responses.

        One sum of the monomials of the samples, moved to each query afterwards.
        """
        powers = [tuple(PARTS[part].moment for part in names) for names in [*parts, *alone]]
        solved = max(sum(power) for power in powers[: len(parts)])
        degree = max(sum(power) for power in powers)
        inner = self._of_monomials.get((degree, solved))
        if inner is None:
            inner = self._of_monomials[degree, solved] = self._with_monomials(degree, solved)
        sums = inner.at(queries, ("value",) * len(self._radius))
        with np.errstate(over="ignore"):
            mass = np.ldexp(self._total, -sums.exponent)
            if self._nonnegative:
                mass = np.minimum(mass, np.abs(sums.denominator))
        rounding = rounding_of_sum(len(self._samples)) * mass
        return shifted(
            sums,
            self._radius * (queries - self._centre),
            np.abs(self._samples.cpu().numpy()).max(axis=0),
            powers,
            error=sums.error + rounding,
            degree=degree,
            solved=solved,
        )

    def _with_monomials(self, degree: int, solved: int) -> "TorchSum":
        points, weights, responses = self._given
        samples = self._radius * (points - self._centre)
        columns = monomial_columns(samples, responses, degree, solved)
        return TorchSum(points, weights, columns, **self._options)

    def _fourier(self, queries: Tensor) -> _Parts:
        output, significand, exponent, *_ = attend(
            queries[None, None],
            self._samples[None, None],
            self._columns[None, None],
            torch.ones_like(self._samples[:1]),
            self._mask,
            None,
            self._shape.power,
            False,
            0.0,
            0.0,
            False,
        )
        total = significand[0, 0]
        total = total.masked_fill(total.isinf(), 0.0)  # how the operator marks a row of zeros
        return output[0, 0] * total[:, None], total, exponent[0, 0]

    def _gaussian(self, queries: Tensor) -> _Parts:
        rows = max(1, _BLOCK // self._samples.numel())
        blocks = [self._gaussian_block(block) for block in torch.split(queries, rows)]
        numerator, denominator, exponent = (torch.cat(each) for each in zip(*blocks, strict=True))
        return numerator, denominator, exponent

    def _gaussian_block(self, queries: Tensor) -> _Parts:
        """Return sums of 2**(log2 of the weight - exponent), the largest between 1 and 2."""
        squared = (queries[:, None] - self._samples).square().sum(dim=-1)  # (block, n)
        log2 = (self._log_weights - squared / 2) / math.log(2.0)
        exponent = log2.amax(dim=1).floor()
        weights = torch.exp2(log2 - exponent[:, None])
        stored = exponent.clamp(min=_LOWEST).long()
        return weights @ self._columns, weights.sum(dim=1), stored

    def _error(self, total: FloatArray, exponent: FloatArray, step: FloatArray) -> FloatArray:
        """Bound the effect of rounded angles on the terms; for odd powers, on terms of size 1."""
        dim = len(self._radius)
        rounding = rounding_of_sum(len(self._samples))
        if self._shape.gaussian:
            far = 2.0 * np.log(2.0) * np.abs(exponent) * _EPS  # of the exponential
            slope = dim * step * np.sqrt(1.0 + np.abs(exponent))
            return np.asarray(np.abs(total) * (rounding + far + slope))
        power = self._shape.power
        if power % 2:
            relative = power * dim * step
            with np.errstate(over="ignore"):
                left = np.ldexp(self._total * relative, -exponent)
            return np.asarray(np.abs(total) * (rounding + relative) + left)
        return np.abs(total) * rounding + self._even_error(np.abs(total), exponent, dim * step)

    def _even_error(self, total: FloatArray, exponent: FloatArray, step: FloatArray) -> FloatArray:
        """Bound Σ w ((s + step)^l - s^l), s the size of a product of sincs, by its sum Σ w s^l.

        It is at most l step Σ w (s + step)^(l - 1); Hölder's and Minkowski's inequalities give the
        rest. Near zeros of a sinc the error is many times that of a term of size 1.
        """
        power = self._shape.power
        with np.errstate(over="ignore"):
            unit = self._total ** (1 / power) * np.exp2(-exponent / power)
            return np.asarray(
                power * step * unit * (total ** (1 / power) + step * unit) ** (power - 1)
            )

    def _moved(self, array: FloatArray) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float64, device=self._device)


def _check_widths(points: FloatArray, responses: FloatArray, device: str) -> None:
    width = max(points.shape[1], responses.shape[1])
    if width > SIZES[-1]:
        raise ValueError(
            f"points and responses must have at most {SIZES[-1]} columns on device {device!r}, "
            f"got {width}"
        )


# ---- moments about each query ------------------------------------------------------------------
# ∏_d (q_d - x_d)^{a_d} is a sum of monomials in x whose coefficients depend on the query alone, so
# that what sums responses sums moments. Digits are lost where |q| and |x| are large against their
# difference; the error that is stated grows accordingly.


def monomial_columns(
    samples: FloatArray, responses: FloatArray, degree: int, solved: int
) -> FloatArray:
    """Return x^b up to `degree`, then y x^b up to `solved`, one column each.

    `samples` have shape ``(n, dim)``, `responses` ``(n, k)``.
    """
    powers = multi_indices(samples.shape[1], degree)
    monomials = np.column_stack([np.prod(samples ** np.array(b), axis=1) for b in powers])
    count = math.comb(samples.shape[1] + solved, solved)
    products = monomials[:, :count, None] * responses[:, None]  # (n, t, k)
    return np.column_stack([monomials, products.reshape(len(samples), -1)])


def shifted(
    sums: KernelSums,
    queries: FloatArray,
    reach: FloatArray,
    powers: list[tuple[int, ...]],
    *,
    error: FloatArray,
    degree: int,
    solved: int,
) -> list[KernelSums]:
    """Return the moments about each query, the first ones with responses.

    Parameters
    ----------
    sums : KernelSums
        Of the columns of :func:`monomial_columns`.
    queries, reach : arrays of shape (m, dim) and (dim,)
        Scaled as the samples were, and the largest size of those.
    powers : list of tuples
        The moments wanted; those up to the degree `solved` with responses.
    error : array of shape (m,)
        Bound on the error of Σ w |shape|, what rounding adds included.
    """
    dim = queries.shape[1]
    every = multi_indices(dim, degree)
    places = {power: i for i, power in enumerate(every)}
    plain = sums.in_units[:, : len(every)]
    count = math.comb(dim + solved, solved)
    products = sums.in_units[:, len(every) :].reshape(len(queries), count, -1)
    none = np.zeros((len(queries), 0))
    results = []
    for power in powers:
        terms = list(_terms(power, queries))
        total = sum(factor * plain[:, places[b]] for b, factor in terms)
        wanted = sum(power) <= solved
        responses = (
            sum(factor[:, None] * products[:, places[b]] for b, factor in terms) if wanted else none
        )
        size = np.prod((np.abs(queries) + reach) ** np.array(power), axis=1)
        results.append(
            KernelSums(np.asarray(responses), np.asarray(total), error * size, sums.exponent)
        )
    return results


def _terms(
    power: tuple[int, ...], queries: FloatArray
) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
    """Yield the powers b <= a of x in ∏_d (q_d - x_d)^{a_d}, with their factors, shape ``(m,)``."""
    for b in itertools.product(*(range(a + 1) for a in power)):
        binomials = math.prod(map(math.comb, power, b)) * (-1) ** sum(b)
        yield b, binomials * np.prod(queries ** np.subtract(power, b), axis=1)
