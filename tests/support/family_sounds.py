"""Batches for families of transformers that read sounds: waves, frames of bands, codes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from family_inputs import IDS, Batch, Kinds, every, noise, ones, text
from torch import Tensor

_WIDE = {"hidden_size": 128, "projection_dim": 128}  # so that a head has 32 features
_SPECTRUM = {
    "patch_embeds_hidden_size": 8,
    "depths": [1, 1],
    "num_attention_heads": [2, 2],
    "hidden_size": 16,
    "window_size": 2,
    "spec_size": 16,
    "num_mel_bins": 16,
    "patch_stride": [4, 4],
}
_MIMI: Mapping[str, Any] = {
    "num_filters": 8,
    "vector_quantization_hidden_dimension": 16,
    "codebook_dim": 16,
    "upsample_groups": 32,
}
_POCKET: Mapping[str, Any] = {"num_filters": 8, "upsample_groups": 32}
_BARK: Mapping[str, Any] = {"block_size": 16, "output_vocab_size": 64}
_DIFFUSION: Mapping[str, Any] = {
    "mel_dim": 20,
    "num_embeds": 63,
    "head_dim": 8,
    "enc_channels": [8] * 4 + [24],
    **dict.fromkeys(("emb_dim", "enc_emb_dim", "enc_dim"), 8),
    **dict.fromkeys(("enc_attention_channels", "enc_se_channels"), 8),
}
_DAC = {
    "encoder_hidden_size": 8,
    "decoder_hidden_size": 128,
    "downsampling_ratios": [8, 5, 4, 2],
    "codebook_size": 16,
}
_HUBERT = {
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}


def _three(model: Any, **options: Any) -> Batch:
    """Return what the networks of Bark put out: it calls each many times, and itself never."""
    codes = IDS[..., None].expand(1, 7, 8)
    return {
        "semantic": model.semantic(input_ids=IDS, **options),
        "coarse": model.coarse_acoustics(input_ids=IDS, **options),
        "fine": model.fine_acoustics(1, codes, **options),
    }


def _with_codes(model: Any, input_ids: Tensor, **options: Any) -> Batch:
    """Return what a network puts out and, of one place of it, what that of its codes does."""
    read = {"input_ids": input_ids[:, :3, 0], "backbone_last_hidden_state": noise(1, 32)}
    return {
        "places": model(input_ids=input_ids, **options),
        "codes": model.depth_decoder(**read, **options),
    }


def _looked_up(model: Any, output_attentions: bool = False, **batch: Any) -> Any:
    """Return what a network puts out that has no eager attention of its own."""
    if output_attentions:  # by itself
        model.set_attn_implementation("sdpa")
    return model(**batch)


RUNS: dict[str, Callable[..., Any]] = {
    "bark": _three,
    "csm": _with_codes,
    "qwen2_5_omni_dit": _looked_up,
}
KINDS: Kinds = {
    lambda model: {**text(), "input_values": noise(1, 1, 4_096)}: every("pe_audio"),
    lambda model: {"input_ids": IDS, "input_features": noise(1, 80, 32)}: every(
        "clvp", text_config=_WIDE, speech_config=_WIDE
    ),
    lambda model: {"input_values": noise(1, 4, 32), "decoder_input_values": noise(1, 4, 32)}: every(
        "speecht5"
    ),
    lambda model: {"input_values": noise(1, 4_000), "decoder_input_ids": IDS[:, :4]}: every(
        "moonshine_streaming",
        num_key_value_heads=4,
        encoder_config={"sliding_windows": [[2, 1], [2, 0]], "num_key_value_heads": 4},
    ),
    lambda model: {"input_values": noise(1, 1, 4_000)}: {
        **every("mimi_encoder"),
        **every("mimi", **_MIMI),
        **every("pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_encoder", **_POCKET),
    },
    lambda model: {"latents": noise(1, 32, 8)}: {
        **every("mimi_decoder", **_MIMI),
        **every("pocket_tts_audio_tokenizer_decoder", **_POCKET),
    },
    lambda model: {
        "hidden_states": noise(1, 14, 20),
        "speaker_embedding": noise(1, 14, 8),
        "condition_vector": noise(1, 7, 20),
        "quantized_code": IDS,
        "time_step": torch.tensor([0.5]),
    }: every("qwen2_5_omni_dit", **_DIFFUSION),
    lambda model: {}: every(
        "bark",
        semantic_config=_BARK,
        coarse_acoustics_config=_BARK,
        fine_acoustics_config=_BARK,
        codec_config={"num_filters": 4, "codebook_size": 8},
    ),
    lambda model: {"input_ids": IDS[..., None].expand(1, 7, 4)}: every(
        "csm",
        num_codebooks=4,
        codec_config=_MIMI,
        depth_decoder_config={"backbone_hidden_size": 32, "num_codebooks": 4},
    ),
    lambda model: {
        "input_values": noise(1, 1, 3_200),
        "input_features": noise(1, 10, 20),
    }: every(
        "neucodec xcodec2",
        num_key_value_heads=4,
        semantic_model_config={"feature_projection_input_dim": 20},
        encoder_hidden_size=4,
        quantization_dim=64,
    ),
    lambda model: {"input_values": noise(1, 1, 4_096)}: every(
        "xcodec", acoustic_model_config=_DAC, semantic_model_config=_HUBERT
    ),
    lambda model: {
        **text(),
        "input_features": noise(1, 1, 16, 16),
        "is_longer": torch.tensor([[False]]),
    }: every("clap", audio_config=_SPECTRUM, text_config={}),
    lambda model: {"input_ids": IDS[..., None].expand(1, 7, 3)}: every(
        "kyutai_speech_to_text",
        num_codebooks=2,
        codebook_vocab_size=64,
        audio_pad_token_id=3,
        audio_bos_token_id=4,
        codec_config={"model_type": "mimi"},
    ),
    lambda model: {"input_ids": IDS, "encoder_inputs_embeds": noise(1, 28, 32)}: every(
        "voxtral_realtime"
    ),
    lambda model: {
        "input_features": noise(1, 128, 200),
        "input_features_mask": ones(1, 200),
    }: every("qwen3_asr_encoder"),
    lambda model: {"input_features": noise(1, 8, 560), "input_features_mask": ones(1, 8)}: every(
        "fun_asr_nano_encoder"
    ),
    lambda model: {"input_features": noise(1, 64, 80)}: every(
        "granite_speech5_encoder",
        context_size=8,
        subsample_layers=[0],
        num_key_value_heads=4,
        num_mel_bins=20,
    ),
    lambda model: {"input_features": noise(1, 8, 32), "decoder_input_ids": IDS[:, :4]}: every(
        "pop2piano", vocab_size=64
    ),
    lambda model: {
        "audio_mel": noise(1, 64, 128),
        "audio_mel_mask": torch.zeros(1, 64, dtype=torch.bool),
    }: every("gemma3n_audio", conf_num_hidden_layers=1),
}
