"""Batches for families of transformers that read texts, beside images or sounds, or proteins.

Decoders with layers of several kinds, and what joins an encoder to them: adapters, resamplers,
Q-Formers that read windows, caches that another network has filled.
"""

from collections.abc import Mapping
from typing import Any

import torch
from family_inputs import IDS, Batch, Kinds, every, noise, ones, text
from torch import Tensor

_PLACE = 60  # the token that stands for a part of an image or of a sound
_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
_SECTIONS = {"rope_parameters": {**_ROPE, "mrope_section": [1, 1, 2]}}
_MIXED: Mapping[str, Any] = {"layer_types": ["linear_attention", "full_attention"]}
_STATES: Mapping[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 16}
_CHOSEN = {
    **_MIXED,
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 4,
    "indexer_compress_ratio": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_INDEXED = {
    "qk_rope_head_dim": 0,
    "num_key_value_heads": 4,
    "head_dim": 0,
    "layer_types": ["linear_attention", "indexed_attention"],
    "indexer_types": ["full", "full"],
    "index_topk": 2,
    "index_head_dim": 8,
    "index_n_heads": 2,
    "index_kpool": 2,
    "linear_head_dim": 8,
    "linear_num_heads": 2,
}
_ASR = {"num_key_value_heads": 4, "num_mel_bins": 80}
_DIARIZATION: Mapping[str, Any] = {
    "audio_config": _ASR,
    "head_config": {"audio_hidden_size": 32},
}
_TWO_TOWERS: Mapping[str, Any] = {"asr_config": _ASR, "diarization_config": _DIARIZATION}
_FLOW: Mapping[str, Any] = {"condition_dim": 32, "num_hidden_layers": 1}
_TOKENIZER = {"num_filters": 2, "depths": [1] * 7}
_WAVES = {
    "num_hidden_layers": 1,
    "patch_sizes": [16],
    "hidden_sizes": [8],
    "depths": [1],
    "out_hidden_size": 32,
}


def _ids(model: Any) -> Batch:
    return {"input_ids": IDS}


def _after(places: int) -> Tensor:
    """Return token ids after places of an image or a sound."""
    return torch.cat([torch.full((1, places), _PLACE), IDS], 1)


def _bands(model: Any) -> Batch:
    return {"input_features": noise(1, 64, 80)}


KINDS: Kinds = {
    _ids: {
        **every("cosmos3_edge", text_config={"rope_parameters": _ROPE}),
        **every("glm_ocr", text_config=_SECTIONS, vision_config={"out_hidden_size": 32}),
        **every("qwen2_5_omni_thinker qwen3_omni_moe_thinker", text_config=_SECTIONS),
        **every("gemma4", text_config={"vocab_size_per_layer_input": 64, "global_head_dim": 8}),
        **every("muse_glimmer", out_hidden_size=32, projector_hidden_size=32),
        **every("muse_spark", out_hidden_size=32, projector_hidden_size=32, audio_config=_WAVES),
        **every("inkling2", vision_config={"text_hidden_size": 32}),
        **every("bamba", attn_layer_indices=[1], **_STATES),
        **every("granitemoehybrid", **_MIXED, **_STATES),
        **every("bailing_hybrid kimi_linear", **_MIXED),
        **every("qwen4_exp_text", **_CHOSEN),
        **every("qwen4_exp", text_config=_CHOSEN),
        **every("glm5_next_text", **_INDEXED),
        **every(
            "glm5_next",
            text_config=_INDEXED,
            vision_config={"out_hidden_size": 32, "projection_intermediate_size": 16},
        ),
        **every("gradium_phonon_tts pocket_tts", flow_head_config=_FLOW),
        **every("vibevoice", audio_config=_TOKENIZER, semantic_model_config=_TOKENIZER),
        **every(
            "vibevoice_asr",
            acoustic_tokenizer_encoder_config=_TOKENIZER,
            semantic_tokenizer_encoder_config=_TOKENIZER,
        ),
    },
    lambda model: {"input_ids": IDS.repeat(1, 4), "use_cache": False}: every(
        "blt",
        encoder_hash_byte_group_vocab=64,
        encoder_config={"hidden_size_global": 32},
        decoder_config={"hidden_size_global": 32},
    ),
    lambda model: {
        **text(),
        "protein_input_ids": IDS,
        "protein_attention_mask": ones(1, 7),
    }: every(
        "evolla",
        aligner_num_add_layers=1,
        resampler_depth=1,
        resampler_num_latents=3,
        resampler_heads=2,
        resampler_dim_head=8,
    ),
    lambda model: {
        "input_ids": _after(16),
        "attention_mask": ones(1, 23),
        "pixel_values": noise(1, 1, 3, 16, 16),
        "pixel_attention_mask": ones(1, 1).bool(),
        "action_embeds": noise(1, 4, 32),
    }: every("pi0", vlm_config={"image_token_index": _PLACE, "projection_dim": 32}),
    lambda model: {
        "noise_embeds": noise(1, 4, 32),
        "context_hidden_states": noise(1, 3, 64),
    }: every("muse_glimmer_assistant", target_layer_ids=[0, 1], sliding_window=8),
    lambda model: {
        "input_ids": _after(10),
        "pixel_values": noise(1, 2, 3, 16, 16),
        "image_sizes": torch.tensor([[16, 16]]),
    }: every(
        "granite4_vision",
        downsample_rate="2/4",
        deepstack_layer_map=[[1, 0]],
        spatial_target_layers=[1] * 4,
        image_token_index=_PLACE,
        image_grid_pinpoints=[[16, 16]],
        vision_config={"hidden_size": 64},
        qformer_config={"num_hidden_layers": 1, "cross_attention_frequency": 1},
    ),
    lambda model: {
        "input_ids": _after(1),
        "pixel_values": noise(1, 1, 3, 16, 16),
        "pixel_attention_mask": ones(1, 1).bool(),
    }: every(
        "granite_docling",
        image_token_id=_PLACE,
        vision_config={"out_hidden_size": 32, "deepstack_visual_indexes": [0]},
    ),
    lambda model: {
        "input_ids": _after(4),
        "pixel_values": noise(1, 16, 48),
        "image_token_pooling": torch.arange(16).view(4, 4),
        "image_grids": torch.tensor([[2, 2, 0, 0]]),
    }: every(
        "molmo2",
        image_patch_id=_PLACE,
        vision_config={"num_key_value_heads": 4, "num_position_embeddings": 16},
        adapter_config={
            "vision_feature_layer": [1, 0],
            "hidden_size": 32,
            "text_hidden_size": 32,
            "num_key_value_heads": 4,
        },
    ),
    lambda model: {
        "input_ids": _after(8),
        "input_features": noise(1, 8, 560),
        "input_features_mask": ones(1, 8),
    }: every("fun_asr_nano", audio_token_id=_PLACE, adaptor_config={"intermediate_size": 8}),
    lambda model: {
        "input_ids": _after(8),
        "input_features": noise(1, 64, 80),
        "input_features_mask": ones(1, 64),
    }: every(
        "nemo_speechlm",
        audio_token_id=_PLACE,
        text_config={"layers_block_type": ["full_attention", "moe"]},
        audio_config=_TWO_TOWERS,
        word_timestamp_config={"blank_token_id": 63, "num_key_value_heads": 4},
    ),
    _bands: {
        **every("nemotron3_5_transcribe_asr_audio nemotron3_diarization_audio", **_ASR),
        **every("nemotron3_diarization", **_DIARIZATION),
        **every("nemotron3_5_transcribe_audio", **_TWO_TOWERS),
        **every(
            "granite_speech5_ctc",
            encoder_config={
                "context_size": 8,
                "subsample_layers": [0],
                "num_key_value_heads": 4,
                "num_mel_bins": 20,
            },
        ),
    },
    lambda model: {"inputs_embeds": noise(1, 7, 32)}: every(
        "nemotron3_5_transcribe_word_timestamp", blank_token_id=63, num_key_value_heads=4
    ),
}
