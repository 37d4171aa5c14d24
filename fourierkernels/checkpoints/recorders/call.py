"""What is recorded of attention, and what a recorder is."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fourierkernels.validation import check_choice

_CROSS = re.compile(r"cross|encoder_attn|EncDec|reader", re.IGNORECASE)
_SIDES = {"maps": "nm", "queries": "n", "keys": "m", "values": "m", "outputs": "n"}  # of padding


@dataclass(eq=False)
class AttentionCall:
    """One call of attention in a forward pass; a module that is shared is called several times.

    Padding is still there: see :meth:`part`. B is the batch, N and M are queries and keys.

    Attributes
    ----------
    name : str
        Of the module in the model.
    maps : Tensor, shape (B, H, N, M)
    queries : Tensor, shape (B, H, N, d)
    keys, values : Tensor, shape (B, H, M, d)
        After rotary positions; keys that several heads share are repeated.
    outputs : Tensor, shape (B, H, N, d)
        maps @ values.
    scale : float
        What multiplies q·k.
    cross : bool
        Whether the keys are those of another sequence, judged by the name of the module where the
        call does not tell.
    projection : nn.Module or None
        The linear layer that reads the joined heads; None if something lies between.
    slices : Tensor or None, shape (H, d, E)
        Each head's part of the output projection.
    """

    name: str
    maps: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    outputs: Tensor
    scale: float
    cross: bool = False
    projection: nn.Module | None = None
    slices: Tensor | None = None

    @property
    def projected(self) -> Tensor:
        """What each head adds to the output of the layer, ``(B, H, N, E)``.

        Their sum, and the bias of the projection, is that output.

        Raises
        ------
        ValueError
            If what reads the heads is not a linear layer.
        """
        return self.outputs @ self._known_slices()

    def part(self, name: str, row: int, queries: int, keys: int) -> Tensor:
        """Return one part of text `row` of the batch without padding behind its end.

        Padded keys *and* padded queries go; the latter are full rows that sum to one. Nothing is
        computed but the part that is asked for.

        Parameters
        ----------
        name : str
            "maps", "queries", "keys", "values", "outputs" or "projected".
        row : int
        queries, keys : int
            How many of each the text has.

        Raises
        ------
        ValueError
            For another name, or if the outputs cannot be projected.
        """
        if name == "projected":
            return self.part("outputs", row, queries, keys) @ self._known_slices()
        ends = {"n": queries, "m": keys}
        sides = _SIDES[check_choice("name", name, [*_SIDES, "projected"])]
        tensor: Tensor = getattr(self, name)
        cut = (slice(None), *(slice(ends[side]) for side in sides))
        return tensor[row][cut]

    def _known_slices(self) -> Tensor:
        if self.slices is None:
            raise ValueError(
                "projected outputs must come from a linear layer after the heads, "
                f"got none after {self.name}"
            )
        return self.slices


@dataclass(frozen=True)
class Recorder:
    """A kind of attention module: how it is recognised, and how its calls are recorded.

    Attributes
    ----------
    attach : callable
        From a module, its name and the list that its calls are added to; returns how to detach.
    """

    name: str
    recognises: Callable[[nn.Module], bool]
    attach: Callable[[Any, str, list[AttentionCall]], Callable[[], None]]


def attention_call(
    name: str, maps: Tensor, vectors: tuple[Tensor, ...], outputs: Tensor, scale: float | None
) -> AttentionCall:
    """Return a call with a key and a value for every head, whether heads share them or not."""
    query, key, value = vectors
    groups = maps.shape[1] // key.shape[1]
    keys, values = key, value
    if groups > 1:
        keys, values = (side.repeat_interleave(groups, dim=1) for side in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    cross = bool(_CROSS.search(name))
    return AttentionCall(name, maps, query, keys, values, outputs, scale, cross)
