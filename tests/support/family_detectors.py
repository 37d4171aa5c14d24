"""Batches for families of transformers that find objects, masks or matches in images.

DETR and its kin, SAM, networks of masks, of key points and of depths. None is given a backbone of
timm: the smallest ResNet or Swin takes its place.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from family_inputs import IDS, Batch, Kinds, Make, every, image, noise, ones, text_and_image

_STAGES = ["stage1", "stage2", "stage3", "stage4"]
_RESNET: Mapping[str, Any] = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8] * 4,
    "depths": [1] * 4,
    "out_features": _STAGES[3:],
}
_LEVELS = {**_RESNET, "model_type": "rt_detr_resnet", "layer_type": "basic"}
_RT: Mapping[str, Any] = {
    "backbone_config": {**_LEVELS, "out_features": _STAGES[1:]},
    "num_queries": 3,
    "encoder_in_channels": [8] * 3,
    "encoder_hidden_dim": 32,
    "feat_strides": [8, 16, 32],
    "decoder_in_channels": [32] * 3,
}
_READING_ORDER = {"coordinate_size": 4, "shape_size": 8, "max_position_embeddings": 64}
_FINE: Mapping[str, Any] = {**_RT, "decoder_n_points": [4] * 3, "layer_scale": 1}
_WINDOWS: Mapping[str, Any] = {
    "num_heads": [2] * 4,
    "depths": [1] * 4,
    "embed_dim": 8,
    "window_size": 2,
    "image_size": 32,
}
_SWIN = {**_WINDOWS, "out_features": _STAGES}
_MASKS: Mapping[str, Any] = {"backbone_config": _SWIN, "num_queries": 3, "decoder_layers": 3}
DECODER = {"iou_head_depth": 2, "iou_head_hidden_dim": 8}
_SAM_VISION = {
    "output_channels": 32,
    "num_pos_feats": 16,
    "window_size": 2,
    "global_attn_indexes": [1],
}
_SAM: Mapping[str, Any] = {
    "vision_config": _SAM_VISION,
    "prompt_encoder_config": {"mask_input_channels": 8},
    "mask_decoder_config": DECODER,
}
_HIERA: Mapping[str, Any] = {
    "hidden_size": 8,
    "image_size": [64, 64],
    "blocks_per_stage": [1, 1, 2, 1],
    "embed_dim_per_stage": [8, 16, 24, 32],
    "num_attention_heads_per_stage": [1, 2, 2, 4],
    "window_size_per_stage": [8, 4, 4, 2],
    "global_attention_blocks": [3],
}
SAM2_VISION: Mapping[str, Any] = {
    "backbone_config": _HIERA,
    "backbone_channel_list": [32, 24, 16, 8],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    "fpn_hidden_size": 32,
}
SAM3_VISION = {
    "backbone_config": {
        "image_size": 32,
        "pretrain_image_size": 16,
        "window_size": 2,
        "global_attn_indexes": [1],
    },
    "fpn_hidden_size": 32,
    "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
}
_TURBO: Mapping[str, Any] = {
    "backbone_config": {**_WINDOWS, "model_type": "swin", "out_features": _STAGES[1:]},
    "apply_layernorm_after_vision_backbone": False,
    "encoder_in_channels": [16, 32, 64],
    "vision_features_channels": [16] * 3,
    "encoder_dim_feedforward": 16,
    "task_encoder_hidden_dim": 16,
    "decoder_num_heads": 4,
    "decoder_num_layers": 2,
    "decoder_dim_feedforward": 16,
    "num_queries": 3,
    **dict.fromkeys(("encoder_hidden_dim", "d_model", "decoder_hidden_dim"), 16),
    **dict.fromkeys(("text_projection_in_dim", "text_projection_out_dim", "class_embed_dim"), 32),
}
_DEPTH: Mapping[str, Any] = {
    "patch_size": 16,
    "intermediate_hook_ids": [1, 0],
    "intermediate_feature_dims": [8, 8],
    "scaled_images_feature_dims": [8, 8, 8],
    "fusion_hidden_size": 8,
    **{f"{name}_model_config": {"patch_size": 4} for name in ("image", "patch", "fov")},
}
_BEIT = {
    "model_type": "beit",
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 16,
    "image_size": 64,
    "patch_size": 16,
    "out_features": _STAGES,
    "reshape_hidden_states": False,
}
_VITPOSE = {
    "model_type": "vitpose_backbone",
    "image_size": [32, 32],
    "patch_size": [16, 16],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_experts": 1,
    "out_features": ["stage2"],
}
_POINTS = {
    "encoder_hidden_sizes": [8] * 4,
    "decoder_hidden_size": 8,
    "descriptor_decoder_dim": 32,
    "keypoint_threshold": -1.0,
    "max_keypoints": 5,
}


def _point(size: int) -> Make:
    """Return what makes a batch of an image and one point in it."""

    def made(model: Any) -> Batch:
        at = {"input_points": torch.tensor([[[[3.0, 4.0]]]]), "input_labels": ones(1, 1, 1)}
        return {"pixel_values": noise(1, 3, size, size), **at}

    return made


def _line(height: int, width: int) -> Make:
    """Return what makes a batch of an image of a line of text."""
    return lambda model: {"pixel_values": noise(1, 3, height, width)}


def _forgetful(model: Any, **batch: Any) -> Any:
    """Return what a network puts out that keeps what it has made of a text: anew."""
    for cache in (model.language_cache_class, model.language_cache_prompt):
        cache.cache.clear()
    return model(**batch)


RUNS: dict[str, Callable[..., Any]] = {"omdet-turbo": _forgetful}
KINDS: Kinds = {
    image(64): {
        **every(
            "conditional_detr dab-detr detr table-transformer",
            backbone_config=_RESNET,
            num_queries=3,
        ),
        **every("rt_detr", **_RT),
        **every("rt_detr_v2", **_RT, decoder_method="discrete"),
        **every("d_fine deimv2", **_FINE),
        **every("pp_doclayout_v4", **_RT),
        **every(
            "pp_doclayout_v3",
            **{**_RT, "backbone_config": {**_LEVELS, "out_features": _STAGES}},
            x4_feat_dim=8,
            mask_feature_channels=[8, 8],
        ),
        **every(
            "pp_doclayout_v2",
            **_RT,
            class_thresholds=[-1.0] * 2,
            class_order=[0, 1],
            reading_order_config=_READING_ORDER,
        ),
        **every("mask2former", **_MASKS, feature_size=32, mask_feature_size=32),
        **every(
            "maskformer",
            backbone_config=_SWIN,
            decoder_config={"num_queries": 3},
            fpn_feature_size=32,
            mask_feature_size=32,
        ),
        **every("sam2_hiera_det_model", **_HIERA),
        **every("sam2_vision_model", **SAM2_VISION),
        **every(
            "glpn",
            hidden_sizes=[8] * 4,
            depths=[1] * 4,
            num_attention_heads=[2] * 4,
            mlp_ratios=[1] * 4,
            decoder_hidden_size=8,
        ),
        **every("mobilevit", image_size=64),
        **every("depth_pro", **_DEPTH),
        **every(
            "zoedepth",
            backbone_config=_BEIT,
            reassemble_factors=[4, 2, 1, 0.5],
            neck_hidden_sizes=[8] * 4,
            fusion_hidden_size=8,
            bottleneck_features=8,
            num_relative_features=8,
        ),
    },
    image(128): {
        **every(
            "deformable_detr",
            backbone_config={**_RESNET, "out_features": _STAGES[1:]},
            num_queries=3,
        ),
        **every("mobilevitv2", width_multiplier=0.25, patch_size=2),
        **every(
            "levit",
            image_size=128,
            hidden_sizes=[16] * 3,
            num_attention_heads=[2] * 3,
            depths=[1] * 3,
            key_dim=[8] * 3,
            mlp_ratio=[1] * 3,
            attention_ratio=[1] * 3,
            patch_size=16,
        ),
    },
    text_and_image(128): every(
        "grounding-dino mm-grounding-dino", backbone_config=_SWIN, num_queries=3
    ),
    image(32): {
        **every("rf_detr", num_queries=3, group_detr=1),
        **every("vitpose", backbone_config=_VITPOSE),
        **every("cvt", embed_dim=[8, 8, 16], num_heads=[1, 2, 2], depth=[1, 2, 3]),
    },
    image(16): {
        **every(
            "lw_detr",
            num_queries=3,
            group_detr=1,
            projector_scale_factors=[1.0],
            backbone_config={
                "image_size": 16,
                "num_windows": 4,
                "num_hidden_layers": 2,
                "window_block_indices": [0],
                "out_indices": [2],
            },
        ),
        **every("eomt eomt_dinov3", num_blocks=1, num_queries=3, num_upscale_blocks=1),
        **every(
            "swin2sr", num_heads=[2, 2], depths=[1, 1], embed_dim=8, window_size=2, patch_size=1
        ),
    },
    lambda model: {"pixel_values": noise(1, 3, 32, 32), "output_hidden_states": True}: every(
        "maskformer-swin", **_WINDOWS
    ),
    lambda model: {"pixel_values": noise(1, 3, 64, 64), "task_inputs": noise(1, 7)}: every(
        "oneformer",
        **_MASKS,
        conv_dim=32,
        mask_dim=32,
        text_encoder_width=32,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=64,
        task_seq_len=7,
    ),
    _point(16): {
        **every("sam", **_SAM),
        **every("sam_hq", **{**_SAM, "mask_decoder_config": {**DECODER, "vit_dim": 32}}),
    },
    _point(64): every(
        "sam2",
        vision_config=SAM2_VISION,
        prompt_encoder_config={"image_size": 64, "patch_size": 16, "mask_input_channels": 8},
        mask_decoder_config=DECODER,
    ),
    text_and_image(32): every("sam3 sam3_lite_text", vision_config=SAM3_VISION),
    _point(32): every(
        "sam3_tracker",
        vision_config=SAM3_VISION,
        prompt_encoder_config={"image_size": 32, "patch_size": 4, "mask_input_channels": 8},
        mask_decoder_config=DECODER,
    ),
    lambda model: {"pixel_values": noise(1, 2, 3, 32, 32)}: {
        **every("lightglue"),
        **every(
            "superglue",
            keypoint_detector_config=_POINTS,
            keypoint_encoder_sizes=[8, 8],
            gnn_layers_types=["self", "cross"],
        ),
    },
    lambda model: dict.fromkeys(
        ("pixel_values", "prompt_pixel_values", "prompt_masks"), noise(1, 3, 16, 16)
    ): every(
        "seggpt",
        image_size=[32, 16],
        merge_index=0,
        intermediate_hidden_state_indices=[1],
        mlp_dim=16,
    ),
    lambda model: {"pixel_values_videos": noise(1, 2, 3, 16, 16)}: {
        **every("videomt", num_blocks=1, num_queries=3, num_upscale_blocks=1),
        **every(
            "videoprism_vision_model",
            num_spatial_layers=1,
            num_temporal_layers=1,
            num_auxiliary_layers=1,
            tubelet_size=[1, 4, 4],
            num_frames=2,
        ),
    },
    lambda model: {
        "pixel_values": noise(1, 3, 64, 64),
        "classes_input_ids": IDS.repeat(2, 1),
        "classes_attention_mask": ones(2, 7),
        "classes_structure": torch.tensor([2]),
        "tasks_input_ids": IDS,
        "tasks_attention_mask": ones(1, 7),
    }: every("omdet-turbo", **_TURBO),
    lambda model: {"pixel_values": noise(1, 2, 3, 128, 128)}: every(
        "efficientloftr",
        stage_num_blocks=[1] * 4,
        out_features=[8, 8, 16, 32],
        num_attention_layers=1,
        num_attention_heads=8,
        num_key_value_heads=8,
    ),
    _line(96, 160): every("pp_ocrv5_mobile_rec pp_ocrv5_server_rec", head_out_channels=64),
    _line(48, 320): every("pp_ocrv6_small_rec", head_out_channels=64),
    lambda model: {"input_ids": IDS, "pixel_values": noise(1, 2, 3, 64, 64)}: every(
        "tvp",
        backbone_config=_RESNET,
        max_img_size=64,
        visual_prompt_size=8,
        max_grid_row_position_embeddings=8,
        max_grid_col_position_embeddings=8,
        num_frames=2,
    ),
}
