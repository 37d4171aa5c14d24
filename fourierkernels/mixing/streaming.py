r"""Step-by-step decoding under the causal DFT in O(log² N) per token, amortised.

Token m needs y_m = Σ_{n<=m} ω^{mn} x_n, with another ω^m for each m: no running sum serves two
tokens, and a row of the masked matrix costs m + 1 multiply-adds. What the tokens n of a finished
node [c-h, c) add to the next h outputs is one convolution with the chirp, though, of 2h points, and
can be computed for all h of them at once when token c-1 is there. Nodes are those of the binary
number m, as in a binary counter: one of h tokens for each bit h >= B of m, from the highest. When a
block of B tokens is full it carries: the nodes of the bits that become zero join it in one node,
the only one to be transformed. Output m is then the sum of one number from each node and of the
B' <= B tokens of the block that is not full yet.

Count, in complex multiply-adds per token and feature, an FFT of n points as n log₂ n. The block
costs (B + 1)/2 on average. A node of h tokens ends once in 2h tokens and costs two FFTs of 2h
points, 2h products with the response and h with each chirp, 2 log₂(2h) + 2 per token. So

    (B + 1)/2 + Σ_{h = B, 2B, ..., N/2} (2 log₂(2h) + 2) = O(log² N),

and the additions are the ones in the binary number, at most log₂(N/B). The FFT of the response,
one for all rows and features, is left out. A single token may cost O(N log N), the one that ends
the largest node.

This is the relaxed convolution of [hoeven2002relax]_ with a known kernel. We know of no exact way
in O(log N): the h × h part of the DFT matrix that a node applies is not a DFT of h points, and the
running sums of an FFT that stops at each token are as many as the tokens, O(√N) per token in the
two-step form. To a fixed accuracy the parts with h² <= L have a rank that does not grow with N, and
a butterfly of them would need O(log N), with the square of that rank, some hundreds, as a constant.

The chirp is c_k = exp(-πi k²/L): with mn = (m² + n² - (m-n)²)/2 and ω = exp(-2πi/L),
ω^{mn} = c_m c_n conj(c_{m-n}).
"""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.mixing.mixer import FixedMixer, State, widen

DECODING = ("auto", "row", "stream")
BLOCK = 32  # B, tokens that are mixed by a dense row
# Longest sequence for which "auto" decodes by rows. The time by rows over that by nodes, for whole
# sequences in float32 on one thread of a CPU: one sentence of 512 features, 0.95 at N = 128, 1.0 at
# 256, 1.3 at 512, 2.1 at 1,024; sixteen of 256 features, 1.0 at 64, 1.1 at 128, 2.4 at 256, 7.7 at
# 512.
ROW_CROSSOVER = 128


def stream_step(new: Tensor, state: State | None, *, length: int) -> tuple[Tensor, State]:
    """Return the masked DFT of one token more, ``(..., 1, E)``, and the state after it.

    Parameters
    ----------
    new : Tensor
        The token's values, complex ``(..., 1, E)``.
    state : tuple of Tensor or None
        The tokens of the block that is not full, then for each node, the longest first, its h
        tokens and what they add to the next h outputs. It is never written to.
    length : int
        L.
    """
    current, nodes = (new, ()) if state is None else (torch.cat([state[0], new], -2), state[1:])
    first = sum(tokens.shape[-2] for tokens in nodes[::2])
    m = first + current.shape[-2] - 1
    mixed = masked_row(m, length, current, first=first)[None] @ current  # (..., 1, E)
    end = 0
    for tokens, ahead in zip(nodes[::2], nodes[1::2], strict=True):
        end += tokens.shape[-2]
        mixed = mixed + ahead[..., m - end : m - end + 1, :]
    if current.shape[-2] == BLOCK:
        nodes = _carry(current, nodes, first + BLOCK, length)
        current = current[..., :0, :]
    return mixed, (current, *nodes)


def stream_state(values: Tensor, *, length: int) -> State:
    """Return the state after the tokens ``(..., N, E)``, as N steps would leave it."""
    nodes: State = ()
    end, n = 0, values.shape[-2]
    while n - end >= BLOCK:
        size = BLOCK << ((n - end) // BLOCK).bit_length() - 1
        tokens, end = values[..., end : end + size, :], end + size
        nodes = (*nodes, tokens, _ahead(tokens, end, length))
    return (values[..., end:, :], *nodes)


def _carry(block: Tensor, nodes: State, end: int, length: int) -> State:
    """Return the nodes with a full block more, as a binary number is counted up."""
    joined = [block]
    while nodes and nodes[-2].shape[-2] == BLOCK << len(joined) - 1:
        joined, nodes = [nodes[-2], *joined], nodes[:-2]
    tokens = torch.cat(joined, dim=-2)  # (..., h, E)
    return (*nodes, tokens, _ahead(tokens, end, length))


def _ahead(tokens: Tensor, end: int, length: int) -> Tensor:
    """Return what h tokens before `end` add to outputs end..end+h-1, ``(..., h, E)``, up to L."""
    half = tokens.shape[-2]
    outputs = min(half, length - end)
    if outputs <= 0:
        return tokens[..., :0, :]
    factors = chirp(end + half, first=end - half, length=length, like=tokens)  # (2h, 1)
    response = chirp(2 * half, length=length, like=tokens).conj()
    second = convolve_into_second_half(tokens * factors[:half], response)
    return (second * factors[half:])[..., :outputs, :]


class StreamingMixer(FixedMixer):
    """A fixed mixer whose matrix is the masked DFT times a diagonal from the left.

    Parameters
    ----------
    length : int
        L, fixed for the life of the model.
    decoding : {"auto", "row", "stream"}
        How :meth:`step` finds the output of a token: by its row of the matrix, O(N) per token, or
        by :func:`stream_step`, O(log² N) amortised; "auto" takes rows up to `ROW_CROSSOVER`.
    **options
        Options of :class:`TokenMixer`.
    """

    def __init__(
        self,
        dim: int,
        *,
        length: int,
        causal: bool = True,
        zero_padding: bool = False,
        decoding: str = "auto",
    ) -> None:
        super().__init__(dim, length=length, causal=causal, zero_padding=zero_padding)
        self.fixed_length = check_integer("length", length)
        self.decoding = check_choice("decoding", decoding, list(DECODING))

    def values(self, x: Tensor) -> Tensor:
        """Return the orthonormal DFT over features, complex ``(B, 1, N, E)``."""
        transformed: Tensor = torch.fft.fft(x, dim=-1, norm="ortho")
        return transformed.unsqueeze(1)

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the real part, ``(B, N, E)``."""
        return mixed.squeeze(1).real

    @abstractmethod
    def factor(self, m: int, like: Tensor) -> Tensor | float:
        """Return what row m of the masked DFT is multiplied by."""

    def row(self, m: int, like: Tensor) -> Tensor:
        """Return row m up to its diagonal, ``(m + 1,)``: a step without the matrix."""
        return masked_row(m, self.fixed_length, like) * self.factor(m, like)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``; the state is the values, or :func:`stream_step`'s."""
        if not self.streams:
            return super().step(x, state)
        self.check_step(x)
        m = 0 if state is None else sum(part.shape[-2] for part in (state[0], *state[1::2]))
        self.check_length(m + 1)
        mixed, state = stream_step(self.values(widen(x)), state, length=self.fixed_length)
        return self.combine(mixed * self.factor(m, mixed)).to(x.dtype), state

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens at once; the state is that of as many steps."""
        mixed, state = super().prefill(x)
        return mixed, stream_state(state[0], length=self.fixed_length) if self.streams else state

    @property
    def streams(self) -> bool:
        """Whether decoding keeps nodes instead of all values."""
        automatic = self.decoding == "auto" and self.fixed_length > ROW_CROSSOVER
        return self.decoding == "stream" or automatic


def chirp(last: int, *, length: int, like: Tensor, first: int = 0) -> Tensor:
    """Return c_k for first <= k < last, ``(last - first, 1)``, in the dtype of `like`.

    k² is reduced modulo 2L before it becomes an angle.
    """
    k = torch.arange(first, last, device=like.device)
    angle = ((k * k) % (2 * length)).double() * (-math.pi / length)
    return torch.polar(torch.ones_like(angle), angle)[:, None].to(like.dtype)


def convolve_into_second_half(first: Tensor, response: Tensor) -> Tensor:
    """Return Σ_s x_s r_{h+k-s}, k < h: what the first half of a node adds to the second one.

    The lags are 1..2h-1, so a circular convolution of 2h points wraps around into the first half
    only, which is thrown away.

    Parameters
    ----------
    first : Tensor
        x, ``(..., h, E)``.
    response : Tensor
        r, ``(2h, 1)``.
    """
    half = first.shape[-2]
    product = torch.fft.fft(first, 2 * half, dim=-2) * torch.fft.fft(response, dim=-2)
    second: Tensor = torch.fft.ifft(product, dim=-2)[..., half:, :]
    return second


def masked_row(m: int, length: int, like: Tensor, *, first: int = 0) -> Tensor:
    """Return ω^{mn} for first <= n <= m, ``(m + 1 - first,)``: row m of the masked matrix."""
    phase = (m * torch.arange(first, m + 1, device=like.device)) % length
    angle = phase.double() * (-2.0 * math.pi / length)
    return torch.polar(torch.ones_like(angle), angle).to(like.dtype)
