"""Where a checkpoint lies: a folder or a file, anywhere or inside an installed package."""

import hashlib
import importlib.util
from pathlib import Path

WEIGHT_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")


def find_checkpoint(checkpoint: str | Path) -> Path:
    """Return the folder or file of a checkpoint given as a path or as ``PACKAGE:PATH``.

    ``PACKAGE:PATH`` lies inside an installed package; the package is not imported.

    Raises
    ------
    ValueError
        If there is no such folder or file, the folder has no config.json, or the file is not named
        as one of weights.
    """
    place = Path(checkpoint)
    if not place.exists():
        place = _inside_package(str(checkpoint))
    if place.is_file():
        if place.suffix not in WEIGHT_SUFFIXES:
            raise ValueError(
                f"checkpoint must be a folder or end in {', '.join(WEIGHT_SUFFIXES)}, "
                f"got {checkpoint}"
            )
    elif not (place / "config.json").is_file():
        raise ValueError(f"checkpoint must be a folder with a config.json, got {checkpoint}")
    return place


def _inside_package(checkpoint: str) -> Path:
    package, colon, inside = checkpoint.partition(":")
    if not (colon and inside and package.isidentifier()):
        raise ValueError(
            "checkpoint must be an existing folder, a file or PACKAGE:FOLDER (nothing is "
            f"downloaded), got {checkpoint}"
        )
    spec = importlib.util.find_spec(package)  # a top-level name is found without being imported
    if spec is None:
        raise ValueError(f"checkpoint must name an installed package, got {package}")
    for root in spec.submodule_search_locations or []:
        place = (Path(root) / inside).resolve()
        if place.exists() and place.is_relative_to(Path(root).resolve()):
            return place
    raise ValueError(f"checkpoint must name a folder inside package {package}, got {inside}")


def weights_digest(place: Path) -> str:
    """Return the SHA-256 of a file, or of the weights in a folder that would be read."""
    files = [place]
    if place.is_dir():
        files = sorted(place.glob("*.safetensors")) or sorted(place.glob("pytorch_model*.bin"))
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
