"""Where a checkpoint lies: a folder, or a folder inside an installed package."""

import hashlib
import importlib.util
from pathlib import Path


def find_checkpoint(checkpoint: str | Path) -> Path:
    """Return the folder of a checkpoint given as a path or as ``PACKAGE:FOLDER``.

    ``PACKAGE:FOLDER`` is a folder inside an installed package; the package is not imported.

    Raises
    ------
    ValueError
        If there is no such folder, or it has no config.json.
    """
    folder = Path(checkpoint)
    if not folder.is_dir():
        folder = _inside_package(str(checkpoint))
    if not (folder / "config.json").is_file():
        raise ValueError(f"checkpoint must be a folder with a config.json, got {checkpoint}")
    return folder


def _inside_package(checkpoint: str) -> Path:
    package, colon, inside = checkpoint.partition(":")
    if not (colon and inside and package.isidentifier()):
        raise ValueError(
            "checkpoint must be an existing folder or PACKAGE:FOLDER (nothing is downloaded), "
            f"got {checkpoint}"
        )
    spec = importlib.util.find_spec(package)  # a top-level name is found without being imported
    if spec is None:
        raise ValueError(f"checkpoint must name an installed package, got {package}")
    for root in spec.submodule_search_locations or []:
        if (folder := Path(root) / inside).is_dir():
            return folder
    raise ValueError(f"checkpoint must name a folder inside package {package}, got {inside}")


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 of the weights in a folder, in the files that would be read."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
