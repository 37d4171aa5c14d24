"""Adapters of peft (LoRA): merged into the weights of the network that they were trained on.

The format: https://huggingface.co/docs/peft/developer_guides/checkpoint, and what a merged weight
is: `get_delta_weight` of peft's src/peft/tuners/lora/layer.py. Nothing of peft is needed.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from fourierkernels.checkpoints.find import ADAPTER, adapter_weights
from fourierkernels.checkpoints.options import Config
from fourierkernels.models.saved import read_config
from fourierkernels.models.tensor_files import read_tensors

_PREFIX = "base_model.model."  # that peft puts before the names of the network
# Entries that are read here, and those that say how the adapter was trained, not what it computes.
_READ = {"peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "bias"}
_READ |= {"init_lora_weights", "lora_bias", "modules_to_save", "fan_in_fan_out"}
_TRAINING = {
    *("auto_mapping", "base_model_name_or_path", "revision", "task_type", "inference_mode"),
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    *("lora_dropout", "loftq_config", "eva_config", "megatron_core", "qalora_group_size"),
    *("runtime_config", "peft_version"),
}
_STARTS = (None, True, False, "gaussian", "eva", "orthogonal")  # that leave the base as it is
_BIASES = (None, "none", "all", "lora_only")
_PRODUCT = re.compile(r"(.+)\.(?:lora_(A|B)\.weight|lora_embedding_(A|B)|lora_B\.(bias))")
_NAME = re.compile(r"\^?[A-Za-z0-9_.]+")


@dataclass(frozen=True)
class _Settings:
    """What the config of an adapter says of its weights.

    Attributes
    ----------
    rooted : bool
        Whether alpha is divided by the root of the rank (rank-stabilized LoRA).
    ranked : bool
        Whether modules have ranks of their own.
    alphas : mapping
        By the end of a module's name, or after ^ by the whole; the first that fits counts.
        (`get_pattern_key` of peft's src/peft/utils/other.py reads them as regular expressions.)
    whole : list of str
        Modules that are saved whole.
    """

    rank: int
    alpha: float
    rooted: bool
    ranked: bool
    alphas: Mapping[str, float]
    whole: list[str]

    def scale(self, name: str, rank: int) -> float:
        """Return the factor of B A for a module: alpha / r, or alpha / sqrt(r)."""
        if not self.ranked and rank != self.rank:
            raise ValueError(f"lora_A of {name} must have r = {self.rank} rows, got {rank}")
        fits = (
            pattern
            for pattern in self.alphas
            if f".{name}".endswith(f".{pattern}") or pattern == f"^{name}"
        )
        pattern = next(fits, None)
        alpha = self.alpha if pattern is None else self.alphas[pattern]
        return alpha / (math.sqrt(rank) if self.rooted else rank)


def merge_adapter(model: Any, folder: Path, untrained: tuple[str, ...]) -> tuple[str, ...]:
    """Put the weights of an adapter into its network: W + scale · B A, biases, whole modules.

    An adapted weight that is tied to another is changed alone, as peft does.

    Parameters
    ----------
    model : PreTrainedModel
        The network that the adapter was trained on; where it has no head, what the adapter holds
        for the head is left out.
    untrained : tuple of str
        Parameters that the network's own weights lack.

    Returns
    -------
    tuple of str
        Those of `untrained` that the adapter lacks too.

    Raises
    ------
    ValueError
        If it is no LoRA, its config asks for what cannot be merged, or a tensor does not fit.
    """
    text = (folder / ADAPTER).read_text(encoding="utf-8", errors="replace")
    settings = _settings(read_config(text, ADAPTER))
    tensors = {_own(name): tensor for name, tensor in read_tensors(adapter_weights(folder)).items()}
    products, whole = _sorted(tensors)
    for name in settings.whole:
        if not any(f".{name}." in f".{key}" for key in whole):
            raise ValueError(f"adapter must hold the module to save {name!r:.80}, got none of it")
    filled = {_put(model, name, tensor) for name, tensor in whole.items()}
    placed = [_add(model, name, parts, settings) for name, parts in products.items()]
    if not any(placed):
        raise ValueError(
            f"adapter must change modules of {type(model).__name__}, got none of its names"
        )
    return tuple(name for name in untrained if name not in filled)


def _settings(config: Config) -> _Settings:
    """Return what is read of a config, if nothing else is asked for."""
    if config.get("peft_type") != "LORA":
        raise ValueError(
            f"peft_type in {ADAPTER} must be LORA, the one that is merged, got "
            f"{config.get('peft_type')!r:.80}"
        )
    asked = sorted(key for key in config.keys() - _READ - _TRAINING if config[key])
    if asked:
        raise ValueError(f"{ADAPTER} must ask for plain LoRA, got {', '.join(asked)[:80]}")
    for key, known in (("init_lora_weights", _STARTS), ("bias", _BIASES)):
        if config.get(key) not in known:
            raise ValueError(
                f"{key} in {ADAPTER} must be one of {', '.join(map(str, known))}, got "
                f"{config[key]!r:.80}: other values change the base, which cannot be merged"
            )
    rank, whole = config.get("r"), config.get("modules_to_save") or []
    if not (isinstance(rank, int) and rank > 0):
        raise ValueError(f"r in {ADAPTER} must be a positive integer, got {rank!r:.80}")
    if not (isinstance(whole, list) and all(isinstance(layer, str) for layer in whole)):
        raise ValueError(f"modules_to_save in {ADAPTER} must be names, got {whole!r:.80}")
    ranks, alphas = (_pattern(config, key) for key in ("rank_pattern", "alpha_pattern"))
    alpha = _number("lora_alpha", config.get("lora_alpha"))
    return _Settings(rank, alpha, bool(config.get("use_rslora")), bool(ranks), alphas, whole)


def _pattern(config: Config, key: str) -> dict[str, float]:
    by_module = config.get(key) or {}
    if not (isinstance(by_module, dict) and all(_NAME.fullmatch(module) for module in by_module)):
        raise ValueError(f"{key} in {ADAPTER} must have names of modules, got {by_module!r:.80}")
    return {module: _number(key, value) for module, value in by_module.items()}


def _number(key: str, value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not (known and abs(value) < 1e30):
        raise ValueError(f"{key} in {ADAPTER} must be a finite number, got {value!r:.80}")
    return float(value)


def _own(name: str) -> str:
    """Return the network's name of a tensor, without the wrappers of peft."""
    if not name.startswith(_PREFIX):
        raise ValueError(f"names in an adapter must begin with {_PREFIX}, got {name!r:.80}")
    return name.removeprefix(_PREFIX).replace(".base_layer.", ".")


def _sorted(
    tensors: Mapping[str, Tensor],
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    """Return A, B and the bias of B by module, and what is saved whole."""
    products, whole = defaultdict[str, dict[str, Tensor]](dict), {}
    for name, tensor in tensors.items():
        if (match := _PRODUCT.fullmatch(name)) is None:
            whole[name] = tensor
        else:
            products[match[1]][match[2] or match[3] or match[4]] = tensor.float()
    return dict(products), whole


def _find(model: Any, name: str) -> str | None:
    """Return a model's name of an adapted module; None if it belongs to a head that is left out."""
    modules, prefix = dict(model.named_modules()), model.base_model_prefix
    for candidate in (name, name.removeprefix(f"{prefix}."), f"{prefix}.{name}"):
        if candidate in modules:
            return candidate
    top = name.partition(".")[0]
    if model.base_model is model and top != prefix and top not in dict(model.named_children()):
        return None
    raise ValueError(
        f"adapter must change modules of {type(model).__name__}, got {name!r:.120} (another class "
        "is named by --model-class)"
    )


def _put(model: Any, name: str, tensor: Tensor) -> str:
    """Replace a parameter or buffer by one that was saved whole; return its name."""
    owner, _, last = name.rpartition(".")
    path = _find(model, owner)
    if path is None:
        return name
    module = model.get_submodule(path)
    weight = getattr(module, last, None)
    shape = tuple(weight.shape) if isinstance(weight, Tensor) else None
    if shape != tuple(tensor.shape):
        raise ValueError(
            f"adapter must hold {name!r:.120} of shape {shape}, got {tuple(tensor.shape)}"
            if shape is not None
            else f"adapter must hold parameters of {type(model).__name__}, got {name!r:.120}"
        )
    _replace(module, last, tensor)
    return f"{path}.{last}"


def _add(model: Any, name: str, parts: Mapping[str, Tensor], settings: _Settings) -> bool:
    """Add the product of a module to its weight; return whether the model has the module."""
    path = _find(model, name)
    if path is None:
        return False
    module = model.get_submodule(path)
    if not isinstance(module, nn.Linear | nn.Embedding | Conv1D):
        raise ValueError(f"LoRA must be of linear layers or embeddings, got {path}")
    if not {"A", "B"} <= parts.keys():
        raise ValueError(f"adapter must hold A and B of {name!r:.120}, got {', '.join(parts)}")
    a, b = parts["A"], parts["B"]
    flipped = not isinstance(module, nn.Linear)  # Conv1D and embeddings have (in, out)
    shape = tuple(reversed(module.weight.shape)) if flipped else tuple(module.weight.shape)
    if not (
        a.ndim == b.ndim == 2 and len(a) and (*b.shape, a.shape[1]) == (shape[0], len(a), shape[1])
    ):
        raise ValueError(
            f"A and B of {name!r:.120} must have a product of shape {shape}, got {tuple(a.shape)} "
            f"and {tuple(b.shape)}"
        )
    scale = settings.scale(name, len(a))
    change = scale * (b @ a)
    _replace(module, "weight", module.weight.detach() + (change.T if flipped else change))
    if "bias" in parts:
        bias = getattr(module, "bias", None)
        if bias is None or bias.shape != parts["bias"].shape:
            raise ValueError(f"lora_B of {name!r:.120} must fit a bias, got none of its shape")
        _replace(module, "bias", bias.detach() + scale * parts["bias"])
    return True


def _replace(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Put other values in a parameter or buffer of one module, and of none that it is tied to."""
    weight: Tensor = getattr(module, name)
    if not torch.isfinite(tensor).all():
        raise ValueError(f"merged weights must be finite, got others in {name}")
    values = tensor.to(weight.dtype).clone()
    is_parameter = isinstance(weight, nn.Parameter)
    setattr(module, name, nn.Parameter(values, requires_grad=False) if is_parameter else values)
