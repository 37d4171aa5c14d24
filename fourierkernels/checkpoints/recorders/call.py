"""The record of one call of attention, what was recorded of a model, and the row of a recorder."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.flow import Flow, place_of
from fourierkernels.checkpoints.recorders.slabs import MapRows, stretches
from fourierkernels.foundation.validation import check_choice

_SIDES = {"maps": "nm", "queries": "n", "keys": "m", "values": "m", "outputs": "n"}  # of padding
_WEIGHTS = 2**21  # computed at once
_SHOWN = 3  # modules named in an error
_OVERWRITTEN = "its queries or keys are overwritten after use"


@dataclass(eq=False)
class AttentionCall:
    """One call of attention in a forward pass; a shared module is called several times.

    Tensors include padding: see :meth:`part`. B is the batch size, H the number of heads, N and M
    are the numbers of queries and keys. Windows are items of the batch, those of one text in turn.

    Attributes
    ----------
    name : str
        Name of the module in the model.
    maps : Tensor, shape (B, H, N, M)
        On the device "meta", a shape without numbers, if `rows` has to be asked for them.
    queries : Tensor, shape (B, H, N, d)
    keys, values : Tensor, shape (B, H, M, d)
        After rotary positions; keys that several heads share are repeated.
    outputs : Tensor, shape (B, H, N, d)
        maps @ values.
    scale : float
        Factor of q·k.
    cross : bool
        Whether the keys belong to another sequence than the queries, by what both were made of.
    projection : nn.Module or None
        The linear layer that reads the joined heads; None if another operation comes between.
    slices : Tensor or None, shape (H, d, E)
        The part of the output projection that belongs to each head.
    merged : bool
        Whether texts and heads came in one dimension, read here with texts first; what reads the
        heads may show that heads come first.
    rows : MapRows or None
        How rows of maps that are not kept are computed.
    filler : int
        Queries and keys at the end of the longest text that the model itself has added.
    pieced : bool
        Whether it was pieced together from products, so that a product must have its outputs.
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
    merged: bool = False
    rows: MapRows | None = None
    filler: int = 0
    pieced: bool = False

    @property
    def own_shape(self) -> tuple[int, int, int]:
        """Numbers of texts, queries and keys, without what the model itself has added."""
        n, m = (int(side) - self.filler for side in self.maps.shape[2:])
        return len(self.maps), n, m

    @property
    def pools(self) -> bool:
        """Whether one query reads several keys: a layer that pools, or the class token's own."""
        return self.maps.shape[2] == 1 < self.maps.shape[3]

    @property
    def projected(self) -> Tensor:
        """The contribution of each head to the output of the layer, ``(B, H, N, E)``.

        Their sum plus the bias of the projection is the output.

        Raises
        ------
        ValueError
            If the heads are not read by a linear layer.
        """
        return self.outputs @ self._known_slices()

    def part(self, name: str, row: int, queries: int, keys: int) -> Tensor:
        """Return one part of text `row` of the batch, without padding at its end.

        Padded keys *and* padded queries are cut off; maps of the latter would be full rows that sum
        to one. Only the part that is asked for is computed.

        Parameters
        ----------
        name : str
            "maps", "queries", "keys", "values", "outputs" or "projected".
        row : int
        queries, keys : int
            Their numbers in the text.

        Raises
        ------
        ValueError
            For any other name, or if the outputs cannot be projected.
        """
        if name == "projected":
            return self.part("outputs", row, queries, keys) @ self._known_slices()
        if name == "maps":
            return self.map_rows(row, 0, queries)[..., :keys]
        ends = {"n": queries, "m": keys}
        sides = _SIDES[check_choice("name", name, [*_SIDES, "projected"])]
        tensor: Tensor = getattr(self, name)
        cut = (slice(None), *(slice(ends[side]) for side in sides))
        return tensor[row][cut]

    def map_rows(self, row: int, start: int, stop: int) -> Tensor:
        """Return the weights of queries start, …, stop - 1 of text `row`, ``(H, s, M)``."""
        if self.rows is None:
            return self.maps[row, :, start:stop]
        return self.rows.compute(row, start, stop)

    def seen_keys(self, row: int, queries: int, keys: int) -> Tensor:
        """Return which keys of text `row` some query of some head gives weight to, ``(M,)``."""
        seen = torch.zeros(keys, dtype=torch.bool, device=self.queries.device)
        for ends in stretches(queries, max(1, _WEIGHTS // (self.maps.shape[1] * keys))):
            seen |= (self.map_rows(row, *ends)[..., :keys] != 0).flatten(0, 1).any(dim=0)
            if bool(seen.all()):
                break
        return seen

    def _known_slices(self) -> Tensor:
        if self.slices is None:
            raise ValueError(
                "projected outputs must come from a linear layer after the heads, "
                f"got none after {self.name}"
            )
        return self.slices


@dataclass(frozen=True)
class Recorder:
    """A kind of attention module: how to recognise it, and how to record its calls.

    Attributes
    ----------
    attach : callable
        From a module, its name and the list that its calls are added to, a
        :class:`RecordedCalls`; returns how to detach.
    takes : callable
        Whether a call with these inputs is recorded so; any other is read from the functions that
        the module calls.
    """

    name: str
    recognises: Callable[[nn.Module], bool]
    attach: Callable[[Any, str, Any], Callable[[], None]]
    takes: Callable[[tuple[Any, ...]], bool] = lambda inputs: True


def attention_call(
    name: str,
    maps: Tensor,
    vectors: tuple[Tensor, ...],
    outputs: Tensor,
    scale: float | None,
    rows: MapRows | None = None,
) -> AttentionCall:
    """Return a call in which every head has its keys and values, even if heads share them.

    A recorder adds it to its list before the layer that reads the joined heads is called: the
    output projection is recognised by what it reads.

    Parameters
    ----------
    name : str
        Of the module in the model.
    maps : Tensor, shape (B, H, N, M)
    vectors : tuple of Tensor
        Queries ``(B, H, N, d)``, keys and values ``(B, G, M, d)``; G divides H.
    outputs : Tensor, shape (B, H, N, d)
        maps @ values.
    scale : float or None
        What multiplies q·k; 1/√d if None.
    rows : MapRows or None
        How rows of the maps are computed, if these are only a shape.
    """
    query, key, value = vectors
    groups = maps.shape[1] // key.shape[1]
    keys, values = key, value
    if groups > 1:
        keys, values = (side.repeat_interleave(groups, dim=1) for side in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    return AttentionCall(name, maps, query, keys, values, outputs, scale, rows=rows)


class Suspension:
    """How many recorders are at work, so that the functions they call are not read twice."""

    def __init__(self) -> None:
        self.depth = 0

    def suspended(self) -> "Suspension":
        """Suspend other recorders while this is entered; it may be entered again."""
        return self

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


class RecordedCalls(list[AttentionCall]):
    """Calls of attention in order.

    Attributes
    ----------
    unread : dict
        Name of a module with attention that is not accounted for, to the reason.
    pooled : tuple of str
        Names of modules whose calls were left out, as they pool.
    suspension : Suspension
        Kept by a recorder around what it reads itself.
    unseen : Suspension
        Kept by a recorder around what it computes itself, which is no part of the pass.
    flow : Flow
        What the tensors of the pass were made of.
    slab : int
        How many queries are computed at once where a recorder need not keep whole maps; 0 if all
        maps are kept.
    """

    def __init__(
        self,
        calls: Iterable[AttentionCall] = (),
        unread: dict[str, str] | None = None,
        *,
        slab: int = 0,
    ) -> None:
        super().__init__(calls)
        self.unread = {} if unread is None else unread
        self.pooled: tuple[str, ...] = ()
        self.slab = slab
        self.suspension, self.unseen = Suspension(), Suspension()
        self.flow = Flow()

    def append(self, call: AttentionCall) -> None:
        """Add a call, told to be cross-attention by the sequences of its queries and keys."""
        n, m = call.maps.shape[2:]
        call.cross = self.differ(call.queries, call.keys, n != m)
        super().append(call)

    def differ(self, query: Tensor, key: Tensor, unknown: bool) -> bool:
        """Tell whether keys are those of another sequence than queries, or what is `unknown`."""
        found = self.flow.differ(query, key)
        return unknown if found is None else found

    def keep(self, place: int) -> None:
        """Copy recorded numbers whose memory is about to be overwritten."""
        for call in list(self):
            shared = [name for name in _SIDES if place_of(getattr(call, name)) == place != 0]
            for name in shared:
                setattr(call, name, getattr(call, name).clone())
            if call.rows is not None and {"queries", "keys"} & set(shared):
                self.remove(call)
                self.unread[call.name] = _OVERWRITTEN

    def nothing(self, model: nn.Module) -> str:
        """Return why there is nothing to measure: the end of an error's sentence."""
        others = f" of this part beside {len(self)} calls of others" if self else ""
        none = f"got none{others} in {type(model).__name__}"
        if not self.unread:
            return none
        return f"{none}: {unread_sentence(self.unread)}"


def watched_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that hooks can watch, with their names; a script is seen by what it calls.

    Raises
    ------
    TypeError
        If the model itself is a script.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            "model must be one that hooks can watch, got a script of torch.jit: give the model "
            "that it was made of"
        )
    for name, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            yield name, module


def unread_sentence(unread: dict[str, str]) -> str:
    """Return one sentence on the modules whose attention was not understood, reason by reason.

    Examples
    --------
    >>> unread_sentence({"a.0": "its weights are changed", "a.1": "its weights are changed"})
    'attention seen in a.0 and a.1, not understood because its weights are changed'
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in unread.items():
        by_reason.setdefault(reason, []).append(name or "the model itself")
    return "; ".join(
        f"attention seen in {_listed(names)}, not understood because {reason}"
        for reason, names in by_reason.items()
    )


def _listed(names: list[str]) -> str:
    shown, more = names[:_SHOWN], len(names) - _SHOWN
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
