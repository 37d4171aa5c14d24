"""Optimisers and rates of a recipe."""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from fourierkernels.studies.engine.recipe import SCHEDULES, Recipe

OPTIMISER_CLASSES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "radam": torch.optim.RAdam,
}


def create_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the optimiser of a recipe for the parameters of a model.

    Weights of dense layers and embeddings decay; vectors do not: biases, norms and radii, and
    nothing that a module names in its ``without_decay``, unless all are to decay.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    kept = {
        id(getattr(module, name))
        for module in model.modules()
        for name in getattr(module, "without_decay", ())
    }
    every = recipe.decaying == "all"
    decaying = [every or (p.ndim >= 2 and id(p) not in kept) for p in trained]
    groups = [
        {"params": [p for p, does in zip(trained, decaying, strict=True) if does == decays]}
        | {"weight_decay": recipe.weight_decay if decays else 0.0}
        for decays in (True, False)
    ]
    return OPTIMISER_CLASSES[recipe.optimiser](
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
    )


def create_schedule(optimiser: torch.optim.Optimizer, recipe: Recipe) -> LambdaLR:
    """Return the rates of a recipe; each update takes the next one."""
    factor = SCHEDULES[recipe.schedule]
    return LambdaLR(optimiser, lambda done: factor(done, recipe.warmup, recipe.steps))


class DivergenceError(ValueError):
    """A training run whose loss or gradient is not finite, or whose loss has exploded."""


def is_healthy(loss: float, norm: float, *, highest: float) -> bool:
    """Return whether a loss and the norm of its gradient are finite, the loss at most `highest`.

    Examples
    --------
    >>> is_healthy(3.0, 1.0, highest=10.0), is_healthy(3.0, float("inf"), highest=10.0)
    (True, False)
    """
    return math.isfinite(loss) and math.isfinite(norm) and loss <= highest


_LEAST_SCALE = 1e-4  # min_loss_scale of fairseq/dataclass/configs.py, github.com/facebookresearch


def is_overflow(norm: float, scaler: torch.amp.GradScaler | None) -> bool:
    """Return whether a gradient is too large for float16, so that its update is left out.

    The scaler then halves its factor. When that is as small as fairseq's least one, the gradient is
    not too large but broken.
    """
    return scaler is not None and not math.isfinite(norm) and scaler.get_scale() > _LEAST_SCALE
