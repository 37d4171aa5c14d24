"""Local polynomials in a basis that is orthogonal for the query: for systems that are doubtful.

The matrix of moments has the square of the condition of the local design. Where that leaves few
digits, as for nearly collinear columns or a high degree far out, the design itself is factored:
with s = |w K|^(1/2) and F the monomials, s F = Q T. For kernels without signs β is T^-1 Qᵀ s y, a
least squares fit; with signs σ it is T^-1 (Qᵀ σ Q)^-1 Qᵀ σ s y.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.local_systems import LocalFit
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums import SampleSum, kernel_matrix
from fourierkernels.sums.parts import multi_indices, offset_slopes, offsets

_EPS = float(np.finfo(float).eps)
_HELD = 2**22  # entries of the local designs held at once
_ROUNDING = 8.0  # units of rounding in a factorisation, per column


@dataclass(frozen=True)
class _Factored:
    """The local designs at m queries: s F = Q T diag(size), with signs σ; A^-1 by its parts.

    Attributes
    ----------
    u : array of shape (m, n, dim)
    root, sign : arrays of shape (m, n)
    size : array of shape (m, q)
    q, t : arrays of shape (m, n, q) and (m, q, q)
    between, mixed : arrays of shape (m, q, q)
        T^-1 and (Qᵀ σ Q)^-1.
    noise : array of shape (m,)
        Relative error of the kernel, in the basis.
    exponent : integer array of shape (m,)
    responses : array of shape (n, k)
    """

    u: FloatArray
    root: FloatArray
    sign: FloatArray
    size: FloatArray
    q: FloatArray
    t: FloatArray
    between: FloatArray
    mixed: FloatArray
    noise: FloatArray
    exponent: NDArray[np.int64]
    responses: FloatArray

    @classmethod
    def of(cls, prepared: SampleSum, queries: FloatArray, powers: NDArray[np.intp]) -> "_Factored":
        """Factor the designs of the samples at queries ``(m, dim)``."""
        used = _used(prepared, len(powers))
        points, weights = prepared.points[used], prepared.weights[used]
        matrix, noise, exponent = kernel_matrix(
            points,
            queries,
            kernel=prepared.kernel,
            radius=prepared.radius,
            periods=prepared.frame.periods,
        )
        weighted = matrix * weights
        root, sign = np.sqrt(np.abs(weighted)), np.sign(weighted)
        u = offsets(prepared.frame, prepared.kernel, queries[:, None] - points)
        design = root[:, :, None] * _monomials(u, powers)
        size = np.sqrt(np.square(design).sum(axis=1))
        size[size == 0] = 1.0
        q, t = _factors(design / size[:, None])
        return cls(
            u,
            root,
            sign,
            size,
            q,
            t,
            _inverses(t),
            _inverses(np.einsum("mia,mi,mib->mab", q, sign, q)),
            np.einsum("mia,mi->ma", np.square(q), noise).max(axis=1),
            exponent,
            prepared.responses[used],
        )

    @property
    def fit(self) -> LocalFit:
        """The local fits."""
        moments = np.einsum("mia,mi,ik->mak", self.q, self.sign * self.root, self.responses)
        coefficients = (self.between @ self.mixed @ moments) / self.size[:, :, None]
        row = (self.first[:, None] @ np.swapaxes(self.between, 1, 2))[:, 0] / self.size
        return LocalFit(
            np.moveaxis(coefficients, 1, 0),
            row.T,
            self.exponent,
            self.doubt,
            np.ones(len(row), bool),
        )

    @property
    def first(self) -> FloatArray:
        """The first row of A^-1 in the orthogonal basis, shape ``(m, q)``."""
        return np.asarray((self.between[:, :1] @ self.mixed)[:, 0] / self.size[:, :1])

    @property
    def weights(self) -> FloatArray:
        """What each sample counts in the value of the fit, shape ``(m, n)``."""
        root_of_row = np.einsum("miq,mq->mi", self.q, self.first)  # s a(u)
        return np.asarray(self.sign * self.root * root_of_row)

    @property
    def doubt(self) -> FloatArray:
        """Bound on the relative change by rounding of the design and errors of the kernel."""
        rounding = _ROUNDING * self.t.shape[1] * _EPS * _norm(self.t) * _norm(self.between)
        doubt = _norm(self.mixed) * (rounding + self.noise)
        return np.asarray(np.nan_to_num(doubt, nan=np.inf, posinf=np.inf))


def orthogonal_fit(prepared: SampleSum, queries: FloatArray, degree: int) -> LocalFit:
    """Return the local fits at queries ``(m, dim)``, from the samples; work is m n q²."""
    powers = np.array(multi_indices(len(prepared.radius), degree))
    with np.errstate(all="ignore"):  # what is singular is found by its doubt
        first, *others = (
            _Factored.of(prepared, block, powers).fit for block in _cut(prepared, queries, powers)
        )
    return first.joined(*others)


def orthogonal_weights(prepared: SampleSum, queries: FloatArray, degree: int) -> FloatArray:
    """Return what each sample counts in the same fits, shape ``(m, n)``."""
    powers = np.array(multi_indices(len(prepared.radius), degree))
    weights = np.zeros((len(queries), len(prepared.points)))
    with np.errstate(all="ignore"):
        blocks = [
            _Factored.of(prepared, block, powers).weights
            for block in _cut(prepared, queries, powers)
        ]
    weights[:, _used(prepared, len(powers))] = np.concatenate(blocks)
    return weights


def orthogonal_slopes(prepared: SampleSum, queries: FloatArray, degree: int, d: int) -> FloatArray:
    """Return ∂f̂/∂x_d of the same fits, in units of the responses, shape ``(m, k)``.

    R_d Σ_i [(a K)'(u_i) r_i - a(u_i) K(u_i) b'(u_i)] w_i, with the polynomials b of the fit and a
    of the first row of A^-1, r the residuals and derivatives along u_d.
    """
    powers = np.array(multi_indices(len(prepared.radius), degree))
    with np.errstate(all="ignore"):
        blocks = [_slopes(prepared, block, powers, d) for block in _cut(prepared, queries, powers)]
    return np.concatenate(blocks)


def _slopes(
    prepared: SampleSum, queries: FloatArray, powers: NDArray[np.intp], d: int
) -> FloatArray:
    factored = _Factored.of(prepared, queries, powers)
    parts = ["slope" if other == d else "value" for other in range(powers.shape[1])]
    used = _used(prepared, len(powers))
    steep, _, exponent = kernel_matrix(
        prepared.points[used],
        queries,
        kernel=prepared.kernel,
        radius=prepared.radius,
        parts=parts,
        periods=prepared.frame.periods,
    )
    turn = offset_slopes(prepared.frame, prepared.kernel, queries[:, None] - prepared.points[used])
    steep *= np.ldexp(prepared.weights[used], (exponent - factored.exponent)[:, None])
    change = _derivative(powers, d)
    coefficients = np.moveaxis(factored.fit.coefficients, 0, 1)  # (m, q, k)
    monomials = _monomials(factored.u, powers)
    left = factored.responses - monomials @ coefficients
    here = np.einsum("miq,mq->mi", factored.q, factored.first)  # s a(u), by the factors
    row = (factored.between @ factored.first[:, :, None])[:, :, 0] / factored.size
    turned = np.einsum("mab,mb->ma", factored.t, factored.size * (row @ change.T))
    moved = np.einsum("miq,mq->mi", factored.q, turned)  # s a'(u)
    along = np.where(factored.root > 0, here * steep / factored.root, 0.0)
    along += turn[:, :, d] * moved * factored.sign * factored.root
    total = np.einsum("mi,mik->mk", along, left)
    bent = turn[:, :, [d]] * (monomials @ (change @ coefficients))
    total -= np.einsum("mi,mik->mk", here * factored.sign * factored.root, bent)
    return np.asarray(prepared.radius[d] * total)


def _derivative(powers: NDArray[np.intp], d: int) -> FloatArray:
    """Return the matrix that takes coefficients of a polynomial to those of its derivative."""
    places = {tuple(power): place for place, power in enumerate(powers.tolist())}
    change = np.zeros((len(powers), len(powers)))
    for place, power in enumerate(powers.tolist()):
        if power[d]:
            lower = [each - (other == d) for other, each in enumerate(power)]
            change[places[tuple(lower)], place] = power[d]
    return change


def _used(prepared: SampleSum, least: int) -> NDArray[np.intp]:
    """Return the samples of positive weight, with others if they are fewer than coefficients."""
    used = np.flatnonzero(prepared.weights > 0)
    return used if len(used) >= least else np.arange(len(prepared.weights))


def _cut(prepared: SampleSum, queries: FloatArray, powers: NDArray[np.intp]) -> list[FloatArray]:
    step = max(1, _HELD // (len(prepared.points) * len(powers)))
    return [queries[start : start + step] for start in range(0, len(queries), step)]


def _monomials(u: FloatArray, powers: NDArray[np.intp]) -> FloatArray:
    return np.asarray(np.prod(u[:, :, None] ** powers, axis=3))  # (m, n, q)


def _factors(design: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Q and T of designs ``(m, n, q)``, the largest rows first, as faint rows need it."""
    order = np.argsort(-np.abs(design).max(axis=2), axis=1, kind="stable")[:, :, None]
    ordered, t = np.linalg.qr(np.take_along_axis(design, order, axis=1))
    q = np.empty(design.shape)
    np.put_along_axis(q, order, ordered, axis=1)
    return q, t


def _norm(matrices: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.square(matrices).sum(axis=(1, 2))))


def _inverses(matrices: FloatArray) -> FloatArray:
    """Return inverses; NaN of those that are singular to the last digit."""
    regular = np.linalg.cond(matrices) < 1.0 / _EPS
    inverses = np.full(matrices.shape, np.nan)
    if regular.any():
        inverses[regular] = np.linalg.inv(matrices[regular])
    return inverses
