"""Recorder of attention written with plain functions, softmax(q kᵀ) v, and not as a module.

Older models of transformers and most attention written by hand are of this kind. The functions of
torch that a model calls are watched: a softmax over keys with the products before and after it is a
call of attention, and so is a call of torch's fused function. An einsum of two operands counts as a
product if every head has its own keys and values; other sums are not recorded.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from fourierkernels.checkpoints.recorders.call import AttentionCall, attention_call
from fourierkernels.checkpoints.recorders.einsum import as_product

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
_FACTORS = ("other", "mat2", "batch1", "batch2")  # their names, where they are named
_WITH_SUMMAND = {torch.baddbmm, Tensor.baddbmm}


@contextmanager
def record_functions(model: nn.Module, calls: list[AttentionCall]) -> Iterator[None]:
    """Watch the functions that a model calls, and add its calls of attention to a list."""
    watch = _Watch(calls)
    with ExitStack() as stack:
        for name, module in model.named_modules():
            before = module.register_forward_pre_hook(watch.entering(name))
            after = module.register_forward_hook(watch.leaving)
            stack.callback(before.remove)
            stack.callback(after.remove)
        stack.enter_context(watch)
        yield


@dataclass
class _Seen:
    """The parts seen so far of a call of attention that is not complete yet."""

    products: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)  # a, b and a b
    weights: Tensor | None = None


class _Watch(TorchFunctionMode):
    def __init__(self, calls: list[AttentionCall]) -> None:
        super().__init__()
        self.calls = calls
        self.inside: list[tuple[str, nn.Module]] = []  # the modules that are being run
        self.seen = _Seen()

    def entering(self, name: str) -> Callable[..., None]:
        return lambda module, inputs: self.inside.append((name, module))

    def leaving(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.inside.pop()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), given: Any = None
    ) -> Any:
        given = given or {}
        result = function(*args, **given)
        if function in _PRODUCTS:
            factors = args[1:] if function in _WITH_SUMMAND else args
            named = [given[key] for key in _FACTORS if key in given]
            left, right = (*factors, *named)[:2]
            self._product(left, right, result)
        elif function is torch.einsum:
            self._einsum(result, *args)
        elif function in _SOFTMAX and result.ndim in {3, 4}:
            self.seen.weights = result
        elif function is functional.scaled_dot_product_attention and result.ndim == 4:
            self._fused(result, *args, **given)
        return result

    def _product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        weights = self.seen.weights
        if weights is None or not _same(left, weights):
            self.seen.products.append((left, right, result))
            return
        self._complete(weights, right, result)
        self.seen = _Seen()

    def _einsum(self, result: Tensor, equation: Any, *operands: Any) -> None:
        """Treat a sum as a matrix product, weights or queries on the left, if it is one."""
        if len(operands) == 1 and not isinstance(operands[0], Tensor):
            operands = tuple(operands[0])
        if len(operands) != 2 or not isinstance(equation, str):
            return
        weights = self.seen.weights
        first = None
        if weights is not None:
            first = next((k for k in (0, 1) if _same(operands[k], weights)), None)
        found = as_product(equation, [part.ndim for part in (*operands, result)], first)
        if found is None:
            return
        left, orders = found
        if weights is not None and first is not None and operands[first].shape == weights.shape:
            self.seen.weights = weights.permute(orders[0])
        parts = (operands[left], operands[1 - left], result)
        self._product(*(part.permute(order) for part, order in zip(parts, orders, strict=True)))

    def _complete(self, weights: Tensor, value: Tensor, result: Tensor) -> None:
        """Record the attention that a product with values completes, if it is one."""
        name, module = self.inside[-1]
        if weights.ndim == 3:  # texts and heads in one dimension
            heads = getattr(module, "num_heads", None) or getattr(module, "n_heads", None)
            if not isinstance(heads, int) or weights.shape[0] % heads:
                return
            weights = weights.reshape(-1, heads, *weights.shape[1:])
        like = [p for p in self.seen.products if p[2].numel() == weights.numel()]
        if not like:
            return
        query, transposed, product = like[0]  # later ones are of relative positions
        key = transposed.transpose(-1, -2)
        shapes = {(weights.shape[-1], query.shape[-1]), key.shape[-2:], value.shape[-2:]}
        if len(shapes) > 1 or query.shape[-2] != weights.shape[-2]:
            return
        query, key, value, result = (
            part.reshape(weights.shape[0], -1, *part.shape[-2:])
            for part in (query, key, value, result)
        )
        scale = _scale(weights, product.reshape(weights.shape))
        self.calls.append(attention_call(name, weights, (query, key, value), result, scale))

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
        keys = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        scores = scale * query @ keys.transpose(-1, -2)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            hidden = attn_mask.dtype is torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask
        name, weights = self.inside[-1][0], scores.softmax(dim=-1)
        self.calls.append(attention_call(name, weights, (query, key, value), result, scale))


def _same(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are the same numbers in memory, whatever their shape."""
    return one.numel() == other.numel() and one.data_ptr() == other.data_ptr()


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
