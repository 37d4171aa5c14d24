"""Training is reproducible, on one thread."""

import pytest
from one_thread import one_thread

__all__ = ["one_thread"]


@pytest.fixture(autouse=True)
def _seeded(one_thread: None) -> None:
    import torch

    torch.manual_seed(2022)
