"""A comparison says what it decides: beside controls, with the power that it has."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ninth_study
import numpy as np
import pytest
from study_cases import NINTH
from study_cases import ninth_table as ninth
from tiny_series import write_problem

from fourierkernels.studies.engine.classification import Examples, logistic_regression
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import PILOT, Contender, Network
from fourierkernels.studies.engine.controls import Baseline, Contest
from fourierkernels.studies.engine.paper_table import PaperTable
from fourierkernels.studies.engine.power import binomial_error, smallest_gain
from fourierkernels.studies.engine.reproduce_command import Asked, smallest_gains
from fourierkernels.studies.engine.reproduction import reproduce, rewrite
from fourierkernels.studies.registry import STUDIES

METRIC = f"test {ninth_study.ACCURACY}"
MIXERS = ("softmax", "fourier", "none")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperTable:
    monkeypatch.setitem(STUDIES.rows, "ninth", NINTH)
    bits = ninth_study.write_bits(tmp_path / "data" / "bits").parent
    contenders = tuple(Contender(name, name) for name in MIXERS)
    return replace(ninth(bits, contenders=contenders, metrics=(METRIC,)), seeds=(1, 2, 3, 4, 5))


def plant(monkeypatch: pytest.MonkeyPatch, means: dict[str, float], noise: float = 1.0) -> None:
    """Let each network get a mean of its mixer, and something of its seed."""

    def train(self: Comparison, network: Network) -> Row:
        mixer = network.contender.mixer
        rng = np.random.default_rng([network.seed, MIXERS.index(mixer)])
        rate = network.tuning.rate or 1.0
        loss = abs(np.log(rate / 0.02))  # least at a rate of 0.02
        value = means[mixer] + noise * rng.normal()
        return {**self.labels(network), "end": "finished", "valid_loss": loss, METRIC: value}

    monkeypatch.setattr(Comparison, "train", train)


def lines_of(table: PaperTable, output: Path) -> dict[str, Row]:
    return {row["model"]: row for row in reproduce("ninth", table, output).rows}


@pytest.mark.parametrize(("items", "least", "most"), [(None, 0.77, 0.83), (500, 0.77, 0.9)])
def test_the_smallest_gain_shows_in_four_tables_of_five(
    items: int | None, least: float, most: float
) -> None:
    rng, seeds, comparisons, share = np.random.default_rng(3), range(5), 4, 70.0
    of_items = binomial_error(share, share, items)
    gain = smallest_gain(2.0, 5, comparisons=comparisons, of_items=of_items)
    shown = []
    for _ in range(1500):
        of_test = of_items * rng.normal()  # the same for all seeds
        ours = {seed: share + gain + of_test + 2 * rng.normal() for seed in seeds}
        contest = Contest(
            "accuracy (%)",
            {"softmax": ours, "none": dict.fromkeys(seeds, share)},
            ("none",),
            [] if items is None else [Baseline("bag", 0.0, items)],
            comparisons,
        )
        shown.append(contest.gains("softmax")[0].low_items > 0)
    assert least < np.mean(shown) < most


def test_a_planted_gain_as_large_as_the_pilot_asks_for_is_found(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    even = dict.fromkeys(MIXERS, 60.0)
    plant(monkeypatch, even | {"none": 50.0})
    small = replace(table, pilot=(101, 102, 103))
    row = lines_of(small, tmp_path / "even")["fourier"]
    assert row["low"] < 0 < row["high"]  # nothing to be found
    softmax, *others = (_of_pilot(tmp_path / "even", name) for name in MIXERS)
    variances = [np.var(np.subtract(other, softmax), ddof=1) for other in others]
    expected = smallest_gain(float(np.sqrt(np.mean(variances))), 5, comparisons=2)
    assert row["smallest_gain"] == pytest.approx(expected)
    plant(monkeypatch, even | {"none": 50.0, "fourier": 60.0 + 1.5 * row["smallest_gain"]})
    found = lines_of(small, tmp_path / "planted")["fourier"]
    assert found["low"] > 0
    assert found["decides"].startswith("decides: fourier beats the best control, none, by ")


def _of_pilot(output: Path, model: str) -> list[float]:
    lines = (output / "ninth.finished.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    rows: Sequence[Row] = [json.loads(line)["row"] for line in lines]
    return [row[METRIC] for row in rows if row["part"] == PILOT and row["model"] == model]


@pytest.mark.parametrize(
    ("means", "sentence"),
    [
        ({"none": 60.5}, "decides nothing: softmax, the best that mixes, is behind the best"),
        ({"none": 20.0}, "decides: softmax beats the best control, none, by 4"),
    ],
)
def test_the_first_line_says_whether_a_control_is_beaten(
    means: dict[str, float],
    sentence: str,
    table: PaperTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, {"softmax": 60.0, "fourier": 40.0} | means, noise=0.1)
    written = reproduce("ninth", table, tmp_path)
    assert written.decides.startswith(sentence)
    assert all(row["decides"] == written.decides for row in written.rows)
    config = json.loads((tmp_path / "ninth.json").read_text(encoding="utf-8"))["config"]
    assert (config["decides"], config["controls"]) == (written.decides, ["none"])


def test_a_rule_on_the_raw_input_is_a_control_that_has_to_be_beaten(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, {"softmax": 90.0, "fourier": 90.0, "none": 50.0}, noise=0.1)
    monkeypatch.setattr(ninth_study.STUDY, "baseline_metric", "accuracy", raising=False)
    rules = [Baseline("majority", 97.0, 10_000)]
    monkeypatch.setattr(ninth_study.STUDY, "baselines", lambda preset, data: rules)
    written = reproduce("ninth", table, tmp_path)
    assert "is behind the best control, majority, by 6.98 " in written.decides
    before = (tmp_path / "ninth.csv").read_bytes()
    assert rewrite(table, tmp_path).decides == written.decides
    assert (tmp_path / "ninth.csv").read_bytes() == before


def test_grids_are_widened_until_the_best_trial_is_inside(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, dict.fromkeys(MIXERS, 50.0))
    narrow = replace(table, rates=(0.005, 0.01))
    assert {row["edge"] for row in lines_of(narrow, tmp_path / "narrow").values()} == {"rate"}
    wide = lines_of(replace(narrow, widen=3), tmp_path / "wide")
    assert {(row["edge"], row["rate"]) for row in wide.values()} == {("", 0.02)}
    edge = lines_of(replace(narrow, widen=1), tmp_path / "edge")
    assert {(row["edge"], row["rate"]) for row in edge.values()} == {("rate", 0.02)}


def test_a_plan_says_the_smallest_gain_by_a_finished_pilot(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("ninth", table, None, tmp_path, quick=False)
    assert "not known before a pilot" in next(smallest_gains(asked))
    plant(monkeypatch, {"softmax": 60.0, "fourier": 40.0, "none": 50.0})
    row = lines_of(replace(table, pilot=(101, 102)), tmp_path)["fourier"]
    (line,) = smallest_gains(asked)
    assert line == f"the smallest gain that would show, tiny: {row['smallest_gain']:.3g}"


def test_a_table_is_rewritten_from_its_own_networks_alone(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="output must have the networks ninth_networks"):
        rewrite(table, tmp_path)
    plant(monkeypatch, dict.fromkeys(MIXERS, 50.0))
    reproduce("ninth", replace(table, rates=(0.005, 0.01)), tmp_path)
    with pytest.raises(ValueError, match="trials must be those of the table in their order"):
        rewrite(replace(table, rates=(0.005, 0.02)), tmp_path)


def test_the_first_line_of_one_seed_has_no_interval(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, {"softmax": 60.0, "fourier": 40.0, "none": 50.0}, noise=0.0)
    written = reproduce("ninth", replace(table, seeds=(1,)), tmp_path)
    assert written.decides.endswith(
        "ahead of the best control, none, by 10 (one seed) in " + METRIC
    )


def test_studies_have_rules_on_their_raw_input(tmp_path: Path) -> None:
    arena, series = STUDIES["lra"], STUDIES["series"]
    drawn = arena.read(arena.presets["place"], None)
    (bag,) = arena.baselines(arena.presets["place"], drawn)
    assert (bag.name, bag.items) == ("bag of tokens", 1000)
    assert abs(bag.value - 50) < 8  # counts tell nothing there
    whole = series.read(series.presets["tiny"], write_problem(tmp_path))
    (moments,) = series.baselines(series.presets["tiny"], whole)
    assert (moments.name, moments.items) == ("means and deviations", whole.counts["test"])


def test_logistic_regression_finds_what_a_weighted_sum_tells_and_no_more() -> None:
    rng = np.random.default_rng(0)
    splits = {name: rng.integers(2, size=(400, 2)) for name in ("train", "valid", "test")}
    for classes, low, high in (
        (lambda x: x[:, 0], 100, 100),
        (lambda x: x[:, 0] ^ x[:, 1], 35, 65),
    ):
        examples = {n: Examples(x.astype(float), classes(x)) for n, x in splits.items()}
        assert low <= logistic_regression("bits", examples).value <= high
