"""Attention pieced together from the products and softmaxes that a model computes, in order."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.call import AttentionCall, RecordedCalls, attention_call
from fourierkernels.checkpoints.recorders.facts import READ
from fourierkernels.checkpoints.recorders.flow import place_of
from fourierkernels.checkpoints.recorders.places import feature_dims
from fourierkernels.checkpoints.recorders.slabs import MapRows

_HEADS = ("num_heads", "n_heads", "heads", "n_head", "nhead", "num_attention_heads")
_KEPT = 8  # products and softmaxes that may still become attention: a few, they hold memory
_SUM_ERROR = 1e-2  # of a row of weights: half precision

_UNMET = "its weights meet no values in a product of matrices"
_CHANGED = "its weights are changed before they meet the values"
_NO_SCORES = "no product of queries and keys of its shape was seen"
_MERGED = "texts and heads share a dimension, and no linear layer shows which come first"
_APART = "its queries are taken in turn, and no linear layer reads them together"
_NO_ROWS = "its weights do not sum to one over the keys"


class Inside(NamedTuple):
    """A module that is being run."""

    name: str
    module: nn.Module


@dataclass
class Softmax:
    """A softmax whose weights have not met values yet."""

    weights: Tensor
    at: Inside
    reason: str = _UNMET


@dataclass
class Pieces:
    """The pieces seen so far; a product of weights with values completes a call.

    Attributes
    ----------
    recorded : RecordedCalls
        What complete calls, and reasons where there is none, are added to.
    leading : sequence of int
        The first dimensions of the model's input, one of which counts its texts.
    """

    recorded: RecordedCalls
    leading: Sequence[int] = ()
    products: deque[tuple[Tensor, Tensor, Tensor]] = field(
        default_factory=lambda: deque(maxlen=_KEPT)
    )
    softmaxes: deque[Softmax] = field(default_factory=deque)

    def add_softmax(self, weights: Tensor, at: Inside) -> None:
        """Take in the result of a softmax."""
        self.softmaxes.append(Softmax(weights, at))
        if len(self.softmaxes) > _KEPT:
            self._give_up(self.softmaxes.popleft())

    def softmax_of(self, tensor: Tensor) -> Softmax | None:
        """Return the softmax whose numbers a tensor has in its memory."""
        return next(
            (softmax for softmax in reversed(self.softmaxes) if same(tensor, softmax.weights)), None
        )

    def add_product(self, left: Tensor, right: Tensor, result: Tensor, at: Inside) -> None:
        """Take in ``left @ right``: scores, or weights with values, which complete a call."""
        for weights, values, outputs in ((left, right, result), _turned(left, right, result)):
            softmax = self.softmax_of(weights)
            if softmax is not None and _lies_like(weights, softmax.weights):
                self._complete(softmax, at, weights, values, outputs)
                return
        if self._may_be_weights(left) and sums_to_one(left):
            self._complete(Softmax(left, at), at, left, right, result)
            return
        self._mark_changed(left)
        self.products.append((left, right, result))

    def finish(self) -> None:
        """Name what was left over, and calls of which no layer shows how they belong together."""
        while self.softmaxes:
            self._give_up(self.softmaxes.popleft())
        merged = [call for call in self.recorded if call.merged]
        apart = {call.name for call, after in pairwise(self.recorded) if _in_turn(call, after)}
        for call in list(self.recorded):
            if call in merged or (call.name in apart and call.slices is None):
                self.recorded.unread[call.name] = _MERGED if call in merged else _APART
                self.recorded.remove(call)

    def add_call(
        self,
        vectors: tuple[Tensor, ...],
        weights: Tensor,
        result: Tensor,
        *,
        at: Inside,
        scale: float,
        rows: MapRows | None = None,
    ) -> None:
        """Add a call of attention whose parts are known, whatever their leading dimensions."""
        parts = self._by_head((weights, *vectors, result), at.module)
        if parts is None:
            what = "one map per head" if weights.ndim > 3 else "of a known number of heads"
            reason = f"its weights of shape {tuple(weights.shape)} are not {what}"
            self.recorded.unread[at.name] = reason
            return
        call = attention_call(at.name, parts[0], tuple(parts[1:4]), parts[4], scale, rows)
        call.merged = weights.ndim == 3 and 1 < call.maps.shape[1] < weights.shape[0]
        call.pieced = True
        self.recorded.append(call)
        if weights.ndim > 4:  # its parts are copies, of which nothing is known
            call.cross = self.recorded.differ(vectors[0], vectors[1], call.cross)

    def _by_head(self, parts: Sequence[Tensor], module: nn.Module) -> list[Tensor] | None:
        """Return weights and what belongs to them in ``(B, H, …)``; None if heads are not known."""
        weights = parts[0]
        if weights.ndim > 4:
            return self._in_windows(parts, module)
        heads = self._heads(weights, module)
        if heads is None or (weights.ndim == 4 and self._hold_places(parts)):
            return None
        texts = weights.shape[0] // heads if weights.ndim == 3 else weights.shape[0]
        spread = [_spread(part, weights) for part in parts]
        return [part.reshape(texts, -1, *part.shape[-2:]) for part in spread]

    def _hold_places(self, parts: Sequence[Tensor]) -> bool:
        """Tell whether places lie where heads do, as far as no layer is known to put them out.

        So are windows of a model that has folded its heads into the batch, which has more texts
        then than the input, and tokens that each weigh a few states of their own. Heads that were
        made one by one and stacked are put out by no layer either.
        """
        weights = parts[0]
        at = feature_dims(self.recorded.flow, weights, parts[1:4])
        if at is None or 1 in at or weights.shape[1] == 1:
            return False
        texts, heads, queries = weights.shape[:3]
        folded = 0 in at or bool(self.leading and texts not in self.leading)
        return folded or (queries == 1 and heads in self.leading[1:])

    def _in_windows(self, parts: Sequence[Tensor], module: nn.Module) -> list[Tensor] | None:
        """Return parts of five dimensions or more with texts and their windows in the first.

        Heads are the one dimension that a layer has put out, and as many as the module states. A
        single head is no dimension, so that the module has to state it.
        """
        weights, stated = parts[0], _stated(module)
        at = feature_dims(self.recorded.flow, weights, parts[1:4])
        if at is None or len(at) > 1 or not all(_fits(part, weights) for part in parts):
            return None
        heads = weights.shape[at[0]] if at else 1
        if heads not in stated and (stated or not at):
            return None
        spread = [part.expand(*weights.shape[:-2], *part.shape[-2:]) for part in parts]
        ordered = [part.movedim(at[0], -3) if at else part for part in spread]
        return [part.reshape(-1, heads, *part.shape[-2:]) for part in ordered]

    def _may_be_weights(self, tensor: Tensor) -> bool:
        """Tell whether scores of this size were seen, which the tensor is not itself."""
        if tensor.ndim < 3 or not tensor.is_floating_point():
            return False
        sizes = [result for _, _, result in self.products if result.numel() == tensor.numel()]
        return bool(sizes) and not any(same(tensor, result) for result in sizes)

    def _mark_changed(self, left: Tensor) -> None:
        for softmax in self.softmaxes:
            weights = softmax.weights
            if weights.numel() == left.numel() and weights.shape[-2:] == left.shape[-2:]:
                softmax.reason = _CHANGED

    def _complete(
        self, softmax: Softmax, at: Inside, left: Tensor, value: Tensor, result: Tensor
    ) -> None:
        self.softmaxes = deque(
            other
            for other in self.softmaxes
            if other is not softmax
            and not (other.weights.numel() == softmax.weights.numel() and _lies_in(other.at, at))
        )
        weights = softmax.weights if softmax.weights.ndim == 4 else left
        scores = self._scores(weights, value)
        if scores is None or not sums_to_one(weights):
            softmax.reason = _NO_SCORES if scores is None else _NO_ROWS
            self._give_up(softmax)
            return
        query, key, product = scores
        self.products.clear()  # they belong to this call; later weights have scores of their own
        scale = _scale(weights, product.reshape(weights.shape))
        self.add_call((query, key, value), weights, result, at=at, scale=scale)

    def _scores(self, weights: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return queries, keys and their product: the first that fits, of two that were read.

        A product with what the network has learnt is one with positions.
        """
        n, m = weights.shape[-2:]
        fitting = [
            (query, transposed.transpose(-1, -2), product)
            for query, transposed, product in self.products
            if (query.shape[-2], transposed.shape[-1], value.shape[-2]) == (n, m, m)
            and product.numel() == weights.numel()
        ]
        flow = self.recorded.flow
        read = [
            factors
            for factors in fitting
            if READ == flow.of(factors[0]).level == flow.of(factors[1]).level
        ]
        return next(iter(read or fitting), None)

    def _heads(self, weights: Tensor, module: nn.Module) -> int | None:
        """Return how many heads weights have; three dimensions may hold texts times heads."""
        if weights.ndim != 3:
            return weights.shape[1] if weights.ndim == 4 else None
        size = weights.shape[0]
        counts = _stated(module)
        for count in counts:
            if not self.leading or size in {count * texts for texts in self.leading}:
                return count if size % count == 0 else None
        if size in self.leading:
            return 1
        if counts:
            return counts[0] if size % counts[0] == 0 else None
        texts = self.leading[0] if self.leading else 0
        return size // texts if texts and size % texts == 0 else None

    def _give_up(self, softmax: Softmax) -> None:
        # That of a call it may have been a part of, as a gate is.
        shape = softmax.weights.shape[-2:]
        known = any(
            call.name == softmax.at.name and call.maps.shape[2:] == shape for call in self.recorded
        )
        origins = self.recorded.flow.of(softmax.weights).origins
        if softmax.reason is _UNMET and not any(origin.used or origin.met for origin in origins):
            return
        if any(origin.normal and not origin.pools for origin in origins) and not known:
            rows = softmax.reason is not _UNMET or sums_to_one(softmax.weights)
            self.recorded.unread[softmax.at.name] = softmax.reason if rows else _NO_ROWS


def _stated(module: nn.Module) -> list[int]:
    """Return the numbers of heads that a module states."""
    stated = [getattr(module, name, None) for name in _HEADS]
    return [count for count in stated if isinstance(count, int) and count > 0]


def _fits(part: Tensor, weights: Tensor) -> bool:
    """Tell whether a tensor has the dimensions of the weights but the last two, or 1 instead."""
    sizes = zip(part.shape[:-2], weights.shape[:-2], strict=False)
    return part.ndim == weights.ndim and all(size in (1, whole) for size, whole in sizes)


def _spread(part: Tensor, weights: Tensor) -> Tensor:
    """Return queries, keys or values for each text, also where all texts share them."""
    missing = weights.ndim - part.ndim
    if missing > 0 and part.shape[:-2] == weights.shape[missing:-2]:
        return part.expand(*weights.shape[:-2], *part.shape[-2:])
    if part.ndim == weights.ndim and part.shape[0] == 1 < weights.shape[0]:
        return part.expand(len(weights), *part.shape[1:])
    return part


def _lies_in(inner: Inside, outer: Inside) -> bool:
    """Tell whether a module is another one or a part of it: one attention, not two."""
    return inner.name == outer.name or inner.name.startswith(f"{outer.name}.") or not outer.name


def _in_turn(call: AttentionCall, after: AttentionCall) -> bool:
    """Tell whether two calls of one module are of parts of its queries, with the same keys."""
    queries = place_of(call.queries) == place_of(after.queries) != 0
    continues = queries and call.name == after.name and same(call.keys, after.keys)
    return (
        continues and not same(call.queries, after.queries) and call.slices is after.slices is None
    )


def _turned(left: Tensor, right: Tensor, result: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a product read from the other side: values times transposed weights."""
    return right.mT, left.mT, result.mT


def _lies_like(tensor: Tensor, weights: Tensor) -> bool:
    """Tell whether rows of a tensor are rows of the weights, and not their columns."""
    return tensor.shape[-2:] == weights.shape[-2:] and tensor.stride()[-2:] == weights.stride()[-2:]


def same(tensor: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are the same numbers in memory, whatever their shape."""
    return tensor.numel() == other.numel() and tensor.data_ptr() == other.data_ptr()


def sums_to_one(weights: Tensor) -> bool:
    """Tell whether rows are weights: not negative, of sum 1; some may be 0 or NaN by a mask."""
    rows = weights.detach().sum(dim=-1, dtype=torch.float32)
    whole = (rows - 1.0).abs() <= _SUM_ERROR
    hidden = rows.isnan() | (rows == 0.0)
    if not bool(whole.any()) or not bool((whole | hidden).all()):
        return False
    return bool((weights.detach().nan_to_num(0.0) >= -_SUM_ERROR).all())


def _scale(weights: Tensor, product: Tensor) -> float:
    """Return the slope of log-weights in q·k: what multiplies it, unless positions are added."""
    weights, product = weights.detach(), product.detach()
    visible = weights > 0
    count = visible.sum(dim=-1, keepdim=True).clamp(min=1)
    logs = torch.where(visible, weights, 1.0).log().double()
    scores = torch.where(visible, product, 0.0).double()
    logs, scores = (
        torch.where(visible, x - x.sum(dim=-1, keepdim=True) / count, 0.0) for x in (logs, scores)
    )
    spread = float(scores.square().sum())
    return float((logs * scores).sum()) / spread if spread > 0 else 1.0


def regrouped(call: AttentionCall) -> None:
    """Read one dimension of texts times heads as heads times texts, in every part of a call."""
    texts, heads = call.maps.shape[:2]
    for name in ("maps", "queries", "keys", "values", "outputs"):
        part = getattr(call, name)
        turned = part.reshape(heads, texts, *part.shape[2:]).transpose(0, 1)
        setattr(call, name, turned)
