"""How a network answers to changes of its input, random ones and the worst ones.

[nguyen2022fourierformer]_ (remark 1) argues from Lipschitz constants to robustness. Both sides of
that argument are measured here on a network: its answers to a changed input, and the largest
singular value of its Jacobian. The latter is a local constant at one input, found from below by
power iteration, so twice a lower bound of the Lipschitz constant, and no bound on how far a finite
change moves the output.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints import recording
from fourierkernels.diagnostics.networks.lipschitz import ITERATIONS, local_lipschitz
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_number

Run = Callable[[Tensor], Tensor]  # from inputs of a network to what it returns


@dataclass(frozen=True, eq=False)
class Response:
    """What a network answers to one input, in float64.

    Attributes
    ----------
    output : ndarray
        As the network returned it, without the dimension of the batch.
    maps : ndarray, shape (L, H, n, m)
        What its heads attended to.
    """

    output: FloatArray
    maps: FloatArray


@torch.no_grad()
def respond(
    model: nn.Module,
    inputs: Tensor,
    *,
    run: Run | None = None,
    at: nn.Module | None = None,
    change: Run | None = None,
) -> Response:
    """Return what a network answers to one input, or to a change of what one of its modules says.

    Parameters
    ----------
    model : nn.Module
        See :func:`~fourierkernels.checkpoints.recorders.recording.attention_calls`.
    inputs : Tensor
        A batch of one.
    run : callable, optional
        What is asked of the model, one of its methods for instance; by default its forward pass.
    at, change : nn.Module, callable
        What `at` returns is replaced by what `change` makes of it: embeddings by noisy ones.

    Raises
    ------
    ValueError
        If there is more than one input, no attention was called, or only one of `at` and `change`
        is given.
    """
    if inputs.shape[0] != 1:
        raise ValueError(f"inputs must be a batch of one, got {inputs.shape[0]}")
    if (at is None) != (change is None):
        raise ValueError("at and change must be given together, got one of them")
    changed = nullcontext() if at is None or change is None else replaced_output(at, change)
    with recording(model) as calls, changed:
        output = (run or model)(inputs)
    if not calls:
        raise ValueError(f"model must have attention, {calls.nothing(model)}")
    maps = torch.cat([call.maps for call in calls])
    return Response(*(part.to(torch.float64).cpu().numpy() for part in (output[0], maps)))


@contextmanager
def replaced_output(module: nn.Module, change: Run) -> Iterator[None]:
    """Replace what a module returns by what `change` makes of it, as long as this lasts."""
    hook = module.register_forward_hook(lambda module, inputs, output: change(output))
    try:
        yield
    finally:
        hook.remove()


def network_lipschitz(
    run: Run,
    inputs: Tensor,
    *,
    at: nn.Module | None = None,
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> float:
    """Return the largest singular value of a network's Jacobian at an input, from below.

    Parameters
    ----------
    run : callable
        The network, in evaluation, or one of its methods: from inputs to logits, say.
    inputs : Tensor
        Numbers; or what else it reads, if `at` is given.
    at : nn.Module, optional
        With respect to what this module returns, the embeddings of tokens for instance.
    iterations, seed
        As in :func:`~fourierkernels.diagnostics.networks.lipschitz.local_lipschitz`.

    Raises
    ------
    ValueError
        If the inputs are no floating-point numbers and `at` is not given, `at` is not called, or a
        derivative is not a number.
    """
    if at is None:
        if not inputs.is_floating_point():
            raise ValueError(f"at must be given for inputs of {inputs.dtype}, got None")
        return local_lipschitz(run, inputs, iterations=iterations, seed=seed)
    said = _said(at, run, inputs)

    def from_there(moved: Tensor) -> Tensor:
        with replaced_output(at, lambda _: moved):
            return run(inputs)

    return local_lipschitz(from_there, said, iterations=iterations, seed=seed)


@torch.enable_grad()
def steepest(loss: Callable[[Tensor], Tensor], x: Tensor, size: float) -> Tensor:
    """Return x moved along the gradient of a loss by `size` times its own norm.

    The worst of all changes of that norm as long as the loss is linear; over longer ways there are
    worse ones. Where the gradient vanishes, x stays.

    Parameters
    ----------
    loss : callable
        From inputs to a number.
    x : Tensor
        A batch of one.
    size : float
        Relative to the norm of x, at least 0.

    Raises
    ------
    ValueError
        For a negative size.

    Examples
    --------
    >>> steepest(lambda x: x[0, 0] - 2 * x[0, 1], torch.tensor([[0.0, 2.0]]), 0.5)
    tensor([[0.4472, 1.1056]])
    """
    if check_number("size", size) < 0:
        raise ValueError(f"size must be at least 0, got {size}")
    point = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(point), point)
    norm = gradient.norm()
    return x if norm == 0 else x + size * x.norm() * gradient / norm


@torch.no_grad()
def _said(module: nn.Module, run: Run, inputs: Tensor) -> Tensor:
    """Return what a module returns in one run of its network."""
    said: list[Tensor] = []
    hook = module.register_forward_hook(lambda module, inputs, output: said.append(output))
    try:
        run(inputs)
    finally:
        hook.remove()
    if len(said) != 1:
        raise ValueError(f"at must be called once by the network, got {len(said)} calls")
    return said[0]
