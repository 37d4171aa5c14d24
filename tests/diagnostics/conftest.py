"""Random maps, and tiny checkpoints read back from disk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import save_tiny


@pytest.fixture
def make_maps() -> Callable[..., np.ndarray]:
    """Random maps with rows of probabilities, peaked so that heads differ."""

    def make(*shape: int, seed: int = 0) -> np.ndarray:
        logits = 2 * np.random.default_rng(seed).normal(size=shape)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    return make


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny checkpoint of a kind, saved once and not to be changed."""
    root = tmp_path_factory.mktemp("checkpoints")

    def get(kind: str) -> Path:
        return root / kind if (root / kind).exists() else save_tiny(root / kind, kind)

    return get


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Path]:
    """A tiny checkpoint of the test's own, to be damaged."""
    return lambda kind: save_tiny(tmp_path / kind, kind)
