"""Batches for families of transformers that read more than token ids or one image.

Sounds, videos, patches with their grid, series of numbers, texts with images. A family's
configuration is that of `families`, with the entries given here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any

import families
import family_detectors
import family_encoders
import family_parts
import family_sounds
import family_texts
import family_trackers
import torch
from family_inputs import IDS, Batch, Make, every, noise, ones
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.recording import recording


def _usual(model: Any) -> Batch:
    """Return what its signature asks for: ids, an image, a wave, frames of 80 bands or its own."""
    config, asked = model.config, signature(model.forward).parameters
    batch: dict[str, Any] = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}
    vision, sound = (getattr(config, name, config) for name in ("vision_config", "encoder_config"))
    size = getattr(vision, "image_size", families.PIXELS)
    batch["pixel_values"] = noise(1, 3, size, size)
    batch["input_values"] = noise(1, 4_000)
    names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim")
    bands = [getattr(sound, name) for name in names if getattr(sound, name, None)]
    batch["input_features"] = noise(1, 64, *bands[:1] or [80])
    return {name: value for name, value in batch.items() if name in asked}


def _ids(model: Any) -> Batch:
    return {"input_ids": IDS}


def _bands_first(model: Any) -> Batch:
    """Return frames of sound as Whisper reads them, and a mask or a text where it is asked for."""
    bands = getattr(model.config, "num_mel_bins", 128)
    batch = {
        "input_features": noise(1, bands, 64),
        "input_features_mask": ones(1, 64),
        "decoder_input_ids": IDS[:, :4],
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
    patches = noise(side**2, channels * depth * config.patch_size**2)
    batch = {
        "hidden_states" if "hidden_states" in asked else "pixel_values": patches,
        "grid_thw": torch.tensor([[1, side, side]]),
        "merge_sizes": torch.tensor([merged]),
    }
    return {name: value for name, value in batch.items() if name in asked}


def _video(model: Any) -> Batch:
    return {"pixel_values": noise(1, model.config.num_frames, 3, families.PIXELS, families.PIXELS)}


def _images_in_text(model: Any) -> Batch:
    size = model.config.vision_config.image_size
    masks = {"attention_mask": ones(1, 7), "image_attention_mask": ones(1, 7, 1)}
    return {"input_ids": IDS, "pixel_values": noise(1, 1, 3, size, size), **masks}


_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
# What makes a batch -> family -> entries of its configuration.
_KINDS: dict[Make, dict[str, Mapping[str, Any]]] = {
    _usual: {
        **every(
            "aimv2 altclip blip canary canine chinese_clip clip clipseg cohere_asr data2vec-audio "
            "groupvit hubert lasr_ctc lasr_encoder metaclip_2 moonshine owlv2 owlvit parakeet_ctc "
            "parakeet_encoder parakeet_rnnt parakeet_tdt sew sew-d siglip speech_to_text tipsv2 "
            "unispeech unispeech-sat vilt vision-text-dual-encoder wav2vec2 wav2vec2-bert "
            "wav2vec2-conformer wavlm"
        ),
        **every("nemotron_asr_streaming_encoder", default_num_lookahead_tokens=1),
        **every(
            "nemotron3_5_asr nemotron_asr_streaming",
            encoder_config={"default_num_lookahead_tokens": 1},
        ),
    },
    _ids: {
        **every("cosmos3_edge_text hunyuan_vl_text", rope_parameters=_ROPE),
        **every("hunyuan_vl", text_config={"rope_parameters": _ROPE}),
        **every(
            "minicpm_ocr minicpmv4_6 minicpmv4_7 qwen3_5 qwen3_5_moe",
            text_config={"layer_types": ["linear_attention", "full_attention"]},
        ),
        **every("neomme", head_dim=16),
        **every(
            "zamba2",
            num_hidden_layers=3,
            layer_types=["mamba", "hybrid", "hybrid"],
            hybrid_layer_ids=[1, 2],
        ),
    },
    _bands_first: {
        **every("glmasr_encoder voxtral_realtime_encoder"),
        **every(
            "audioflamingo3_encoder moss_transcribe_diarize_audio qwen2_audio_encoder "
            "voxtral_encoder whisper",
            max_source_positions=32,
        ),
    },
    _grid: {
        **every(
            "cohere_compass_vision exaone4_5_vision glm4v_moe_vision glm4v_vision glm_image_vision "
            "qwen2_5_vl_vision qwen3_5_moe_vision qwen3_5_vision qwen3_vl_moe_vision "
            "qwen3_vl_vision qwen4_exp_vision video_llama_3_vision"
        ),
        **every("glm5_next_vision glm_ocr_vision", out_hidden_size=32),
    },
    _video: {**every("timesformer vivit", num_frames=2), **every("videomae", num_frames=4)},
    _images_in_text: every("idefics"),
    lambda model: {"input_values": noise(1, 1, 4_096)}: every("pe_audio_encoder"),
    lambda model: {
        "input_values": noise(1, model.config.max_length, model.config.num_mel_bins)
    }: every("audio-spectrogram-transformer"),
    lambda model: {
        "input_features": noise(1, 64, 128),
        "attention_mask": ones(1, 64).bool(),
    }: every("gemma4_audio"),
    lambda model: {
        "input_ids": IDS,
        "visual_feats": noise(1, 5, model.config.visual_feat_dim),
        "visual_pos": noise(1, 5, 4).abs(),
    }: every("lxmert"),
    lambda model: {
        "input_ids": IDS,
        "bbox": torch.full((1, 7, 4), 0.2),
        "decoder_input_ids": IDS[:, :4],
    }: every("udop"),
    lambda model: {
        "states": noise(1, 4, 3),
        "actions": noise(1, 4, 2),
        "returns_to_go": noise(1, 4, 1),
        "timesteps": torch.arange(4)[None],
        "attention_mask": ones(1, 4),
    }: every("decision_transformer", state_dim=3, act_dim=2),
    lambda model: {"past_values": noise(1, 32, 2)}: every(
        "patchtst", context_length=32, patch_length=4, patch_stride=4, num_input_channels=2
    ),
    lambda model: {
        "past_values": noise(1, 64),
        "past_values_padding": 0 * ones(1, 64),
        "freq": 0 * ones(1, 1),
    }: every("timesfm", context_length=64, patch_length=16),
    lambda model: {"past_values": noise(1, 64)}: every("timesfm2_5"),
    lambda model: {
        "pixel_values": noise(1, 16, 3 * model.config.patch_size**2),
        "pixel_attention_mask": ones(1, 16),
        "spatial_shapes": torch.tensor([[4, 4]]),
    }: every("siglip2_vision_model", num_patches=16),
    lambda model: {
        "query_embeds": noise(1, 5, 32),
        "encoder_hidden_states": noise(1, 6, model.config.encoder_hidden_size),
    }: every("blip_2_qformer"),
    lambda model: {"pixel_values_videos": noise(1, 2, 3, 16, 16)}: every(
        "vjepa2",
        crop_size=16,
        frames_per_clip=2,
        pred_hidden_size=32,
        pred_num_attention_heads=4,
        pred_num_hidden_layers=1,
    ),
    lambda model: {"inputs": noise(1, 7, model.config.d_model)}: every(
        "perceiver",
        d_latents=32,
        num_latents=8,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    ),
}
_ALL = [
    *_KINDS.items(),
    *family_detectors.KINDS.items(),
    *family_encoders.KINDS.items(),
    *family_parts.KINDS.items(),
    *family_sounds.KINDS.items(),
    *family_texts.KINDS.items(),
    *family_trackers.KINDS.items(),
]
MAKE = {kind: make for make, kinds in _ALL for kind in kinds}
ENTRIES = {kind: entries for _, kinds in _ALL for kind, entries in kinds.items()}
# Networks of several passes, or with none of their own -> how they are run.
RUNS = {**family_detectors.RUNS, **family_sounds.RUNS, **family_trackers.RUNS}
# What it returns is the mean over its heads, once for each of them.
MEANS = {"wavlm"}
# Families that return no maps of their own.
BARE = {kind for kind, make in MAKE.items() if make is _grid} | {
    *every("clvp cosmos3_edge_vision cvt gemma3n_audio granite_speech5_encoder hunyuan_vl_vision"),
    *every("kimi_k25_vision levit mamba2 minicpmv4_7_vision mobilevit mobilevitv2 patchtsmixer"),
    *every("lfm3_vl_vision mimi minicpm_ocr_vision muse_glimmer_vision muse_spark_vision"),
    *every("csm granite_speech5_ctc muse_glimmer_assistant nemotron3_5_transcribe_audio neucodec"),
    *every("pp_ocrv5_mobile_rec pp_ocrv5_server_rec pp_ocrv6_small_rec"),
    *every(
        "dots3_note_vision_encoder ernie4_5_vl_moe_vision idefics2_perceiver minicpmv4_6_vision"
    ),
    *every("bridgetower_vision_model dia_decoder kosmos_2_5_vision_model mllama_vision_model"),
    *every("phi4_multimodal_audio qwen2_5_omni_dit shieldgemma2"),
    *every("qwen2_5_omni_audio_encoder qwen2_5_omni_vision_encoder qwen3_omni_moe_vision_encoder"),
    *every("qwen3_asr_encoder xcodec xcodec2"),
    *family_trackers.RUNS,
}
# How many maps that it returns are not recorded, and how many modules are named -> families.
_APART = {
    # Positions are interpolated by weights that follow from the grid, which are no attention.
    (0, 0): "cohere_compass_vision qwen3_5_vision qwen3_vl_vision qwen4_exp_vision "
    "muse_glimmer_vision muse_spark_vision inkling2_vision qwen2_5_omni_dit",
    # Deformable attention, the text's side of a fusion, products of transforms, groups of tokens.
    (2, 2): "d_fine deimv2 groupvit groupvit_vision_model lw_detr omdet-turbo "
    "pp_doclayout_v2 rf_detr rt_detr rt_detr_v2",
    (4, 4): "deformable_detr",
    (6, 6): "autoformer grounding-dino mm-grounding-dino",
    # And pairs of tokens that are put in order, in one module or three; boxes around masks, of
    # which places are made.
    (2, 3): "pp_doclayout_v3",
    (2, 5): "pp_doclayout_v4",
    # Modules that return no map; a mean over heads is none that is recorded.
    (0, 1): "lightglue",
    (2, 1): "slanext",
    (0, 2): "mamba2 mask2former",
    (1, 2): "oneformer",
    (0, 4): "zamba",
    (0, 9): "mobilevitv2",
    # States are returned in place of maps, or among them; a map in two parts.
    (2, 0): "sam sam3_tracker sam_hq",
    (4, 0): "maskformer-swin t5gemma2_decoder",
    (5, 0): "sam2_hiera_det_model sam2_vision_model",
    (7, 0): "sam2",
    (8, 0): "florence_vision",
}
APART = {kind: counts for counts, kinds in _APART.items() for kind in kinds.split()}
# Families that attend as others do, or that take long to make.
SLOW = {
    *every("align cohere_compass cohere_compass_text cvt dab-detr diffusion_gemma emu3 flava"),
    *every("glm46v glm4v glm4v_moe glm4v_text glm_image glm_image_text glm_ocr_text glmga"),
    *every("informer instructblipvideo janus kimi_k25_vision mm-grounding-dino musicgen_melody"),
    *every("pe_audio sam2_hiera_det_model sam_hq table-transformer unlimited_ocr videoprism"),
    *every("bridgetower clap clvp deepseek_ocr2 deimv2 depth_pro fun_asr_nano_encoder lfm3_vl"),
    *every("inkling2_vision kyutai_speech_to_text lfm3_vl_vision maskformer mimi mimi_encoder"),
    *every("minicpm_ocr_vision qwen3_asr_encoder sam3_lite_text sam3_lite_text_text_model"),
    *every("chameleon florence2 instructblip mobilevit sam2_vision_model sam3 sam3_tracker"),
    *every("seamless_m4t_v2 siglip2 superglue tvp voxtral_realtime xclip"),
    *every("bark csm mimi_decoder neucodec omdet-turbo pocket_tts_audio_tokenizer xcodec xcodec2"),
    *every("pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder"),
    *every(
        "pp_doclayout_v2 pp_doclayout_v3 pp_doclayout_v4 pp_ocrv5_mobile_rec pp_ocrv5_server_rec"
    ),
    *every("pp_ocrv6_small_rec qwen2_5_omni_dit"),
    *family_trackers.RUNS,
    *(kind for kinds in family_texts.KINDS.values() for kind in kinds),
    *(kind for kinds in family_encoders.KINDS.values() for kind in kinds),
} - {
    *every("deepseek_ocr2_encoder idefics2_perceiver qwen2_5_omni_audio_encoder slanext"),
    *every("bailing_hybrid evolla granite_speech5_ctc granitemoehybrid molmo2"),
    *every("muse_glimmer_assistant nemotron3_5_transcribe_word_timestamp nemotron3_diarization"),
}


def silent(kind: str) -> list[str]:
    """Return what a network returns or runs as attention, and what is neither recorded nor named.

    Shapes of maps that it returns, or names of modules whose class is called attention.
    """
    model = families.tiny_model(kind, entries=ENTRIES[kind])
    batch = MAKE[kind](model)
    run = RUNS.get(kind, nn.Module.__call__)
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        with _running(model) as called:
            own = list(_own(run(model, **batch, output_attentions=True)))
        torch.manual_seed(0)
        with recording(model) as calls:
            run(model, **batch)
    found = [call.maps.mean(1) if kind in MEANS else call.maps for call in calls]
    own = [one[:, 0] for one in own] if kind in MEANS else own
    lost = [str(tuple(one.shape)) for one in own if not any(_same(one, two) for two in found)]
    heard = [call.name for call in calls] + [*calls.unread]
    unheard = [name for name in called if not any(_is_within(name, other) for other in heard)]
    if not heard or (not own and kind not in BARE):
        return ["all"]
    counts = len(lost), len(calls.unread)
    expected = APART.get(kind, (0, counts[1]))
    return unheard if counts == expected else [*unheard, *lost, *calls.unread]


@contextmanager
def _running(model: nn.Module) -> Iterator[list[str]]:
    """Yield a list of the modules of attention that are called."""
    run, handles = list[str](), []
    for name, module in model.named_modules():
        if type(module).__name__.endswith("Attention"):
            note = partial(lambda at, *_: run.append(at), name)
            handles.append(module.register_forward_pre_hook(note))
    try:
        yield run
    finally:
        for handle in handles:
            handle.remove()


def _is_within(name: str, other: str) -> bool:
    """Tell whether one of two modules is a part of the other, or the same."""
    return f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.")


def _own(output: Any) -> Iterator[Tensor]:
    """Yield the maps in what a network returns, those of its parts included."""
    for name, value in output.items() if isinstance(output, Mapping) else ():
        if "attention" in str(name):
            yield from (one for one in families.flat(value) if one is not None and one.ndim > 2)
        elif isinstance(value, Mapping):
            yield from _own(value)


def _same(one: Tensor, two: Tensor) -> bool:
    """Return whether maps are the same, whether windows are a dimension or rows of the batch."""
    if one.numel() != two.numel() or one.shape[-2:] != two.shape[-2:]:
        return False
    turned = [one, one.transpose(1, 2)] if one.ndim == 5 else [one]
    return any(torch.allclose(x.reshape(-1), two.reshape(-1), rtol=0, atol=1e-5) for x in turned)
