"""Where to compute, also with a CUDA build of PyTorch on a machine that has no GPU."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from fourierkernels.foundation.device import check_device, default_device

ROOT = Path(__file__).parents[1]


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch be a CUDA build on a machine without a GPU: it names a device all the same."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


def test_the_default_is_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    assert default_device() == torch.device("cpu")


def test_the_default_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert default_device() == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda", "cuda:7", "tpu", "mps", "no such", "cuda:x"])
def test_devices_that_are_not_there_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    with pytest.raises(ValueError, match=rf"device must be .*{name!r}"):
        check_device(name)


def test_no_other_module_chooses_an_accelerator() -> None:
    files = [*ROOT.glob("fourierkernels/**/*.py"), *ROOT.glob("experiments/**/*.py")]
    choice = re.compile(r"torch\.accelerator\.|\"cuda\" if torch\.cuda")
    found = [path.name for path in files if choice.search(path.read_text(encoding="utf-8"))]
    assert found == ["device.py"]  # its docstring, and its one line
