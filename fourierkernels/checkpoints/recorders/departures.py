"""What an account cannot follow: how numbers leave the operations of torch that it knows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.flow import Flow, tensors_in
from fourierkernels.checkpoints.recorders.operations import PRODUCTS, SOFTMAX, TIMES, is_fused

_OWN = {"aten", "prim", "prims", "profiler", "higher_order", "torchvision"}
_NUMBERS = {"item", "_local_scalar_dense"}
_LEFT = "its scores leave torch number by number"
_SPARSE = "its weights are held in a tensor that is not dense"
NESTED = "it computes with nested tensors, whose maps have no shape in common"
_SPECTRA = "it multiplies transforms of two computed sequences, which no map shows"


def departure(
    function: Any, args: Sequence[Any], given: dict[str, Any], result: Any, flow: Flow
) -> str | None:
    """Return why what an operation computes cannot be followed; None if it can.

    Parameters
    ----------
    function : torch._ops.OpOverload
    args, given
        Its arguments.
    result
        What came out.
    """
    name, foreign = function.overloadpacket.__name__, function.namespace not in _OWN
    spectra = name in TIMES and isinstance(result, Tensor) and result.is_complex()
    left = name in _NUMBERS
    sparse = not left and any(map(_is_sparse, tensors_in([result])))
    if not (foreign or spectra or left or sparse):
        return None
    read = [tensor for tensor in tensors_in((*args, *given.values())) if flow.is_computed(tensor)]
    # Arrays, not arguments: what meets itself, as in x · x, is one sequence and no product of two.
    numbers = {
        tensor.data_ptr() for tensor in read if tensor.is_floating_point() or tensor.is_complex()
    }
    if foreign and len(numbers) > 1:
        return f"the operator {function} is none of torch's"
    if spectra and len(numbers) > 1 and all(map(torch.is_complex, read)):
        return _SPECTRA
    if not any(origin.scores for tensor in read for origin in flow.of(tensor).origins):
        return None
    return _LEFT if left else _SPARSE if sparse else None


def is_nested_attention(name: str, args: Sequence[Any]) -> bool:
    """Tell whether an operation on nested tensors may be of attention: no layer's own product."""
    if name in SOFTMAX or is_fused(name):
        return True
    return name in PRODUCTS and any(tensor.is_nested for tensor in tensors_in(args[1:]))


def _is_sparse(tensor: Tensor) -> bool:
    return tensor.layout is not torch.strided
