"""The run that another one begins with: a pre-trained model, its weights and its subwords."""

from dataclasses import dataclass
from pathlib import Path

from fourierkernels.foundation.files import file_digest
from fourierkernels.studies.engine.teacher import teacher_files


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
