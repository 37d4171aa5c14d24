"""The interface of token mixers: values, a mixing matrix, and the way back to tokens.

A mixer maps tokens x, ``(B, N, E)``, to tokens. Whatever its form, it is

    mixer(x) = combine(M(x) values(x)),    M(x) of shape (B, H, N, N),

with H heads, or one for mixers without heads. Attention computes M from the tokens; Fourier, linear
and random mixing have a fixed one. `forward` is the fast way to the same result, so the matrix is
both the reference for it and what diagnostics inspect.
"""

import warnings
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from fourierkernels.attention.validation import without_autocast
from fourierkernels.foundation.validation import check_integer

# State of a mixer between two steps of decoding; the batch is the first dimension.
State = tuple[Tensor, ...]

_WORKING_DTYPE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class PaddingIgnoredWarning(UserWarning):
    """Padding was given to a mixer that mixes padded tokens into all others."""


class TokenMixer(nn.Module, ABC):
    """Base of the mixers.

    Parameters
    ----------
    dim : int
        Features E of a token.
    length : int or None
        Longest sequence; None for no limit.
    causal : bool
        Token m sees tokens n <= m only.
    zero_padding : bool
        Set padded tokens to zero before they are mixed, for mixers that cannot leave them out.
        Attention masks padding and has no such option.

    Attributes
    ----------
    masks_padding : bool
        Whether padded tokens are left out: a fact of the class.
    sees_later : bool
        Whether a causal mixer's outputs change with later tokens all the same, so that it can
        neither step nor be prefilled.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule; in the forward pass, if the tokens do not fit.
    """

    masks_padding: ClassVar[bool] = False
    sees_later: bool = False

    def __init__(
        self,
        dim: int,
        *,
        length: int | None = None,
        causal: bool = False,
        zero_padding: bool = False,
    ) -> None:
        super().__init__()
        self.dim = check_integer("dim", dim)
        self.length = None if length is None else check_integer("length", length)
        self.causal, self.zero_padding = bool(causal), bool(zero_padding)

    @abstractmethod
    def values(self, x: Tensor) -> Tensor:
        """Return what is mixed, ``(B, H, N, D)``, real or complex."""

    @abstractmethod
    def combine(self, mixed: Tensor) -> Tensor:
        """Return tokens ``(B, N, E)`` from mixed values ``(B, H, N, D)``."""

    @abstractmethod
    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return M, ``(B, H, N, N)``: row m says how much of each token is in token m.

        Real for attention, linear and random mixing, complex for Fourier mixing.
        """

    @abstractmethod
    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Mix tokens ``(B, N, E)``; `padding` is boolean, ``(B, N)``, True to be ignored."""

    @abstractmethod
    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``, with the earlier ones in `state`.

        Successive steps return what one pass over the whole sequence returns.

        Raises
        ------
        ValueError
            If the mixer is not causal, or the sequence grows beyond its length.
        """

    def extra_repr(self) -> str:
        """Show the options that the projections do not."""
        return f"dim={self.dim}, length={self.length}, causal={self.causal}"

    def check_tokens(self, x: Tensor, padding: Tensor | None = None) -> None:
        """Refuse tokens or padding of another shape, and sequences that are too long."""
        if x.ndim != 3 or x.shape[-1] != self.dim or x.shape[1] == 0:
            raise ValueError(
                f"x must have shape (batch, tokens, {self.dim}), got shape {tuple(x.shape)}"
            )
        self.check_length(x.shape[1])
        if padding is None:
            return
        if padding.dtype is not torch.bool:
            raise TypeError(f"padding must be boolean, got {padding.dtype}")
        if padding.shape != x.shape[:2]:
            raise ValueError(
                f"padding must have shape {tuple(x.shape[:2])}, got shape {tuple(padding.shape)}"
            )

    def check_length(self, tokens: int) -> None:
        """Refuse more tokens than the mixer was built for."""
        if self.length is not None and tokens > self.length:
            raise ValueError(f"x must have at most length = {self.length} tokens, got {tokens}")

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens ``(B, N, E)`` at once: what `forward` returns, and the state after.

        The state is that of N steps, one by one, which this base takes; a mixer that can read it
        off the tokens does.

        Raises
        ------
        ValueError
            As for :meth:`step`.
        """
        self.check_causal("prefill")
        self.check_tokens(x)
        first, state = self.step(x[:, :1])
        mixed = [first]
        for t in range(1, x.shape[1]):
            y, state = self.step(x[:, t : t + 1], state)
            mixed.append(y)
        return torch.cat(mixed, dim=1), state

    def check_causal(self, what: str) -> None:
        """Refuse to decode without a causal order."""
        if not self.causal:
            raise ValueError(
                f"{what} needs a causal mixer, got {type(self).__name__} with causal=False"
            )

    def check_step(self, x: Tensor) -> None:
        """Refuse to step without a causal order, or by more than one token."""
        self.check_causal("step")
        self.check_tokens(x)
        if x.shape[1] != 1:
            raise ValueError(f"x must be one token, (batch, 1, {self.dim}), got {x.shape[1]}")


class ReadingMixer(TokenMixer):
    """A mixer whose tokens can also be mixed from those of another sequence, its memory."""

    @abstractmethod
    def memory(self, tokens: Tensor) -> State:
        """Return the memory of another sequence ``(B, M, E)``, for :meth:`read`."""

    @abstractmethod
    def read(
        self, x: Tensor, memory: State, *, padding: Tensor | None = None, first: int = 0
    ) -> Tensor:
        """Mix the memory into tokens ``(B, N, E)``.

        Parameters
        ----------
        padding : Tensor or None
            That of the memory, ``(B, M)``, True to be ignored.
        first : int
            Place of the first of the tokens in their sequence, for weights that depend on places.
        """


class FixedMixer(TokenMixer):
    """A mixer whose matrix does not depend on the tokens: y = combine(M values(x)).

    Half precision is mixed in float32 and returned as it came. Padding cannot be left out of a
    fixed matrix: it is mixed as it is, with a :class:`PaddingIgnoredWarning`, or set to zero
    first (`zero_padding`). Zeroed padding carries no information, but the *number* of padded tokens
    still changes the result wherever the matrix depends on N, as that of a DFT does.
    """

    @abstractmethod
    def matrix(self, n: int, like: Tensor) -> Tensor:
        """Return M for n tokens, ``(n, n)``, in the dtype and on the device of values `like`."""

    def row(self, m: int, like: Tensor) -> Tensor:
        """Return the row of token m over tokens 0..m, ``(m + 1,)``."""
        return self.matrix(m + 1, like)[-1]

    def mix(self, values: Tensor) -> Tensor:
        """Return M values by a product of matrices, which faster mixers replace."""
        return self.matrix(values.shape[-2], values) @ values

    def values(self, x: Tensor) -> Tensor:
        """Return the tokens themselves, ``(B, 1, N, E)``."""
        return x.unsqueeze(1)

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the mixed tokens themselves, ``(B, N, E)``."""
        return mixed.squeeze(1)

    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Mix tokens ``(B, N, E)``."""
        self.check_tokens(x, padding)
        tokens = self._without_padding(widen(x), padding)
        with without_autocast(x.device.type):
            return self.combine(self.mix(self.values(tokens))).to(x.dtype)

    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return M, ``(B, 1, N, N)``; with `zero_padding` the columns of padding are zero."""
        self.check_tokens(x, padding)
        matrix = self.matrix(x.shape[1], self.values(widen(x)))
        matrix = matrix.expand(x.shape[0], 1, *matrix.shape)  # (B, 1, N, N)
        if padding is None or not self.zero_padding:
            return matrix
        return matrix.masked_fill(padding[:, None, None, :], 0.0)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is the values so far, O(m E) per step."""
        self.check_step(x)
        with without_autocast(x.device.type):
            new = self.values(widen(x))
            values = new if state is None else torch.cat([state[0], new], dim=-2)
            m = values.shape[-2] - 1
            self.check_length(m + 1)
            mixed = self.row(m, values) @ values  # (B, 1, D)
            return self.combine(mixed.unsqueeze(-2)).to(x.dtype), (values,)

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens at once; the state is their values."""
        self.check_causal("prefill")
        with without_autocast(x.device.type):
            return self(x), (self.values(widen(x)),)

    def _without_padding(self, x: Tensor, padding: Tensor | None) -> Tensor:
        if padding is None:
            return x
        if self.zero_padding:
            return x.masked_fill(padding[..., None], 0.0)
        if not torch.compiler.is_compiling() and padding.device.type == "cpu" and padding.any():
            warnings.warn(
                f"{type(self).__name__} mixes padded tokens into all others; zero_padding=True "
                "sets them to zero first",
                PaddingIgnoredWarning,
                stacklevel=3,
            )
        return x


def widen(x: Tensor) -> Tensor:
    """Return tokens in the dtype in which they are mixed, float32 for half precision."""
    return x.to(_WORKING_DTYPE.get(x.dtype, x.dtype))
