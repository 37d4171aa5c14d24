"""The core of multi-head attention: four projections and the heads between them.

The layers with the interface of torch (:mod:`fourierkernels.attention.layer`) and the token mixers
of :mod:`fourierkernels.mixing` are this core behind two interfaces. What turns queries, keys and
values into outputs is the one method :meth:`MultiheadCore.attend`, which is also the one place
where attention can be recorded.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.validation import check_dropout


class MultiheadCore(nn.Module, ABC):
    """Project tokens, split them into heads, attend, join the heads and project again.

    A subclass calls :meth:`add_heads` in its constructor and says how its heads attend.

    Attributes
    ----------
    num_heads, head_dim : int
        H and D = E / H.
    dropout : float
        Probability of dropping a weight, in training only.
    """

    num_heads: int
    head_dim: int
    dropout: float

    def add_heads(
        self,
        dim: int,
        heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Add the projections of query, key, value and output, in this order.

        Parameters
        ----------
        dim, heads : int
            Features E of the input and output, and heads H, which divide them.
        key_dim, value_dim : int or None
            Features of keys and values before they are projected; `dim` if None.
        dropout : float
            In [0, 1).
        bias : bool
            Whether the projections have one.
        """
        self.num_heads, self.head_dim = heads, dim // heads
        self.dropout = check_dropout("dropout", dropout)
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.query_projection = nn.Linear(dim, dim, **options)
        self.key_projection = nn.Linear(dim if key_dim is None else key_dim, dim, **options)
        self.value_projection = nn.Linear(dim if value_dim is None else value_dim, dim, **options)
        self.output_projection = nn.Linear(dim, dim, **options)

    @abstractmethod
    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return outputs of projected heads and, if asked for, the weights that were applied.

        Parameters
        ----------
        query, key, value : Tensor
            ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, D)``.
        return_weights : bool
            Whether the weights ``(B, H, N, M)`` are returned, or None.
        **options
            ``attn_mask``, ``is_causal`` and ``dropout_p``, as scaled_dot_product_attention has
            them.

        Returns
        -------
        Tensor, Tensor or None
            ``(B, H, N, D)`` and the weights.
        """

    def weights(self, query: Tensor, key: Tensor, **options: Any) -> Tensor:
        """Return the weights ``(B, H, N, M)`` of projected heads; options as :meth:`attend`."""
        _, weights = self.attend(query, key, key, return_weights=True, **options)
        assert weights is not None  # they were asked for
        return weights

    def split_heads(self, projected: Tensor) -> Tensor:
        """Return ``(B, H, N, D)`` of projected tokens ``(B, N, E)``."""
        shape = (*projected.shape[:2], self.num_heads, self.head_dim)
        return projected.reshape(shape).transpose(1, 2)

    def join_heads(self, heads: Tensor) -> Tensor:
        """Return the output projection ``(B, N, E)`` of heads ``(B, H, N, D)``."""
        joined: Tensor = self.output_projection(heads.transpose(1, 2).flatten(start_dim=2))
        return joined

    @property
    def dropout_p(self) -> float:
        """Probability that a weight is dropped now."""
        return self.dropout if self.training else 0.0


def check_heads(heads: int, dim: int, *, name: str, of: str) -> None:
    """Refuse a number of heads that does not divide the features.

    Parameters
    ----------
    name, of : str
        What the caller calls the two.
    """
    if dim % heads:
        raise ValueError(f"{name} must divide {of} = {dim}, got {heads}")
