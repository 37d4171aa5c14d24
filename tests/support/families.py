"""Tiny random networks of every family that transformers has, and what its own maps of them are.

A family is a key of MODEL_MAPPING_NAMES. Its configuration is the default one with small sizes:
those of `SIZES` that it has, those of `WHERE` for families with an entry of that name, then its own
in `OVERRIDES`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import transformers
from family_owners import OWNERS
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.formats.transformers_networks import transformers_checkpoint
from fourierkernels.checkpoints.recorders.call import AttentionCall
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.diagnostics.networks.samples import head_samples

FAMILIES = tuple(MODEL_MAPPING_NAMES)
MOST_PARAMETERS = 20_000_000
_NOTHING = object()
TEXTS = ([5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19])
TARGETS = ([20, 21], [22, 23, 24, 25, 26], [27, 28, 29])
PIXELS = 16

_HIDDEN = ("hidden_size", "d_model", "n_embd", "emb_dim", "embed_dim", "dim", "hidden_dim")
_LAYERS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "depth",
)
_HEADS = (
    "num_attention_heads",
    "num_heads",
    "n_head",
    "n_heads",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "num_encoder_attention_heads",
    "num_decoder_attention_heads",
)
_INNER = (
    "intermediate_size",
    "ffn_dim",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "d_ff",
    "n_inner",
    "mlp_dim",
    "ffn_hidden_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "intermediate_size_mlp",
    "dense_ffn_hidden_size",
    "inner_dim",
)
# Name of an entry of a configuration -> its small value, where the family has the entry.
SIZES: dict[str, Any] = {
    **dict.fromkeys(_HIDDEN, 32),
    **dict.fromkeys(_LAYERS, 2),
    **dict.fromkeys(_HEADS, 4),
    **dict.fromkeys(_INNER, 16),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "image_size": PIXELS,
    "patch_size": 4,
    "embedding_size": 32,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "rotary_dim": 4,
    "v_head_dim": 8,
    "projection_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}
# Name of an entry -> what goes with it.
WHERE: dict[str, Mapping[str, Any]] = {
    "kv_lora_rank": {"num_key_value_heads": 4},
    "sliding_window": {"sliding_window": 4},
}
_SECTIONS = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
}
_KINDS = {"layer_types": ["linear_attention", "full_attention"]}
# Family -> entries that `SIZES` has not or has otherwise.
OVERRIDES: dict[str, Mapping[str, Any]] = {
    "big_bird": {"attention_type": "original_full"},  # blocks are tried in test_isolating.py
    "bigbird_pegasus": {"attention_type": "original_full"},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8},
    "lilt": {"hidden_size": 48},
    "gemma4_unified_text": {"global_head_dim": 8},
    "embedding_gemma2_text": {"global_head_dim": 8},
    "paddleocr_vl": {"text_config": _SECTIONS},
    "qwen2_vl": {"text_config": _SECTIONS},
    "qwen2_vl_text": _SECTIONS,
    "qwen2_5_vl": {"text_config": _SECTIONS},
    "qwen2_5_vl_text": _SECTIONS,
    "qwen3_next": _KINDS,
    "qwen3_5_text": _KINDS,
    "qwen3_5_moe_text": _KINDS,
    "minimax": {"block_size": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "xmod": {"default_language": "en_XX"},
    "roc_bert": {"pronunciation_vocab_size": 8, "shape_vocab_size": 8},
    "luke": {"entity_vocab_size": 8, "entity_emb_size": 8},
    "dbrx": {"attn_config": {"kv_n_heads": 2}, "ffn_config": {"ffn_hidden_size": 16}},
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1},
    "reformer": {"attn_layers": ["local", "lsh"], "axial_pos_embds": False},
    **{kind: {"mamba_n_heads": 4, "mamba_d_head": 16} for kind in ("bamba", "granitemoehybrid")},
    "dots1": {"n_shared_experts": 1, "moe_intermediate_size": 16},
    "esmc": {"num_key_value_heads": 4},
    "gemma3n_text": {"num_kv_shared_layers": 0, "vocab_size_per_layer_input": 64},
    "gemma4_text": {"vocab_size_per_layer_input": 64, "global_head_dim": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "zaya": {"num_experts_per_tok": 1},
    "donut-swin": {"num_heads": [2, 2], "depths": [1, 1], "embed_dim": 8, "window_size": 2},
    "hiera": {"image_size": [64, 64], "depths": [1, 2, 2, 1], "embed_dim": 8},
    **{kind: {"image_size": 64} for kind in ("pvt", "segformer", "levit")},
    "swin": {"num_heads": [2, 2], "depths": [1, 1], "embed_dim": 8, "window_size": 2},
    "swinv2": {"num_heads": [2, 2], "depths": [1, 1], "embed_dim": 8, "window_size": 2},
    "yolos": {"image_size": [16, 16], "num_detection_tokens": 2},
    "fsmt": {"src_vocab_size": 64, "tgt_vocab_size": 64, "langs": ["en", "de"]},
    "llama4_text": {"moe_layers": []},
}


def tiny_config(kind: str, entries: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return the smallest configuration of a family, with more entries than in `OVERRIDES`."""
    return _shrunk(transformers.CONFIG_MAPPING[kind], {**OVERRIDES.get(kind, {}), **entries})


def _shrunk(owner: Any, overrides: Mapping[str, Any]) -> Any:
    default = owner()
    known = {name: value for name, value in SIZES.items() if _has(default, name)}
    for name, more in WHERE.items():
        if _has(default, name):
            known |= {entry: value for entry, value in more.items() if _has(default, entry)}
    inner = {
        name: _shrunk(type(getattr(default, name)), overrides.get(name, {}))
        for name in getattr(owner, "sub_configs", {})
        if getattr(default, name, None) is not None
        and "model_type" not in overrides.get(name, {})  # else it is another kind's, made by owner
    }
    own = {name: value for name, value in overrides.items() if name not in inner}
    return owner(**{**known, **inner, **own})


def _has(config: Any, name: str) -> bool:
    found = vars(config).get(config.attribute_map.get(name, name), _NOTHING)
    return found is not _NOTHING and not isinstance(found, list | tuple | dict)


def tiny_model(kind: str, seed: int = 0, entries: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return a network of a family with weights large enough for heads to differ.

    Raises
    ------
    ValueError
        If the recipe does not make it small.
    """
    config = tiny_config(kind, entries)
    with torch.device("meta"):
        size = sum(one.numel() for one in _made(config).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{kind} must be small, got {size} parameters")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _made(config, attn_implementation="eager")
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter += 0.1 * torch.randn_like(parameter)
    return model.float().eval()


def _made(config: Any, **options: Any) -> Any:
    owner = OWNERS.get(config.model_type)
    if owner is None:
        return transformers.AutoModel.from_config(config, **options)
    module = import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    return getattr(module, owner)._from_config(config, **options)


Maps = list[Tensor]
Calls = list[AttentionCall]
# Family -> what is asked of the network besides; from what it returns to its maps.
OPTIONS: dict[str, Mapping[str, Any]] = {"vit_mae": {"noise": torch.arange(16.0)[None]}}
MAPS: dict[tuple[str, str], Callable[[Maps], Maps]] = {
    **{
        (kind, "attentions"): lambda found: [scores.softmax(-1) for scores in found]
        for kind in ("squeezebert", "prophetnet")
    },
    ("minimax", "attentions"): lambda found: found[
        :1
    ],  # the other layer is linear and returns its state
}
# Family -> which of its calls those are whose maps it returns.
RETURNED: dict[str, Callable[[Calls], Calls]] = {
    "hiera": lambda calls: list({one.name.split(".layers.")[0]: one for one in calls}.values())
}  # the last one of each stage


def _request(part: str | None = None) -> LoadRequest:
    return LoadRequest(CheckpointFiles("tiny", Path("tiny")), part=part)


@dataclass(frozen=True)
class Trial:
    """Something of a network that can be recorded: of its inputs, of one part.

    Attributes
    ----------
    items : sequence
        Token ids, or pairs of them, which share a batch; or one image ``(1, C, H, W)``.
    returned : str
        Attribute of the output of the network for its own maps.
    """

    model: Any
    part: str | None
    items: Sequence[Any]
    returned: str = "attentions"

    def recorded(self) -> list[Maps]:
        """Return the maps of each item, recorded in one batch; or raise why there are none."""
        checkpoint = transformers_checkpoint(self.model, _request(self.part))
        if isinstance(self.items[0], Tensor):
            with torch.inference_mode(), recording(self.model) as calls:
                self.model(pixel_values=self.items[0], **_options(self.model))
            # A pooling head, of one query, is not among the maps that a network returns.
            kept = [one for one in calls if checkpoint.selects(one) and one.maps.shape[2] > 1]
            kept = RETURNED.get(self.model.config.model_type, list)(kept)
            return [[one for call in kept for one in _windows(call.maps)]]
        found = {
            one.index: one
            for one in head_samples(checkpoint, self.items, batch_size=len(self.items))
        }
        return [list(torch.from_numpy(found[i].maps)) for i in range(len(self.items))]

    def own(self) -> list[Maps]:
        """Return the maps that the network itself returns for each item alone; nothing if none."""
        owner = self.model
        if self.part is None and owner.config.is_encoder_decoder:
            owner = owner.get_encoder()
        found = [self._asked(owner, item) for item in self.items]
        return [] if any(maps is None for maps in found) else found

    @torch.inference_mode()
    def _asked(self, owner: Any, item: Any) -> Maps | None:
        inputs = self._inputs(item)
        if (
            "attention_mask" in inspect.signature(owner.forward).parameters
            and "input_ids" in inputs
        ):
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        output = owner(**inputs, output_attentions=True, **_options(self.model))
        maps = flat(getattr(output, self.returned, None))
        if not maps or any(one is None for one in maps):
            return None
        change = MAPS.get((self.model.config.model_type, self.returned), lambda found: found)
        return change([window for one in maps for window in _windows(one)])

    def _inputs(self, item: Any) -> dict[str, Tensor]:
        if isinstance(item, Tensor):
            return {"pixel_values": item}
        if self.part is None:
            return {"input_ids": torch.tensor([item])}
        source, target = (torch.tensor([side]) for side in item)
        return {"input_ids": source, "decoder_input_ids": target}


def _windows(maps: Tensor) -> Maps:
    """Return maps ``(H, n, m)`` of all windows of one item; of the item itself if it has none."""
    if maps.ndim == 5:  # Hiera: (1, H, W, n, m)
        maps = maps[0].transpose(0, 1)
    return list(maps) if maps.ndim == 4 else [maps]  # SAM: images and heads in one


def flat(maps: Any) -> list[Any]:
    """Return maps that some networks group by their stages as one list."""
    if not isinstance(maps, tuple | list):
        return [maps] if maps is not None else []
    return [
        inner for one in maps for inner in (flat(one) if isinstance(one, tuple | list) else [one])
    ]


def _options(model: Any) -> Mapping[str, Any]:
    return OPTIONS.get(model.config.model_type, {})


def trials(model: Any) -> Iterator[Trial]:
    """Yield what can be recorded of a network that reads texts or images; nothing of others."""
    reads = inspect.signature(model.forward).parameters
    if "input_ids" in reads:
        yield Trial(model, None, TEXTS)
        if model.config.is_encoder_decoder:
            items = list(zip(TEXTS, TARGETS, strict=True))
            yield Trial(model, "decoder", items, "decoder_attentions")
            yield Trial(model, "cross", items, "cross_attentions")
    elif "pixel_values" in reads:
        size = getattr(model.config, "image_size", PIXELS)
        height, width = (size, size) if isinstance(size, int) else size
        channels = getattr(model.config, "num_channels", 3)
        generator = torch.Generator().manual_seed(0)
        yield Trial(model, None, [torch.rand(1, channels, height, width, generator=generator)])


def outcome(trial: Trial) -> str:
    """Return what became of a trial: "equal", "refused: …", "not run: …", or what is wrong."""
    try:
        recorded = trial.recorded()
    except Exception as error:
        return _without_maps(trial, error)
    own = trial.own()
    if not own:
        return "nothing to compare with"
    apart = max(_largest_difference(a, b) for a, b in zip(recorded, own, strict=True))
    return "equal" if apart <= 1e-5 else f"wrong: apart by {apart:.2g}"


def _without_maps(trial: Trial, error: Exception) -> str:
    """Return why there are no maps: the network does not run on such inputs, or it is refused.

    "unheard" is one that returns maps of its own and is said to have no attention.
    """
    try:
        own = trial.own()
    except Exception as raised:
        return f"not run: {type(raised).__name__}: {raised}"
    if not isinstance(error, ValueError):
        return f"wrong: {type(error).__name__}: {error}"
    unheard = own and "got none in" in str(error) and "attention seen" not in str(error)
    return f"{'unheard' if unheard else 'refused'}: {error}"


def _largest_difference(one: Maps, other: Maps) -> float:
    if [part.shape for part in one] != [part.shape for part in other]:
        return float("inf")
    pairs = zip(one, other, strict=True)
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)
