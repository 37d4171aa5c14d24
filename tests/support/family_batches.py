"""Batches for families of transformers that read more than token ids or one image.

Sounds, videos, patches with their grid, series of numbers, texts with images. A family's
configuration is that of `families`, with the entries given here.
"""

from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

import families
import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.recording import recording

Batch = Mapping[str, Any]
Make = Callable[[Any], Batch]
_IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.long)


def _usual(model: Any) -> Batch:
    """Return what its signature asks for: ids, an image, a wave, frames of 80 bands or its own."""
    config, asked = model.config, signature(model.forward).parameters
    batch: dict[str, Any] = {"input_ids": _IDS, "decoder_input_ids": _IDS[:, :4]}
    vision, sound = (getattr(config, name, config) for name in ("vision_config", "encoder_config"))
    size = getattr(vision, "image_size", families.PIXELS)
    batch["pixel_values"] = _noise(1, 3, size, size)
    batch["input_values"] = _noise(1, 4_000)
    names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim")
    bands = [getattr(sound, name) for name in names if getattr(sound, name, None)]
    batch["input_features"] = _noise(1, 64, *bands[:1] or [80])
    return {name: value for name, value in batch.items() if name in asked}


def _ids(model: Any) -> Batch:
    return {"input_ids": _IDS}


def _bands_first(model: Any) -> Batch:
    """Return frames of sound as Whisper reads them, and a mask or a text where it is asked for."""
    bands = getattr(model.config, "num_mel_bins", 128)
    batch = {
        "input_features": _noise(1, bands, 64),
        "input_features_mask": _ones(1, 64),
        "decoder_input_ids": _IDS[:, :4],
    }
    return {name: batch[name] for name in signature(model.forward).parameters if name in batch}


def _grid(model: Any) -> Batch:
    """Return the patches of one image, which are rows of a matrix, and how they lie."""
    config, asked = model.config, signature(model.forward).parameters
    channels = next(
        value
        for name in ("in_channels", "in_chans", "num_channels")
        if (value := getattr(config, name, None))
    )
    merged, depth = (
        getattr(config, name, 1) for name in ("spatial_merge_size", "temporal_patch_size")
    )
    side = 2 * merged
    patches = _noise(side**2, channels * depth * config.patch_size**2)
    batch = {
        "hidden_states" if "hidden_states" in asked else "pixel_values": patches,
        "grid_thw": torch.tensor([[1, side, side]]),
        "merge_sizes": torch.tensor([merged]),
    }
    return {name: value for name, value in batch.items() if name in asked}


def _video(model: Any) -> Batch:
    return {"pixel_values": _noise(1, model.config.num_frames, 3, families.PIXELS, families.PIXELS)}


def _forecast(model: Any) -> Batch:
    past, future = _noise(1, 10), _noise(1, 4)
    return {
        "past_values": past,
        "past_time_features": past[..., None],
        "past_observed_mask": _ones(1, 10),
        "future_values": future,
        "future_time_features": future[..., None],
    }


def _images_in_text(model: Any) -> Batch:
    size = model.config.vision_config.image_size
    masks = {"attention_mask": _ones(1, 7), "image_attention_mask": _ones(1, 7, 1)}
    return {"input_ids": _IDS, "pixel_values": _noise(1, 1, 3, size, size), **masks}


def _all(kinds: str, **entries: Any) -> dict[str, Mapping[str, Any]]:
    return dict.fromkeys(kinds.split(), entries)


_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
# What makes a batch -> family -> entries of its configuration.
_KINDS: dict[Make, dict[str, Mapping[str, Any]]] = {
    _usual: {
        **_all(
            "aimv2 altclip blip canary canine chinese_clip clip clipseg cohere_asr data2vec-audio "
            "groupvit hubert lasr_ctc lasr_encoder metaclip_2 moonshine owlv2 owlvit parakeet_ctc "
            "parakeet_encoder parakeet_rnnt parakeet_tdt sew sew-d siglip speech_to_text tipsv2 "
            "unispeech unispeech-sat vilt vision-text-dual-encoder wav2vec2 wav2vec2-bert "
            "wav2vec2-conformer wavlm"
        ),
        **_all("nemotron_asr_streaming_encoder", default_num_lookahead_tokens=1),
        **_all(
            "nemotron3_5_asr nemotron_asr_streaming",
            encoder_config={"default_num_lookahead_tokens": 1},
        ),
    },
    _ids: {
        **_all("cosmos3_edge_text hunyuan_vl_text", rope_parameters=_ROPE),
        **_all("hunyuan_vl", text_config={"rope_parameters": _ROPE}),
        **_all(
            "minicpm_ocr minicpmv4_6 minicpmv4_7 qwen3_5 qwen3_5_moe",
            text_config={"layer_types": ["linear_attention", "full_attention"]},
        ),
        **_all("neomme", head_dim=16),
        **_all(
            "zamba2",
            num_hidden_layers=3,
            layer_types=["mamba", "hybrid", "hybrid"],
            hybrid_layer_ids=[1, 2],
        ),
    },
    _bands_first: {
        **_all("glmasr_encoder voxtral_realtime_encoder"),
        **_all(
            "audioflamingo3_encoder moss_transcribe_diarize_audio qwen2_audio_encoder "
            "voxtral_encoder whisper",
            max_source_positions=32,
        ),
    },
    _grid: {
        **_all(
            "cohere_compass_vision exaone4_5_vision glm4v_moe_vision glm4v_vision glm_image_vision "
            "qwen2_5_vl_vision qwen3_5_moe_vision qwen3_5_vision qwen3_vl_moe_vision "
            "qwen3_vl_vision qwen4_exp_vision video_llama_3_vision"
        ),
        **_all("glm5_next_vision glm_ocr_vision", out_hidden_size=32),
    },
    _video: {**_all("timesformer vivit", num_frames=2), **_all("videomae", num_frames=4)},
    _forecast: _all(
        "time_series_transformer",
        prediction_length=4,
        context_length=8,
        lags_sequence=[1, 2],
        num_time_features=1,
    ),
    _images_in_text: _all("idefics"),
    lambda model: {"input_values": _noise(1, 1, 4_096)}: _all("pe_audio_encoder"),
    lambda model: {
        "input_values": _noise(1, model.config.max_length, model.config.num_mel_bins)
    }: _all("audio-spectrogram-transformer"),
    lambda model: {
        "input_features": _noise(1, 64, 128),
        "attention_mask": _ones(1, 64).bool(),
    }: _all("gemma4_audio"),
    lambda model: {
        "input_ids": _IDS,
        "visual_feats": _noise(1, 5, model.config.visual_feat_dim),
        "visual_pos": _noise(1, 5, 4).abs(),
    }: _all("lxmert"),
    lambda model: {
        "input_ids": _IDS,
        "bbox": torch.full((1, 7, 4), 0.2),
        "decoder_input_ids": _IDS[:, :4],
    }: _all("udop"),
    lambda model: {
        "states": _noise(1, 4, 3),
        "actions": _noise(1, 4, 2),
        "returns_to_go": _noise(1, 4, 1),
        "timesteps": torch.arange(4)[None],
        "attention_mask": _ones(1, 4),
    }: _all("decision_transformer", state_dim=3, act_dim=2),
    lambda model: {"past_values": _noise(1, 32, 2)}: _all(
        "patchtst", context_length=32, patch_length=4, patch_stride=4, num_input_channels=2
    ),
    lambda model: {
        "past_values": _noise(1, 64),
        "past_values_padding": 0 * _ones(1, 64),
        "freq": 0 * _ones(1, 1),
    }: _all("timesfm", context_length=64, patch_length=16),
    lambda model: {"past_values": _noise(1, 64)}: _all("timesfm2_5"),
    lambda model: {
        "pixel_values": _noise(1, 16, 3 * model.config.patch_size**2),
        "pixel_attention_mask": _ones(1, 16),
        "spatial_shapes": torch.tensor([[4, 4]]),
    }: _all("siglip2_vision_model", num_patches=16),
    lambda model: {
        "query_embeds": _noise(1, 5, 32),
        "encoder_hidden_states": _noise(1, 6, model.config.encoder_hidden_size),
    }: _all("blip_2_qformer"),
    lambda model: {"pixel_values_videos": _noise(1, 2, 3, 16, 16)}: _all(
        "vjepa2",
        crop_size=16,
        frames_per_clip=2,
        pred_hidden_size=32,
        pred_num_attention_heads=4,
        pred_num_hidden_layers=1,
    ),
    lambda model: {"inputs": _noise(1, 7, model.config.d_model)}: _all(
        "perceiver",
        d_latents=32,
        num_latents=8,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    ),
}
MAKE = {kind: make for make, kinds in _KINDS.items() for kind in kinds}
ENTRIES = {kind: entries for kinds in _KINDS.values() for kind, entries in kinds.items()}
# What it returns is the mean over its heads, once for each of them.
MEANS = {"wavlm"}
# It returns the assignment of tokens to groups as well, which is named and not recorded.
NAMED = {"groupvit": 2}


def silent(kind: str) -> list[str]:
    """Return shapes of the maps that a network returns, and that are neither recorded nor named.

    Towers that read patches by a grid return none, and must have recorded ones at least.
    """
    model = families.tiny_model(kind, entries=ENTRIES[kind])
    batch = MAKE[kind](model)
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        own = list(_own(model(**batch, output_attentions=True)))
        torch.manual_seed(0)
        with recording(model) as calls:
            model(**batch)
    found = [call.maps.mean(1) if kind in MEANS else call.maps for call in calls]
    own = [one[:, 0] for one in own] if kind in MEANS else own
    lost = [str(tuple(one.shape)) for one in own if not any(_same(one, two) for two in found)]
    if not found or (not own and MAKE[kind] is not _grid):
        return ["all"]
    return [] if len(lost) == len(calls.unread) == NAMED.get(kind) else lost


def _own(output: Any) -> Iterator[Tensor]:
    """Yield the maps in what a network returns, those of its parts included."""
    for name, value in output.items():
        if "attention" in name:
            maps = (one for one in families.flat(value) if one is not None and one.ndim > 2)
            yield from (one.transpose(1, 2) if one.ndim == 5 else one for one in maps)
        elif isinstance(value, Mapping):
            yield from _own(value)


def _same(one: Tensor, two: Tensor) -> bool:
    """Return whether maps are the same, whether windows are a dimension or rows of the batch."""
    if one.numel() != two.numel() or one.shape[-2:] != two.shape[-2:]:
        return False
    return torch.allclose(one.reshape(-1), two.reshape(-1), rtol=0, atol=1e-5)
