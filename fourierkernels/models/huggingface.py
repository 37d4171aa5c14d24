"""Weights of Hugging Face models in ours, by tables of names, one for each architecture.

The tables are of state dicts as transformers 5 gives them. FNet can also be loaded from a folder,
without that library.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_choice
from fourierkernels.models.encoder import Encoder, EncoderConfig, PretrainingEncoder
from fourierkernels.models.sequences import sinusoids
from fourierkernels.models.tensor_files import Rule, load_exactly, read_tensors, rename


def _transposed(tensor: Tensor) -> Sequence[Tensor]:
    return (tensor.mT.contiguous(),)


def _thirds(tensor: Tensor) -> Sequence[Tensor]:
    """Split query, key and value of GPT-2, whose layers hold the transposed matrix."""
    rows = tensor.mT if tensor.ndim == 2 else tensor
    return [part.contiguous() for part in rows.chunk(3)]


def _flat(tensor: Tensor) -> Sequence[Tensor]:
    return (tensor.flatten(),)


_BOTH = r"(weight|bias)"
_QKV = ("query", "key", "value")

FNET_RULES = (
    Rule(r"embeddings\.word_embeddings\.weight", ("words.weight",)),
    Rule(r"embeddings\.position_embeddings\.weight", ("positions.weight",)),
    Rule(r"embeddings\.token_type_embeddings\.weight", ("segments.weight",)),
    Rule(rf"embeddings\.LayerNorm\.{_BOTH}", (r"norm.\1",)),
    Rule(rf"embeddings\.projection\.{_BOTH}", (r"projection.\1",)),
    Rule(
        rf"encoder\.layer\.(\d+)\.fourier\.output\.LayerNorm\.{_BOTH}",
        (r"blocks.\1.around_mixer.norm.\2",),
    ),
    Rule(
        rf"encoder\.layer\.(\d+)\.intermediate\.dense\.{_BOTH}",
        (r"blocks.\1.feed_forward.widen.\2",),
    ),
    Rule(rf"encoder\.layer\.(\d+)\.output\.dense\.{_BOTH}", (r"blocks.\1.feed_forward.narrow.\2",)),
    Rule(
        rf"encoder\.layer\.(\d+)\.output\.LayerNorm\.{_BOTH}",
        (r"blocks.\1.around_feed_forward.norm.\2",),
    ),
    Rule(rf"pooler\.dense\.{_BOTH}", (r"pooler.\1",)),
    Rule(r"embeddings\.(position_ids|token_type_ids)", ()),
    Rule(r"encoder\.layer\.\d+\.fourier\.self\.dft_mat_(seq|hidden)", ()),
)
FNET_HEAD_RULES = (
    Rule(rf"cls\.predictions\.transform\.dense\.{_BOTH}", (r"transform.\1",)),
    Rule(rf"cls\.predictions\.transform\.LayerNorm\.{_BOTH}", (r"norm.\1",)),
    Rule(r"cls\.predictions\.bias", ("output.bias",)),
    Rule(r"cls\.predictions\.decoder\.weight", ("output.weight",)),
    Rule(r"cls\.predictions\.decoder\.bias", ()),  # see _ADDED
    Rule(rf"cls\.seq_relationship\.{_BOTH}", (r"next_sentence.\1",)),
)
# One tensor, but where words are not tied to the output: then the first is kept and never used.
_BIAS, _ADDED = "cls.predictions.bias", "cls.predictions.decoder.bias"
_GPT2_BLOCK = (
    Rule(rf"h\.(\d+)\.ln_1\.{_BOTH}", (r"blocks.\1.around_mixer.norm.\2",)),
    Rule(
        r"h\.(\d+)\.attn\.c_attn\.(weight|bias)",
        tuple(rf"blocks.\1.mixer.{name}_projection.\2" for name in _QKV),
        _thirds,
    ),
    Rule(
        r"h\.(\d+)\.attn\.c_proj\.weight",
        (r"blocks.\1.mixer.output_projection.weight",),
        _transposed,
    ),
    Rule(r"h\.(\d+)\.attn\.c_proj\.bias", (r"blocks.\1.mixer.output_projection.bias",)),
    Rule(rf"h\.(\d+)\.ln_2\.{_BOTH}", (r"blocks.\1.around_feed_forward.norm.\2",)),
    Rule(r"h\.(\d+)\.mlp\.c_fc\.weight", (r"blocks.\1.feed_forward.widen.weight",), _transposed),
    Rule(r"h\.(\d+)\.mlp\.c_fc\.bias", (r"blocks.\1.feed_forward.widen.bias",)),
    Rule(r"h\.(\d+)\.mlp\.c_proj\.weight", (r"blocks.\1.feed_forward.narrow.weight",), _transposed),
    Rule(r"h\.(\d+)\.mlp\.c_proj\.bias", (r"blocks.\1.feed_forward.narrow.bias",)),
    Rule(rf"ln_f\.{_BOTH}", (r"final_norm.\1",)),
)


def _under(prefix: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(Rule(prefix + rule.pattern, rule.names, rule.change) for rule in rules)


GPT2_RULES = (
    *_under(r"transformer\.", _GPT2_BLOCK),
    Rule(r"transformer\.wte\.weight", ("embedding.bands.0.weight",)),
    Rule(r"transformer\.wpe\.weight", ("positions",)),
    Rule(r"lm_head\.weight", ()),  # tied to wte
)
DECISION_RULES = (
    *_under(r"encoder\.", _GPT2_BLOCK),
    Rule(r"encoder\.wte\.weight", ()),  # not used
    Rule(r"encoder\.wpe\.weight", ("offset",)),  # its row 0 is added to every token
    Rule(r"embed_timestep\.weight", ("steps.weight",)),
    Rule(rf"embed_(return|state|action)\.{_BOTH}", (r"embed_\1.\2",)),
    Rule(rf"embed_ln\.{_BOTH}", (r"norm.\1",)),
    Rule(rf"predict_(state|return)\.{_BOTH}", (r"predict_\1.\2",)),
    Rule(rf"predict_action\.0\.{_BOTH}", (r"predict_action.\1",)),
)
DEIT_RULES = (
    Rule(r"deit\.embeddings\.cls_token", ("class",)),
    Rule(r"deit\.embeddings\.distillation_token", ("teacher",)),
    Rule(r"deit\.embeddings\.position_embeddings", ("positions",)),
    Rule(rf"deit\.embeddings\.patch_embeddings\.projection\.{_BOTH}", (r"patches.\1",)),
    *(
        Rule(
            rf"deit\.layers\.(\d+)\.attention\.{theirs}_proj\.{_BOTH}",
            (rf"blocks.\1.mixer.{ours}_projection.\2",),
        )
        for theirs, ours in zip("qkvo", (*_QKV, "output"), strict=True)
    ),
    Rule(rf"deit\.layers\.(\d+)\.layernorm_before\.{_BOTH}", (r"blocks.\1.around_mixer.norm.\2",)),
    Rule(
        rf"deit\.layers\.(\d+)\.layernorm_after\.{_BOTH}",
        (r"blocks.\1.around_feed_forward.norm.\2",),
    ),
    Rule(rf"deit\.layers\.(\d+)\.mlp\.fc1\.{_BOTH}", (r"blocks.\1.feed_forward.widen.\2",)),
    Rule(rf"deit\.layers\.(\d+)\.mlp\.fc2\.{_BOTH}", (r"blocks.\1.feed_forward.narrow.\2",)),
    Rule(rf"deit\.layernorm\.{_BOTH}", (r"final_norm.\1",)),
    Rule(rf"(?:cls_)?classifier\.{_BOTH}", (r"heads.0.\1",)),
    Rule(rf"distillation_classifier\.{_BOTH}", (r"heads.1.\1",)),
)
MARIAN_RULES = (
    Rule(r"model\.shared\.weight", ("embedding.weight",)),
    Rule(r"model\.(en|de)coder\.embed_(tokens|positions)\.weight", ()),  # shared; sinusoids
    Rule(r"lm_head\.weight", ()),  # tied
    Rule(r"final_logits_bias", ("output_bias",), _flat),
    *(
        Rule(
            rf"model\.(encoder|decoder)\.layers\.(\d+)\.{block}\.{theirs}_proj\.{_BOTH}",
            (rf"\1.\2.{sublayer}.{ours}_projection.\3",),
        )
        for block, sublayer in (("self_attn", "mixer"), ("encoder_attn", "reader"))
        for theirs, ours in zip(("q", "k", "v", "out"), (*_QKV, "output"), strict=True)
    ),
    *(
        Rule(rf"model\.(encoder|decoder)\.layers\.(\d+)\.{theirs}\.{_BOTH}", (rf"\1.\2.{ours}.\3",))
        for theirs, ours in (
            ("self_attn_layer_norm", "around_mixer.norm"),
            ("encoder_attn_layer_norm", "around_reader.norm"),
            ("final_layer_norm", "around_feed_forward.norm"),
            ("fc1", "feed_forward.widen"),
            ("fc2", "feed_forward.narrow"),
        )
    ),
)
ARCHITECTURES: dict[str, tuple[Rule, ...]] = {
    "fnet": FNET_RULES,
    "gpt2": GPT2_RULES,
    "decision_transformer": DECISION_RULES,
    "deit": DEIT_RULES,
    "marian": MARIAN_RULES,
}


# Tensors that our models do not have, and those to which they are tied here.
_SHARED = "model.shared.weight"
TIED: dict[str, dict[str, str]] = {
    "gpt2": {"lm_head.weight": "transformer.wte.weight"},
    "marian": {
        "lm_head.weight": _SHARED,
        "model.encoder.embed_tokens.weight": _SHARED,
        "model.decoder.embed_tokens.weight": _SHARED,
    },
}
_SINUSOIDS = {f"model.{part}coder.embed_positions.weight" for part in ("en", "de")}


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
        If the architecture or a tensor is unknown (all such names are listed), tensors differ that
        are one in our models, such as the words and the matrix of the output, or positions of
        Marian are no sinusoids.
    """
    rules = ARCHITECTURES[check_choice("architecture", architecture, list(ARCHITECTURES))]
    for name, other in TIED.get(architecture, {}).items():
        if {name, other} <= set(tensors) and not torch.equal(tensors[name], tensors[other]):
            raise ValueError(f"{name} must be {other}, to which it is tied here, got another")
    for name in _SINUSOIDS & set(tensors):
        _check_sinusoids(name, tensors[name])
    ours = rename(tensors, rules)
    if "offset" in ours:
        ours["norm.bias"] = ours["norm.bias"] + ours.pop("offset")[0]
    if "class" in ours:  # our tokens in front of the patches are one tensor
        front = [ours.pop(name) for name in ("class", "teacher") if name in ours]
        ours["prefix"] = torch.cat(front, dim=1)
    return ours


def _check_sinusoids(name: str, positions: Tensor) -> None:
    """Refuse positions that are not those of our model, which has no tensor for them."""
    usual = sinusoids(*positions.shape).to(positions)
    rounding = max(torch.finfo(dtype).eps for dtype in (positions.dtype, torch.float32))
    if not torch.allclose(positions, usual, rtol=0.0, atol=2 * rounding):
        raise ValueError(f"{name} must be sinusoids, as they are computed here, got others")


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
    heads = {name: tensor for name, tensor in tensors.items() if name.startswith("cls.")}
    if _ADDED in heads and not model.encoder.config.tied_output:
        heads[_BIAS] = heads[_ADDED]
    ours |= rename(heads, FNET_HEAD_RULES)
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
