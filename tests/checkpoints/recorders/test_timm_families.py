"""Architectures of timm: their maps are those of their layers without the recorder."""

from collections.abc import Iterator
from contextlib import contextmanager
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
            turned = weights if name in WINDOWS_FIRST else weights.movedim(1, -3)
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
