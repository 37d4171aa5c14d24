"""The trained networks that this repository holds, by name.

They lie in the repository, not in the installed package. The FourierFormer authors published code
and no trained weights; what their code saves is read with a preset.
"""

from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]
_RESULTS = Path("experiments/results")


@dataclass(frozen=True)
class PublishedCheckpoint:
    """A trained network of this repository.

    Attributes
    ----------
    name : str
        What the command line calls it.
    path : Path
        From the root of the repository, its folder or file.
    ids : dict
        By split, from the same root, token ids that it is measured on, a context per line; empty
        if it has none.
    """

    name: str
    path: Path
    ids: dict[str, Path]

    @property
    def found(self) -> Path | None:
        """The folder or file; None for an installation without the repository."""
        place = _REPOSITORY / self.path
        return place if place.exists() else None

    def ids_of(self, split: str) -> Path | None:
        """Return the file of token ids of a split, if there is one."""
        return _REPOSITORY / self.ids[split] if split in self.ids else None


_WINDOWS = {split: _RESULTS / f"language_heads_{split}.txt" for split in ("train", "test")}

PUBLISHED = {
    row.name: row
    for row in (
        PublishedCheckpoint(
            "language_softmax", _RESULTS / "language_softmax.safetensors", _WINDOWS
        ),
        PublishedCheckpoint(
            "language_fourier", _RESULTS / "language_fourier.safetensors", _WINDOWS
        ),
        PublishedCheckpoint(
            "translation_report_attention", _RESULTS / "translation_report_attention", {}
        ),
    )
}


def find_published(name: str) -> Path | None:
    """Return where a checkpoint of that name lies; None if there is no such name.

    Raises
    ------
    ValueError
        If it is in the repository only, and that is not here.
    """
    if name not in PUBLISHED:
        return None
    row = PUBLISHED[name]
    if row.found is None:
        raise ValueError(
            f"checkpoint {name} must be read in a clone of the repository, where it is {row.path}, "
            "got an installation without it"
        )
    return row.found


def published_at(path: Path) -> PublishedCheckpoint | None:
    """Return the checkpoint that a folder or file is, or None."""
    place = path.resolve()
    return next((row for row in PUBLISHED.values() if row.found == place), None)
