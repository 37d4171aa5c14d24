"""Models of timm out of files, with a stand-in for the library."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from batches import check_batches
from PIL import Image
from timm_like import TimmLike
from torch import nn

from fourierkernels.checkpoints.load import load_checkpoint


def test_timm_is_asked_for_where_it_is_missing(tmp_path: Path) -> None:
    if importlib.util.find_spec("timm") is not None:
        pytest.skip("timm is there")
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(ImportError, match=r"timm:vit_tiny needs timm: pip install timm"):
        load_checkpoint(tmp_path / "w.pt", model_class="timm:vit_tiny")


class StubViT(nn.Module):
    """A network with the names that timm gives the parts of its vision transformers."""

    def __init__(self, img_size: int = 8, in_chans: int = 3) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(in_chans, 8, 4, stride=4)
        self.patch_embed.img_size, self.patch_embed.patch_size = (img_size, img_size), (4, 4)
        self.front = nn.Parameter(torch.zeros(1, 1, 8))
        self.blocks = nn.Sequential(TimmLike(), TimmLike())
        self.pretrained_cfg = {
            "input_size": (3, 224, 224),
            "mean": (0.1, 0.2, 0.3),
            "std": (0.4, 0.5, 0.6),
            "crop_pct": 0.8,
            "interpolation": "bicubic",
        }

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(images).flatten(2).mT
        return self.blocks(torch.cat([self.front.expand(len(x), -1, -1), x], dim=1))


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of timm, in its place: it is no dependency."""
    stub = ModuleType("timm")
    stub.list_models = lambda: ["stub_vit"]

    def create_model(name: str, *, pretrained: bool, **options: Any) -> nn.Module:
        assert (name, pretrained) == ("stub_vit", False)
        return StubViT(**options)

    stub.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", stub)


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("channels", [1, 3])
def test_model_of_timm_reads_images_by_its_own_settings(
    channels: int, pictures: list[Path], tmp_path: Path
) -> None:
    torch.save(StubViT(in_chans=channels).state_dict(), tmp_path / "w.pt")
    options = {"model_class": "timm:stub_vit", "config": {"in_chans": channels}}
    checkpoint = load_checkpoint(tmp_path / "w.pt", **options)
    check_batches(checkpoint, pictures)
    checkpoint.model.float()
    assert checkpoint.labels(pictures[0])[0][:2] == ("class", "patch 0,0")
    with Image.open(pictures[0]) as image:  # 9 x 13; the shorter side becomes 8 / 0.8
        coloured = image.convert("RGB" if channels == 3 else "L")
        grown = coloured.resize((14, 10), Image.Resampling.BICUBIC)
    pixels = np.atleast_3d(np.asarray(grown)[1:9, 3:11]) / 255
    mean, std = ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]) if channels == 3 else ([0.2], [0.5])
    expected = torch.tensor(((pixels - mean) / std).transpose(2, 0, 1), dtype=torch.float32)
    outputs = checkpoint.run(pictures[:1]), checkpoint.model(expected[None])
    torch.testing.assert_close(*outputs)


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["hf-hub:timm/vit", "other_vit", "../stub_vit"])
def test_names_that_timm_would_download_are_refused(name: str, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="model_class must name a model of timm, got"):
        load_checkpoint(tmp_path / "w.pt", model_class=f"timm:{name}")
