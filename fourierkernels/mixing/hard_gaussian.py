"""Hard-coded Gaussian attention: heads that look at fixed places around each token.

[you2020hard]_ replace the weights of self-attention, and so the projections of queries and keys, by
a Gaussian around a neighbour. Head h of token i weighs token j by

    w_ij = exp(-(j - i - c_h)²/(2σ²)) / Σ_k exp(-(k - i - c_h)²/(2σ²)),

with σ = 1 and centres c_h that are dealt out to the heads in turn: -1 and 1 in an encoder, -1 and 0
in a decoder, as we read the paper. The sum runs over the tokens that i may see, padding and later
tokens left out; to normalise there is our choice. Values and the output are still projected.

Reading another sequence, token i looks around place γi + c_h of it, with γ the `ratio` of the
lengths of the two: the hard-coded cross-attention of the paper. Places before its beginning or
after its end are nearest to its first or last token, which then gets nearly all the weight.
"""

import torch
from torch import Tensor, nn

from fourierkernels.attention.masks import merge_masks
from fourierkernels.attention.multihead import check_heads
from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.mixing.mixer import ReadingMixer, State


class HardGaussianMixer(ReadingMixer):
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
    ratio : float
        γ, places of the sequence that is mixed for each token; it mixes its own at 1.
    **options
        Options of :class:`~fourierkernels.mixing.mixer.TokenMixer`, without `zero_padding`.

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
        ratio: float = 1.0,
        length: int | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__(dim, length=length, causal=causal)
        check_heads(check_integer("heads", heads), dim, name="heads", of="dim")
        self.num_heads = heads
        self.sigma = check_number("sigma", sigma, above=0.0)
        self.ratio = check_number("ratio", ratio, above=0.0)
        dealt = ((-1, 0) if causal else (-1, 1)) if centres is None else tuple(centres)
        if not dealt:
            raise ValueError("centres must hold at least one place, got none")
        self.centres = tuple(check_integer("centres", c, least=-(10**9)) for c in dealt)
        self.value_projection = nn.Linear(dim, dim, bias=bias)
        self.output_projection = nn.Linear(dim, dim, bias=bias)

    def values(self, x: Tensor) -> Tensor:
        """Return the value projection, ``(B, H, N, D)``."""
        projected: Tensor = self.value_projection(x)
        return projected.reshape(*x.shape[:2], self.num_heads, -1).transpose(1, 2)  # (B, H, N, D)

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the output projection of the joined heads, ``(B, N, E)``."""
        joined: Tensor = self.output_projection(mixed.transpose(1, 2).flatten(start_dim=2))
        return joined

    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return the weights, ``(B, H, N, N)``."""
        self.check_tokens(x, padding)
        seen, is_causal = merge_masks(None, padding, self.causal, x, x)
        n = x.shape[1]
        if is_causal:
            seen = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        weights = self._weights(0, n, n, like=x, seen=seen)
        return weights.expand(len(x), *weights.shape[-3:])

    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Mix tokens ``(B, N, E)``; padded tokens are left out."""
        return self.combine(self.mixing_matrix(x, padding=padding) @ self.values(x))

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is the values so far."""
        self.check_step(x)
        new = self.values(x)
        values = new if state is None else torch.cat([state[0], new], dim=-2)
        n = values.shape[-2]
        self.check_length(n)
        return self.combine(self._weights(n - 1, n, n, like=x) @ values), (values,)

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens at once; the state is their values."""
        self.check_causal("prefill")
        return self(x), (self.values(x),)

    def memory(self, tokens: Tensor) -> State:
        """Return the values ``(B, H, M, D)`` of another sequence, for :meth:`read`."""
        return (self.values(tokens),)

    def read(
        self, x: Tensor, memory: State, *, padding: Tensor | None = None, first: int = 0
    ) -> Tensor:
        """Mix a memory into tokens ``(B, N, E)``, the first of which has the place `first`."""
        seen, _ = merge_masks(None, padding, False, x, x)
        last, places = first + x.shape[1], memory[0].shape[-2]
        return self.combine(self._weights(first, last, places, like=x, seen=seen) @ memory[0])

    def extra_repr(self) -> str:
        """Show the places, too."""
        shown = f"{super().extra_repr()}, centres={self.centres}, sigma={self.sigma:g}"
        return shown if self.ratio == 1 else f"{shown}, ratio={self.ratio:g}"

    def _weights(
        self, first: int, last: int, places: int, *, like: Tensor, seen: Tensor | None = None
    ) -> Tensor:
        """Return w of tokens first..last-1 over places that are seen, ``(…, H, tokens, places)``.

        Distances are squared in single precision at least: half of it ends at 256 places.
        """
        dtype, device = torch.promote_types(like.dtype, torch.float32), like.device
        centre = torch.tensor(self.centres, dtype=dtype, device=device)
        centre = centre[torch.arange(self.num_heads, device=device) % len(centre)]
        middle = self.ratio * torch.arange(first, last, dtype=dtype, device=device)  # (tokens,)
        place = torch.arange(places, dtype=dtype, device=device)
        away = place - middle[:, None] - centre[:, None, None]  # (H, tokens, places)
        scores = -0.5 * (away / self.sigma).square()
        if seen is None:
            return scores.softmax(dim=-1).to(like.dtype)
        blind = ~seen.any(dim=-1, keepdim=True)  # padding that comes first sees nothing
        weights = scores.masked_fill(~(seen | blind), -torch.inf).softmax(dim=-1)
        return weights.masked_fill(blind, 0.0).to(like.dtype)
