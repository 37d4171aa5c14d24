"""The trained models that a run takes: its teacher, and the one that it begins with.

The predictions of a teacher are learned by word-level distillation, [kim2016sequence]_ section 3.1;
:mod:`fourierkernels.models.losses` has the loss.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fourierkernels.foundation.files import file_digest
from fourierkernels.foundation.run_folder import BEST, find_run
from fourierkernels.foundation.validation import check_number
from fourierkernels.models.losses import check_share


@dataclass(frozen=True)
class Teacher:
    """What a run has chosen of its teacher.

    Attributes
    ----------
    path : str
        The folder of a run (for its best model), of one of its checkpoints, or a file of weights.
    digest : str
        SHA-256 of the weights.
    weight : float
        Share w of the teacher in the loss, in (0, 1].
    temperature : float
        T > 0, by which the logits of both are divided in the teacher's share.

    Raises
    ------
    ValueError, TypeError
        If a number breaks its rule.
    """

    path: str
    digest: str
    weight: float = 0.5
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_share(self.weight, "teacher_weight")
        check_number("temperature", self.temperature, above=0.0)


def choose_teacher(path: str | Path, *, weight: float = 0.5, temperature: float = 1.0) -> Teacher:
    """Return a trained model as the teacher of a run.

    Parameters
    ----------
    path : str or Path
        The folder of a run (for its best model), of one of its checkpoints, or a file of weights.
    weight, temperature : float
        See :class:`Teacher`.

    Raises
    ------
    ValueError, TypeError
        If it is no such thing, or a number breaks its rule.
    """
    place = Path(path).resolve()
    return Teacher(str(place), file_digest(teacher_files(place)[1]), weight, temperature)


class Lesson(NamedTuple):
    """What options ask of a teacher: None for what they do not name."""

    path: Path | None = None
    weight: float | None = None
    temperature: float | None = None


def amend_teacher(earlier: Teacher | None, lesson: Lesson) -> Teacher | None:
    """Return the teacher that options describe; what they do not name is that of an earlier one.

    Raises
    ------
    ValueError
        If a setting is given and no teacher.
    """
    settings = {"weight": lesson.weight, "temperature": lesson.temperature}
    given: dict[str, Any] = {name: x for name, x in settings.items() if x is not None}
    if lesson.path is not None:
        kept = {} if earlier is None else {name: getattr(earlier, name) for name in settings}
        return choose_teacher(lesson.path, **kept | given)
    if earlier is None and given:
        name, value = next(iter(given.items()))
        raise ValueError(f"teacher must be named (--teacher) for its {name} of {value}, got none")
    return None if earlier is None else replace(earlier, **given)


def teacher_files(path: Path, name: str = "teacher") -> tuple[Path, Path]:
    """Return the folder of the teacher's run, and the file of its weights.

    Parameters
    ----------
    name : str
        What messages call it.

    Raises
    ------
    ValueError
        If there is no such run, or it has no weights.
    """
    home = find_run(path)
    if home is None:
        raise ValueError(f"{name} must be in the folder of a training run, got {path}")
    file = path if path.is_file() else path / BEST
    if not file.is_file():
        raise ValueError(f"{name} must have trained weights, got no {BEST} in {path}")
    return home, file


def compared(teacher: Teacher | None) -> dict[str, Any]:
    """Return all that must not change when a run is resumed: not where the teacher lies."""
    names = {"teacher": "digest", "teacher_weight": "weight", "temperature": "temperature"}
    return {name: getattr(teacher, field, None) for name, field in names.items()}


@dataclass(frozen=True)
class Start:
    """What a run begins with.

    Attributes
    ----------
    path : str
        The folder of a run (for its best model), of one of its checkpoints, or a file of weights.
    digest : str
        SHA-256 of the weights.
    """

    path: str
    digest: str


def choose_start(path: str | Path) -> Start:
    """Return a trained model as the start of a run.

    Raises
    ------
    ValueError
        If it is no such thing.
    """
    place = Path(path).resolve()
    return Start(str(place), file_digest(start_files(place)[1]))


def start_files(path: Path) -> tuple[Path, Path]:
    """Return the folder of the start's run, and the file of its weights.

    Raises
    ------
    ValueError
        If there is no such run, or it has no weights.
    """
    return teacher_files(path, name="start")


def check_start(start: Start) -> None:
    """Refuse a start that is gone or has changed since its run was asked for.

    Raises
    ------
    ValueError
        If it is another one.
    """
    found = file_digest(start_files(Path(start.path))[1])
    if found != start.digest:
        raise ValueError(
            f"start must be the one that the run began with, weights of SHA-256 "
            f"{start.digest[:12]}…, got {found[:12]}… in {start.path}"
        )
