"""Batches for parts of families of transformers, and for networks that are made of two others.

Towers, resamplers and decoders that have a configuration but no automatic class, backbones below a
head, encoders with the decoder of another family.
"""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from family_inputs import IDS, Batch, Kinds, every, image, noise, ones

_SMALL: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 16,
}
_TEXT = {**_SMALL, "model_type": "bert", "vocab_size": 64, "max_position_embeddings": 64}
_READER = {**_TEXT, "is_decoder": True, "add_cross_attention": True}
_IMAGE = {**_SMALL, "model_type": "vit", "image_size": 16, "patch_size": 4}
_SOUND = {
    **_SMALL,
    "model_type": "wav2vec2",
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
_STAGES = ["stage1", "stage2", "stage3", "stage4"]
_DEPTH: Mapping[str, Any] = {
    "backbone_config": {
        **_IMAGE,
        "model_type": "dinov2",
        "num_hidden_layers": 4,
        "reshape_hidden_states": False,
        "out_features": _STAGES,
    },
    "neck_hidden_sizes": [8] * 4,
    "fusion_hidden_size": 8,
    "reassemble_hidden_size": 32,
    "head_hidden_size": 8,
    "patch_size": 4,
}
_HEAD: Mapping[str, Any] = {
    **_DEPTH,
    "backbone_config": {
        **_DEPTH["backbone_config"],
        "model_type": "dinov3_vit",
        "image_size": 32,
        "patch_size": 16,
        "reshape_hidden_states": True,
        "return_class_token": True,
    },
    "post_process_channels": [8] * 4,
    "number_output_channels": 8,
}
_SWIN = {
    "model_type": "swin",
    "num_heads": [2] * 4,
    "depths": [1] * 4,
    "embed_dim": 8,
    "window_size": 2,
    "image_size": 32,
    "out_features": _STAGES,
}
_MATTE = {
    **_SMALL,
    "model_type": "vitdet",
    "image_size": 32,
    "patch_size": 16,
    "num_channels": 4,
    "out_features": ["stage1"],
}
_DAVIT: Mapping[str, Any] = {
    "embed_dim": [8, 8, 16, 32],
    "depths": [1] * 4,
    "num_heads": [1, 2, 2, 4],
    "num_groups": [1, 2, 2, 4],
    "window_size": 2,
    "projection_dim": 32,
}
_NOTE: Mapping[str, Any] = {"adapter_out_dim": 32}
_SECTIONS: Mapping[str, Any] = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
}


def _ids(model: Any) -> Batch:
    return {"input_ids": IDS}


def _states(model: Any) -> Batch:
    return {"inputs_embeds": noise(1, 7, 32)}


def _patches(model: Any) -> Batch:
    """Return the patches of one image, which are rows of a matrix, and how they lie."""
    config = model.config
    depth = getattr(config, "temporal_patch_size", 1)
    channels = getattr(config, "in_channels", 3)
    rows = noise(16, channels * depth * config.patch_size**2)
    name = "hidden_states" if "hidden_states" in signature(model.forward).parameters else None
    return {name or "pixel_values": rows, "grid_thw": torch.tensor([[1, 4, 4]])}


KINDS: Kinds = {
    _ids: {
        **every("bridgetower_text_model pp_formulanet_text qwen3_omni_moe_text step3p5"),
        **every("colmodernvbert colpali"),
        **every("colqwen2", vlm_config={"text_config": _SECTIONS}),
        **every("paddleocr_vl_text qwen2_5_omni_text", **_SECTIONS),
    },
    _states: every("qwen3_omni_moe_talker_code_predictor"),
    _patches: {
        **every("ernie4_5_vl_moe_vision qwen2_5_omni_vision_encoder qwen3_omni_moe_vision_encoder"),
        **every(
            "dots3_note_vision_encoder",
            mlp_layer_types=["dense"] * 2,
            per_layer_config={},
            adapter_in_dim=32,
            **_NOTE,
        ),
    },
    image(16): {
        **every("deepseek_ocr2_sam_vision_model idefics2_vision janus_vision_model"),
        **every("phi4_multimodal_vision pp_formulanet_vision slanext_vision"),
        **every("groupvit_vision_model unlimited_ocr_sam_vision_model"),
        **every("depth_anything prompt_depth_anything", **_DEPTH),
        **every("slanext", max_text_length=1),
    },
    image(32): {
        **every("chmv2", **_HEAD),
        **every(
            "upernet",
            backbone_config=_SWIN,
            hidden_size=8,
            pool_scales=[1],
            use_auxiliary_head=False,
        ),
    },
    lambda model: {"hidden_states": noise(1, 3, 32, 32)}: every("florence_vision", **_DAVIT),
    lambda model: {"image": noise(1, 3, 16, 16)}: every("bridgetower_vision_model", hidden_size=64),
    lambda model: {"pixel_values": noise(1, 4, 32, 32)}: every(
        "vitmatte",
        backbone_config=_MATTE,
        hidden_size=32,
        convstream_hidden_sizes=[8] * 3,
        fusion_hidden_sizes=[8] * 4,
    ),
    lambda model: {"patch_embeds": noise(1, 32, 4, 4)}: every("unlimited_ocr_vision_encoder"),
    lambda model: {"inputs_embeds": noise(1, 8, 32), "num_patches": 4}: every(
        "deepseek_ocr2_encoder"
    ),
    lambda model: {
        "pixel_values": noise(1, 1, 4, 3, 16, 16),
        "aspect_ratio_ids": ones(1, 1),
        "aspect_ratio_mask": ones(1, 1, 4),
    }: every(
        "mllama_vision_model", intermediate_layers_indices=[0], num_global_layers=1, max_num_tiles=4
    ),
    lambda model: {"context": noise(1, 9, 32), "attention_mask": ones(1, 9)}: every(
        "idefics2_perceiver",
        resampler_n_latents=3,
        resampler_depth=1,
        resampler_n_heads=4,
        resampler_head_dim=8,
    ),
    lambda model: {
        "flattened_patches": torch.cat([torch.ones(1, 16, 2), noise(1, 16, 48)], -1)
    }: every("kosmos_2_5_vision_model", patch_embed_hidden_size=48),
    lambda model: {
        "pixel_values": noise(1, 3, 4, 64),
        "target_sizes": torch.tensor([[4, 4]], dtype=torch.int32),
    }: every("minicpmv4_6_vision"),
    lambda model: {
        "input_features": noise(model.config.num_mel_bins, 64),
        "feature_lens": torch.tensor([64]),
    }: every("qwen2_5_omni_audio_encoder", max_source_positions=64, n_window=8, output_dim=32),
    lambda model: {"input_ids": IDS, "encoder_hidden_states": noise(1, 5, 32)}: every(
        "t5gemma2_decoder", dropout_rate=0.0
    ),
    lambda model: {
        "input_ids": IDS[..., None].expand(1, 7, 4),
        "encoder_hidden_states": noise(1, 5, 32),
        "position_ids": torch.arange(7)[None],
    }: every(
        "dia_decoder",
        num_channels=4,
        cross_hidden_size=32,
        cross_num_attention_heads=4,
        cross_num_key_value_heads=2,
        cross_head_dim=8,
    ),
    lambda model: {"hidden_states": noise(1, 64, 80), "mask": None}: every(
        "phi4_multimodal_audio",
        num_blocks=2,
        nemo_conv_channels=32,
        ext_pw_out_channel=32,
        depthwise_separable_out_channel=32,
        input_size=80,
    ),
    lambda model: {
        "input_ids": torch.cat([torch.full((1, 4), 60), IDS], 1),
        "pixel_values": noise(1, 3, 16, 16),
    }: every(
        "shieldgemma2",
        image_token_index=60,
        mm_tokens_per_image=4,
        yes_token_index=1,
        no_token_index=2,
        vision_config={"image_size": 16, "patch_size": 4},
    ),
    lambda model: {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}: every(
        "encoder-decoder", encoder=_TEXT, decoder=_READER
    ),
    lambda model: {"pixel_values": noise(1, 3, 16, 16), "decoder_input_ids": IDS[:, :4]}: every(
        "vision-encoder-decoder", encoder=_IMAGE, decoder=_READER
    ),
    lambda model: {"input_values": noise(1, 4_000), "decoder_input_ids": IDS[:, :4]}: every(
        "speech-encoder-decoder", encoder=_SOUND, decoder=_READER
    ),
}
