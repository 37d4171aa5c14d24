"""Foreign weights: read without running code, renamed by a table, loaded all or not at all."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


def _as_it_is(tensor: Tensor) -> tuple[Tensor, ...]:
    return (tensor,)


@dataclass(frozen=True)
class Rule:
    r"""What becomes of the foreign tensors whose whole name matches a pattern.

    Attributes
    ----------
    pattern : str
        A regular expression.
    names : tuple of str
        Our names, with groups as ``\1``; none drops the tensor.
    change : callable
        From the foreign tensor to one tensor a name.
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
        "model" or "state_dict"), or a folder with one of `WEIGHT_FILES`.

    Raises
    ------
    ValueError
        If there is no such file, or it would have to run code.
    """
    file = _find(Path(path))
    if file.suffix == ".safetensors":
        return _read_safetensors(file)
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        if type(error).__name__ != "UnpicklingError":
            raise
        raise ValueError(
            f"{file.name} must hold tensors only, got a file that would have to run code; in the "
            "code that wrote it: torch.save(model.state_dict(), path)"
        ) from error
    for key in ("model", "state_dict"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise ValueError(f"{file.name} must hold a table of tensors, got {type(content).__name__}")
    return content


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
        found = [(rule, match) for rule in rules if (match := re.fullmatch(rule.pattern, name))]
        if not found:
            unexpected.append(name)
            continue
        rule, match = found[0]
        if rule.names:
            parts = rule.change(tensor)
            ours |= {match.expand(new): part for new, part in zip(rule.names, parts, strict=True)}
    if unexpected:
        raise ValueError(f"checkpoint must hold known tensors only, got {_listed(unexpected)}")
    return ours


def load_exactly(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load tensors that are exactly those of the model, or nothing.

    Raises
    ------
    ValueError
        If a tensor is missing, unexpected or of another shape; all are listed and the model is
        left as it was.
    """
    own = model.state_dict()
    wrong = [
        f"{name} of shape {tuple(tensors[name].shape)} for {tuple(own[name].shape)}"
        for name in own.keys() & tensors.keys()
        if tensors[name].shape != own[name].shape
    ]
    problems = {
        "missing": sorted(own.keys() - tensors.keys()),
        "unexpected": sorted(tensors.keys() - own.keys()),
        "misshapen": sorted(wrong),
    }
    if any(problems.values()):
        text = "; ".join(f"{kind}: {_listed(names)}" for kind, names in problems.items() if names)
        raise ValueError(f"checkpoint must hold the tensors of {type(model).__name__}, got {text}")
    model.load_state_dict(dict(tensors))


def _find(path: Path) -> Path:
    if path.is_dir():
        found = [path / name for name in WEIGHT_FILES if (path / name).is_file()]
        if not found:
            raise ValueError(f"{path.name} must hold {' or '.join(WEIGHT_FILES)}, got neither")
        return found[0]
    if not path.is_file():
        raise ValueError(f"path must be a file or folder, got {path}")
    return path


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise ImportError(
            "reading this checkpoint needs safetensors: pip install 'fourierkernels[heads]'"
        ) from error
    tensors: dict[str, Tensor] = load_file(file)
    return tensors


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
