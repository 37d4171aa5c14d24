"""Where to compute, also with a CUDA build of PyTorch on a machine that has no GPU."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from fourierkernels.foundation import device
from fourierkernels.foundation.device import check_device, default_device, device_sharing

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


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """What a further process keeps of so many devices, as it sees them then."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(device, "_kept", ExitStack())

    def start(count: int, sharing: int = 1, *, visible: str) -> str:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: visible.count(",") + 1)
        monkeypatch.setattr(device, "_own", [])
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        device.keep_devices(count, sharing)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    yield start
    device._kept.close()


def test_processes_beside_each_other_keep_devices_of_their_own(
    process: Callable[..., str],
) -> None:
    assert process(2, visible="4,5,7") == "4,5"
    device.keep_devices(3)  # those that it has
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5"
    with pytest.raises(ValueError, match="got 1 free of 3"):
        process(2, visible="4,5,7")
    assert process(1, visible="4,5,7") == "7"
    device.keep_devices(3)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"


def test_nothing_is_kept_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    device.keep_devices(2)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_networks_share_devices_where_there_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert [device_sharing(*asked) for asked in ((3, 1), (1, 3), (2, 2), (12, 1))] == [1, 1, 2, 4]
    with pytest.raises(ValueError, match=r"together must be at most 3, .*, got 4$"):
        device_sharing(1, 4)
    without_gpu(monkeypatch)
    assert device_sharing(8, 2) == 1


def test_as_many_processes_keep_a_device_as_may_share_it(process: Callable[..., str]) -> None:
    assert [process(1, 2, visible="0,1") for _ in range(4)] == ["0", "1", "0", "1"]
    with pytest.raises(ValueError, match="got 0 free of 2"):
        process(1, 2, visible="0,1")


def test_the_devices_of_one_network_differ(process: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match=r"devices must be 3 .* got 2 free of 2"):
        process(3, 5, visible="0,1")
    assert process(2, 5, visible="0,1") == "0,1"


def test_without_a_list_all_devices_are_kept_from(
    process: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process(1, visible="0,1")
    monkeypatch.setattr(device, "_own", [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    device.keep_devices(1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
