"""Lists of the files that the weights of a folder are split into."""

from pathlib import Path
from typing import Any

from fourierkernels.models.saved import read_config

_LISTS = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_BLOBS, _SNAPSHOTS = "blobs", "snapshots"  # of huggingface_hub: files, and links to them


def check_index(folder: Path) -> None:
    """Refuse a list of parts that lie outside the folder.

    A link is followed. Those of huggingface_hub's cache, from a snapshot to the blobs of the same
    repository, are as good as files.

    Raises
    ------
    ValueError
        If a part lies elsewhere, or a list is no list of parts.
    """
    for name in _LISTS:
        file = folder / name
        if file.is_file():
            for part in sorted(_parts(file)):
                _check_inside(folder, part, name)


def _parts(file: Path) -> set[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name} must be UTF-8, got {error}") from error
    found: Any = read_config(text, file.name).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(part, str) for part in found.values()):
        raise ValueError(f"{file.name} must have a weight_map of names and files, got none")
    return set(found.values())


def _check_inside(folder: Path, part: str, name: str) -> None:
    lexical = Path(part)
    inside = not lexical.is_absolute() and ".." not in lexical.parts and "\0" not in part
    if inside:
        target, home = (folder / lexical).resolve(), folder.resolve()
        homes = [home]
        if home.parent.name == _SNAPSHOTS:
            homes.append(home.parent.parent / _BLOBS)
        inside = any(target.is_relative_to(one) for one in homes)
    if not inside:
        raise ValueError(f"{name} must list files inside its folder, got {part!r}")
