"""Distances between the outputs of the heads of a layer. Arrays only.

The output of a head on a text is O_h = A_h V_h, of shape (n, d). The layer adds Σ_h O_h W_h to its
residual stream, W_h being the head's slice of the output projection; so (O_h M, M⁻¹ W_h) is the
same network for every invertible M, and distances of raw outputs are no property of it.

Neither is the mean of O_h W_h, of shape (n, E), over the tokens: rows of A_h sum to one, so that a
value bias adds one vector to every token, which may as well stand in the output bias. What the
network determines are the projected outputs less their mean over the tokens.
"""

import numpy as np

from fourierkernels.foundation.arrays import FloatArray

_KERNELS = 2**20  # entries of Gram matrices held at once: 8 MB


def token_distance(outputs: FloatArray) -> FloatArray:
    """Mean over tokens of ‖o_a - o_b‖ of every pair of outputs ``(H, n, E)``, as ``(H, H)``."""
    upper = np.zeros((len(outputs), len(outputs)))
    for a in range(len(outputs) - 1):
        gaps = np.linalg.norm(outputs[a] - outputs[a + 1 :], axis=-1)  # (H - a - 1, n)
        upper[a, a + 1 :] = gaps.mean(axis=-1)
    return upper + upper.T


def centred(outputs: FloatArray) -> FloatArray:
    """Return outputs ``(H, n, E)`` less their mean over the tokens; zero where all are equal."""
    outputs = outputs - outputs[:, :1]  # the mean of equal numbers may differ from them
    deviations: FloatArray = outputs - outputs.mean(axis=1, keepdims=True)
    return deviations


def projected_distance(outputs: FloatArray) -> FloatArray:
    """Return :func:`token_distance` of the centred outputs, as ``(H, H)``."""
    return token_distance(centred(outputs))


def projected_cosine(outputs: FloatArray) -> FloatArray:
    """Return :func:`token_cosine` of the centred outputs, as ``(H, H)``."""
    return token_cosine(centred(outputs))


def token_cosine(outputs: FloatArray) -> FloatArray:
    """1 - mean over tokens of cos(o_a, o_b) of every pair of outputs ``(H, n, E)``, ``(H, H)``."""
    tokens = outputs.swapaxes(0, 1)  # (n, H, E)
    return one_minus(cosines(tokens @ tokens.swapaxes(1, 2)).mean(axis=0))


def cka(outputs: FloatArray) -> FloatArray:
    """1 - linear CKA of every pair of outputs ``(H, n, E)``, as ``(H, H)``.

    With outputs centred over the tokens and K_h = O_h O_hᵀ, CKA is ⟨K_a, K_b⟩ / (‖K_a‖ ‖K_b‖).
    Some rows of K_h are held at a time.
    """
    deviations = centred(outputs)
    heads, n = deviations.shape[:2]
    rows, gram = max(1, _KERNELS // (heads * n)), np.zeros((heads, heads))
    for start in range(0, n, rows):
        kernels = deviations[:, start : start + rows] @ deviations.swapaxes(1, 2)
        flat = kernels.reshape(heads, -1)
        gram += flat @ flat.T
    return one_minus(cosines(gram))


def cosines(gram: FloatArray) -> FloatArray:
    """Cosines from inner products ``(..., H, H)``: 1 of two zero vectors, 0 of a zero and another.

    One token, or a head that puts out nothing, would otherwise make every average NaN.
    """
    norms = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    product = norms[..., :, None] * norms[..., None, :]
    both_zero = (norms == 0)[..., :, None] & (norms == 0)[..., None, :]
    # Not "product > 0": what is not a number must not turn into one.
    some = ~(product <= 0)
    ratio: FloatArray = np.divide(gram, product, out=both_zero.astype(float), where=some)
    return ratio


def one_minus(similarity: FloatArray) -> FloatArray:
    """Distances from similarities: symmetric whatever the order of additions, zero to oneself."""
    distances = np.maximum(1 - (similarity + similarity.T) / 2, 0.0)
    np.fill_diagonal(distances, 0.0)
    return distances
