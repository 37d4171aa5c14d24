"""Networks that read texts and images: which of their attention a report and a lens are about."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import fourierkernels as fk
from fourierkernels.checkpoints import attention_calls
from fourierkernels.report import HeadLens

SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2}
IMAGE = {"image_size": 8, "patch_size": 4}
TEXT = {**SMALL, **HEADS, "vocab_size": 30, "max_position_embeddings": 16, "pad_token_id": 0}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}


def clip() -> Any:
    vision = {**SMALL, **HEADS, **IMAGE}
    config = transformers.CLIPConfig(
        text_config={**TEXT, **ENDS}, vision_config=vision, projection_dim=8
    )
    return transformers.CLIPModel(config)


def blip() -> Any:
    text = {**TEXT, **ENDS, "encoder_hidden_size": 16, "sep_token_id": 2}
    config = transformers.BlipConfig(
        text_config=text, vision_config={**SMALL, **HEADS, **IMAGE}, projection_dim=8
    )
    return transformers.BlipForConditionalGeneration(config)


def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 30, (1, 6), generator=generator)
    image = torch.randn(1, 3, 8, 8, generator=generator)
    return {"input_ids": ids, "pixel_values": image, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("build", [clip, blip])
def test_self_attention_of_both_towers_is_measured_by_name(build: Any) -> None:
    torch.manual_seed(0)
    model = build().eval()
    options: dict[str, Any] = {"baseline": False, "controls": "none", "statistics": "none"}
    report = fk.head_report(model, [batch()], **options)
    calls = [call for call in attention_calls(model, **batch()) if not call.cross]
    assert report.first.layers == tuple(call.name for call in calls)
    assert [shape[2:] for shape in report.first.shapes] == [(5, 5), (6, 6)]
    assert any(one.startswith("roles: roles need attention from") for one in report.first.left_out)
    lens = HeadLens(model)
    for call in calls:
        np.testing.assert_allclose(lens.maps(call.name, batch()), call.maps[0], atol=1e-6)


def test_text_to_image_attention_is_recorded_and_is_no_part_of_a_report() -> None:
    torch.manual_seed(0)
    model = blip().eval()
    cross = [call for call in attention_calls(model, **batch()) if call.cross]
    assert [tuple(call.maps.shape) for call in cross] == [(1, 2, 6, 5)]
    with pytest.raises(ValueError, match="part must be left out for a network that is not"):
        fk.head_report(model, [batch()], part="cross", baseline=False)
