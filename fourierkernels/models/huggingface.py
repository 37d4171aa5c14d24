"""Weights of Hugging Face models in ours, by tables of names.

FNet can also be loaded from a folder, without that library.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_choice
from fourierkernels.models.encoder import Encoder, EncoderConfig, PretrainingEncoder
from fourierkernels.models.hub_names import ARCHITECTURES, FNET_HEAD_RULES, FNET_RULES
from fourierkernels.models.tensor_files import load_exactly, read_tensors, rename


def from_huggingface(architecture: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a Hugging Face state dict under our names, for `load_exactly`.

    Parameters
    ----------
    architecture : {"fnet", "gpt2", "decision_transformer", "deit", "marian"}
        That of FNetModel, GPT2LMHeadModel, DecisionTransformerModel, DeiTForImageClassification
        (with or without teacher) or MarianMTModel.

    Raises
    ------
    ValueError
        If the architecture or a tensor is unknown; all such names are listed.
    """
    rules = ARCHITECTURES[check_choice("architecture", architecture, list(ARCHITECTURES))]
    ours = rename(tensors, rules)
    if "offset" in ours:
        ours["norm.bias"] = ours["norm.bias"] + ours.pop("offset")[0]
    if "class" in ours:  # our tokens in front of the patches are one tensor
        front = [ours.pop(name) for name in ("class", "teacher") if name in ours]
        ours["prefix"] = torch.cat(front, dim=1)
    return ours


def load_fnet(folder: str | Path) -> Encoder:
    """Load the encoder of an FNet checkpoint folder of Hugging Face, with any heads or none.

    Parameters
    ----------
    folder : str or Path
        With config.json and model.safetensors or pytorch_model.bin (tensors only).

    Raises
    ------
    ValueError
        If the configuration is another model's, or a tensor is missing, unexpected or of another
        shape.
    """
    tensors = _strip(read_tensors(folder))
    heads = ("cls.", "classifier.", "qa_outputs.")
    tensors = {name: part for name, part in tensors.items() if not name.startswith(heads)}
    model = Encoder(_fnet_config(Path(folder)))
    load_exactly(model, rename(tensors, FNET_RULES))
    return model.eval()


def load_pretrained_fnet(folder: str | Path) -> PretrainingEncoder:
    """Load an FNet checkpoint folder of Hugging Face with both its heads.

    Raises
    ------
    ValueError
        As for :func:`load_fnet`, or if the checkpoint lacks the heads.
    """
    tensors = _strip(read_tensors(folder))
    model = PretrainingEncoder(_fnet_config(Path(folder)))
    inner = rename({n: t for n, t in tensors.items() if not n.startswith("cls.")}, FNET_RULES)
    ours = {f"encoder.{name}": tensor for name, tensor in inner.items()}
    ours |= rename({n: t for n, t in tensors.items() if n.startswith("cls.")}, FNET_HEAD_RULES)
    if model.encoder.config.tied_output and "encoder.words.weight" in ours:
        ours["output.weight"] = ours["encoder.words.weight"]
    load_exactly(model, ours)
    return model.eval()


def _strip(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix("fnet."): tensor for name, tensor in tensors.items()}


def _fnet_config(folder: Path) -> EncoderConfig:
    file = folder / "config.json"
    if not file.is_file():
        raise ValueError(f"{folder.name} must hold config.json, got none")
    raw: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if raw.get("model_type") != "fnet":
        raise ValueError(f"model_type must be 'fnet', got {raw.get('model_type')!r}")
    activations = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
    act = check_choice("hidden_act", raw.get("hidden_act", "gelu_new"), list(activations))
    return EncoderConfig(
        dim=raw["hidden_size"],
        hidden=raw["intermediate_size"],
        layers=raw["num_hidden_layers"],
        heads=1,
        vocabulary=raw["vocab_size"],
        length=raw["max_position_embeddings"],
        segments=raw["type_vocab_size"],
        padding_id=raw.get("pad_token_id"),
        activation=activations[act],
        norm_eps=raw["layer_norm_eps"],
        dropout=raw["hidden_dropout_prob"],
        tied_output=raw.get("tie_word_embeddings", True),
    )
