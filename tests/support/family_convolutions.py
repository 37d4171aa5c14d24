"""Batches for families of transformers that have no attention: convolutions, codecs, transforms."""

from collections.abc import Mapping
from typing import Any

import families
import torch
from family_inputs import IDS, Kinds, every, image, noise

from fourierkernels.checkpoints.recorders.recording import recording

_STAGES: Mapping[str, Any] = {"hidden_sizes": [8] * 4, "depths": [1] * 4}
_TOKENIZER: Mapping[str, Any] = {"num_filters": 2, "depths": [1] * 7}

KINDS: Kinds = {
    image(32): {
        **every("convnext convnextv2 dinov3_convnext poolformer", **_STAGES),
        **every("bit resnet", **_STAGES, embedding_size=8, num_groups=2),
        **every("regnet", **_STAGES, embedding_size=8, groups_width=8),
        **every("swiftformer", embed_dims=[8] * 4, depths=[1] * 4),
        **every("focalnet", depths=[1] * 4, embed_dim=8),
        **every("mobilenet_v1 mobilenet_v2"),
        **every("efficientnet", width_coefficient=0.1, depth_coefficient=0.1, hidden_dim=128),
    },
    lambda model: {"pixel_values": noise(1, 3, 48, 320)}: every("pp_ocrv6_tiny_rec"),
    lambda model: {"input_values": noise(1, 1, 4_096)}: {
        **every("vibevoice_acoustic_tokenizer", **_TOKENIZER),
        **every(
            "dac", encoder_hidden_size=8, decoder_hidden_size=128, downsampling_ratios=[8, 5, 4, 2]
        ),
        **every(
            "encodec",
            num_filters=4,
            hidden_size=16,
            codebook_size=8,
            codebook_dim=16,
            num_lstm_layers=1,
            upsampling_ratios=[2, 2],
        ),
    },
    lambda model: {"hidden_states": noise(1, 1, 4_096)}: every(
        "vibevoice_acoustic_tokenizer_encoder", **_TOKENIZER
    ),
    lambda model: {"hidden_states": noise(1, 32, 4)}: every(
        "vibevoice_acoustic_tokenizer_decoder", **_TOKENIZER
    ),
    lambda model: {
        "input_features": noise(1, 16, 100),
        "noise_sequence": noise(1, 16, 64),
    }: every("univnet", model_hidden_channels=8),
    lambda model: {"input_values": noise(1, 64)}: every(
        "muse_spark_audio", num_hidden_layers=1, patch_sizes=[16], hidden_sizes=[8], depths=[1]
    ),
    lambda model: {"input_ids": IDS}: every("fnet"),
}
MAKE = {kind: make for make, kinds in KINDS.items() for kind in kinds}
ENTRIES = {kind: entries for kinds in KINDS.values() for kind, entries in kinds.items()}
SLOW = {
    *every("dac encodec mobilenet_v1 mobilenet_v2 pp_ocrv6_tiny_rec univnet"),
    "vibevoice_acoustic_tokenizer",
}


def alarms(kind: str) -> list[str]:
    """Return names of modules that are recorded or named, of which there should be none."""
    model = families.tiny_model(kind, entries=ENTRIES[kind])
    with torch.inference_mode(), recording(model) as calls:
        model(**MAKE[kind](model))
    return [call.name for call in calls] + [*calls.unread]
