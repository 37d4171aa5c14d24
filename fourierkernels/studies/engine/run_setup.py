"""What a run was asked for, in a form that can be written down and compared."""

import json
import re
import warnings
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import SETUP, find_run
from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import FREE, Preset, Recipe
from fourierkernels.studies.engine.study import PairedStudy, StartedStudy, Study, TaughtStudy
from fourierkernels.studies.engine.teacher import Start, Teacher, choose_start
from fourierkernels.studies.registry import STUDIES, choose_preset, choose_study

FORMAT = 1
_DIGITS, _LONGEST = 8, 120  # of a digest, and of a folder's name without one


@dataclass(frozen=True)
class Setup:
    """A study, and everything that was chosen in it.

    Attributes
    ----------
    study : Study
        Of :data:`~fourierkernels.studies.registry.STUDIES`.
    preset : str
        One of its presets.
    mixer : ChosenMixer
        With options beside those of the preset.
    recipe : Recipe
        That of the preset, or another one.
    data : str or None
        A folder or the name of a corpus; that of the preset if None.
    teacher : Teacher or None
        The model that it learns from beside the data.
    start : Start or None
        The model that it begins with.
    pair : str or None
        Source and target of a translation, as "en-it"; None if the data have no others.

    Raises
    ------
    ValueError
        If a name is unknown, or a teacher, a start or a pair is named in a study that has none.
    TypeError
        If the mixer has no such option.
    """

    study: Study[Any, Any, Any]
    preset: str
    mixer: ChosenMixer
    recipe: Recipe
    data: str | None = None
    teacher: Teacher | None = None
    start: Start | None = None
    pair: str | None = None

    def __post_init__(self) -> None:
        study = self.study
        kinds = (("teacher", TaughtStudy), ("start", StartedStudy), ("pair", PairedStudy))
        for name, kind in kinds:
            if getattr(self, name) is not None and not isinstance(study, kind):
                able = ", ".join(other for other, row in STUDIES.items() if isinstance(row, kind))
                raise ValueError(f"study must be one of {able} for a {name}, got {study.name!r}")
        choose_preset(study, self.preset)
        check_choice("mixer", self.mixer.name, study.mixers())
        study.check_mixer(self.mixer)

    @cached_property
    def chosen_preset(self) -> Any:
        """The preset of that name, of the class that the study has."""
        return choose_preset(self.study, self.preset)

    def asked(self) -> dict[str, Any]:
        """Return all that was asked for, as JSON has it."""
        return {
            "study": self.study.name,
            "preset": self.preset,
            "mixer": self.mixer.name,
            "mixer_options": self.mixer.options,
            "recipe": asdict(self.recipe),
            "data": self.data,
            "teacher": None if self.teacher is None else asdict(self.teacher),
            "start": None if self.start is None else asdict(self.start),
            "pair": self.pair,
        }


def setup(
    study: str,
    *,
    preset: str | None = None,
    mixer: str | ChosenMixer | None = None,
    data: str | Path | None = None,
    teacher: Teacher | None = None,
    start: str | Path | None = None,
    pair: str | None = None,
    **changes: Any,
) -> Setup:
    """Return a run of a study, with changes to the recipe of its preset, or of its default one.

    :func:`~fourierkernels.studies.engine.teacher.choose_teacher` makes a teacher of a trained
    model. The mixer is named, or is one with options; by default it is that of the start, if the
    study has one, or else "fourier".

    Examples
    --------
    >>> setup("language", preset="small", mixer="softmax", seed=2).recipe.steps
    500000
    """
    chosen = choose_study(study)
    size = chosen.default if preset is None else preset
    options = changes.pop("mixer_options", None)
    recipe = replace(choose_preset(chosen, size).recipe, **changes)
    named = None if data is None else _place(data)
    own = _mixer_of(start) if mixer is None else mixer
    own = ChosenMixer(own) if isinstance(own, str) else own
    if options is not None:
        warnings.warn(
            "mixer_options is now of the mixer: mixer=ChosenMixer(name, options)",
            FutureWarning,
            stacklevel=2,
        )
        own = replace(own, options=options)
    begun = None if start is None else choose_start(start)
    return Setup(chosen, size, own, recipe, named, teacher, begun, pair)


def folder_name(run: Setup) -> str:
    """Return the name of a run's folder where none is given: what it is, and what is changed in it.

    So two runs share one only if all is the same that was asked for, but for the folders above the
    data; a long name is cut and ends with a digest.

    Examples
    --------
    >>> folder_name(setup("language", mixer=ChosenMixer("softmax", {"bias": True}), seed=3))
    'language-tiny-softmax-bias=true-seed=3'
    """
    ours, usual = run.recipe.as_json(), run.chosen_preset.recipe.as_json()
    changed = {name: value for name, value in ours.items() if value != usual[name]}
    if run.data != run.chosen_preset.data and run.data is not None:
        changed["data"] = Path(run.data).name
    if run.pair is not None:
        changed["pair"] = run.pair
    for name, model in (("teacher", run.teacher), ("from", run.start)):
        if model is not None:
            changed[name] = model.digest[:_DIGITS]
    if run.teacher is not None:
        changed |= {"weight": run.teacher.weight, "temperature": run.teacher.temperature}
    options = (
        f"{name}={_word(value)}" for name, value in (*run.mixer.options.items(), *changed.items())
    )
    names = run.study.name, run.preset, run.mixer.name
    name = re.sub(r"[^\w.=+-]+", "_", "-".join((*names, *options)))
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{sha256(name.encode()).hexdigest()[:_DIGITS]}"


def is_of_preset(run: Setup) -> bool:
    """Return whether a run is trained as its preset says, but for the seed and how it is computed.

    So a teacher, other options of the mixer, or a recipe of other steps or rates is not.
    """
    usual: Preset = run.chosen_preset
    unchanged = ChosenMixer(run.mixer.name).over(usual)
    same = run.mixer.over(usual) == unchanged and run.teacher is None
    pairs = zip(asdict(usual.recipe).items(), asdict(run.recipe).values(), strict=True)
    return same and all(one == other for (name, one), other in pairs if name not in FREE)


def model_digest(run: Setup) -> str:
    """Return a digest of what the preset, today, says of the model and of its mixer."""
    preset = run.chosen_preset
    said = [dict(preset.model), ChosenMixer(run.mixer.name).over(preset).options]
    return sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def has_model_of_preset(home: Path, run: Setup) -> bool:
    """Return whether the model of a run is that of its preset today; of old runs it is unknown."""
    facts = json.loads((home / SETUP).read_text(encoding="utf-8"))
    return bool(facts.get("model") == model_digest(run))


def _word(value: Any) -> str:
    """Return a value as --mixer-option takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _mixer_of(start: str | Path | None) -> str:
    """Return the mixer of the run that another one begins with."""
    if start is None:
        return "fourier"
    run, _ = load_setup(run_folder(Path(start).resolve()))
    return run.mixer.name


def read_data(
    run: Setup,
    *,
    data: str | Path | None = None,
    start: Path | None = None,
    cache: Path | None = None,
) -> Any:
    """Return the data of a run.

    Parameters
    ----------
    data : str or Path, optional
        Where they are now.
    start : Path, optional
        What it begins with, if that is not what was asked for.

    Raises
    ------
    ValueError
        If they cannot be read.
    """
    study, named = run.study, run.data if data is None else data
    if isinstance(study, PairedStudy):
        return study.read(run.chosen_preset, named, cache=cache, pair=run.pair)
    if not isinstance(study, StartedStudy):
        return study.read(run.chosen_preset, named, cache=cache)
    begun = None if run.start is None else Path(run.start.path)
    return study.read(run.chosen_preset, named, cache=cache, start=start or begun)


def _place(data: str | Path) -> str:
    """Return a folder or file by its whole path, found from elsewhere; a name as it is."""
    place = Path(data)
    return str(place.resolve() if place.exists() else data)


def save_setup(output: Path, run: Setup, digest: str) -> None:
    """Write what a run was asked for, and the digest of its data, into its folder."""
    facts = {
        "format": FORMAT,
        "study": run.study.name,
        "preset": run.preset,
        "mixer": run.mixer.name,
        "mixer_options": run.mixer.options,
        "data": run.data,
        "digest": digest,
        "model": model_digest(run),
        "recipe": run.recipe.as_json(),
        "teacher": None if run.teacher is None else asdict(run.teacher),
        **({} if run.start is None else {"start": asdict(run.start)}),
        **({} if run.pair is None else {"pair": run.pair}),
    }
    write_text(output / SETUP, json.dumps(facts, indent=2) + "\n")


def load_setup(output: Path) -> tuple[Setup, str]:
    """Return what the run in a folder was asked for, and the digest of its data.

    Raises
    ------
    ValueError
        If the folder has no such file, or one of another format, or one that is damaged.
    """
    file = output / SETUP
    if not file.is_file():
        raise ValueError(f"{output} must be the folder of a training run, got no {SETUP} in it")
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        written = facts["format"]
        if written == FORMAT:
            names = {"study": choose_study(facts["study"]), "preset": facts["preset"]}
            names["mixer"] = ChosenMixer(facts["mixer"], facts["mixer_options"])
            names["recipe"] = Recipe.from_json(facts["recipe"])
            taught = facts.get("teacher")  # runs of before there were any do not say
            names["teacher"] = None if taught is None else Teacher(**taught)
            names["pair"] = facts.get("pair")
            names["start"] = Start(**facts["start"]) if facts.get("start") else None
            return Setup(**names, data=facts["data"]), str(facts["digest"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} must describe a training run, got {error!r}") from error
    raise ValueError(f"{file} must have format {FORMAT} of training runs, got {written}")


def run_folder(path: Path) -> Path:
    """Return the folder of the run that a folder or file belongs to: itself or one above it.

    Raises
    ------
    ValueError
        If there is none.
    """
    found = find_run(path)
    if found is None:
        raise ValueError(f"checkpoint must be in the folder of a training run, got {path}")
    return found
