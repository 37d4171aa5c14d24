"""A model made ready for training: its precision, what a recipe does to its blocks, its loss."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fourierkernels.foundation.device import default_device
from fourierkernels.mixing.attention import radius_penalties
from fourierkernels.models.blocks import Block
from fourierkernels.models.residual import StepNorm
from fourierkernels.studies.engine.recipe import PRECISIONS, Recipe
from fourierkernels.studies.engine.study import Objective


class WithLoss(nn.Module):
    """A model whose forward pass returns the loss of a batch, as the Trainer asks for.

    The penalties of trained radii are added to it; validation leaves them out.
    """

    accepts_loss_kwargs = False  # read by the Trainer: a mean per batch, not a sum to be scaled

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = model, objective

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch, with the penalties of radii."""
        loss = self._objective.loss(self.model, batch)
        return {"loss": sum(radius_penalties(self.model), start=loss)}

    def validate(self, process: int, processes: int) -> tuple[float, ...]:
        """Return sums over the share of a process, of the losses and of ones first."""
        return self._objective.validate(self.model, process, processes)


def as_precision(model: nn.Module, precision: str) -> nn.Module:
    """Return the model with parameters of the precision that an optimiser works in."""
    return model.double() if precision == "float64" else model.float()


def prepared(model: nn.Module, recipe: Recipe) -> nn.Module:
    """Return the model as a recipe trains it: in its precision, its blocks as it asks for.

    The names of parameters stay as they are.

    Raises
    ------
    ValueError
        If the precision is not one of this device, blocks are to be recomputed that update
        something at each pass, checkpoints to be averaged that differ in more than weights, or
        blocks to be compiled where nothing can.
    """
    _check_precision(recipe.precision)
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if recipe.gradient_checkpointing:
        _check_repeatable(blocks)
        for block in blocks:
            # Without reentrance hooks of DDP and FSDP see each parameter once.
            block.forward = partial(  # type: ignore[method-assign]
                checkpoint, block.forward, use_reentrant=False
            )
    if recipe.average is not None:
        _check_uncounted(model)
    if recipe.compile:
        _check_compiler()
        for block in blocks:
            block.compile()
    return as_precision(model, recipe.precision)


def _check_precision(precision: str) -> None:
    kind = default_device().type
    if precision == "tf32" and kind != "cuda":
        others = ", ".join(name for name in PRECISIONS if name != precision)
        raise ValueError(
            f"precision must be one of {others} on device {kind}: TF32 is of NVIDIA cards, "
            f"got {precision!r}"
        )


def _check_repeatable(blocks: list[Block]) -> None:
    """Refuse blocks that a second pass would change: running statistics, features drawn anew."""
    for module in (module for block in blocks for module in block.modules()):
        if isinstance(module, StepNorm) or getattr(module, "redraw", None):
            raise ValueError(
                "gradient_checkpointing must be false for blocks with running statistics or "
                "features that are drawn anew, which a second pass would update twice, got a "
                f"{type(module).__name__}"
            )


def _check_uncounted(model: nn.Module) -> None:
    """Refuse models whose checkpoints are not of one function, so that they have no mean."""
    for module in model.modules():
        if getattr(module, "redraw", None):
            raise ValueError(
                "average must be none for features that are drawn anew, whose checkpoints have "
                f"different ones, got a {type(module).__name__} with redraw={module.redraw}"
            )


def _check_compiler() -> None:
    """Compile something small, so that a missing compiler is told before a run starts."""
    try:
        torch.compile(torch.sin)(torch.ones(8))
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"compile must be false where torch.compile fails: {reason}") from error
