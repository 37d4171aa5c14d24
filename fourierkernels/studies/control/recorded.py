"""Episodes in one .npz file of this package's own: arrays and a few texts, no objects."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.foundation.files import write_bytes
from fourierkernels.studies.control.episodes import Episodes, checked

_ARRAYS = {"observations": "f", "actions": "f", "rewards": "f", "ends": "i", "targets": "f"}
_OTHERS = {"environment": "U", "corpus": "U", "limit": "i"}


def write_recorded(file: Path, episodes: Episodes) -> None:
    """Write episodes, the whole file or none."""
    content = io.BytesIO()
    names = (*_ARRAYS, *_OTHERS)
    arrays: dict[str, Any] = {name: np.asarray(getattr(episodes, name)) for name in names}
    arrays["limit"] = np.asarray(episodes.limit or episodes.row.limit)
    np.savez_compressed(content, **arrays)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, content.getvalue())


def open_recorded(file: Path) -> Episodes:
    """Return the episodes of a file that :func:`write_recorded` wrote.

    Raises
    ------
    ValueError
        If it is damaged, another file, or has what :func:`~.episodes.checked` refuses.
    """
    kinds = _ARRAYS | _OTHERS
    try:
        with file.open("rb") as stored, np.load(stored, allow_pickle=False) as content:
            if set(content.files) != set(kinds):
                raise ValueError(f"it has {', '.join(sorted(content.files)) or 'nothing'}")
            found = {name: content[name] for name in kinds}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{file} must have been written by experiments/data_control.py, got {error!s:.80}"
        ) from error
    wrong = [name for name, kind in kinds.items() if found[name].dtype.kind != kind]
    if wrong or any(found[name].ndim for name in _OTHERS) or found["ends"].ndim != 1:
        raise ValueError(f"{file} must have arrays of numbers, got others: {', '.join(wrong)}")
    return checked(
        Episodes(
            str(found["environment"]),
            str(found["corpus"]),
            str(file),
            observations=found["observations"].astype(np.float32),
            actions=found["actions"].astype(np.float32),
            rewards=found["rewards"].astype(np.float32),
            ends=found["ends"].astype(np.int64),
            targets=tuple(found["targets"].ravel().tolist()),
            limit=int(found["limit"]),
            generated=True,
        )
    )
