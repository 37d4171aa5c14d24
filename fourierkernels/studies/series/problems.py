"""The problems of the UEA archive that are studied, and where the files of a problem lie."""

from dataclasses import dataclass
from pathlib import Path

ENDINGS = (".ts", ".ts.gz")
PARTS = {"train": "_TRAIN", "test": "_TEST"}


@dataclass(frozen=True)
class Problem:
    """A problem of the archive, by the numbers from which a file cut off is recognised.

    Attributes
    ----------
    train, test : int
        Series of each file.
    channels, classes : int
        Channels of a series, and labels.
    """

    train: int
    test: int
    channels: int
    classes: int


# [bagnall2018uea]_ table 1.
PROBLEMS = {
    "BasicMotions": Problem(40, 40, channels=6, classes=4),
    "EthanolConcentration": Problem(261, 263, channels=3, classes=4),
    "FaceDetection": Problem(5890, 3524, channels=144, classes=2),
    "Handwriting": Problem(150, 850, channels=3, classes=26),
    "Heartbeat": Problem(204, 205, channels=61, classes=2),
    "JapaneseVowels": Problem(270, 370, channels=12, classes=9),
    "PEMS-SF": Problem(267, 173, channels=963, classes=7),
    "SelfRegulationSCP1": Problem(268, 293, channels=6, classes=2),
    "SelfRegulationSCP2": Problem(200, 180, channels=7, classes=2),
    "SpokenArabicDigits": Problem(6599, 2199, channels=13, classes=10),
    "UWaveGestureLibrary": Problem(120, 320, channels=3, classes=8),
}


def find_files(folder: Path, problem: str | None) -> tuple[str, dict[str, Path]]:
    """Return the name of a problem and its files, by "train" and "test".

    Parameters
    ----------
    folder : Path
        Has the files, or a folder with them named as the problem.
    problem : str or None
        Its name; None for the only one in the folder.

    Raises
    ------
    ValueError
        If there is no such folder, a file is missing, or no name is given and there are several.
    """
    if not folder.is_dir():
        raise ValueError(f"data must be a folder of .ts files, got {folder}")
    name = _only_problem(folder) if problem is None else problem
    for place in (folder, folder / name):
        found = {part: _file(place, f"{name}{end}") for part, end in PARTS.items()}
        if any(found.values()):
            break
    files = {part: file for part, file in found.items() if file is not None}
    missing = [f"{name}{end}.ts" for part, end in PARTS.items() if part not in files]
    if missing:
        raise ValueError(
            f"data must have {name}_TRAIN.ts and {name}_TEST.ts, in {folder} or in its folder "
            f"{name}, got no {' and no '.join(missing)}"
        )
    return name, files


def _only_problem(folder: Path) -> str:
    endings = tuple(f"{PARTS['train']}{ending}" for ending in ENDINGS)
    files = [path.name for path in folder.iterdir() if path.name.endswith(endings)]
    names = sorted({name.rpartition(PARTS["train"])[0] for name in files})
    if len(names) != 1:
        raise ValueError(
            "data must be a folder with one problem, NAME_TRAIN.ts and NAME_TEST.ts, or the preset "
            f"that of a problem, got {folder} with {', '.join(names) or 'none'}"
        )
    return names[0]


def _file(folder: Path, stem: str) -> Path | None:
    files = (folder / f"{stem}{ending}" for ending in ENDINGS)
    return next((file for file in files if file.is_file()), None)
