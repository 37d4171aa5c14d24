"""Hard-coded Gaussian attention: heads that look at fixed places around each token.

[you2020hard]_ replace the weights of self-attention, and so the projections of queries and keys, by
a Gaussian around a neighbour. Head h of token i weighs token j by

    w_ij = exp(-(j - i - c_h)²/(2σ²)) / Σ_k exp(-(k - i - c_h)²/(2σ²)),

with σ = 1 and centres c_h that are dealt out to the heads in turn: -1 and 1 in an encoder, -1 and 0
in a decoder, as we read the paper. The sum runs over the tokens that i may see, padding and later
tokens left out; to normalise there is our choice. Values and the output are still projected.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.masks import merge_masks
from fourierkernels.attention.multihead import check_heads
from fourierkernels.mixing.mixer import State, TokenMixer
from fourierkernels.validation import check_integer, check_number


class HardGaussianMixer(TokenMixer):
    """Attention with weights that depend on places alone; 2E² parameters beside biases.

    Parameters
    ----------
    heads : int
        H; it must divide `dim`.
    centres : sequence of int or None
        Places c relative to the token, dealt out to the heads in turn; (-1, 1) if None, and (-1, 0)
        if causal.
    sigma : float
        σ, in tokens.
    bias : bool
        Whether the two projections have one.
    **options
        Options of :class:`TokenMixer`, without `zero_padding`.

    Examples
    --------
    >>> mixer = HardGaussianMixer(2, heads=2, causal=True)
    >>> mixer.mixing_matrix(torch.zeros(1, 2, 2))[0, :, 1].round(decimals=3)
    tensor([[0.6220, 0.3780],
            [0.3780, 0.6220]])
    """

    masks_padding = True

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        centres: tuple[int, ...] | list[int] | None = None,
        sigma: float = 1.0,
        bias: bool = True,
        length: int | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__(dim, length=length, causal=causal)
        check_heads(check_integer("heads", heads), dim, name="heads", of="dim")
        self.num_heads = heads
        self.sigma = check_number("sigma", sigma, above=0.0)
        dealt = ((-1, 0) if causal else (-1, 1)) if centres is None else tuple(centres)
        if not dealt:
            raise ValueError("centres must hold at least one place, got none")
        self.centres = tuple(check_integer("centres", c, least=-(10**9)) for c in dealt)
        self.value_projection = nn.Linear(dim, dim, bias=bias)
        self.output_projection = nn.Linear(dim, dim, bias=bias)

    def values(self, x: Tensor) -> Tensor:
        """Return the value projection, ``(B, H, N, D)``."""
        projected: Tensor = self.value_projection(x)
        return projected.reshape(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the output projection of the joined heads, ``(B, N, E)``."""
        joined: Tensor = self.output_projection(mixed.transpose(1, 2).flatten(start_dim=2))
        return joined

    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return the weights, ``(B, H, N, N)``."""
        self.check_tokens(x, padding)
        seen, is_causal = merge_masks(None, padding, self.causal, x, x)
        scores = self._scores(0, x.shape[1], like=x)
        if is_causal:
            scores = scores.masked_fill(
                torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf
            )
        scores = scores.expand(len(x), *scores.shape)
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf)
        return scores.softmax(dim=-1)

    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Mix tokens ``(B, N, E)``; padded tokens are left out."""
        return self.combine(self.mixing_matrix(x, padding=padding) @ self.values(x))

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is the values so far."""
        self.check_step(x)
        new = self.values(x)
        seen = new if state is None else torch.cat([state[0], new], dim=-2)
        n = seen.shape[-2]
        self.check_length(n)
        return self.combine(self._scores(n - 1, n, like=x).softmax(dim=-1) @ seen), (seen,)

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens at once; the state is their values."""
        self.check_causal("prefill")
        return self(x), (self.values(x),)

    def extra_repr(self) -> str:
        """Show the places, too."""
        return f"{super().extra_repr()}, centres={self.centres}, sigma={self.sigma:g}"

    def _scores(self, first: int, last: int, *, like: Tensor) -> Tensor:
        """Return log w before normalising of tokens first..last-1, ``(H, last - first, last)``."""
        options: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
        place = torch.arange(last, **options)
        centre = torch.tensor(self.centres, **options)
        centre = centre[torch.arange(self.num_heads, device=like.device) % len(centre)]
        away = place - place[first:, None] - centre[:, None, None]
        return -0.5 * (away / self.sigma).square()
