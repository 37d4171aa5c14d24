"""Recorder of attention written with plain functions, softmax(q kᵀ) v, and not as a module.

Older models of transformers and most attention written by hand are of this kind. The functions of
torch that a model calls are watched: a softmax over keys with the products before and after it is a
call of attention, and so is a call of torch's fused function. Weights may also come without a
softmax function: rows that sum to one and meet values after a product of their size. In
flex_attention the map is what becomes of a unit matrix in place of the values. An einsum of two
operands counts as a product; keys and values that several heads share are repeated.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch as dispatch

from fourierkernels.checkpoints.recorders.account import Account
from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.einsum import as_product, with_own_heads
from fourierkernels.checkpoints.recorders.flow import apart, is_plain, tensors_in
from fourierkernels.checkpoints.recorders.products import Inside, Pieces
from fourierkernels.checkpoints.recorders.projections import matrix, read_by
from fourierkernels.checkpoints.recorders.slabs import softmax_rows, without_numbers

_SOFTMAX = {torch.softmax, Tensor.softmax, functional.softmax}
_PRODUCTS = {
    torch.matmul,
    Tensor.matmul,
    Tensor.__matmul__,
    torch.bmm,
    Tensor.bmm,
    torch.baddbmm,
    Tensor.baddbmm,
}
_READ = {*_SOFTMAX, *_PRODUCTS, torch.einsum, functional.scaled_dot_product_attention}
_TAKEN = {
    torch.einsum: "einsum",
    functional.linear: "linear",
    torch.bmm: "bmm",
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), "matmul"),
}
_LEAVING = {Tensor.numpy, Tensor.tolist}
_WATCHED = _READ | set(_TAKEN) | _LEAVING
_FACTORS = ("other", "mat2", "batch1", "batch2")  # their names, where they are named
_WITH_SUMMAND = {torch.baddbmm, Tensor.baddbmm}
_LEFT = "its numbers leave torch"
_SCALE = 2  # its place after the values, a function of the scores and a mask of blocks


Takes = Callable[[tuple[Any, ...]], bool]


@contextmanager
def record_functions(
    model: nn.Module,
    modules: Sequence[tuple[str, nn.Module]],
    recorded: RecordedCalls,
    *,
    claimed: dict[int, Takes],
) -> Iterator[None]:
    """Watch the functions that a model calls, and add its calls of attention to a list.

    Parameters
    ----------
    modules : sequence of (str, nn.Module)
        Those that hooks can watch, with their names.
    recorded : RecordedCalls
        Nothing is read while its `suspension` lasts: another recorder is at work.
    claimed : dict
        Identity of a module that another recorder reads, to whether it takes some inputs; the
        insides of such a call are left out.
    """
    watch = _Watch(recorded)
    with ExitStack() as stack:
        for name, module in modules:
            before = module.register_forward_pre_hook(
                watch.entering(name, takes=claimed.get(id(module))), with_kwargs=True
            )
            after = module.register_forward_hook(watch.leaving)
            stack.callback(before.remove)
            stack.callback(after.remove)
        if "torch._dynamo" in sys.modules:  # no compiled function shows what it calls
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.callback(watch.finish, replayed=not model.training)
        stack.enter_context(watch.account)
        stack.enter_context(watch)
        recorded.flow.begin(model)
        yield


@contextmanager
def _without_modes() -> Iterator[None]:
    """Run without the modes below, as torch does, but without its checks, which take time."""
    modes = [dispatch._pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            dispatch._push_mode(mode)


@lru_cache
def _is_operator(kind: Any) -> bool:
    return issubclass(kind, HigherOrderOperator)


def _is_flexible(function: Any) -> bool:
    """Tell whether a function is torch's flex_attention, as it is called without a compiler."""
    kind: Any = type(function)
    return _is_operator(kind) and str(function) == "flex_attention"


class _Watch(TorchFunctionMode):
    def __init__(self, recorded: RecordedCalls) -> None:
        super().__init__()
        self.pieces, self.slab = Pieces(recorded), recorded.slab
        self.suspension = recorded.suspension
        self.unseen, self.flow = recorded.unseen, recorded.flow
        self.inside: list[tuple[Inside, bool]] = []  # the modules that are being run
        self.around: list[Inside] = []  # what a softmax in them is part of
        self.account = Account(recorded, self._name, self._beneath)
        self.reading = False  # a function that is read here, and not by the operations below it

    def finish(self, *, replayed: bool) -> None:
        """Name what was left over, and what the account of the pass lacks."""
        self.pieces.finish()
        self.account.finish(replayed=replayed)
        del self.account  # which refers to this watch: the tensors of the pass would live on

    def _name(self) -> str | None:
        return self.around[-1].name if self.around else None

    def _beneath(self, kind: str, args: Any, given: dict[str, Any], result: Tensor) -> None:
        """Read an operation that no function of torch shows: scripted, vectorised, native."""
        if self.reading or self.suspension.depth:
            return
        with self.unseen.suspended():
            if kind == "product":
                left, right = args
                self._product(left, right, result)
            elif kind == "fused":
                query, key, value = args[:3]
                mask, causal = given.get("attn_mask"), bool(given.get("is_causal"))
                mask = given.get("attn_bias") if mask is None else mask
                scale = given.get("scale")
                self._fused(result, query, key, value, mask, is_causal=causal, scale=scale)
            elif kind == "layer":
                read, weight, turned = args
                read_by(self.pieces.recorded, read, partial(matrix, weight, turned=turned))
            elif kind == "softmax":
                self.pieces.add_softmax(result, self.around[-1])

    def entering(self, name: str, *, takes: Takes | None) -> Callable[..., Any]:
        def hook(module: nn.Module, inputs: Any, given: Any) -> Any:
            if not self.inside:
                inputs, given = apart((inputs, given))
                self._begin(list(tensors_in((*inputs, *given.values()))))
            claimed = takes is not None and takes(inputs)
            entered = Inside(name, module)
            self.inside.append((entered, claimed))
            part = isinstance(module, nn.Softmax) and self.around  # of the module around it
            self.around.append(self.around[-1] if part else entered)
            self.suspension.depth += claimed
            return inputs, given

        return hook

    def _begin(self, read: list[Tensor]) -> None:
        """Know the inputs of the model, or of a part of it that is called by itself."""
        plain = bool(read) and is_plain(read[0])
        self.pieces.leading = tuple(read[0].shape[:2]) if plain else ()
        self.flow.leading = self.pieces.leading
        self.flow.read(read)

    def leaving(self, module: nn.Module, inputs: Any, output: Any) -> None:
        _, claimed = self.inside.pop()
        self.around.pop()
        self.suspension.depth -= claimed

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), given: Any = None
    ) -> Any:
        given = given or {}
        watched = function in _WATCHED or _is_flexible(function)
        if not watched or not self.inside or not all(map(is_plain, tensors_in(args))):
            return function(*args, **given)  # what is not plain is seen below
        self.reading = function in _READ
        taken = None if given else _TAKEN.get(function)
        run = function if taken is None else partial(self._taken, taken, function)
        result = run(*args, **given)
        self.reading = False
        if self.suspension.depth:
            return result
        with self.unseen.suspended():
            self._read(function, result, args, given)
        return result

    def _read(self, function: Any, result: Any, args: Any, given: dict[str, Any]) -> None:
        """Read a function of torch that was called."""
        if _is_flexible(function):
            self._flexible(function, result[0], *args)
        if function in _LEAVING:
            self._leave(*args)
        if not isinstance(result, Tensor):
            return
        if function in _PRODUCTS:
            factors = args[1:] if function in _WITH_SUMMAND else args
            named = [given[key] for key in _FACTORS if key in given]
            left, right = (*factors, *named)[:2]
            self._product(left, right, result)
        elif function is torch.einsum:
            self._einsum(result, *args)
        elif function in _SOFTMAX:
            self.pieces.add_softmax(result, self.around[-1])
        elif function is functional.scaled_dot_product_attention:
            self._fused(result, *args, **given)

    def _leave(self, tensor: Tensor) -> None:
        """Name a module that computes with numpy, which is not seen."""
        known = self.flow.is_computed(tensor) and tensor.is_floating_point()
        if known and tensor.ndim > 1:
            self.pieces.recorded.unread.setdefault(self.around[-1].name, _LEFT)

    def _product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        arrays = is_plain(left) and is_plain(right)
        if arrays and left.ndim > 2 and right.ndim > 1 and result.ndim == left.ndim:
            self.pieces.add_product(left, right, result, self.inside[-1][0])

    def _taken(self, name: str, function: Any, *args: Any) -> Any:
        """Call a function without the mode below, with which its last digits may be others."""
        if self.unseen.depth:
            return function(*args)
        with _without_modes():
            result = function(*args)
        parts = (args[0], list(tensors_in(args))) if name == "einsum" else args
        self.account.take(name, parts, {}, result, self._name() or "")
        return result

    def _einsum(self, result: Tensor, equation: Any, *operands: Any) -> None:
        """Treat a sum as a matrix product, weights or queries on the left, if it is one."""
        operands = tuple(tensors_in(operands))
        if len(operands) != 2 or not isinstance(equation, str):
            return
        softmaxes = [self.pieces.softmax_of(part) for part in operands]
        first = next((k for k in (0, 1) if softmaxes[k] is not None), None)
        equation, (one, other) = with_own_heads(equation, operands, first)
        operands = (one, other)
        product = as_product(equation, [part.ndim for part in (*operands, result)], first)
        if product is None:
            return
        left, orders = product
        softmax = softmaxes[left]
        if softmax is not None and operands[left].shape == softmax.weights.shape:
            softmax.weights = softmax.weights.permute(orders[0])
        parts = (operands[left], operands[1 - left], result)
        self._product(*(part.permute(order) for part, order in zip(parts, orders, strict=True)))

    def _flexible(
        self, function: Any, result: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any
    ) -> None:
        """Attend to the unit matrix in place of the values: what comes out is the map."""
        n = key.shape[2]
        unit = torch.eye(n, dtype=value.dtype, device=value.device).expand(*key.shape[:2], n, n)
        with self.suspension.suspended():
            weights = function(query, key, unit, *rest)[0]
        self.pieces.add_call(
            (query, key, value), weights, result, at=self.inside[-1][0], scale=rest[_SCALE]
        )

    def _fused(
        self,
        result: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        keys = key
        if query.ndim == 4 and key.shape[1] != query.shape[1]:
            keys = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        at = self.inside[-1][0]
        if self.slab and query.ndim == 4:
            masks = () if attn_mask is None else (attn_mask,)
            rows = softmax_rows(query, keys, scale=scale, masks=masks, causal=is_causal)
            weights = without_numbers(query, keys.shape[2])
            self.pieces.add_call(
                (query, key, value), weights, result, at=at, scale=scale, rows=rows
            )
            return
        scores = scale * query @ keys.transpose(-1, -2)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        if attn_mask is not None:
            hidden = attn_mask.dtype is torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask
        weights = scores.softmax(dim=-1)
        self.pieces.add_call((query, key, value), weights, result, at=at, scale=scale)
