"""Moments about each query from moments about one centre, by the binomial theorem.

∏_d (q_d - x_d)^{a_d} is a sum of monomials in x whose coefficients depend on the query alone, so
that any method that sums responses sums moments. Digits are lost where |q| and |x| are large
against their difference; the error that is stated grows accordingly.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.parts import multi_indices
from fourierkernels.sums.result import KernelSums


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
