"""Random Fourier features of the kernel ∏ sinc^l: draws, the feature map, and its phase spread.

sinc^l(x) = E cos(S x), S the sum of l independent uniforms on (-1, 1), so that

    ∏_d sinc^l(R (q_d - k_d)) = E cos(t·R(q - k)) = E [cos(t·Rq) cos(t·Rk) + sin(t·Rq) sin(t·Rk)],

the entries of t independent copies of S: the random features of [rahimi2007random]_. However the
draws depend on each other, each has exactly this distribution, so that no mean is biased.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.quasirandom import SobolEngine

from fourierkernels.attention.radii import check_radius
from fourierkernels.attention.validation import WORKING_DTYPE
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_integer

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

USEFUL_SPREAD = 1.5  # of the phase: beyond it the lead over a plain mean is soon lost
_CPU: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}  # not torch's current defaults
_SOBOL_HALF_STEP = 2.0**-31  # the points of torch's engine are the left ends of 2^30 cells


class PhaseSpreadWarning(UserWarning):
    """Random features were used where their noise hides the weights."""


def fourier_features(
    dim: int,
    features: int,
    *,
    power: int = 4,
    kind: str = "orthogonal",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw frequencies t with E cos(t·x) = ∏_d (sin x_d / x_d)^l.

    ``"iid"`` draws all entries independently. ``"orthogonal"`` takes rows of random orthogonal
    matrices with the norms of normal vectors, :math:`D` rows a block ([yu2016orthogonal]_), and
    ``"sobol"`` scrambled Sobol points; both are carried entry by entry to the distribution of the
    sum of l uniforms by its quantiles.

    Parameters
    ----------
    dim : int
        D; at most 21201 for Sobol points.
    features : int
        m, the number of frequencies. Sobol points are most even if it is a power of two.
    power : int
        l.
    kind : {"orthogonal", "sobol", "iid"}
        How the draws depend on each other.
    generator : torch.Generator or None
        A generator on the CPU; torch's global one if None.

    Returns
    -------
    Tensor
        Frequencies ``(features, dim)``, float64, in (-l, l).

    Raises
    ------
    ValueError, TypeError
        If an argument breaks its rule.

    Examples
    --------
    >>> draws = fourier_features(2, 4096, kind="sobol", generator=torch.Generator().manual_seed(1))
    >>> at = torch.tensor([0.5, 1.0], dtype=torch.float64)
    >>> f"{(draws @ at).cos().mean():.3f}", f"{torch.sinc(at / math.pi).pow(4).prod():.3f}"
    ('0.424', '0.424')
    """
    dim, features = check_integer("dim", dim), check_integer("features", features)
    power = check_integer("power", power)
    return KINDS[check_choice("kind", kind, list(KINDS))](dim, features, power, generator)


def uniform_sum_quantile(probability: ArrayLike, power: int) -> FloatArray:
    """Return the quantiles of the sum of l independent uniforms on (-1, 1), elementwise.

    The distribution function F is the integral of a B-spline. F^(1/l) is concave, because F is the
    volume of a convex body cut by a moving plane (Brunn-Minkowski), and straight up to the first
    knot: so Newton's method on it, started on that line, climbs to the root from the left.

    Parameters
    ----------
    probability : array_like
        In [0, 1].
    power : int
        l.

    Examples
    --------
    >>> uniform_sum_quantile([0.0, 0.125, 0.5, 1.0], power=2)
    array([-2., -1.,  0.,  2.])
    """
    given = np.asarray(probability, dtype=np.float64)
    lower = np.minimum(given, 1.0 - given)  # F is symmetric, and accurate in its left tail
    root = lower ** (1.0 / power)
    at = -power + 2.0 * root * math.factorial(power) ** (1.0 / power)
    for _ in range(_MOST_STEPS):
        step = _newton_step(at, root, power)
        at = np.minimum(at + step, 0.0)
        if np.all(np.abs(step) <= 4e-16 * power):
            break
    return np.asarray(np.where(given < 0.5, at, 0.0 - at))


_MOST_STEPS = 60  # it takes 5 to 10; rounding may keep the last bit moving


def _newton_step(at: FloatArray, root: FloatArray, power: int) -> FloatArray:
    distribution, density = _uniform_sum(power)
    inside = at > -power  # where F > 0
    value = np.where(inside, distribution(at), 1.0)
    level = value ** (1.0 / power)
    slope = density(at) * level / (power * value)
    return np.where(inside, (root - level) / np.where(inside, slope, 1.0), 0.0)


@lru_cache
def _uniform_sum(power: int) -> "tuple[BSpline, BSpline]":
    """Return distribution and density of the sum of l uniforms on (-1, 1), for [-l, l]."""
    from scipy.interpolate import BSpline  # slow to import

    density = BSpline.basis_element(np.arange(-power, power + 1, 2.0))
    density.c = density.c / 2.0  # the integral of a basis element is its width over l
    return density.antiderivative(), density


def feature_map(x: Tensor, frequencies: Tensor) -> Tensor:
    """Return [cos t_r·x, sin t_r·x], ``(..., N, 2m)``, of points ``(..., N, D)`` already scaled.

    Examples
    --------
    >>> feature_map(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[1., 0.]])
    """
    phase = x @ frequencies.mT  # (..., N, m)
    return torch.cat([phase.cos(), phase.sin()], dim=-1)


def phase_spread(
    query: Tensor,
    key: Tensor,
    radius: Tensor | float,
    *,
    power: int = 4,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """Return a, the root mean square of the phase t·R(q - k) over all pairs and draws.

    a² = (l/3) Σ_d R_d² E(q_d - k_d)². For q and k with the standard deviation σ in each feature and
    one mean, a = Rσ√(2lD/3). Weights are about exp(-a²/2) on average; random features see them
    through a noise of about 1/√m.

    Parameters
    ----------
    query, key : Tensor
        ``(..., H, N, D)`` and ``(..., H, M, D)``.
    radius : Tensor or float
        As :func:`~fourierkernels.attention.fourier_attention` takes it.
    power : int
        l.
    key_padding_mask : Tensor or None
        True at keys to be left out, ``(..., M)``.

    Returns
    -------
    Tensor
        ``(..., H)``; NaN where no key is left.

    Examples
    --------
    >>> points = torch.tensor([[-1.0], [1.0]])
    >>> phase_spread(points, points, 1.5, power=6)
    tensor(3.)
    """
    working, factor = WORKING_DTYPE[query.dtype], check_radius(radius, query)
    query, key = query.detach().to(working), key.detach().to(working)
    kept = torch.ones_like(key[..., :1])
    if key_padding_mask is not None:
        kept = kept.masked_fill(over_heads(key_padding_mask, key)[..., None], 0.0)
    share = kept / kept.sum(dim=-2, keepdim=True)  # (..., M, 1)
    centre = (share * key).sum(dim=-2, keepdim=True)  # (..., 1, D)
    query, key = factor.times(query - centre), factor.times(key - centre)
    of_keys = (share * key.square()).sum(dim=(-2, -1))  # (..., H)
    of_queries = query.square().mean(dim=-2).sum(dim=-1)  # (..., H)
    return (power / 3 * (of_keys + of_queries)).sqrt().detach()


def over_heads(key_padding_mask: Tensor, key: Tensor) -> Tensor:
    """Return the padding of a batch for each of its heads, ``(..., 1, M)`` or ``(M,)``."""
    return key_padding_mask[..., None, :] if key.ndim > 2 else key_padding_mask


def orthogonal_normals(dim: int, m: int, generator: torch.Generator | None = None) -> Tensor:
    """Return m standard normal rows, ``(m, dim)``, orthogonal in blocks of D ([yu2016orthogonal]_).

    Examples
    --------
    >>> rows = orthogonal_normals(3, 3, torch.Generator().manual_seed(0))
    >>> bool((rows @ rows.mT).fill_diagonal_(0.0).abs().max() < 1e-12)
    True
    """
    blocks = -(-m // dim)
    normal = torch.randn(blocks, dim, dim, **_CPU, generator=generator)
    directions, triangle = torch.linalg.qr(normal)
    # Without the signs of the diagonal Q is not uniform over the rotations.
    directions = directions * triangle.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    norms = torch.randn(blocks, dim, dim, **_CPU, generator=generator).norm(dim=-1)
    rows: Tensor = (directions.mT * norms[..., None]).flatten(0, 1)[:m]
    return rows


def _orthogonal(dim: int, m: int, power: int, generator: torch.Generator | None) -> Tensor:
    rows = orthogonal_normals(dim, m, generator)
    return _by_quantiles(torch.special.ndtr(rows), power)


def _sobol(dim: int, m: int, power: int, generator: torch.Generator | None) -> Tensor:
    seed = int(torch.randint(2**62, (), device="cpu", generator=generator))
    engine = SobolEngine(dim, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    return _by_quantiles(engine.draw(m, dtype=torch.float64) + _SOBOL_HALF_STEP, power)


def _iid(dim: int, m: int, power: int, generator: torch.Generator | None) -> Tensor:
    uniform = torch.rand(power, m, dim, **_CPU, generator=generator)
    return (2.0 * uniform - 1.0).sum(dim=0)


def _by_quantiles(probability: Tensor, power: int) -> Tensor:
    return torch.from_numpy(uniform_sum_quantile(probability.numpy(), power))


Sampler = Callable[[int, int, int, torch.Generator | None], Tensor]
KINDS: dict[str, Sampler] = {"orthogonal": _orthogonal, "sobol": _sobol, "iid": _iid}
