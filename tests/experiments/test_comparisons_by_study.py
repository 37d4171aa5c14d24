"""What each comparison measures besides, and what its published networks are."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from study_modules import RESULTS, read_rows, study_module

from fourierkernels.foundation.workers import one_thread
from fourierkernels.mixing import create_mixer
from fourierkernels.studies.control.comparison import COMPARISONS as CONTROL
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row
from fourierkernels.studies.engine.contenders import KERNELS, Network, Tuning
from fourierkernels.studies.engine.controls import CONTROL_MIXERS
from fourierkernels.studies.engine.mixers import mixer_of_kernel
from fourierkernels.studies.engine.power import widest_reach
from fourierkernels.studies.images.comparison import COMPARISONS as IMAGES
from fourierkernels.studies.language.comparison import COMPARISONS as LANGUAGE
from fourierkernels.studies.language.comparison import METRIC
from fourierkernels.studies.lra.comparison import CLASSES
from fourierkernels.studies.lra.comparison import COMPARISONS as ARENA
from fourierkernels.studies.lra.sets import read_arena
from fourierkernels.studies.masked.comparison import COMPARISONS as MASKED
from fourierkernels.studies.masked.comparison import ENCODERS
from fourierkernels.studies.series.comparison import COMPARISONS as SERIES
from fourierkernels.studies.series.problems import PROBLEMS
from fourierkernels.studies.series.series_data import read_series
from fourierkernels.studies.translation.comparison import COMPARISONS as TRANSLATION
from fourierkernels.studies.translation.manuals_comparison import MEAN_BLEU, MEASURES

SERIES_MEASURES = ("accuracy", "accuracy_last", "accuracy_best_of_test")


def trained(comparison: Comparison, contender: str, steps: int) -> Row:
    """Return the row of the first network of a contender, after so many updates."""
    networks = [n for stage in comparison.stages() for n in stage.networks({})]
    own = next(network for network in networks if network.contender.name == contender)
    part, tuning = replace(own.part, steps=steps), Tuning(own.tuning.rate, 1.0)
    with one_thread():
        return comparison.train(Network(part, own.contender, tuning, own.seed))


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 5.0])
def test_kernels_of_one_sharpness_curve_alike(sharpness: float) -> None:
    """Log weights of a query among near keys, minus their mean, agree to second order."""
    torch.manual_seed(0)
    near = 1e-3 * torch.randn(1, 1, 9, 16, dtype=torch.float64)
    near /= near.norm(dim=-1, keepdim=True) / 1e-3  # one norm: softmax is a Gaussian
    spreads = []
    for kernel in KERNELS:
        chosen = mixer_of_kernel(kernel, sharpness)
        mixer = create_mixer(chosen.name, dim=16, heads=1, **chosen.options).double()
        log_weights = mixer.weights(near, near).log()
        spreads.append(log_weights - log_weights.mean(dim=-1, keepdim=True))
    for kernel, spread in zip(KERNELS, spreads, strict=True):
        torch.testing.assert_close(spread, spreads[0], rtol=1e-4, atol=1e-12, msg=kernel)


def test_sharper_start_of_images_is_the_radius_of_the_paper() -> None:
    mixer = mixer_of_kernel("l = 4", max(IMAGES["images-small"].sharpness))
    assert mixer.options["radius"] == pytest.approx(1.0)


def test_a_network_of_control_is_trained_and_plays(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    row = trained(CONTROL["control-small"].quick(tmp_path), "gaussian", 10)
    assert row["episodes"] == 20
    assert row["test_error"] > 0
    hopper = ENVIRONMENTS["hopper"]
    for name in ("high", "low"):
        score = hopper.normalised(row[f"return_{name}"])
        assert row[f"score_{name}"] == pytest.approx(score)


def test_published_networks_of_control_have_learned() -> None:
    """Well below the mean action, which is what a network without a clue can say."""
    for row in read_rows("control_networks"):
        if row["part"] == "compared":
            share = float(row["test_error"]) / float(row["mean_action_error"])
            assert 0.7 < share < 0.8 if row["kernel"] == "none" else share < 0.6
            assert float(row["score_high"]) == pytest.approx(
                ENVIRONMENTS["hopper"].normalised(float(row["return_high"]))
            )


def test_networks_of_fashion_read_the_files_that_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with study_module("data_images", threads=False) as fetching:
        monkeypatch.setattr(fetching, "COUNTS", {"train": 80, "t10k": 10})
        fetching.write_blank(tmp_path / "blank")
    fashion = replace(IMAGES["images-fashion"], data=str(tmp_path / "blank"))
    row = trained(fashion, "gaussian", 1)
    assert 0 <= row["test top-1"] <= 100
    assert row["preset"] == "fashion"


def test_each_set_of_images_has_its_preset_and_published_networks_of_fashion_have_learned() -> None:
    for name, preset in (("images-small", "digits"), ("images-fashion", "fashion")):
        parts = [part for stage in IMAGES[name].stages() for part in stage.parts]
        assert {part.preset for part in parts} == {preset}
    for row in read_rows("images_fashion_networks"):
        assert float(row["test cross-entropy"]) < np.log(10) / 2


def test_a_network_of_series_is_measured_at_three_updates(tmp_path: Path) -> None:
    row = trained(SERIES["series-small"].quick(tmp_path), "gaussian", 10)
    assert row["test_series"] == 8
    assert row["accuracy_best_of_test"] >= max(row["accuracy"], row["accuracy_last"])
    assert 1 <= row["best_step"] <= 10


def test_fetched_series_can_be_read(tmp_path: Path) -> None:
    with study_module("data_series", threads=False) as fetching:
        fetching.extract(fetching.example(tmp_path), tmp_path / "series")
        for problem in fetching.PROBLEMS:
            files = {path.name: path for path in (tmp_path / "series" / problem).iterdir()}
            assert set(files) == {f"{problem}_TRAIN.ts", f"{problem}_TEST.ts"}
            assert problem in PROBLEMS
            for part in fetching.PARTS:
                files[f"{problem}_{part}.ts"].rename(tmp_path / f"P_{part}.ts")
            assert read_series(tmp_path, "P").counts == {"train": 2, "valid": 2, "test": 4}
        (tmp_path / "empty.whl").write_bytes(b"PK\x05\x06" + bytes(18))
        with pytest.raises(SystemExit, match="must have aeon/datasets/data/BasicMotions"):
            fetching.extract(tmp_path / "empty.whl", tmp_path / "series")


def test_published_accuracies_are_whole_numbers_of_series() -> None:
    for row in read_rows("series_networks"):
        assert int(row["test_series"]) == PROBLEMS[row["problem"]].test
        for name in SERIES_MEASURES:
            correct = float(row[name]) / 100 * PROBLEMS[row["problem"]].test
            assert correct == pytest.approx(round(correct), abs=1e-9)


@pytest.mark.parametrize(("loss", "learnt"), [(0.5, True), (0.65, False)])
def test_a_task_is_learnt_if_each_seed_is_below_chance(loss: float, learnt: bool) -> None:
    same = {"rate": 1.0, "test_sequences": 40, "accuracy": 40.0, "largest_class": 50.0}
    rows = [{**same, "seed": seed, "loss": 0.5} for seed in range(3)]
    rows[1]["loss"] = loss
    cell = Cell({"task": "text", "mixer": "softmax"}, rows, rows)
    (line,) = ARENA["lra-small"].summary(cell)
    assert line["learnt"] is learnt


def test_published_accuracies_are_whole_numbers_of_sequences() -> None:
    drawn = read_arena("listops_small").counts["test"]
    for row in read_rows("lra_networks"):
        correct = float(row["accuracy"]) / 100 * int(row["test_sequences"])
        assert correct == pytest.approx(round(correct), abs=1e-9)
        assert float(row["chance_loss"]) == pytest.approx(math.log(CLASSES[row["task"]]))
        if row["task"] == "listops":
            assert int(row["test_sequences"]) == drawn


def test_costs_beyond_a_limit_are_said_in_the_table() -> None:
    with study_module("lra_costs", threads=False) as costs:
        rows = read_rows("lra_costs")
        assert {row["mixer"] for row in rows} == set(costs.MIXERS)
        for mixer in costs.MIXERS:
            states = [row["status"] for row in rows if row["mixer"] == mixer]
            assert len(states) == len(costs.SIZES)
            measured = sum(state == "ok" for state in states)
            assert states[:measured] == ["ok"] * measured
            assert all(state in {"FAIL", "skipped", "timeout"} for state in states[measured:])
        for row in rows:
            assert math.isnan(float(row["steps_per_second"])) == (row["status"] != "ok")
        known = costs.with_paper(costs.Cell("softmax", 4096, "cpu", 1.0, 1.0, "ok"))
        assert (known.paper_steps_per_second, known.paper_gb) == ("FAIL", "FAIL")


def test_encoders_differ_in_mixer_and_rate_alone() -> None:
    comparison = MASKED["masked-small"]
    _, compared, _ = comparison.stages()
    networks = compared.networks({})
    assert len(networks) == len(comparison.seeds) * len(ENCODERS)
    assert {(n.part.preset, n.part.steps) for n in networks} == {
        (comparison.preset, comparison.steps)
    }
    runs = {n.contender.name: comparison.setup(n) for n in networks if n.seed == 1}
    assert len({(run.recipe, run.data) for run in runs.values()}) == 1
    assert runs["FNet hybrid"].mixer.name == "fnet_hybrid"
    assert runs["FNet, two real parts"].mixer.options == {"real_part": "each"}


def test_frequencies_alone_give_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURIERKERNELS_CACHE", str(tmp_path / "cache"))
    guesses = MASKED["masked-small"].quick(tmp_path).facts({})["unigram"]
    assert 0 < guesses["accuracy"] < 100
    assert 0 < guesses["loss"] < math.log(150)


def test_published_encoders_have_all_finished() -> None:
    assert all(row["end"] == "finished" for row in read_rows("masked_networks"))


def test_a_network_that_diverged_is_counted_and_not_averaged() -> None:
    rows = [
        {"part": "kernels", "preset": "tiny", "row": row, "seed": seed, "end": "finished"}
        | {f"{split} {METRIC}": loss for split in ("valid", "test")}
        for row, loss in (("softmax", 1.0), ("l = 1", 2.0))
        for seed in range(3)
    ]
    del rows[-1][f"valid {METRIC}"], rows[-1][f"test {METRIC}"]
    rows[-1]["end"] = "training diverged at step 3"
    table = LANGUAGE["language-small"].tables(rows)["language_tables"]
    (last,) = [line for line in table if (line["row"], line["split"]) == ("l = 1", "test")]
    assert (last["seeds"], last["diverged"], last["difference"]) == (2, 1, 1.0)
    assert last["perplexity"] == pytest.approx(np.exp(2.0))


def test_published_choices_of_language_are_in_the_provenance() -> None:
    text = (RESULTS / "language_tables.json").read_text(encoding="utf-8")
    chosen = json.loads(text)["config"]["chosen"]
    kernels = [row for row in read_rows("language_networks") if row["part"] == "kernels"]
    rows = [row for row in kernels if row["mixer"] not in CONTROL_MIXERS]
    assert set(chosen) == {row["row"] for row in rows}
    for row in rows:
        rate, sharpness = chosen[row["row"]]
        assert float(row["rate"]) == rate
        expected = mixer_of_kernel(row["row"], sharpness).options
        for name, value in json.loads(row["options"]).items():
            assert value == pytest.approx(expected[name])


def test_intervals_of_manuals_count_test_items_besides_seeds() -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"encoder": encoder, "seed": seed, "rate": 3e-3, "parameters": 1}
        | dict(zip(MEASURES, rng.normal(50, 1, len(MEASURES)), strict=True))
        | {f"{MEAN_BLEU}, error over items": error}
        for encoder, error in (("attention", 0.6), ("DFT", 0.8))
        for seed in (3, 4, 5)
    ]
    table = TRANSLATION["translation-manuals"].tables(rows)["translation_manuals"]
    lines = {(line["encoder"], line["measure"]): line for line in table}
    own = lines["DFT", MEAN_BLEU]
    pairs = zip(rows[:3], rows[3:], strict=True)
    gaps = [ours[MEAN_BLEU] - theirs[MEAN_BLEU] for theirs, ours in pairs]
    reach = widest_reach(np.std(gaps, ddof=1) / 3**0.5, 1.0, 3, own["comparisons"])
    ends = np.mean(gaps) - reach, np.mean(gaps) + reach
    assert (own["low_items"], own["high_items"]) == pytest.approx(ends)
    assert own["paper_gain"] == pytest.approx(27.2218 - 28.1)  # tables 2 and 3 of the report
    assert [key for key, line in lines.items() if line["low_items"] != ""] == [("DFT", MEAN_BLEU)]
