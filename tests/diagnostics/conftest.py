"""Random maps, and tiny checkpoints read back from disk."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import save_tiny

from fourierkernels import cli


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


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("a b c d e\n\nf g\nh i j a b c\n")
    return path


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; return exit status, output and messages."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fourierkernels", "heads", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return call
