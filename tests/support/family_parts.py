"""Batches for families of transformers of several parts, or with layers of several kinds.

An encoder of images or sounds beside a network of texts, Q-Formers, codecs, state spaces.
"""

from collections.abc import Mapping
from typing import Any

import torch
from family_inputs import IDS, Batch, Kinds, every, noise, ones, text, text_and_image

_PLACES: Mapping[str, Any] = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 1.0,
        "mrope_section": [1, 1, 2],
    }
}
_FULL: Mapping[str, Any] = {"rope_parameters": {"full_attention": _PLACES["rope_parameters"]}}
_WORDS = {
    "hidden_size": 32,
    "ffn_dim": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 64,
    "max_position_embeddings": 64,
}
_OPT = {"model_type": "opt", "word_embed_proj_dim": 32, **_WORDS}
_BART = {
    "model_type": "bart",
    "d_model": 32,
    "vocab_size": 64,
    **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (
        ("layers", 1), ("attention_heads", 4), ("ffn_dim", 16),
    )},
}  # fmt: skip
_IMAGE = 60  # the token that stands for an image
_QUERIES: Mapping[str, Any] = {
    "num_query_tokens": 3,
    "image_token_id": _IMAGE,
    "text_config": _OPT,
}
_CODEC = {
    "model_type": "encodec",
    "num_filters": 4,
    "hidden_size": 16,
    "codebook_size": 8,
    "codebook_dim": 16,
    "num_lstm_layers": 1,
    "upsampling_ratios": [2, 2],
}
_CODES = {
    "base_channels": 32,
    "channel_multiplier": [1, 1],
    "latent_channels": 8,
    "embed_dim": 8,
    "num_embeddings": 16,
    "num_res_blocks": 1,
}
_FORECAST: Mapping[str, Any] = {
    "prediction_length": 4,
    "context_length": 8,
    "lags_sequence": [1, 2],
    "num_time_features": 1,
}
_SPEECH = {
    "num_conv_pos_embeddings": 4,
    "t2u_vocab_size": 64,
    **{f"{part}_layers": 1 for part in ("speech_encoder", "t2u_encoder", "t2u_decoder")},
    **{f"{part}_attention_heads": 4 for part in ("speech_encoder", "t2u_encoder", "t2u_decoder")},
    "speech_encoder_intermediate_size": 16,
    "t2u_encoder_ffn_dim": 16,
    "t2u_decoder_ffn_dim": 16,
    "upsample_initial_channel": 32,
    "unit_hifi_gan_vocab_size": 64,
    "unit_embed_dim": 16,
    "lang_embed_dim": 8,
    "spkr_embed_dim": 8,
}
_CHARACTERS: Mapping[str, Any] = {
    "t2u_variance_predictor_embed_dim": 16,
    "t2u_variance_predictor_hidden_dim": 16,
    "char_vocab_size": 64,
}
_VIDEO = {
    "num_spatial_layers": 1,
    "num_temporal_layers": 1,
    "num_auxiliary_layers": 1,
    "tubelet_size": [1, 4, 4],
    "num_frames": 2,
}
_FRAMES = {
    "num_frames": 2,
    "mit_hidden_size": 32,
    "mit_intermediate_size": 16,
    "mit_num_attention_heads": 4,
    "mit_num_hidden_layers": 1,
}
_DOTS = {
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "index_topk": 3,
    "index_head_dim": 16,
    "index_n_heads": 2,
    "layer_types": ["full_attention", "sliding_attention", "indexed_attention"],
    "per_layer_config": {1: {"head_dim": 16}},
}


def _ids(model: Any) -> Batch:
    return {"input_ids": IDS}


def _ids_of_both(model: Any) -> Batch:
    return {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}


def _prompted(model: Any, frames: int = 0) -> Batch:
    """Return a text after an image, or after the frames of a video, for networks of Q-Formers."""
    config, size = model.config, (1, *([frames] if frames else []), 3, 16, 16)
    places = torch.full((1, config.num_query_tokens * max(1, frames)), _IMAGE)
    batch = {"pixel_values": noise(*size), "input_ids": torch.cat([places, IDS], 1)}
    asks = config.model_type != "blip-2"
    return {**batch, "qformer_input_ids": IDS} if asks else batch


def _forecast(model: Any) -> Batch:
    past, future = noise(1, 10), noise(1, 4)
    return {
        "past_values": past,
        "past_time_features": past[..., None],
        "past_observed_mask": ones(1, 10),
        "future_values": future,
        "future_time_features": future[..., None],
    }


def _on_grid(model: Any, frames: int = 1) -> Batch:
    return {
        "pixel_values": noise(16, 3 * frames * model.config.patch_size**2),
        "grid_thw": torch.tensor([[1, 4, 4]]),
    }


KINDS: Kinds = {
    _ids: {
        **every(
            "zamba",
            num_hidden_layers=4,
            layer_types=[*["linear_attention"] * 2, *["hybrid"] * 2],
            use_mamba_kernels=False,
        ),
        **every("mamba2", num_heads=8, head_dim=8, n_groups=1),
        **every("recurrent_gemma", num_hidden_layers=3, lru_width=32),
        **every("lfm3", layer_types=["conv", "full_attention"]),
        **every("lfm3_vl", text_config={"layer_types": ["conv", "full_attention"]}),
        **every("funnel", block_sizes=[1, 1], num_decoder_layers=1, d_head=8, d_inner=16),
        **every(
            "dbrx",
            attn_config={"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
            ffn_config={"ffn_hidden_size": 16},
        ),
        **every("glm4v_moe_text glm4v_text glm_image_text glm_ocr_text", **_PLACES),
        **every("glm46v glm4v glm4v_moe glm_image glmga", text_config=_PLACES),
        **every("cohere_compass_text", **_FULL),
        **every("cohere_compass", text_config=_FULL),
        **every(
            "mistral4",
            num_key_value_heads=4,
            rope_parameters={
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.5,
                "llama_4_scaling_beta": 0.1,
                "original_max_position_embeddings": 64,
            },
        ),
        **every("unlimited_ocr", text_config={"num_key_value_heads": 4}),
        **every(
            "ernie4_5_vl_moe",
            text_config={
                **_PLACES,
                "moe_intermediate_size": [8, 8],
                "moe_num_experts": 4,
                "moe_k": 2,
            },
        ),
        **every(
            "dots3_note",
            vision_config={
                "mlp_layer_types": ["dense"] * 2,
                "adapter_in_dim": 32,
                "adapter_out_dim": 32,
            },
            audio_config={
                "adapter_input_size": 32,
                "adapter_out_dim": 32,
                "downsample_hidden_size": 8,
            },
            text_config=_DOTS,
        ),
        **every(
            "chameleon",
            vocabulary_map={"<image>": _IMAGE},
            vq_config={**_CODES, "resolution": 16},
        ),
        **every(
            "emu3",
            vocabulary_map={"<image>": _IMAGE},
            vq_config={"base_channels": 32, "hidden_size": 32},
        ),
        **every("janus", vq_config=_CODES, vision_config={"projection_dim": 32}),
        **every("diffusion_gemma", text_config={"top_k_experts": 2}),
        **every("t5gemma2_encoder", text_config={"dropout_rate": 0.0}),
        **every("deepseek_ocr2", text_config={"mlp_layer_types": ["dense", "sparse"]}),
        **every("sam3_lite_text_text_model", num_hidden_layers=4),
        **every("trocr"),
    },
    _ids_of_both: {
        **every("seamless_m4t", **_SPEECH),
        **every("seamless_m4t_v2", **_SPEECH, **_CHARACTERS),
        **every(
            "florence2",
            text_config=_BART,
            vision_config={
                "embed_dim": [8, 8, 16, 32],
                "depths": [1] * 4,
                "num_heads": [1, 2, 2, 4],
                "num_groups": [1, 2, 2, 4],
                "window_size": 2,
                "projection_dim": 32,
            },
        ),
    },
    _prompted: every("blip-2 instructblip", **_QUERIES),
    lambda model: _prompted(model, frames=2): every(
        "instructblipvideo", **_QUERIES, video_token_id=_IMAGE
    ),
    lambda model: {"input_ids": IDS, "decoder_input_ids": IDS[:, :4].repeat(4, 1)}: every(
        "musicgen musicgen_melody",
        audio_encoder=_CODEC,
        decoder={"vocab_size": 64, "num_codebooks": 4},
    ),
    _forecast: {
        **every("informer time_series_transformer", **_FORECAST),
        **every("autoformer", **_FORECAST, label_length=4),
    },
    text_and_image(16): every("flava"),
    text_and_image(32): every(
        "align",
        projection_dim=32,
        text_config={},
        vision_config={"image_size": 32, "width_coefficient": 0.1, "depth_coefficient": 0.1},
    ),
    lambda model: {
        **text(),
        "pixel_values": noise(1, 3, 16, 16),
        "pixel_mask": ones(1, 16, 16),
    }: every(
        "bridgetower",
        num_attention_heads=4,
        num_hidden_layers=2,
        vision_config={"hidden_size": 64},
        text_config={"num_attention_heads": 4},
    ),
    lambda model: {**text(), "pixel_values": noise(1, 2, 3, 16, 16)}: every(
        "xclip", vision_config=_FRAMES, projection_dim=32
    ),
    lambda model: {**text(), "pixel_values_videos": noise(1, 2, 3, 16, 16)}: every(
        "videoprism", vision_config=_VIDEO
    ),
    lambda model: {
        **text(),
        "pixel_values": noise(1, 16, 48),
        "pixel_attention_mask": ones(1, 16),
        "spatial_shapes": torch.tensor([[4, 4]]),
    }: every("siglip2", vision_config={"num_patches": 16}),
    lambda model: {
        "input_ids": IDS,
        "pixel_values": noise(1, 3, 16, 16),
        "image_embeds_position_mask": (torch.arange(7) < 3)[None],
    }: every("kosmos-2", latent_query_num=3),
    lambda model: {**text(), "bbox": torch.full((1, 7, 8), 0.2)}: every("bros", hidden_size=64),
    lambda model: {
        "pixel_values": noise(1, 16, 48),
        "pixel_position_ids": torch.cartesian_prod(*[torch.arange(4)] * 2)[None],
    }: every("gemma4_vision"),
    lambda model: {
        "flattened_patches": torch.cat([torch.ones(1, 16, 2), noise(1, 16, 48)], -1),
        "decoder_input_ids": IDS[:, :4],
    }: every(
        "pix2struct",
        text_config={"num_heads": 4, "num_layers": 2},
        vision_config={"seq_len": 16, "patch_embed_hidden_size": 48},
    ),
    lambda model: {"input_ids": IDS, "cross_attention_states": noise(1, 5, 32)}: every(
        "mllama_text_model",
        cross_attention_layers=[1],
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    lambda model: {
        "pixel_values": noise(1, 3, 4, 64),
        "target_sizes": torch.tensor([[4, 4]], dtype=torch.int32),
    }: every("minicpm_ocr_vision minicpmv4_7_vision"),
    lambda model: {"past_values": noise(1, 32, 2)}: every(
        "patchtsmixer",
        self_attn=True,
        gated_attn=False,
        context_length=32,
        patch_length=4,
        patch_stride=4,
        num_input_channels=2,
    ),
    _on_grid: {
        **every(
            "hunyuan_vl_vision",
            num_key_value_heads=4,
            out_hidden_size=32,
            text_hidden_size=32,
            max_image_size=64,
            img_max_token_num=16,
        ),
        **every("cosmos3_edge_vision"),
    },
    lambda model: _on_grid(model, frames=2): {
        **every("muse_glimmer_vision muse_spark_vision"),
        **every("lfm3_vl_vision", layer_types=["conv", "full_attention"]),
    },
    lambda model: {
        "pixel_values": noise(64, 192),
        "image_grid_thw": torch.tensor([[1, 8, 8]]),
    }: every("inkling2_vision"),
    lambda model: {
        "pixel_values": noise(16, 3, 4, 4),
        "grid_thw": torch.tensor([[1, 4, 4]]),
    }: every("kimi_k25_vision", pos_emb_height=4, pos_emb_width=4),
}
