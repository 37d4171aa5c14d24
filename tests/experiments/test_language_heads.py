"""The head table of the twins: a control as sharp as they are, and the numbers of the files."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from study_modules import RESULTS, read_rows, study_module
from training_runs import write_texts

from fourierkernels.checkpoints import attention_calls
from fourierkernels.diagnostics import head_distances
from fourierkernels.models import load_model
from fourierkernels.studies import setup, train

TWINS = sorted(path.stem for path in RESULTS.glob("language_*.safetensors"))

needs_twins = pytest.mark.skipif(not TWINS, reason="no trained twins are committed")


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("language_heads") as module:
        yield module


def windows(split: str, count: int) -> torch.Tensor:
    lines = (RESULTS / f"language_heads_{split}.txt").read_text(encoding="utf-8").splitlines()
    return torch.tensor([[int(word) for word in line.split()] for line in lines[:count]])


def test_first_weights_are_those_that_training_began_with(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = write_texts(tmp_path / "texts")
    run = setup("language", preset="mini", mixer="fourier", data=texts, steps=1, warmup=1, seed=3)
    seen = []
    engine = sys.modules["fourierkernels.studies.engine.run"].Engine
    begin = engine.train

    def spied(self, *args, **options):
        seen.append({name: p.clone() for name, p in self.model.state_dict().items()})
        return begin(self, *args, **options)

    monkeypatch.setattr(engine, "train", spied)
    train(run, tmp_path / "run")
    start, trained, _ = study.networks(tmp_path / "run")
    (first,) = seen
    own = start.state_dict()
    assert {name.removeprefix("model."): v for name, v in first.items()}.keys() == own.keys()
    for name, value in first.items():
        assert torch.equal(own[name.removeprefix("model.")], value), name
    assert not torch.equal(own["embedding.bands.0.weight"], trained.embedding.bands[0].weight)


def test_intervals_are_over_windows_the_same_in_both(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(40, 1, 1)) * 10
    a, b = (shared + rng.normal(size=(40, 2, 3)) for _ in range(2))
    found = study.bootstrap(a + 0.5, b)
    gaps = (a + 0.5 - b).mean(axis=(1, 2))
    assert found["difference"] == pytest.approx(gaps.mean())
    width = found["high"] - found["low"]
    assert width == pytest.approx(2 * 1.96 * gaps.std() / 40**0.5, rel=0.1)
    assert found["low"] < found["difference"] < found["high"]


@needs_twins
def test_the_control_is_as_sharp_as_the_trained_network() -> None:
    """But for a few rows of 32,768, whose two largest weights are equal: no power tells them apart.

    Each of them is blunter by at most log 2.
    """
    rows = {
        (r["network"], r["split"], r["stage"], r["layer"]): r for r in read_rows("language_heads")
    }
    assert len(TWINS) >= 2
    for (network, split, stage, layer), row in rows.items():
        if stage == "sharpened":
            trained = rows[network, split, "trained", layer]
            assert float(row["entropy"]) == pytest.approx(float(trained["entropy"]), abs=1e-4)


@pytest.mark.parametrize("name", TWINS)
def test_published_distances_are_those_of_the_published_weights(name: str) -> None:
    """Two windows of the 16: their mean is near the table's, and their own distances are exact."""
    model = load_model(RESULTS / f"{name}.safetensors").float()
    tokens = windows("test", 2)
    assert tokens.shape == (2, 256)
    calls = attention_calls(model, tokens, tokens)
    heads = model.config.heads
    pairs = np.triu_indices(heads, k=1)
    rows = {
        r["layer"]: r for r in read_rows("language_heads") if keys(r) == (name, "test", "trained")
    }
    assert len(calls) == len(rows) == 6
    assert heads == 8
    for layer, call in enumerate(calls, start=1):
        found = [head_distances(maps.double(), metric="frobenius")[pairs] for maps in call.maps]
        own = rows[str(layer)]
        assert np.mean(found) == pytest.approx(float(own["distance"]), abs=float(own["std"]) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_published_table_is_that_of_the_published_weights(name: str) -> None:
    model = load_model(RESULTS / f"{name}.safetensors").float()
    pairs = np.triu_indices(8, k=1)
    found = []
    for window in windows("test", 16):
        calls = attention_calls(model, window[None], window[None])
        found.append([head_distances(c.maps[0].double(), metric="frobenius")[pairs] for c in calls])
    rows = [r for r in read_rows("language_heads") if keys(r) == (name, "test", "trained")]
    for layer, own in enumerate(rows):
        distances = np.array(found)[:, layer]
        assert distances.mean() == pytest.approx(float(own["distance"]), rel=1e-4)
        assert distances.std(ddof=1) == pytest.approx(float(own["std"]), rel=1e-4)


@needs_twins
def test_checkpoints_are_small_and_in_half_precision() -> None:
    for name in TWINS:
        path = RESULTS / f"{name}.safetensors"
        assert path.stat().st_size < 4e6
        assert {p.dtype for p in load_model(path).parameters()} == {torch.float16}


def keys(row: dict[str, str]) -> tuple[str, str, str]:
    return row["network"], row["split"], row["stage"]
