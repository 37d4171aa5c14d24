"""Architectures of timm: their maps are those of their layers without the recorder."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.recorders.recording import recording

timm = pytest.importorskip("timm", exc_type=ImportError)

SIZES = {"img_size": 32, "embed_dim": 32, "num_heads": 4, "depth": 2}
#: Architecture, its sizes, and how many maps its layers compute of all tokens.
FEW: dict[str, tuple[dict[str, Any], int]] = {
    "vit_tiny_patch16_224": (SIZES, 2),
    "deit_tiny_distilled_patch16_224": (SIZES, 2),
    "beit_base_patch16_224": (SIZES, 2),
    "eva02_tiny_patch14_224": ({**SIZES, "img_size": 28}, 2),
    "vit_relpos_small_patch16_224": (SIZES, 2),
    "vit_small_patch14_dinov2": ({**SIZES, "img_size": 28}, 2),
    "flexivit_small": (SIZES, 2),
    "convit_tiny": ({"img_size": 32, "depth": 3, "local_up_to_layer": 2}, 3),
    "samvit_base_patch16": ({"img_size": 64, "embed_dim": 32, "depth": 2, "num_heads": 4}, 2),
    "visformer_tiny": ({"img_size": 64}, 8),
    "twins_svt_small": ({"img_size": 64}, 18),
    "nest_tiny": ({"img_size": 64}, 12),
    "hiera_tiny_224": ({"img_size": 64}, 12),
}
WINDOWS_FIRST = {"twins_svt_small"}  # and then heads; in others they come after heads
#: What is not understood in them, by the name of a module.
NAMED = {
    "coat_tiny": ({"img_size": 64}, "serial_blocks1.0.factoratt_crpe"),
    "volo_d1_224": ({"img_size": 64}, "network.0.0.attn"),
}
# Their layers are of several shapes, or read windows: what is recorded has rows that sum to one.
MORE = ("swin_tiny_patch4_window7_224", "maxvit_tiny_tf_224", "gcvit_xxtiny", "levit_128s")

# One of each architecture that has attention: all of it is recorded or named.
EACH = re.findall(
    r"\S+",
    """
    beit_base_patch16_224 halonet26t cait_xxs24_224 coat_tiny convit_tiny cpubone_nano
    crossvit_tiny_240 csatv2 davit_tiny deit_tiny_patch16_224 edgenext_xx_small efficientformer_l1
    efficientformerv2_s0 efficientvim_m1 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224
    gcvit_xxtiny hiera_tiny_224 sam2_hiera_tiny iformer_t levit_384_s8 lowformer_b0
    coatnet_pico_rw_224 caformer_s18 mobilevit_xxs mobilevitv2_050 mvitv2_tiny
    naflexvit_base_patch16_siglip nest_tiny nextvit_small pit_xs_224 pvt_v2_b0 qwen3_vit_88m
    shvit_s1 swin_s3_tiny_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 swiftformer_xs
    tiny_vit_5m_224 tnt_s_patch16_224 twins_svt_small visformer_tiny vit_tiny_patch16_224
    vit_tiny_r_s16_p8_224 vit_relpos_small_patch16_224 vitamin_small_224 volo_d1_224
    xcit_nano_12_p8_224
    """,
)
# Convolutions, and sums over positions without a query, that are called attention.
NO_MAPS = {"ConvAttention", "EfficientAdditiveAttention"}


def network(name: str, sizes: dict[str, Any]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, **sizes).eval()
    side = sizes.get("img_size", model.pretrained_cfg["input_size"][-1])
    return model, torch.randn(2, 3, side, side)


@contextmanager
def softmaxes() -> Iterator[list[Tensor]]:
    """Collect what torch computes as a softmax over the last dimension; nothing is fused."""
    found: list[Tensor] = []
    plain = Tensor.softmax

    def kept(self: Tensor, *given: Any, **named: Any) -> Tensor:
        found.append(plain(self, *given, **named))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "softmax", kept)
        yield found


@pytest.mark.parametrize("name", FEW)
def test_maps_are_those_of_the_layers(name: str) -> None:
    sizes, count = FEW[name]
    model, images = network(name, sizes)
    with torch.inference_mode(), recording(model) as recorded:
        output = model(images)
    assert (len(recorded), recorded.unread) == (count, {})
    for call in recorded:
        torch.testing.assert_close(call.maps @ call.values, call.outputs, rtol=1e-4, atol=1e-5)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    with torch.inference_mode(), softmaxes() as found:
        torch.testing.assert_close(model(images), output, rtol=1e-4, atol=1e-4)
    if name != "convit_tiny":  # which adds two
        for call, weights in zip(recorded, found, strict=True):
            first = name in WINDOWS_FIRST or weights.ndim == 3  # texts and heads in one
            turned = weights if first else weights.movedim(1, -3)
            torch.testing.assert_close(call.maps, turned.reshape(call.maps.shape))


@pytest.mark.parametrize("name", NAMED)
def test_other_attention_is_named(name: str) -> None:
    sizes, module = NAMED[name]
    model, images = network(name, sizes)
    with torch.inference_mode(), recording(model) as recorded:
        model(images)
    assert module in recorded.unread, recorded.unread


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_windows_are_recorded_one_by_one(name: str) -> None:
    model, images = network(name, {})
    with torch.inference_mode(), recording(model) as recorded:
        model(images)
    assert recorded
    for call in recorded:
        torch.testing.assert_close(call.maps.sum(-1), torch.ones(call.maps.shape[:3]))
        torch.testing.assert_close(call.maps @ call.values, call.outputs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_no_module_of_attention_is_lost_in_silence(name: str) -> None:
    model, images = network(name, {})
    run, handles = list[str](), []
    for at, module in model.named_modules():
        kind = type(module).__name__
        if re.search("Atten|Attn|MHA|MHSA", kind) and kind not in NO_MAPS:
            note = partial(lambda at, *_: run.append(at), at)
            handles.append(module.register_forward_pre_hook(note))
    with torch.inference_mode(), recording(model) as recorded:
        model(images)
    heard = [f"{one}." for one in (*(call.name for call in recorded), *recorded.unread)]
    lost = [
        at
        for at in run
        if not any(f"{at}.".startswith(one) or one.startswith(f"{at}.") for one in heard)
    ]
    assert lost == []
