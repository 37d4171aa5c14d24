"""FNet's mixing: the real part of a two-dimensional DFT."""

import torch
from torch import Tensor

from fourierkernels.mixing.validation import check_tokens
from fourierkernels.validation import check_choice


def fourier_mixing(x: Tensor, *, norm: str = "backward") -> Tensor:
    """Return Re F_seq(F_hidden(x)), the DFT over tokens and features.

    Parameters
    ----------
    x : tensor of shape (..., N, E)
        Tokens and features, float32 or float64.
    norm : {"backward", "ortho"}
        Unnormalised as in [leethorp2021fnet]_ eq. 3, or divided by √(NE) as in [chen_attention]_.

    Raises
    ------
    TypeError, ValueError
        For a tensor that is not real floating, has fewer than two dimensions or is empty, and for
        another `norm`.

    Examples
    --------
    >>> fourier_mixing(torch.ones(2, 3)).tolist()
    [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_tokens("x", x)
    mixed: Tensor = torch.fft.fft2(x, norm=check_choice("norm", norm, ["backward", "ortho"])).real
    return mixed
