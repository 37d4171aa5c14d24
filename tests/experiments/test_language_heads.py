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
from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.word_lists import WordList, find_words
from fourierkernels.cli import head_stages
from fourierkernels.cli.head_stages import HeadComparison
from fourierkernels.diagnostics import head_distances
from fourierkernels.foundation.words import Vocabulary
from fourierkernels.models import load_model
from fourierkernels.studies import evaluate, setup, train
from fourierkernels.studies.engine.contenders import CONTROLS
from fourierkernels.studies.engine.run_setup import load_setup
from fourierkernels.studies.engine.trained import FINISHED, Trained
from fourierkernels.studies.language.comparison import LanguageComparison

TWINS = sorted(path.parent.name for path in RESULTS.glob("language_*/model.safetensors"))

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


def test_what_is_kept_of_a_run_can_be_evaluated_elsewhere(
    study: ModuleType, tmp_path: Path
) -> None:
    texts = write_texts(tmp_path / "texts")
    run = setup("language", preset="mini", mixer="softmax", data=texts, steps=1, warmup=1)
    measured = train(run, tmp_path / "run", cache=tmp_path / "tokens")
    study.keep_run(
        tmp_path / "run", tmp_path / "kept", load_model(tmp_path / "run/model.safetensors")
    )
    for file in (tmp_path / "kept").glob("*.json"):
        assert str(tmp_path) not in file.read_text(), file
    again = evaluate(
        tmp_path / "kept",
        data=texts,
        positions=run.chosen_preset.positions,
        cache=tmp_path / "tokens",
    )
    for ours, theirs in zip(again, measured, strict=True):
        assert ours.value == pytest.approx(theirs.value, rel=1e-3)  # of half precision


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


@needs_twins
def test_shares_beyond_chance_are_those_of_the_table_of_heads() -> None:
    rows = {
        (r["network"], r["split"], r["layer"]): float(r["distance"])
        for r in read_rows("language_heads")
        if r["stage"] == "trained"
    }
    found = read_rows("language_heads_chance")
    assert len(found) == 2 * 2 * 2 * 7  # networks, splits, controls, layers and their average
    for row in found:
        if row["layer"] != "average":
            own = rows[row["network"], row["split"], row["layer"]]
            assert float(row["distance"]) == pytest.approx(own, rel=1e-3)
        assert float(row["low"]) < float(row["shared"]) < float(row["high"])


@pytest.mark.parametrize("name", TWINS)
def test_shares_of_the_published_weights_are_near_the_table(study: ModuleType, name: str) -> None:
    """Of one window, in one layer: its own chance, and a share within the spread of windows."""
    model = load_model(RESULTS / name / "model.safetensors")
    maps = study.maps_of(model, windows("test", 1))[:1]
    ours = [
        study.HeadAccumulator(metric="frobenius"),
        study.HeadAccumulator(metric="frobenius"),
    ]
    ours[0].add_distances(list(head_distances(maps, metric="frobenius")), 256)
    ours[1].add_distances(list(study.chance_distances(maps, metric="frobenius")), 256)
    share = study.head_share(*(one.summary() for one in ours)).average
    (row,) = (
        r
        for r in read_rows("language_heads_chance")
        if (r["network"], r["split"], r["control"], r["layer"]) == (name, "test", "rows", "1")
    )
    spread = (float(row["high"]) - float(row["low"])) / 2 * 16**0.5  # of windows, twofold
    assert share == pytest.approx(float(row["shared"]), abs=1.5 * spread)


@pytest.mark.parametrize("name", TWINS)
def test_published_distances_are_those_of_the_published_weights(name: str) -> None:
    """Two windows of the 16: their mean is near the table's, and their own distances are exact."""
    model = load_model(RESULTS / name / "model.safetensors").float()
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
    model = load_model(RESULTS / name / "model.safetensors").float()
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
        path = RESULTS / name / "model.safetensors"
        assert path.stat().st_size < 4e6
        assert {p.dtype for p in load_model(path).parameters()} == {torch.float16}


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_runs_that_other_commands_take(name: str) -> None:
    """The committed windows are English in the words of their folder."""
    run, _ = load_setup(RESULTS / name)
    row = next(row for row in read_rows("language_heads_runs") if row["network"] == name)
    assert (run.preset, run.mixer.name) == (row["preset"], row["mixer"])
    assert run.recipe.learning_rate == float(row["rate"])
    assert not Path(run.data or "").is_absolute()
    words = Vocabulary.load(RESULTS / name / "vocabulary.txt")
    assert (
        len(words)
        == int(row["words"])
        == load_model(RESULTS / name / "model.safetensors").config.vocabulary
    )
    text = " ".join(words.words[i] for i in windows("test", 1)[0].tolist())
    assert "in the" in text
    files = find_checkpoint(name)
    assert files.run == RESULTS / name
    assert find_words(files) == WordList(files.run / "vocabulary.txt", "words", True)


@needs_twins
def test_twins_do_not_read_another_text(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts")
    with pytest.raises(ValueError, match=r"(words|vocabulary)"):
        evaluate(RESULTS / TWINS[0], data=texts, cache=tmp_path / "tokens")


def keys(row: dict[str, str]) -> tuple[str, str, str]:
    return row["network"], row["split"], row["stage"]


def test_heads_are_measured_of_kernels_and_not_of_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanguageComparison, "measured", lambda *given: {})
    monkeypatch.setattr(head_stages, "heads_before_and_after", lambda result: {"seen": 1.0})
    comparison, seen = HeadComparison(), {}
    for stage in comparison.stages():
        for network in stage.networks({}):
            result = Trained(comparison.setup(network), Path(), (), FINISHED, 0.0)
            if network.part.name == "kernels":
                seen[network.contender.name] = bool(comparison.measured(network, result))
    unsigned = {"softmax": True, "gaussian": True, "l = 2": True, "l = 4": True, "l = 6": True}
    assert {name: seen[name] for name in unsigned} == unsigned
    assert not any(seen[control.name] for control in CONTROLS)
