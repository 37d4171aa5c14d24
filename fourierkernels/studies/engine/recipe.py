"""How a model is trained: every number that decides a result, in one frozen object."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Any

from fourierkernels.foundation.validation import check_choice, check_integer, check_number
from fourierkernels.studies.engine.schedules import SCHEDULES

PRECISIONS = ("float32", "bfloat16", "float64")
ORDERS = ("streams", "shuffled")
OPTIMISERS = ("adam", "adamw", "radam")


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
        A key of :data:`~fourierkernels.studies.engine.schedules.SCHEDULES`.
    warmup : int
        Updates until the rate is at its largest.
    optimiser : {"adam", "adamw", "radam"}
        Adam and RAdam add their weight decay to the gradient, AdamW to the update; none decays
        biases, norms and radii.
    clip : float or None
        Largest norm of a gradient.
    label_smoothing : float
        Share of the probability that is spread evenly over all classes.
    precision : {"float32", "bfloat16", "float64"}
        Of the operations; parameters are float32 with "bfloat16" (automatic mixed precision).
    order : {"streams", "shuffled"}
        Segments of a text in its order, side by side in as many streams as a batch has sequences,
        or drawn anew in each epoch.
    evaluate_every, save_every, log_every : int
        Updates between validations, checkpoints, and lines of the curve.
    patience : int or None
        Validations without progress after which training stops.
    divergence : float
        Training stops at a loss of so many times that of an even guess, or one that is not finite.
    seed : int
        Of the initial parameters, dropout and the order of segments.

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
    clip: float | None = None
    label_smoothing: float = 0.0
    precision: str = "float32"
    order: str = "shuffled"
    evaluate_every: int = 1000
    save_every: int = 1000
    log_every: int = 100
    patience: int | None = None
    divergence: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            check_integer(name, getattr(self, name))
        for name in ("warmup", "seed"):
            check_integer(name, getattr(self, name), least=0)
        for name in ("learning_rate", "epsilon", "divergence"):
            check_number(name, getattr(self, name), above=0.0)
        for name in ("weight_decay", "label_smoothing"):
            if not 0 <= check_number(name, getattr(self, name)) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), list(known))
        self._check_optional()

    def _check_optional(self) -> None:
        if self.clip is not None:
            check_number("clip", self.clip, above=0.0)
        if self.patience is not None:
            check_integer("patience", self.patience)
        if self.batch % self.accumulation:
            raise ValueError(
                f"accumulation must divide batch = {self.batch}, got {self.accumulation}"
            )

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return asdict(self) | {"betas": list(self.betas)}

    @classmethod
    def from_json(cls, settings: dict[str, Any]) -> "Recipe":
        """Return the recipe that :meth:`as_json` wrote.

        Raises
        ------
        ValueError, TypeError
            If a setting is missing, unknown or breaks its rule.
        """
        known = {field.name for field in fields(cls)}
        if settings.keys() - known:
            unknown = ", ".join(sorted(settings.keys() - known))
            raise ValueError(f"recipe must have known settings only, got {unknown}")
        return cls(**settings | {"betas": tuple(settings.get("betas", cls.betas))})


_COUNTS = ("steps", "batch", "accumulation", "evaluate_every", "save_every", "log_every")
_CHOICES: dict[str, Collection[str]] = {  # a schedule may be added later
    "schedule": SCHEDULES,
    "optimiser": OPTIMISERS,
    "precision": PRECISIONS,
    "order": ORDERS,
}
