"""A consequence of weights that depend on R q and R k through their difference only.

Queries and keys may be moved together, so an offset they share need not cost digits.
"""

import torch
from torch import Tensor

_STEP = 16.0  # of R c: nothing is moved that is closer to 0 than half of it


def common_offset(key: Tensor, radius: Tensor) -> Tensor:
    """Return c, ``(B, H, 1, D)``: near the first key if that is far from 0, else 0.

    Sines are taken of R (q - c) and R (k - c), whose rounding grows with their size. Of the keys
    only the first is looked at, because every causal row sees it: no output may depend on what
    comes later, not in its last bit. If it is not finite, c is 0: a mask may hide it.

    Parameters
    ----------
    key : Tensor
        ``(B, H, M, D)``, M at least 1.
    radius : Tensor
        ``(H, D)``.
    """
    scale = radius[:, None]  # (H, 1, D)
    first = key[:, :, :1]
    offset = _STEP * torch.round(scale * first / _STEP) / scale
    return torch.where(torch.isfinite(first), offset, 0.0)
