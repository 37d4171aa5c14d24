"""Batches for families of transformers that follow objects through a video, frame by frame.

What they have seen is kept in a session, which two passes cannot share: each makes its own.
"""

from collections.abc import Callable, Mapping
from sys import modules
from typing import Any

import torch
from family_detectors import DECODER, SAM2_VISION, SAM3_VISION
from family_inputs import IDS, Batch, Kinds, Make, every, noise, ones
from torch import Tensor

_WIDTH = 128  # what it remembers of each frame has 64 features, and has to be narrower
_WIDE: Mapping[str, Any] = {"hidden_size": _WIDTH}
_MEMORY: Mapping[str, Any] = {
    "image_size": 64,
    "mask_decoder_config": {**DECODER, **_WIDE},
    "memory_attention_hidden_size": _WIDTH,
    "memory_attention_num_layers": 1,
    "memory_attention_num_attention_heads": 2,
    "memory_attention_feed_forward_hidden_size": 16,
    "memory_attention_mlp_hidden_size": 16,
    "memory_attention_rope_feat_sizes": [4, 4],
    "memory_attention_rope_k_sizes": [2, 2],
    "memory_encoder_hidden_size": _WIDTH,
    "memory_encoder_output_channels": 64,
    "mask_downsampler_embed_dim": _WIDTH,
    "memory_fuser_embed_dim": _WIDTH,
    "memory_fuser_intermediate_dim": 16,
    "memory_fuser_num_layers": 1,
}
_SAM2: Mapping[str, Any] = {
    **_MEMORY,
    "vision_config": {**SAM2_VISION, "fpn_hidden_size": _WIDTH},
    "prompt_encoder_config": {
        **_WIDE,
        "image_size": 64,
        "patch_size": 16,
        "mask_input_channels": 8,
    },
}
_RESAMPLER: Mapping[str, Any] = {
    "perceiver_resampler_num_latents": 4,
    "perceiver_resampler_num_latents_2d": 4,
    "perceiver_resampler_hidden_size": 64,
    "perceiver_resampler_mlp_intermediate_size": 16,
    "perceiver_resampler_num_attention_heads": 2,
    "perceiver_resampler_attention_head_dim": 32,
    "perceiver_resampler_num_layers": 1,
}
_SAM3: Mapping[str, Any] = {
    **_MEMORY,
    "image_size": 32,
    "memory_attention_rope_feat_sizes": [8, 8],
    "vision_config": {**SAM3_VISION, "fpn_hidden_size": _WIDTH},
    "prompt_encoder_config": {
        **_WIDE,
        "image_size": 32,
        "patch_size": 4,
        "mask_input_channels": 8,
    },
}
_PARTS = ("detr_encoder", "detr_decoder", "geometry_encoder", "mask_decoder")


def _frames(size: int) -> Make:
    return lambda model: {"frames": noise(2, 3, size, size)}


def _session(model: Any, frames: Tensor) -> Any:
    """Return a new session of a video."""
    kind = f"{type(model).__name__.removesuffix('Model')}InferenceSession"
    made = getattr(modules[type(model).__module__], kind)
    return made(frames, video_height=64, video_width=64, dtype=torch.float32)


def _pointed_at(model: Any, frames: Tensor, **options: Any) -> Batch:
    """Return what is found of an object in each frame, of which a point in the first is given."""
    session = _session(model, frames)
    point = {"point_coords": torch.tensor([[[[3.0, 4.0]]]]), "point_labels": ones(1, 1, 1).int()}
    session.add_point_inputs(session.obj_id_to_idx(1), 0, point)
    session.obj_with_new_inputs.append(1)
    return {str(k): model(session, frame_idx=k, **options) for k in range(len(frames))}


def _named(model: Any, frames: Tensor, **options: Any) -> Batch:
    """Return what is found in each frame of the objects that a text names."""
    session = _session(model, frames)
    at = session.add_prompt("an object")
    session.prompt_input_ids[at], session.prompt_attention_masks[at] = IDS, ones(*IDS.shape)
    return {str(k): model(session, frame_idx=k, **options) for k in range(len(frames))}


RUNS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("edgetam_video", "sam2_video", "sam3_tracker_video"), _pointed_at),
    "sam3_video": _named,
}
KINDS: Kinds = {
    _frames(64): {
        **every("sam2_video", **_SAM2),
        **every("edgetam_video", **_SAM2, **_RESAMPLER),
    },
    _frames(32): {
        **every("sam3_tracker_video", **_SAM3),
        **every(
            "sam3_video",
            detector_config={
                "vision_config": _SAM3["vision_config"],
                **{f"{part}_config": _WIDE for part in _PARTS},
            },
            tracker_config=_SAM3,
            low_res_mask_size=32,
            score_threshold_detection=-1.0,
            new_det_thresh=-1.0,
            det_nms_thresh=0.0,
            max_num_objects=2,
        ),
    },
}
