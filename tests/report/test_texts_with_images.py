"""Networks that read texts and images: which of their attention a report and a lens are about."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import fourierkernels as fk
from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.diagnostics import head_distances, head_roles
from fourierkernels.report import HeadLens

SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2}
IMAGE = {"image_size": 8, "patch_size": 4}
TEXT = {**SMALL, **HEADS, "vocab_size": 30, "max_position_embeddings": 16, "pad_token_id": 0}
OPTIONS: dict[str, Any] = {"baseline": False, "controls": "none", "statistics": "none"}
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
    report = fk.head_report(model, [batch()], **OPTIONS)
    calls = [call for call in attention_calls(model, **batch()) if not call.cross]
    assert report.first.layers == tuple(call.name for call in calls)
    assert [shape[2:] for shape in report.first.shapes] == [(5, 5), (6, 6)]
    assert any(one.startswith("roles: roles need attention from") for one in report.first.left_out)
    lens = HeadLens(model)
    for call in calls:
        np.testing.assert_allclose(lens.maps(call.name, batch()), call.maps[0], atol=1e-6)


def llava() -> Any:
    """Return a model whose tokens 29 are replaced by the four pieces of an image."""
    text = {**TEXT, **ENDS, "num_key_value_heads": 1}
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**SMALL, **HEADS, **IMAGE),
        text_config=transformers.LlamaConfig(**text),
        image_token_index=29,
    )
    torch.manual_seed(0)
    return transformers.LlavaForConditionalGeneration(config).eval()


def mllama() -> Any:
    """Return a model whose words attend to images beside them, in their second layer."""
    sizes = {
        "image_size": 8,
        "patch_size": 4,
        "max_num_tiles": 1,
        "supported_aspect_ratios": [[1, 1]],
    }
    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "attention_heads": 2,
        "vision_output_dim": 32,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "intermediate_layers_indices": [0],
        **sizes,
    }
    text = {
        **TEXT,
        **ENDS,
        "num_hidden_layers": 2,
        "num_key_value_heads": 1,
        "vocab_size": 40,
        "cross_attention_layers": [1],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }
    config = transformers.MllamaConfig(vision_config=vision, text_config=text, image_token_index=39)
    torch.manual_seed(0)
    model = transformers.MllamaForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            if "gate" in name:
                one.fill_(0.5)  # zero at first: then no word takes anything from an image
            elif "norm" not in name:
                one.normal_(std=0.3)
    return model


def with_pieces(number: int = 0) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[1, 3 + number, 29, 29, 29, 29, 5, 6, 7]])
    image = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(number))
    return {"input_ids": ids, "pixel_values": image, "attention_mask": torch.ones_like(ids)}


def test_attention_of_a_text_to_the_image_beside_it_is_a_part() -> None:
    torch.manual_seed(0)
    model = blip().eval()
    (cross,) = [call for call in attention_calls(model, **batch()) if call.cross]
    assert tuple(cross.maps.shape) == (1, 2, 6, 5)
    report = fk.head_report(model, [batch()], part="cross", **OPTIONS)
    assert report.first.layers == (cross.name,)
    (apart,) = report.frame("heads")["mean"]
    expected = head_distances(cross.maps[0].double().numpy(), metric="frobenius_per_sqrt_n")
    np.testing.assert_allclose(apart, expected[0, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("part", "name", "count"), [("encoder", "vision", 5), ("decoder", "language", 9)]
)
def test_parts_of_a_language_model_with_images_are_its_towers(
    part: str, name: str, count: int
) -> None:
    report = fk.head_report(llava(), [with_pieces()], part=part, **OPTIONS)
    (layer,) = report.first.layers
    assert name in layer
    lens = HeadLens(llava(), part=part)
    assert lens.maps(layer, with_pieces()).shape == (2, count, count)


def test_weight_of_words_on_pieces_of_an_image_is_a_role_beside_chance() -> None:
    model, batches = llava(), [with_pieces(number) for number in range(3)]
    found = fk.head_report(model, batches, part="decoder", roles=["image"], **OPTIONS).first.roles
    scores = []
    for one in batches:
        maps = attention_calls(model, **one)[-1].maps[0]
        scores.append(maps[:, 6:, 2:6].sum(-1).mean(-1))  # the words before see no image
    np.testing.assert_allclose(found["image"].score[0], torch.stack(scores).mean(0), rtol=1e-5)
    np.testing.assert_allclose(found["image"].chance[0], np.mean([4 / 7, 4 / 8, 4 / 9]), rtol=1e-5)
    texts = [{key: one[key][:, 6:] for key in ("input_ids", "attention_mask")} for one in batches]
    bare = fk.head_report(model, texts, part="decoder", roles=["image"], **OPTIONS).first
    assert not bare.roles
    assert "image: no input has rows with such keys and others" in bare.left_out


def test_image_tokens_that_a_tokenizer_calls_special_are_dealt_out_by_chance() -> None:
    options = {**OPTIONS, "roles": ["image"], "controls": ["rows"], "part": "decoder"}
    batches = [with_pieces(number) for number in range(3)]
    one, other = (
        fk.head_report(llava(), batches, tokenizer=tokenizer, **options).first
        for tokenizer in (
            Tokenizer(list, special=frozenset({1})),
            Tokenizer(list, special=frozenset({1, 29})),
        )
    )
    for name in ("score", "chance"):
        left, right = (getattr(each.roles["image"], name) for each in (one, other))
        np.testing.assert_array_equal(left, right)
    (left,), (right,) = (each.controls["rows"].values() for each in (one, other))
    np.testing.assert_array_equal(left.distances, right.distances)
    maps, image = np.full((1, 1, 4, 4), 0.25), np.arange(4) == 1
    found = head_roles(maps, names=["image"], special=image | (np.arange(4) == 0), image=image)
    assert found["image"].score.item() == 0.25
    assert found["image"].chance.item() == 0.25


def test_masks_of_an_image_are_cut_with_those_of_the_words() -> None:
    """Of Mllama, two images and padding on the left: each word has the mask of its own place."""
    model, ids = mllama(), torch.tensor([[1, 39, 5, 39, 6, 7]])
    seen = torch.tensor([[[1, 0], [1, 0], [1, 0], [1, 1], [1, 1], [1, 1]]])[..., None]
    generator = torch.Generator().manual_seed(0)
    rest = {
        "pixel_values": torch.randn(1, 2, 1, 3, 8, 8, generator=generator),
        "aspect_ratio_ids": torch.ones(1, 2, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(1, 2, 1, dtype=torch.long),
    }
    bare = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "cross_attention_mask": seen}
    padded = {
        name: torch.nn.functional.pad(one, (0,) * 2 * (one.ndim - 2) + (3, 0))
        for name, one in bare.items()
    }
    means = [
        fk.head_report(model, [{**each, **rest}], part="cross", **OPTIONS).frame("heads")["mean"][0]
        for each in (bare, padded)
    ]
    assert means[0] == pytest.approx(means[1], rel=1e-6)
    roles = fk.head_report(model, [{**bare, **rest}], part="decoder", **OPTIONS).first.roles
    assert "image" not in roles  # such a token marks the place of an image, and is none of it


def test_a_part_that_a_network_with_images_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="none of this part beside 2 calls"):
        fk.head_report(llava(), [with_pieces()], part="cross", **OPTIONS)
    with pytest.raises(
        ValueError, match="part must be one of encoder, decoder, cross, got 'image'"
    ):
        fk.head_report(llava(), [with_pieces()], part="image", **OPTIONS)
    git = transformers.GitForCausalLM(
        transformers.GitConfig(
            **TEXT, **ENDS, vision_config={**SMALL, **HEADS, **IMAGE}, num_image_with_embedding=None
        )
    )
    for part in ("encoder", "decoder"):
        with pytest.raises(ValueError, match="part must be one that GitForCausalLM has as a mod"):
            fk.head_report(git.eval(), [batch()], part=part, **OPTIONS)
