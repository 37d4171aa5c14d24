"""The folder of a training run: the files that training leaves for other commands."""

from pathlib import Path

SETUP = "study.json"
BEST = "model.safetensors"
VOCABULARY = "vocabulary.txt"
IDS = "test.ids"
SUBWORDS = "bpe.json"
CLASSES = "classes.txt"
PREPROCESSING = "preprocessor_config.json"
RESULTS = "results"  # .json and .csv


def find_run(path: Path) -> Path | None:
    """Return the folder of the run that a folder or file belongs to, itself or one above it.

    Examples
    --------
    >>> find_run(Path("nowhere/model.safetensors")) is None
    True
    """
    places = (path, path.parent, path.parent.parent)
    return next((place for place in places if (place / SETUP).is_file()), None)
