"""Maps sharpened to given entropies, of Shannon or of order 2: untrained heads as sharp as others.

A distance between heads depends on more than the entropy of their rows, so that untrained heads of
equal entropy are no control of it: see :mod:`fourierkernels.diagnostics.chance` for one. Equal Σp²
(order 2) is one for Frobenius distances, as long as the random heads share nothing.
"""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.maps import check_probabilities
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite

_WIDEST = 60.0  # |log β|: beyond it β changes nothing more in float64
_STEPS = 200  # halving alone needs about 60
_CLOSE = 1e-12  # nats
_LOG_ZERO = -1e150  # its square, and its product with any β, is finite


def sharpened_maps(maps: ArrayLike, entropies: ArrayLike, *, order: int = 1) -> FloatArray:
    """Return maps with each row raised to a power, A_ij^β / Σ_m A_im^β, of a given entropy.

    The order of the weights in a row stays, and so do its zeros.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Rows are probabilities.
    entropies : array_like, shape (H, n) or (L, H, n)
        Of the rows, in nats. A row cannot become flatter than even over the keys that it sees, nor
        sharper than even over those that tie for its largest weight; it is taken as far as that.
    order : {1, 2}
        Of the Rényi entropy: 1 for -Σ p log p, 2 for -log Σp².

    Raises
    ------
    ValueError
        For other shapes, negative entropies, or rows that are not probabilities.

    Examples
    --------
    >>> sharpened_maps([[[0.6, 0.3, 0.1]]], [[0.5]]).round(3)
    array([[[0.829, 0.159, 0.012]]])
    """
    if order not in _EXCESS:
        raise ValueError(f"order must be 1 or 2, got {order}")
    weights = check_probabilities(as_real("maps", maps))
    wanted = check_finite("entropies", as_real("entropies", entropies))
    if wanted.shape != weights.shape[:-1] or wanted.min() < 0:
        raise ValueError(
            f"entropies must be at least 0 and have shape {weights.shape[:-1]}, "
            f"got shape {wanted.shape} and least {wanted.min(initial=np.inf):g}"
        )
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    logs -= logs.max(axis=-1, keepdims=True)
    np.maximum(logs, _LOG_ZERO, out=logs)
    return _powers(logs, _log_exponents(logs, wanted, order))[0]


def _log_exponents(logs: FloatArray, wanted: FloatArray, order: int) -> FloatArray:
    """Return log β of each row by Newton's method, kept between bounds that close in."""
    low, high = np.full_like(wanted, -_WIDEST), np.full_like(wanted, _WIDEST)
    at = np.zeros_like(wanted)
    for _ in range(_STEPS):
        excess, slope = _EXCESS[order](logs, at, wanted)
        if np.all((np.abs(excess) < _CLOSE) | (high - low < _CLOSE)):
            break
        low, high = np.where(excess > 0, at, low), np.where(excess > 0, high, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = at - excess / slope  # where it is not finite, the middle is taken
        at = np.where((step > low) & (step < high), step, (low + high) / 2)
    return at


def _excess(logs: FloatArray, at: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return entropy less the wanted one, and its slope in log β, -β² Var(log A)."""
    powers, total = _powers(logs, at)
    beta = np.exp(at)
    mean = np.einsum("...j,...j->...", powers, logs)
    spread = np.einsum("...j,...j,...j->...", powers, logs, logs) - mean**2
    return np.log(total) - beta * mean - wanted, -(beta**2) * spread


def _excess_of_order_2(
    logs: FloatArray, at: FloatArray, wanted: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return -log Σp² less the wanted one, and its slope in log β, 2 β (E_β - E_2β)(log A)."""
    powers, total = _powers(logs, at)
    doubled, twice = _powers(logs, at + np.log(2.0))
    means = [np.einsum("...j,...j->...", weights, logs) for weights in (powers, doubled)]
    return 2 * np.log(total) - np.log(twice) - wanted, 2 * np.exp(at) * (means[0] - means[1])


_EXCESS = {1: _excess, 2: _excess_of_order_2}


def _powers(logs: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return normalised powers of weights whose largest is one, and their sums before that."""
    powers = np.exp(np.exp(at)[..., None] * logs)
    total = powers.sum(axis=-1)
    return powers / total[..., None], total
