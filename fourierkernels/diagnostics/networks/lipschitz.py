"""How strongly attention can amplify a small change of its input: local Lipschitz estimates.

The local Lipschitz constant of f at x is the largest singular value of its Jacobian there. Power
iteration on Jᵀ J approaches it from below, so every number here is a lower bound.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fourierkernels.checkpoints import recording
from fourierkernels.foundation.validation import check_integer

ITERATIONS = 30


@dataclass(frozen=True)
class LayerLipschitz:
    """Local Lipschitz estimate of one call of an attention module, named `layer`."""

    layer: str
    value: float


def local_lipschitz(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> float:
    """Return a lower bound, close after enough iterations, of the spectral norm of a Jacobian.

    Parameters
    ----------
    function : callable
        From a tensor to a tensor, with second derivatives by torch.autograd.
    x : Tensor
        Where.
    iterations : int
        Of the power iteration, each a product with J and one with Jᵀ.
    seed : int
        Of the first direction; the global random state is left alone.

    Raises
    ------
    ValueError
        If a derivative is not a number, as it is behind rows of a softmax that see no key.

    Examples
    --------
    >>> round(local_lipschitz(lambda x: x * torch.tensor([1.0, -3.0]), torch.ones(2)), 4)
    3.0
    """
    generator = torch.Generator().manual_seed(check_integer("seed", seed, least=0))
    check_integer("iterations", iterations)
    direction = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
    largest = 0.0
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivatives
        forth, back = _products(function, x)
        for _ in range(iterations):
            norm = direction.norm()
            if norm == 0:
                break  # the function is constant along everything that was reached
            image = forth(direction / norm)
            largest = max(largest, _size(image))
            if largest == math.inf:
                break
            direction = back(image)
    return largest


def _size(image: Tensor) -> float:
    size = float(image.norm())
    if math.isnan(size):
        raise ValueError("function must have derivatives that are numbers, got nan")
    return size


@torch.enable_grad()
def _products(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return products with the Jacobian J at x and with its transpose.

    u ↦ Jᵀu is linear in u, so its own transpose is J: two derivatives backwards make one forwards,
    which kernels that only know the way back can do as well.
    """
    point = x.detach().clone().requires_grad_()
    image = function(point)
    cotangent = torch.zeros_like(image, requires_grad=True)
    (pulled,) = torch.autograd.grad(image, point, cotangent, create_graph=True)

    def forth(direction: Tensor) -> Tensor:
        product: Tensor = torch.autograd.grad(pulled, cotangent, direction, retain_graph=True)[0]
        return product

    def back(direction: Tensor) -> Tensor:
        product: Tensor = torch.autograd.grad(image, point, direction, retain_graph=True)[0]
        return product

    return forth, back


def layer_lipschitz(
    model: nn.Module, *inputs: Any, iterations: int = ITERATIONS, seed: int = 0, **options: Any
) -> list[LayerLipschitz]:
    """Return estimates for each attention module of a model, at its input in one forward pass.

    The module's input is what it takes queries from, and where those are also its keys and values
    they move together. Its output ends where the module does: in Hugging Face's BERT before the
    output projection. Run it without padding: padded tokens count like others.

    Parameters
    ----------
    model : nn.Module
        See :func:`~fourierkernels.checkpoints.recorders.recording.attention_calls`.
    *inputs, **options
        Of its forward pass.

    Raises
    ------
    ValueError
        If no attention was called, or a derivative is not a number.
    """
    seen: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = []

    def keep(name: str) -> Any:
        return lambda module, args, given: seen.append((name, module, args, dict(given)))

    with torch.no_grad(), recording(model) as calls:
        model(*inputs, **options)
        names = {call.name for call in calls}
    if not names:
        raise ValueError(f"model must have attention, {calls.nothing(model)}")
    with torch.no_grad(), ExitStack() as stack:
        stack.enter_context(recording(model))  # the same attention as was recorded
        for name in names:
            module = model.get_submodule(name)
            hook = module.register_forward_pre_hook(keep(name), with_kwargs=True)
            stack.callback(hook.remove)
        model(*inputs, **options)
    with recording(model):
        return [
            LayerLipschitz(
                name,
                local_lipschitz(
                    *_of_its_input(module, args, given), iterations=iterations, seed=seed
                ),
            )
            for name, module, args, given in seen
        ]


def _of_its_input(
    module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return a call of the module as a function of its first tensor, and that tensor."""
    x = next(value for value in (*args, *given.values()) if isinstance(value, Tensor))
    # The cache of decoding already holds the keys of this pass.
    given = {name: value for name, value in given.items() if not name.startswith("past_key_value")}

    def function(moved: Tensor) -> Tensor:
        made = module(
            *(moved if value is x else value for value in args),
            **{name: moved if value is x else value for name, value in given.items()},
        )
        output: Tensor = made if isinstance(made, Tensor) else made[0]
        return output

    return function, x
