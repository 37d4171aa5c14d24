"""Weights held in fewer bits, as torchao holds them: attention is recorded all the same."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints.recorders.recording import recording


class Held(Tensor):
    """Weights that a layer can be called with, and nothing else: not even turned."""

    @staticmethod
    def __new__(cls, whole: Tensor) -> "Held":
        held: Held = Tensor._make_wrapper_subclass(cls, whole.shape, dtype=whole.dtype)
        return held

    def __init__(self, whole: Tensor) -> None:
        self.whole = whole

    def dequantize(self) -> Tensor:
        return self.whole

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), given: Any = None
    ) -> Any:
        if function is functional.linear:
            read, held, *rest = args
            return functional.linear(read, held.whole, *rest, **(given or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(given or {}))

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), given: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return cls(args[0].whole)
        raise NotImplementedError(f"{function} of held weights")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        found: Tensor = self.out(((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return found


@torch.inference_mode()
def test_weights_held_in_fewer_bits_are_read_as_numbers() -> None:
    torch.manual_seed(0)
    model, x = Layer().eval().requires_grad_(False), torch.randn(2, 5, 16)
    expected = model(x)
    for part in (model.parts, model.out):
        part.weight = nn.Parameter(Held(part.weight.data), requires_grad=False)
    with recording(model) as calls:
        torch.testing.assert_close(model(x), expected)
    (call,) = calls
    assert calls.unread == {}
    torch.testing.assert_close(call.projected.sum(1) + model.out.bias, expected)
