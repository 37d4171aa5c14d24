"""Helpers of this folder are importable by their name; training is reproducible, on one thread."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.manual_seed(2022)
    torch.set_num_threads(1)  # tiny products: more threads only wait for each other
    yield
    torch.set_num_threads(threads)
