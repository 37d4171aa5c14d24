"""How a model is trained: every number that decides a result, in one frozen object.

Learning rates over a run, as factors of the largest one.

Adding a schedule is adding a row to :data:`SCHEDULES`.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from fourierkernels.foundation.validation import check_choice, check_integer, check_number

# From the number of updates already made, the updates of the warm-up and those of the whole run to
# the factor of the next update's rate.
Schedule = Callable[[int, int, int], float]


def _warm(schedule: Schedule) -> Schedule:
    """Rise linearly before what a schedule does afterwards."""

    def warmed(done: int, warmup: int, steps: int) -> float:
        return (done + 1) / (warmup + 1) if done < warmup else schedule(done, warmup, steps)

    return warmed


def _cosine(done: int, warmup: int, steps: int) -> float:
    share = (done - warmup) / max(steps - warmup, 1)
    return (1 + math.cos(math.pi * min(share, 1.0))) / 2


def _linear(done: int, warmup: int, steps: int) -> float:
    return max(steps - done, 0) / max(steps - warmup, 1)


def _inverse_root(done: int, warmup: int, steps: int) -> float:
    return math.sqrt(max(warmup, 1) / max(done, warmup, 1))


def _fairseq(done: int, warmup: int, steps: int) -> float:
    """Return the factor of fairseq's inverse_sqrt: from 0 at the first update.

    ``fairseq/optim/lr_scheduler/inverse_square_root_schedule.py``, lines 59 to 84, of
    https://github.com/facebookresearch/fairseq.
    """
    return done / warmup if done < warmup else _inverse_root(done, warmup, steps)


def _transformer_xl(done: int, warmup: int, steps: int) -> float:
    """Return the factor of the published language models, ``src/train.py`` of lmtool-fwp.

    Their cosine runs from the first update and not from the end of the warm-up, and the first
    update, before the warm-up has set a rate, has the largest one.
    """
    if 0 < done < warmup:
        return done / warmup
    return 1.0 if done == 0 else (1 + math.cos(math.pi * min(done / steps, 1.0))) / 2


_DEIT_WARMUP = 5  # epochs
_DEIT_FIRST, _DEIT_LAST = 1e-3, 1e-2  # rates of 1e-6 and 1e-5, as factors of 1e-3


def _deit(done: int, warmup: int, steps: int) -> float:
    """Return the factor of DeiT, whose rates change by epochs; the warm-up has five.

    ``main.py`` of https://github.com/facebookresearch/deit sets a rate after the epoch of its
    number, so each comes an epoch late. The cosine runs from the first epoch
    (``timm/scheduler/cosine_lr.py`` of https://github.com/huggingface/pytorch-image-models).
    """
    epoch = max(warmup // _DEIT_WARMUP, 1)
    number = max(done // epoch - 1, 0)
    if number < _DEIT_WARMUP:
        return _DEIT_FIRST + (1 - _DEIT_FIRST) * number / _DEIT_WARMUP
    share = min(number * epoch / steps, 1.0)
    return _DEIT_LAST + (1 - _DEIT_LAST) * (1 + math.cos(math.pi * share)) / 2


SCHEDULES: dict[str, Schedule] = {
    "constant": _warm(lambda done, warmup, steps: 1.0),
    "linear": _warm(_linear),
    "cosine": _warm(_cosine),
    # [vaswani2017attention]_ section 5.3: the rate falls as the root of the number of updates.
    "inverse_root": _warm(_inverse_root),
    "fairseq": _fairseq,
    "transformer_xl": _transformer_xl,
    "deit": _deit,
}


# Schedules whose rates do not depend on how long the run is: it may be extended.
ENDLESS = frozenset({"constant", "inverse_root", "fairseq"})

_POWER = 4
_LARGEST_SEED = 2**32 - 1  # of NumPy's global generator, which the Trainer seeds
# Of operations. Parameters are float32 but with "float64"; "tf32" is float32 whose products of
# matrices an NVIDIA card rounds to 10 bits.
PRECISIONS = ("float32", "tf32", "bfloat16", "float16", "float64")
# Of a recipe, what leaves its numbers comparable with those of its preset.
FREE = (
    *("seed", "accumulation", "precision", "evaluate_every", "save_every", "log_every"),
    *("gradient_checkpointing", "compile"),
)
ORDERS = ("streams", "shuffled")
OPTIMISERS = ("adam", "adamw", "radam")
DECAYING = ("weights", "all")


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run.

    Attributes
    ----------
    steps : int
        Updates of the parameters.
    batch : int
        Sequences per update, over all processes and accumulated gradients together.
    accumulation : int
        Gradients summed up for an update, each of batch / accumulation sequences.
    learning_rate : float
        The largest rate.
    schedule : str
        A key of :data:`~fourierkernels.studies.engine.recipe.SCHEDULES`.
    warmup : int
        Updates until the rate is at its largest.
    optimiser : {"adam", "adamw", "radam"}
        Adam and RAdam add their weight decay to the gradient, AdamW to the update.
    decaying : {"weights", "all"}
        Which parameters decay: weights of dense layers and embeddings, but no biases, norms and
        radii; or all.
    clip : float or None
        Largest norm of a gradient.
    label_smoothing : float
        Share of the probability that is spread evenly over all classes.
    precision : {"float32", "tf32", "bfloat16", "float16", "float64"}
        Of the operations. Parameters are float32 with "bfloat16" and "float16" (automatic mixed
        precision), and the loss is scaled with "float16". "tf32" needs an NVIDIA card.
    order : {"streams", "shuffled"}
        Segments of a text in its order, side by side in as many streams as a batch has sequences,
        or drawn anew in each epoch.
    evaluate_every, save_every, log_every : int
        Updates between validations, checkpoints, and lines of the curve.
    patience : int or None
        Validations without progress after which training stops.
    average : int or None
        The model that is kept and measured is the mean of so many last checkpoints, those of limits
        and interruptions aside; None keeps the one that validated best.
    gradient_checkpointing : bool
        Compute what a block keeps for the way back a second time instead: less memory, a third more
        time, the same numbers.
    compile : bool
        Compile the blocks of the model by torch.compile; numbers change by rounding, and dropout
        draws others.
    divergence : float
        Training stops at a loss of so many times that of an even guess, or one that is not finite.
    seed : int
        Of the initial parameters, dropout and the order of segments; below 2³².

    Raises
    ------
    ValueError, TypeError
        If a setting breaks its rule.
    """

    steps: int
    batch: int
    learning_rate: float
    accumulation: int = 1
    schedule: str = "constant"
    warmup: int = 0
    optimiser: str = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    decaying: str = "weights"
    clip: float | None = None
    label_smoothing: float = 0.0
    precision: str = "float32"
    order: str = "shuffled"
    evaluate_every: int = 1000
    save_every: int = 1000
    log_every: int = 100
    patience: int | None = None
    average: int | None = None
    gradient_checkpointing: bool = False
    compile: bool = False
    divergence: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            check_integer(name, getattr(self, name))
        for name in ("warmup", "seed"):
            check_integer(name, getattr(self, name), least=0)
        if self.seed > _LARGEST_SEED:
            raise ValueError(
                f"seed must be at most {_LARGEST_SEED}, which all generators take, got {self.seed}"
            )
        for name in ("learning_rate", "epsilon", "divergence"):
            check_number(name, getattr(self, name), above=0.0)
        for name in ("weight_decay", "label_smoothing"):
            if not 0 <= check_number(name, getattr(self, name)) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), list(known))
        self._check_structured()
        self._check_optional()
        self._check_average()

    def _check_optional(self) -> None:
        if self.clip is not None:
            check_number("clip", self.clip, above=0.0)
        if self.patience is not None:
            check_integer("patience", self.patience)
        if self.batch % self.accumulation:
            raise ValueError(
                f"accumulation must divide batch = {self.batch}, got {self.accumulation}"
            )

    def _check_structured(self) -> None:
        for beta in self.betas:
            if not 0 <= check_number("betas", beta) < 1:
                raise ValueError(f"betas must be in [0, 1), got {beta}")
        for name in ("gradient_checkpointing", "compile"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be true or false, got {getattr(self, name)!r}")

    def _check_average(self) -> None:
        if self.average is None:
            return
        saved, validated = self.save_every, self.evaluate_every
        both = math.lcm(saved, validated)
        most = self.steps // saved + self.steps // validated - self.steps // both
        most += bool(self.steps % saved and self.steps % validated)
        if check_integer("average", self.average) > most:
            raise ValueError(
                f"average must be at most {most}, the checkpoints of {self.steps} steps saved "
                f"every {saved} and validated every {validated}, "
                f"got {self.average}"
            )

    def saves(self, step: int) -> bool:
        """Return whether the run has a checkpoint after a step, whatever interrupts it."""
        return step == self.steps or not (step % self.save_every and step % self.evaluate_every)

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return asdict(self) | {"betas": list(self.betas)}

    @classmethod
    def from_json(cls, settings: Mapping[str, object]) -> "Recipe":
        """Return the recipe that :meth:`as_json` wrote.

        Raises
        ------
        ValueError, TypeError
            If a setting is missing, unknown or breaks its rule.
        """
        known: dict[str, Any] = dict(settings)
        if unknown := known.keys() - {field.name for field in fields(cls)}:
            names = ", ".join(sorted(unknown))
            raise ValueError(f"recipe must have known settings only, got {names}")
        return cls(**known | {"betas": tuple(known.get("betas", cls.betas))})


_COUNTS = ("steps", "batch", "accumulation", "evaluate_every", "save_every", "log_every")
_CHOICES: dict[str, Collection[str]] = {  # a schedule may be added later
    "schedule": SCHEDULES,
    "optimiser": OPTIMISERS,
    "decaying": DECAYING,
    "precision": PRECISIONS,
    "order": ORDERS,
}


@dataclass(frozen=True)
class Preset:
    """One size of a study; a study with further settings has a subclass with them.

    Attributes
    ----------
    summary : str
        What it is for, in a line.
    model : mapping
        Hyperparameters of the model, but for the mixer and what the data decide.
    recipe : Recipe
        How it is trained.
    mixer_options : mapping of str to mapping
        Options of mixers, by their names.
    data : str or None
        Data that are read where none are named; None where some have to be named.
    positions : int or None
        Windows, sentences or images of each split that are measured; all if None.
    published : mapping of str to mapping
        The paper's numbers by mixer and by what the study names them.
    """

    summary: str
    model: Mapping[str, Any]
    recipe: Recipe
    mixer_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: str | None = None
    positions: int | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def check_shuffled(recipe: Recipe, items: str) -> None:
    """Refuse a recipe that asks for streams, which texts have."""
    if recipe.order != "shuffled":
        raise ValueError(f"order must be shuffled for {items}, got {recipe.order!r}")


def as_sharp_as_softmax(dim: int, heads: int) -> dict[str, dict[str, Any]]:
    """Return options of Fourier attention, x⁴, that begins as sharp as softmax does.

    Both then have the same curvature at zero: l √D R²/3 = 1 with D features of a head.
    """
    radius = math.sqrt(3 / (_POWER * math.sqrt(dim / heads)))
    return {"fourier": {"power": _POWER, "radius": radius, "radius_shape": "scalar"}}
