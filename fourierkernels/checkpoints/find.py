"""Where a checkpoint lies: a folder or a file, anywhere or inside an installed package.

For the folder of a training run it is the file of its best model. Networks of this repository go by
a name; they lie in the repository, not in the installed package. The FourierFormer authors
published code and no trained weights; what their code saves is read with a preset.
"""

import hashlib
import importlib.util
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fourierkernels.foundation.run_folder import BEST, IDS, SETUP, find_run, weights_file

WEIGHT_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_MODULES = "modules.json"  # of sentence-transformers: its parts and their folders
_TRANSFORMER = "0_Transformer"  # where its older versions keep the network
ADAPTER = "adapter_config.json"  # of peft, beside one of the files of weights
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_REPOSITORY = Path(__file__).resolve().parents[2]
_RESULTS = Path("experiments/results")


@dataclass(frozen=True)
class CheckpointFiles:
    """The folder or file of a checkpoint, found by :func:`find_checkpoint`.

    Attributes
    ----------
    name : str
        The checkpoint as the user named it.
    path : Path
        An existing folder with a config.json, or an existing file of weights.
    adapter : Path or None
        The folder of an adapter of peft, which changes the weights of `path`, its base.
    """

    name: str
    path: Path
    adapter: Path | None = None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def folder(self) -> Path | None:
        """The folder, where tokenizer files may lie; None for a file."""
        return self.path if self.path.is_dir() else None

    @cached_property
    def run(self) -> Path | None:
        """The folder of the training run that a file belongs to; None for any other."""
        return None if self.path.is_dir() else find_run(self.path)

    def own_ids(self, split: str = "test") -> Path | None:
        """Return the token ids of a split that come with the checkpoint, if there are any.

        A training run keeps those of its test text.
        """
        if (row := published_at(self.path)) is not None and row.ids:
            return row.ids_of(split)
        return self.run / IDS if self.run is not None and split == "test" else None

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the weights that would be read from the folder."""
        files = [self.path]
        if self.path.is_dir():
            tensors = sorted(self.path.glob("*.safetensors"))
            files = tensors or sorted(self.path.glob("pytorch_model*.bin"))
        if self.adapter is not None:
            files += [self.adapter / ADAPTER, adapter_weights(self.adapter)]
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    @cached_property
    def task_class(self) -> str | None:
        """The class of transformers that the config.json of the folder names; None without one.

        Raises
        ------
        ValueError
            If the config.json is not a JSON object.
        """
        if self.folder is None:
            return None
        import transformers

        from fourierkernels.models.saved import read_config

        file = self.folder / "config.json"
        names = read_config(file.read_text(encoding="utf-8"), file.name).get("architectures")
        first = names[0] if isinstance(names, list) and names else None
        return first if isinstance(first, str) and hasattr(transformers, first) else None


def find_checkpoint(checkpoint: str | Path | CheckpointFiles) -> CheckpointFiles:
    """Find the folder or file of a checkpoint: a path, ``PACKAGE:PATH``, or a published name.

    ``PACKAGE:PATH`` is a path inside an installed package; the package is not imported. Names are
    those of ``fourierkernels.checkpoints.find.PUBLISHED``, where there is no such path.
    Of a folder of sentence-transformers, the folder of its network is found; of one of peft with an
    adapter, the folder of its base. A checkpoint that has already been found is returned as it is.

    Raises
    ------
    ValueError
        If there is no such folder or file, the folder has no config.json and is not that of a
        training run with a model, or the file does not have the suffix of a file of weights.
    """
    if isinstance(checkpoint, CheckpointFiles):
        return checkpoint
    place = Path(checkpoint)
    if not place.exists():
        place = find_published(str(checkpoint)) or _inside_package(str(checkpoint))
    if place.is_file():
        _check_suffix(place, checkpoint)
    elif _holds_adapter(place):
        return CheckpointFiles(str(checkpoint), _find_base(place), place)
    elif not (place / "config.json").is_file():
        place = _sentence_transformer(place) or _best_of_run(place, checkpoint)
    return CheckpointFiles(str(checkpoint), place)


def _holds_adapter(place: Path) -> bool:
    """Return whether a folder holds an adapter of peft; refuse one with a whole network beside."""
    if not (
        (place / ADAPTER).is_file() and any((place / name).is_file() for name in ADAPTER_WEIGHTS)
    ):
        return False
    if weights := sorted([*place.glob("model*.safetensors"), *place.glob("pytorch_model*.bin")]):
        raise ValueError(
            f"checkpoint must hold a whole network or an adapter, got {weights[0].name} beside "
            f"{adapter_weights(place).name} in {place.name}"
        )
    return True


def adapter_weights(folder: Path) -> Path:
    """Return the file of an adapter's tensors."""
    return next(folder / name for name in ADAPTER_WEIGHTS if (folder / name).is_file())


def _find_base(adapter: Path) -> Path:
    """Return the folder of the network that an adapter of peft was trained on.

    A relative path starts in the working directory, as for peft, or in the folder of the adapter.
    """
    from fourierkernels.models.saved import read_config

    text = (adapter / ADAPTER).read_text(encoding="utf-8", errors="replace")
    key = "base_model_name_or_path"
    named = read_config(text, ADAPTER).get(key)
    folders = set[Path]()
    if isinstance(named, str) and named and "\0" not in named:
        folders = {folder.resolve() for folder in (Path(named), adapter / named)}
        folders = {folder for folder in folders if (folder / "config.json").is_file()}
        if not folders and ":" in named:
            with suppress(ValueError):
                folders = {_inside_package(named)}
    if len(folders) != 1 or (folders and _holds_adapter(next(iter(folders)))):
        raise ValueError(
            f"{key} in {ADAPTER} of {adapter.name} must name the folder of the network that the "
            f"adapter was trained on (nothing is downloaded), got {named!r:.80}"
            f"{', which names two' if len(folders) > 1 else ''}: write its folder there"
        )
    return folders.pop()


def _check_suffix(place: Path, checkpoint: str | Path) -> None:
    if place.suffix == ".onnx":
        raise ValueError(
            "checkpoint must hold the weights of a network, got an ONNX graph, whose attention is "
            f"not recorded here; name the weights that it was exported from: {checkpoint}"
        )
    if place.suffix not in WEIGHT_SUFFIXES:
        raise ValueError(
            f"checkpoint must be a folder or end in {', '.join(WEIGHT_SUFFIXES)}, got {checkpoint}"
        )


def _sentence_transformer(place: Path) -> Path | None:
    """Return the folder of the network in one of sentence-transformers, which has no config.json.

    It is that of the first part that modules.json names, or has the name that older versions gave.
    """
    inside = _TRANSFORMER
    try:
        inside = json.loads((place / _MODULES).read_text(encoding="utf-8"))[0]["path"]
    except FileNotFoundError:
        pass
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{_MODULES} must list parts and their paths, got {error!r}") from error
    if not isinstance(inside, str):
        raise ValueError(f"{_MODULES} must list parts and their paths, got {inside!r}")
    folder = (place / inside).resolve()
    if not folder.is_relative_to(place.resolve()):
        raise ValueError(f"{_MODULES} must name folders inside its own, got {inside!r}")
    return place / inside if (folder / "config.json").is_file() else None


def _best_of_run(place: Path, checkpoint: str | Path) -> Path:
    if find_run(place) is None:
        raise ValueError(
            "checkpoint must be a folder with a config.json, or with the "
            f"{SETUP} of a training run, got {checkpoint}"
        )
    return weights_file(place)


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
        *(
            PublishedCheckpoint(name, _RESULTS / name / BEST, _WINDOWS)
            for name in ("language_softmax", "language_fourier")
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
