"""The operator for `torch.func`: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian` and `vmap`.

`torch.library` has no derivatives for transforms, so the two operators are wrapped into functions
that have. They run the same kernels; what goes beyond the first derivative is the reference's
(:mod:`fourierkernels.ops.derivatives`). In forward mode all is the reference's, in operations of
torch: the rules of functions like these torch cannot differentiate in forward mode again, and
would return wrong numbers in `jvp` of `jvp`.
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd.forward_ad import unpack_dual

from fourierkernels.ops.arguments import ForwardCall, Rows
from fourierkernels.ops.derivatives import (
    Results,
    attend_by_reference,
    backward_by_reference,
    differentiate,
    differentiate_twice,
    save,
    save_backward,
)
from fourierkernels.ops.operator import attend, attend_backward
from fourierkernels.ops.reference import in_forward_mode

_Gradients = tuple[Tensor | None, ...]


class _Backward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Results:
        results: Results = attend_backward(*arguments)
        return results

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
        save_backward(ctx, inputs, output)
        if not inputs[-1]:
            ctx.mark_non_differentiable(output[-1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> _Gradients:
        return differentiate_twice(ctx, *gradients)


class _Attend(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Rows:
        results: Rows = attend(*arguments)
        return results

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Rows) -> None:
        save(ctx, inputs, output)
        if not inputs[-1]:
            ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> _Gradients:
        return differentiate(_backward_anywhere, ctx, *gradients)


def _backward_anywhere(*arguments: Any) -> Results:
    """Return the gradients: in forward mode those of the reference."""
    if in_forward_mode():
        return backward_by_reference(*arguments)
    results: Results = _Backward.apply(*arguments)  # type: ignore[no-untyped-call]
    return results


def attend_anywhere(call: ForwardCall) -> tuple[Tensor, Tensor]:
    """Return output and weights of the operator, under a transform and in forward mode too.

    Weights are those of `Rows`, or, in forward mode, there whether they were asked for or not.
    """
    arguments = call.arguments
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    if torch.compiler.is_compiling() or not any(_is_transformed(tensor) for tensor in tensors):
        output, _, _, weights = attend(*arguments)
    elif in_forward_mode():
        output, weights = attend_by_reference(call.inputs, call.options)
    else:
        output, _, _, weights = _Attend.apply(*arguments)  # type: ignore[no-untyped-call]
    return output, weights


def _is_transformed(tensor: Tensor) -> bool:
    if is_functorch_wrapped_tensor(tensor):
        return True
    return unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
