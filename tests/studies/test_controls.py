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
from fourierkernels.studies.engine.comparison_table import Row, Table
from fourierkernels.studies.engine.contenders import PILOT, Contender, Network
from fourierkernels.studies.engine.controls import NO_EVIDENCE, Baseline, Contest
from fourierkernels.studies.engine.judge import Judge
from fourierkernels.studies.engine.paper_table import PaperTable
from fourierkernels.studies.engine.power import Values, binomial_error, smallest_gain, widest_reach
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


@pytest.mark.parametrize(
    ("seeds", "deviation", "of_items", "comparisons"),
    [(3, 2.0, 2.0, 1), (5, 3.0, 1.0, 4), (6, 1.0, 4.0, 9), (4, 0.0, 2.0, 2)],
)
def test_the_smallest_gain_has_its_power_where_items_are_counted(
    seeds: int, deviation: float, of_items: float, comparisons: int
) -> None:
    rng, tables = np.random.default_rng(4), 2000
    gain = smallest_gain(deviation, seeds, comparisons=comparisons, of_items=of_items)
    gaps = gain + deviation * rng.normal(size=(tables, seeds))
    middles = gaps.mean(axis=1) + of_items * rng.normal(size=tables)
    shown = gaps.std(axis=1, ddof=1) / seeds**0.5 if deviation else np.zeros(tables)
    reaches = [widest_reach(each, of_items, seeds, comparisons) for each in shown]
    assert 0.77 < np.mean(middles > reaches) < 0.83


SURE = {1: 80.0, 2: 82.0, 3: 81.0, 4: 83.0, 5: 80.0}
CHANCE = {1: 49.0, 2: 51.5, 3: 50.0, 4: 50.5, 5: 51.0}


def some(values: Values, *seeds: int) -> Values:
    return {seed: values[seed] for seed in seeds}


@pytest.mark.parametrize(
    ("contest", "sentence"),
    [
        (
            Contest("accuracy", {"dft": SURE, "none": CHANCE, "linear": {}}, ("none", "linear")),
            "decides nothing: control linear has not finished",
        ),
        (
            Contest("accuracy", {"dft": SURE}, ("none", "linear")),
            "decides nothing: controls none, linear have not finished",
        ),
        (
            Contest("accuracy", {"dft": some(SURE, 1, 2, 4), "none": CHANCE}, ("none",), seeds=5),
            "decides: dft beats the best control, none, by 31.3 (28.7 to 33.9) in accuracy, "
            "over 3 of 5 seeds",
        ),
        (
            Contest("accuracy", {"dft": some(SURE, 2, 5), "none": CHANCE}, ("none",), seeds=5),
            "decides nothing: dft, the best that mixes, is ahead of the best control, none, "
            "by 29.8 (too few seeds to tell) in accuracy, over 2 of 5 seeds",
        ),
        (
            Contest("accuracy", {"dft": some(SURE, 1, 2), "none": some(CHANCE, 3, 4)}, ("none",)),
            "decides nothing: dft, the best that mixes, and control none have no common seed",
        ),
        (
            Contest("loss", {"dft": {1: 2.5, 2: 2.25, 3: 2.75}, "none": {1: 3, 2: 3, 3: 3}}, ()),
            "decides nothing: there is no control",
        ),
        (
            Contest(
                "perplexity",
                {"dft": {1: 2.5, 2: 2.25, 3: 2.75}, "none": {1: 3, 2: 3, 3: 3}},
                ("none",),
                unit="nats per word",
            ),
            "decides nothing: dft, the best that mixes, is ahead of the best control, none, "
            "by 0.5 nats per word (-0.121 to 1.12) in perplexity",
        ),
        (
            Contest(
                "accuracy",
                {"dft": SURE, "none": CHANCE, "linear": {6: 20.0, 7: 21.0}},
                ("none", "linear"),
            ),
            "decides nothing: dft, the best that mixes, and control linear have no common seed",
        ),
        (
            Contest(
                "accuracy",
                {"dft": SURE, "none": CHANCE, "linear": {1: 40.0, 2: 9.0, 3: 99.0}},
                ("none", "linear"),
            ),
            "decides nothing: dft, the best that mixes, is ahead of another control, linear, "
            "by 31.7 (-82.8 to 146) in accuracy",
        ),
    ],
)
def test_a_contest_says_what_keeps_it_from_being_decided(contest: Contest, sentence: str) -> None:
    assert contest.sentence() == sentence


@pytest.mark.parametrize("shift", [2.0, 1e-12])
@pytest.mark.parametrize("count", [2, 4])
def test_the_same_gap_of_all_seeds_is_no_certainty(shift: float, count: int) -> None:
    rival = {seed: 70 + np.sin(seed) for seed in range(count)}
    own = {seed: value + shift for seed, value in rival.items()}
    contest = Contest("accuracy", {"dft": own, "none": rival}, ("none",))
    (gain,) = contest.gains("dft")
    assert np.isnan([gain.low, gain.high, gain.low_items, gain.high_items]).all()
    reason = "too few seeds to tell" if count == 2 else "no deviation over seeds"
    assert contest.sentence().startswith("decides nothing: ")
    assert reason in contest.sentence()
    assert contest.smallest("none", count, 1) == smallest_gain(0.0, count) == np.inf
    with_items = replace(contest, baselines=[Baseline("bag", 20.0, 900)])
    (gain, _) = with_items.gains("dft")
    assert gain.low_items < 0 < gain.high_items
    assert 4 < with_items.smallest("none", count, 1) < 8  # 2.8 errors of 2.2


def test_a_contest_is_of_a_problem_whatever_the_hyperparameters_are() -> None:
    table = Table(index=("data", "kernel", "sharpness"), contender="kernel")
    made = {("softmax", 1.0): 60, ("softmax", 16 / 3): 80, ("none", 1.0): 50, ("none", 16 / 3): 10}
    rows = [
        {
            "data": d,
            "kernel": k,
            "sharpness": s,
            "seed": seed,
            "accuracy": mean + np.sin(mean**seed),
        }
        for d in ("digits", "letters")
        for (k, s), mean in made.items()
        for seed in (1, 2, 3, 4)
        if (d, s) != ("letters", 1.0)
    ]
    cells = tuple(table.cells(rows, dict.fromkeys(("softmax", "none"), "softmax")))
    judge = Judge(table, cells, ("none",), "accuracy", "data", NO_EVIDENCE)
    digits, letters = judge.first_line().removeprefix("decides 2 of 2; ").split("; ")
    expected = "beats the best control, none at sharpness 1, by "
    assert digits.startswith(f"digits: decides: softmax at sharpness 5.33 {expected}")
    assert letters.startswith("letters: decides: softmax beats the best control, none, by 70")
    gains = {
        (c.index["data"], c.index["sharpness"]): judge.columns(c, "accuracy", None)
        for c in cells
        if c.index["kernel"] == "softmax"
    }
    assert gains["digits", 16 / 3]["control"] == "none at sharpness 1"
    assert gains["letters", 16 / 3]["control"] == "none"
    reference = next(c for c in cells if c.index["kernel"] == "none")
    assert judge.columns(reference, "accuracy", None)["smallest_gain"] != ""


def test_networks_that_failed_are_missed_in_the_first_line(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, {"softmax": 60.0, "fourier": 80.0, "none": 50.0}, noise=0.1)
    planted = Comparison.train
    lost = {("none", seed) for seed in table.seeds}

    def train(self: Comparison, network: Network) -> Row:
        if (network.contender.name, network.seed) in lost:
            raise ValueError("diverged")
        return planted(self, network)

    monkeypatch.setattr(Comparison, "train", train)
    written = reproduce("ninth", table, tmp_path)
    assert written.decides == "decides nothing: control none has not finished"
    assert rewrite(table, tmp_path).decides == written.decides
    lost.clear()
    lost |= {("fourier", 2), ("fourier", 4)}
    (tmp_path / "ninth.finished.jsonl").unlink()
    written = reproduce("ninth", table, tmp_path)
    assert written.decides.startswith("decides: fourier beats the best control, none, by ")
    assert written.decides.endswith(f" in {METRIC}, over 3 of 5 seeds")
    assert rewrite(replace(table, seeds=(1, 2)), tmp_path).decides == written.decides


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


def test_a_rewritten_table_knows_the_trials_beyond_its_grid(
    table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, dict.fromkeys(MIXERS, 50.0))
    wide = replace(table, rates=(0.005, 0.01), widen=3)
    reproduce("ninth", wide, tmp_path)
    before = (tmp_path / "ninth.csv").read_bytes()
    rewrite(wide, tmp_path)
    assert (tmp_path / "ninth.csv").read_bytes() == before


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
