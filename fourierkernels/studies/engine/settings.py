"""Settings of a recipe that a person gives as NAME=VALUE, read by their types; what may change.

A field of :class:`~fourierkernels.studies.engine.recipe.Recipe` is a setting by itself.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, get_args, get_type_hints

from fourierkernels.studies.engine.recipe import ENDLESS, FREE, Recipe

# What a resumed run may have otherwise than before: no update that was made would have been another
# one. A new number of steps has a rule of its own.
CHANGEABLE = (
    "steps",
    "evaluate_every",
    "save_every",
    "log_every",
    "patience",
    "average",
    "gradient_checkpointing",
    "divergence",
)
_SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
_NEAREST, _LIKENESS = 3, 0.4
_NUMBERS = {int: "an integer", float: "a number"}


@dataclass(frozen=True)
class Settings:
    """Settings of a recipe that a person names.

    Attributes
    ----------
    named : mapping
        Fields of :class:`~fourierkernels.studies.engine.recipe.Recipe`, each of its type.
    """

    named: Mapping[str, Any] = field(default_factory=dict)

    def over(self, recipe: Recipe) -> Recipe:
        """Return a recipe with these settings instead of its own.

        Raises
        ------
        ValueError, TypeError
            If one breaks its rule, or the warm-up that was not named is longer than the steps that
            were: the rate would never be at its largest.
        """
        changed = replace(recipe, **self.named)
        if "steps" in self.named and "warmup" not in self.named and changed.warmup > changed.steps:
            raise ValueError(
                f"warmup must be at most steps = {changed.steps}, got {changed.warmup} of the "
                "preset (--set warmup=...)"
            )
        return changed


NO_SETTINGS = Settings()


def read_settings(given: Iterable[str], *, seed: int | None = None) -> Settings:
    """Return settings given as NAME=VALUE, each of the type of its field, and the seed.

    A tuple is given as numbers between commas, and the absence of a limit as "none".

    Raises
    ------
    ValueError
        If one has no name or no value, is named twice, is unknown (the nearest names are given), or
        its value is of another type, or another seed is among them.

    Examples
    --------
    >>> read_settings(["steps=1e5", "precision=bfloat16", "clip=none", "betas=0.9,0.98"]).named
    {'steps': 100000, 'precision': 'bfloat16', 'clip': None, 'betas': (0.9, 0.98)}
    """
    kinds, found = get_type_hints(Recipe), dict[str, Any]()
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ValueError(f"set must be NAME=VALUE, got {text!r}")
        if name not in kinds:
            near = _nearest(name, list(kinds)) or sorted(kinds)
            raise ValueError(
                f"set must name a setting, the nearest are {', '.join(near)}; got {name!r}"
            )
        if name in found:
            raise ValueError(f"set must name each setting once, got {name} twice")
        found[name] = _read(name, value, kinds[name])
    if seed is not None and found.setdefault("seed", seed) != seed:
        raise ValueError(f"seed must be given once, got {seed} and {found['seed']}")
    return Settings(found)


def _nearest(name: str, known: list[str]) -> list[str]:
    """Return names that have the given one in them, then those that are spelt like it."""
    inside = [other for other in known if name in other]
    spelt = get_close_matches(name, known, _NEAREST, _LIKENESS)
    return list(dict.fromkeys((*inside, *spelt)))[:_NEAREST]


def _read(name: str, text: str, kind: Any) -> Any:
    """Return a value of a type: a number, a truth value, a word, one of these or None, a tuple."""
    parts = get_args(kind)
    if type(None) in parts:
        if text.lower() in {"none", "null"}:
            return None
        return _read(name, text, parts[0])
    if parts:
        values = text.strip("()[]").split(",")
        if len(values) != len(parts):
            raise ValueError(f"{name} must be {len(parts)} numbers between commas, got {text!r}")
        return tuple(_read(name, value, part) for value, part in zip(values, parts, strict=True))
    if kind is bool:
        if text.lower() not in {"true", "false"}:
            raise ValueError(f"{name} must be true or false, got {text!r}")
        return text.lower() == "true"
    return _number(name, text, kind) if kind in _NUMBERS else _SHORT.get(text.lower(), text)


def _number(name: str, text: str, kind: type) -> float:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    whole = isinstance(value, float) and value.is_integer()  # 1e5
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = None
    if value is None or (kind is int and not (isinstance(value, int) or whole)):
        raise ValueError(f"{name} must be {_NUMBERS[kind]}, got {text!r}")
    return kind(value)  # type: ignore[no-any-return]


def shown_settings(recipe: Recipe) -> str:
    """Return the settings of a recipe as :func:`read_settings` reads them.

    Examples
    --------
    >>> shown_settings(Recipe(steps=3, batch=2, learning_rate=1e-3))[:37]
    'steps=3 batch=2 learning_rate=0.001 a'
    """
    return " ".join(f"{name}={_shown(value)}" for name, value in asdict(recipe).items())


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def read_free(given: Iterable[str]) -> Settings:
    """Return settings given as NAME=VALUE that leave the numbers of a table comparable.

    Raises
    ------
    ValueError
        As :func:`read_settings`, and for any other setting.
    """
    settings = read_settings(given)
    able = [name for name in FREE if name != "seed"]
    for name in settings.named:
        if name not in able:
            raise ValueError(
                f"set must be one of {', '.join(able)}, the others are the table's; got {name}"
            )
    return settings


def check_changes(recipe: Recipe, earlier: Recipe, *, made: int, where: str) -> None:
    """Refuse what a resumed run cannot have otherwise than before.

    Parameters
    ----------
    made : int
        Updates that the run has made.
    where : str
        What a message calls its folder.

    Raises
    ------
    ValueError
        If a setting would have changed the updates that were made, or steps are more or fewer
        under a schedule that depends on how many there are.
    """
    for name in (one.name for one in fields(Recipe)):
        ours, theirs = getattr(recipe, name), getattr(earlier, name)
        if ours != theirs and name not in CHANGEABLE:
            raise ValueError(
                f"{name} must be that of the run in {where}, {theirs!r}, got {ours!r} "
                f"(only {', '.join(CHANGEABLE)} may change)"
            )
    if recipe.steps == earlier.steps:
        return
    if recipe.schedule not in ENDLESS:
        raise ValueError(
            f"steps must stay {earlier.steps} in the run in {where}: the rates of schedule "
            f"{recipe.schedule!r} depend on how many there are, so those of the {made} updates "
            f"made belong to no run of {recipe.steps} steps (schedules that can be extended: "
            f"{', '.join(sorted(ENDLESS))}), got {recipe.steps}"
        )
    if recipe.steps < made:
        raise ValueError(f"steps must be at least {made}, those made already, got {recipe.steps}")
