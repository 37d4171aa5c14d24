"""Files of tensors: read without running code, renamed by a table, loaded in full or not at all."""

import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.foundation.extras import needed_for

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
# Entries of what training scripts and Lightning save that hold the tensors of the network.
_ENTRIES = ("model", "state_dict", "model_state_dict", "model_state", "module", "net")
_DEEPEST = 3  # entries inside each other
# Prefixes that DataParallel, torch.compile and training modules put before names of tensors.
_WRAPPED = re.compile(r"((module|_orig_mod|model|net|network|_forward_module)\.)+")


def _as_it_is(tensor: Tensor) -> tuple[Tensor, ...]:
    return (tensor,)


@dataclass(frozen=True)
class Rule:
    r"""How foreign tensors whose whole name matches a pattern are renamed and changed.

    Attributes
    ----------
    pattern : str
        A regular expression.
    names : tuple of str
        Our names, with groups as ``\1``; none drops the tensor.
    change : callable
        From the foreign tensor to one tensor per name.
    """

    pattern: str
    names: tuple[str, ...]
    change: Callable[[Tensor], Sequence[Tensor]] = _as_it_is


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read a file of tensors, or the one in a folder; nothing in it is run.

    Parameters
    ----------
    path : str or Path
        A .safetensors file, a file of torch.save that holds tensors only (as it is, or under
        an entry such as "model", "state_dict" or "model_state_dict"), or a folder with one of
        `WEIGHT_FILES`.

    Raises
    ------
    ValueError
        If there is no such file, code would have to be run to read it, it is compressed, or it is
        not a complete file of tensors.
    """
    file = _find(Path(path))
    if file.suffix == ".safetensors":
        return _read_safetensors(file)
    check_uncompressed(file)
    content = _read_torch(file)
    tensors = _table(content, _DEEPEST)
    if tensors is None:
        raise ValueError(f"{file.name} must hold a table of tensors, got {_entries(content)}")
    return tensors


def _table(content: Any, depth: int) -> dict[str, Tensor] | None:
    """Return a table of tensors, or the first one among the entries that hold a network."""
    if not isinstance(content, dict):
        return None
    if all(isinstance(n, str) and isinstance(t, Tensor) for n, t in content.items()):
        return content
    inner = (_table(content.get(key), depth - 1) for key in _ENTRIES if depth)
    return next((table for table in inner if table), None)


def _entries(content: Any) -> str:
    """Return what a file holds that is no table of tensors."""
    if not isinstance(content, dict) or not content:
        return type(content).__name__
    return f"{type(content).__name__} of {', '.join(map(str, content))}"[:80]


def unwrapped(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without the prefixes of DataParallel and torch.compile.

    Examples
    --------
    >>> list(unwrapped({"module._orig_mod.head.bias": torch.zeros(1)}))
    ['head.bias']
    """
    return {re.sub(r"^((module|_orig_mod)\.)+", "", name): tensors[name] for name in tensors}


def without_wrappers(tensors: Mapping[str, Tensor], names: Collection[str]) -> dict[str, Tensor]:
    """Return tensors under the names of a network, without the prefixes of training.

    The prefix is made of ``module.``, ``_orig_mod.``, ``model.``, ``net.`` and the like, and is the
    one without which most names are those of the network; none if that is so already.

    Parameters
    ----------
    names : collection of str
        The names of the network's own tensors.

    Examples
    --------
    >>> list(without_wrappers({"model.net.head.bias": torch.zeros(1)}, ["head.bias"]))
    ['head.bias']
    >>> list(without_wrappers({"model.head.bias": torch.zeros(1)}, ["model.head.bias"]))
    ['model.head.bias']
    """
    expected = set(names)
    wrappers = {match[0] for name in tensors if (match := _WRAPPED.match(name))}
    prefixes = {prefix[:end] for prefix in wrappers for end in _ends(prefix)} | {""}

    def known(prefix: str) -> tuple[int, int]:
        return len(expected & {name.removeprefix(prefix) for name in tensors}), -len(prefix)

    prefix = max(sorted(prefixes), key=known)
    renamed = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return renamed if len(renamed) == len(tensors) else dict(tensors)


def _ends(prefix: str) -> list[int]:
    return [place + 1 for place, letter in enumerate(prefix) if letter == "."]


def rename(tensors: Mapping[str, Tensor], rules: Sequence[Rule]) -> dict[str, Tensor]:
    """Return the tensors under our names.

    Raises
    ------
    ValueError
        If no rule matches a name; all such names are listed.
    """
    ours: dict[str, Tensor] = {}
    unexpected = []
    for name, tensor in tensors.items():
        matches = [(rule, match) for rule in rules if (match := re.fullmatch(rule.pattern, name))]
        if not matches:
            unexpected.append(name)
            continue
        rule, match = matches[0]
        if rule.names:
            parts = rule.change(tensor)
            ours |= {match.expand(new): part for new, part in zip(rule.names, parts, strict=True)}
    if unexpected:
        raise ValueError(f"checkpoint must hold known tensors only, got {_listed(unexpected)}")
    return ours


def load_exactly(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load tensors that are exactly those of the model, or nothing.

    A number, ``()``, is read for a tensor of one entry, ``(1,)``: files of earlier versions have
    such radii.

    Raises
    ------
    ValueError
        If a tensor is missing, unexpected or of another shape; all are listed and the model is
        left as it was.
    """
    state = model.state_dict()
    tensors = {name: _as_entry(value, state.get(name)) for name, value in tensors.items()}
    wrong = [
        f"{name} of shape {tuple(tensors[name].shape)} for {tuple(state[name].shape)}"
        for name in state.keys() & tensors.keys()
        if tensors[name].shape != state[name].shape
    ]
    problems = {
        "missing": sorted(state.keys() - tensors.keys()),
        "unexpected": sorted(tensors.keys() - state.keys()),
        "misshapen": sorted(wrong),
    }
    if any(problems.values()):
        text = "; ".join(f"{kind}: {_listed(names)}" for kind, names in problems.items() if names)
        raise ValueError(f"checkpoint must hold the tensors of {type(model).__name__}, got {text}")
    model.load_state_dict(tensors)


def _as_entry(tensor: Tensor, parameter: Tensor | None) -> Tensor:
    number = parameter is not None and parameter.shape == (1,) and tensor.ndim == 0
    return tensor.reshape(1) if number else tensor


def _find(path: Path) -> Path:
    if path.is_dir():
        files = [path / name for name in WEIGHT_FILES if (path / name).is_file()]
        if not files:
            raise ValueError(f"{path.name} must hold {' or '.join(WEIGHT_FILES)}, got neither")
        return files[0]
    if not path.is_file():
        raise ValueError(f"path must be a file or folder, got {path}")
    return path


def _read_torch(file: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about archives that are refused all the same
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        if type(error).__name__ == "UnpicklingError" or "TorchScript" in str(error):
            raise ValueError(
                f"{file.name} must hold tensors only, got a file that would have to run code"
                f"{_wanted(error)}; in the code that wrote it: torch.save(model.state_dict(), path)"
            ) from error
        raise _broken(file, error) from error


def _wanted(error: Exception) -> str:
    """Return the class or function that a file asks for, if torch names it."""
    match = re.search(r"GLOBAL (\S+) was not an allowed", str(error))
    return f" ({match[1]})" if match else ""


def check_uncompressed(file: Path) -> None:
    """Refuse an archive that unpacks to more than its size; torch.save compresses nothing.

    Raises
    ------
    ValueError
        If the file is such an archive or a damaged one. Files that are no archives pass.
    """
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
    except Exception as error:  # of zipfile, struct or a text codec
        raise _broken(file, error) from error
    packed = file.stat().st_size
    if unpacked > packed:
        raise ValueError(
            f"{file.name} must be an uncompressed archive, as torch.save writes it, got "
            f"{packed} bytes that unpack to {unpacked}"
        )


def read_metadata(file: Path) -> dict[str, str]:
    """Return the text entries in the head of a .safetensors file; none for other files.

    Raises
    ------
    ValueError
        If the file is not a complete .safetensors file.
    """
    if file.suffix != ".safetensors":
        return {}
    try:
        with _safetensors().safe_open(file, "pt") as content:
            return dict(content.metadata() or {})
    except Exception as error:
        raise _broken(file, error) from error


def write_tensors(
    file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a .safetensors file: all of it, or, when something goes wrong, nothing.

    Parameters
    ----------
    file : Path
        In an existing folder; a file of that name is replaced.
    metadata : mapping, optional
        Text entries for its head, see :func:`read_metadata`.

    Raises
    ------
    ValueError
        If the name does not end in .safetensors.
    """
    if file.suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, got {file.name}")
    whole = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    content = _safetensors().torch.save(whole, dict(metadata or {}))
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        unfinished = Path(folder) / file.name
        unfinished.write_bytes(content)
        unfinished.replace(file)


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    load_file = _safetensors().torch.load_file
    try:
        tensors: dict[str, Tensor] = load_file(file)
    except Exception as error:
        raise _broken(file, error) from error
    return tensors


def _safetensors() -> Any:
    with needed_for("a .safetensors file"):
        import safetensors.torch
    return safetensors


def _broken(file: Path, error: Exception) -> ValueError:
    reason = (str(error).strip() or type(error).__name__).split("\n")[0]
    return ValueError(f"{file.name} must be a whole file of tensors, got one that fails: {reason}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
