"""All comparisons compare like with like, resume, and say what was measured."""

import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel
from study_modules import RESULTS, read_rows

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import CONTROLS, Network, Tuning
from fourierkernels.studies.engine.controls import CONTROL_MIXERS, Evidence
from fourierkernels.studies.engine.finished import Finished
from fourierkernels.studies.engine.paper_table import PaperTable
from fourierkernels.studies.engine.reproduce_command import all_tables
from fourierkernels.studies.engine.reproduction import finish
from fourierkernels.studies.glue.drawn_comparison import PRETRAINING
from fourierkernels.studies.masked.comparison import TITLES
from fourierkernels.studies.masked.presets import WORD_ACCURACY
from fourierkernels.studies.translation.tuned_encoders import ACCURACY, MEAN_BLEU

COMPARISONS = {
    name: comparison
    for name, comparison in all_tables().items()
    if not isinstance(comparison, PaperTable)
}
MEASURED = sorted(  # BasicMotions is run on request, nothing of it is committed
    name for name, own in COMPARISONS.items() if (RESULTS / f"{own.names[1]}.csv").is_file()
)


@dataclass(frozen=True)
class Expected:
    """What a table is expected to have.

    Attributes
    ----------
    contenders : str
        The field of the comparison that lists them.
    rows : int
        Number of rows.
    comparisons : mapping or int
        Intervals for which the level is corrected, by part if there are several tables.
    columns : str
        A column of the networks from which differences are taken, with the names of a row of the
        table in braces, what the names of the three columns of its interval begin with, and the
        column of its mean.
    shown : callable
        What the table makes of a mean.
    """

    contenders: str
    rows: int
    comparisons: dict[str, int] | int
    columns: tuple[tuple[str, str, str], ...]
    shown: Callable[[float], float] = float


IMAGES = (
    ("{split} top-1", "top-1 ", "top-1"),
    ("{split} cross-entropy", "cross-entropy ", "cross-entropy"),
)
PERPLEXITY = (("{split} plain perplexity", "", "perplexity"),)  # columns have logarithms
EXPECTED = {
    "control-small": Expected("kernels", 15, 12, (("{measure}", "", "mean"),)),
    "control-drawn": Expected("encoders", 15, 12, (("{measure}", "", "mean"),)),
    "series-small": Expected("kernels", 3, 2, (("accuracy", "", "accuracy"),)),
    "series-motions": Expected("kernels", 3, 2, (("accuracy", "", "accuracy"),)),
    "images-small": Expected("kernels", 12, 4, IMAGES),
    "images-fashion": Expected("kernels", 6, 2, IMAGES),
    "lra-small": Expected("mixers", 18, 15, (("accuracy", "", "accuracy"),)),
    "lra-drawn": Expected("mixers", 12, 10, (("accuracy", "", "accuracy"),)),
    "lra-questions": Expected("mixers", 18, 15, (("accuracy", "", "accuracy"),)),
    "lra-recall": Expected("mixers", 12, 10, (("accuracy", "", "accuracy"),)),
    "masked-small": Expected(
        "encoders",
        5,
        4,
        (
            (WORD_ACCURACY, "masked_", "masked_accuracy"),
            (TITLES, "titles_", "titles_accuracy"),
        ),
    ),
    "masked-recall": Expected("encoders", 7, 6, ((WORD_ACCURACY, "", "masked_accuracy"),)),
    "glue-drawn": Expected("encoders", 12, 10, (("accuracy (%)", "", "accuracy"),)),
    "language-recall": Expected("kernels", 12, 5, PERPLEXITY, math.exp),
    "translation-drawn": Expected("encoders", 10, 9, ((ACCURACY, "", ACCURACY),)),
    "translation-scores": Expected("encoders", 5, 4, ((MEAN_BLEU, "", MEAN_BLEU),)),
    "translation-manuals": Expected("encoders", 20, 6, (("{measure}", "", "mean"),)),
    "language-small": Expected(
        "kernels",
        60,
        {"kernels": 9, "radii": 11, "sizes": 6},
        PERPLEXITY,
        math.exp,
    ),
}
FIRST = {  # which all are compared with
    "translation-drawn": "attention",
    "translation-scores": "attention",
    "translation-manuals": "attention",
    "masked-recall": "BERT",
    "glue-drawn": "BERT",
    "language-recall": "softmax",
}


@pytest.fixture(params=COMPARISONS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def comparison(name: str) -> Comparison:
    return COMPARISONS[name]


def drawn(comparison: Comparison) -> list[Row]:
    """Return rows of all networks with numbers at random, which have something of the seed."""
    rng = np.random.default_rng(0)
    chosen, rows = {}, []
    file = comparison.names[0].replace("_motions", "")  # nothing of BasicMotions is committed
    file = file.replace("lra_drawn", "lra")  # its networks have the columns of the other tasks
    measured = sorted(set(read_rows(file)[0]))
    for stage in comparison.stages():
        networks = stage.networks(chosen)
        new = []
        for network in networks:
            common = np.random.default_rng(network.seed).normal(20, 1)
            values = {column: float(common + rng.normal()) for column in measured}
            new.append({"end": "finished"} | values | comparison.labels(network))
        if stage.chooses:
            chosen |= comparison.choose(networks, new)
        rows += new
    return rows


def trial_networks(comparison: Comparison) -> list[Network]:
    return [
        network for stage in comparison.stages() if stage.chooses for network in stage.networks({})
    ]


def test_every_contender_has_the_same_trials_updates_and_seeds(
    name: str, comparison: Comparison
) -> None:
    given = defaultdict(lambda: defaultdict(list))
    for stage in comparison.stages():
        for own in stage.networks({}):
            part = own.part
            if part.name == PRETRAINING:  # at the rates that another table has chosen
                continue
            budget = own.tuning, part.steps, part.preset, own.seed
            kind = own.tuning.sharpness is None  # a control has rates alone to choose
            given[part.name, part.problem, part.preset, kind][own.contender.name].append(budget)
    rates = defaultdict(set)
    for (*place, _), by_contender in given.items():
        assert len({tuple(budgets) for budgets in by_contender.values()}) == 1
        rates[tuple(place)] |= {
            frozenset((tuning.rate, *rest) for tuning, *rest in budgets)
            for budgets in by_contender.values()
        }
    assert {len(found) for found in rates.values()} == {1}
    contenders = list(getattr(comparison, EXPECTED[name].contenders))
    first, *_, first_kind = next(iter(given))
    for (part, *_, kind), by_contender in given.items():  # of every problem
        if part == "compared" or (part, kind) == (first, first_kind):
            assert list(by_contender)[: len(contenders)] == contenders
    tried = {seed for s in comparison.stages() if s.chooses for seed in s.seeds}
    assert tried.isdisjoint(comparison.seeds)


def test_every_network_has_a_row_of_its_own(comparison: Comparison) -> None:
    rows = [
        json.dumps(comparison.labels(network))
        for stage in comparison.stages()
        for network in stage.networks({})
    ]
    assert len(set(rows)) == len(rows)
    assert list(json.loads(rows[0])) == comparison.columns.split()


def reference(name: str, row: Row) -> str:
    """Return what a row of a table is compared with, as the docstrings have it."""
    contender = row[COMPARISONS[name].table.contender]
    if name == "masked-small":
        return "FNet" if contender == "FNet, two real parts" else "BERT"
    if name in FIRST:
        return FIRST[name]
    if row.get("part") == "radii":
        return "R = 2"
    return f"softmax,{contender.partition(',')[2]}" if "," in contender else "softmax"


def test_intervals_are_those_of_the_paired_t_test_at_the_corrected_level(
    name: str, comparison: Comparison
) -> None:
    rows, expected = drawn(comparison), EXPECTED[name]
    table = comparison.tables(rows[::-1] if name in ("images-small", "images-fashion") else rows)
    lines = table[comparison.names[1]]
    assert len(lines) == expected.rows
    by = comparison.table.contender
    same = [column for column in comparison.table.index if column != by]
    for line in lines:
        for pattern, prefix, average in expected.columns:
            ours, theirs = (
                {
                    row["seed"]: row[pattern.format(**line)]
                    for row in rows
                    if row.get("part", "compared") in comparison.table.parts
                    and row[by] == contender
                    and all(row[column] == line[column] for column in same)
                }
                for contender in (line[by], reference(name, line))
            )
            assert sorted(ours) == sorted(theirs) == list(comparison.seeds)
            mean = float(np.mean(list(ours.values())))
            assert line[average] == pytest.approx(expected.shown(mean), rel=1e-12)
            check_interval(line, prefix, ours, theirs, expected)


def check_interval(
    line: Row, prefix: str, ours: dict[int, float], theirs: dict[int, float], expected: Expected
) -> None:
    count = expected.comparisons
    count = count if isinstance(count, int) else count[line["part"]]
    assert line["comparisons"] == count
    middle = next(line[c] for c in (f"{prefix}difference", f"{prefix}minus softmax") if c in line)
    gaps = [ours[seed] - theirs[seed] for seed in ours]
    assert middle == pytest.approx(np.mean(gaps), abs=1e-12)
    if ours != theirs:
        test = ttest_rel(*([side[seed] for seed in ours] for side in (ours, theirs)))
        ends = pytest.approx(tuple(test.confidence_interval(1 - 0.05 / count)), rel=1e-12)
        assert (line[f"{prefix}low"], line[f"{prefix}high"]) == ends
    else:
        assert middle == 0


def test_the_paper_gains_nothing_over_the_reference_itself(
    name: str, comparison: Comparison
) -> None:
    for line in comparison.tables(drawn(comparison))[comparison.names[1]]:
        if reference(name, line) == line[comparison.table.contender]:
            assert line["paper_gain"] == ""


def test_choice_is_that_of_the_least_score(comparison: Comparison) -> None:
    rng = np.random.default_rng(0)
    networks = trial_networks(comparison)
    scores = rng.normal(size=len(networks)).tolist()
    if networks:
        scores[0] = math.nan  # diverged
    chosen = comparison.choose(networks, ({comparison.score: score} for score in scores))
    tried = defaultdict(dict)
    for own, score in zip(networks, scores, strict=True):
        if math.isfinite(score):
            tried[own.part.problem, own.contender.name][score] = own.tuning
    assert chosen == {key: found[min(found)] for key, found in tried.items()}
    for own in networks[:1]:
        with pytest.raises(ValueError, match="trial of each contender must finish, got none of"):
            comparison.choose([own], [{comparison.score: math.nan}])
        with pytest.raises(ValueError, match=own.contender.name):
            comparison.choose([own], [{}])


def test_compared_networks_take_what_was_chosen(comparison: Comparison) -> None:
    chosen = {}
    for stage in comparison.stages():
        networks = stage.networks(chosen)
        if stage.chooses:
            chosen |= {(n.part.problem, n.contender.name): n.tuning for n in networks}
            continue
        for own in networks:
            names = (own.contender.name, own.contender.tuned_as)
            known = [chosen.get((own.part.problem, each)) for each in names]
            untuned = Tuning() if own.contender in CONTROLS else None
            assert own.tuning in [*known, *own.part.tunings]
            assert not chosen or own.tuning == next(filter(None, known), untuned)


def test_a_comparison_goes_on_where_it_was_interrupted(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train(self: Comparison, network: Network) -> Row:
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(network)
        return {"seed": network.seed}

    monkeypatch.setattr(type(comparison), "train", train)
    networks, file = comparison.stages()[0].networks({}), tmp_path / "f.jsonl"
    with pytest.raises(KeyboardInterrupt):
        list(finish(comparison, networks[:7], Finished(file)))
    trained.clear()
    assert list(finish(comparison, networks[:7], Finished(file))) == [
        (n, "") for n in networks[4:7]
    ]
    assert trained == networks[4:7]
    assert Finished(file).rows(networks[:7]) == [{"seed": own.seed} for own in networks[:7]]


ROOTS = 4e-12  # twice the tolerance of scipy's brentq, which finds the smallest gains


def same_cell(own: str, published: str, bound: float) -> bool:
    """Return whether two cells are one text, or numbers that differ by at most a bound."""
    try:
        return own == published or abs(float(own) - float(published)) <= bound
    except ValueError:
        return False


def same_row(own: Row, published: Row) -> bool:
    """Return whether a row is one of another processor, whose means and roots round otherwise."""
    numbers = [abs(value) for value in own.values() if isinstance(value, float)]
    bound = 64 * math.ulp(max(filter(math.isfinite, numbers), default=0.0)) + ROOTS
    return list(own) == list(published) and all(
        same_cell(str(value), published[name], bound) for name, value in own.items()
    )


def test_rows_of_another_processor_are_the_same_and_others_are_not() -> None:
    own = {"row": "l = 4", "loss": 91.3, "low": "", "gain": math.nan}
    text = {name: str(value) for name, value in own.items()}
    assert same_row(own, text | {"loss": "91.30000000000001"})
    for change in ({"loss": "91.3000000001"}, {"low": "0.0"}, {"row": "l = 2"}, {"gain": "1.0"}):
        assert not same_row(own, text | change)
    assert not same_row(own, dict(reversed(text.items())))


@pytest.mark.parametrize("name", MEASURED)
def test_published_tables_follow_from_the_published_networks(name: str) -> None:
    comparison = COMPARISONS[name]
    text = (RESULTS / f"{comparison.names[1]}.json").read_text(encoding="utf-8")
    config = json.loads(text)["config"]
    rows, evidence = read_rows(comparison.names[0]), Evidence.of(config)
    tables = comparison.tables(rows, evidence)
    assert config["decides"] == comparison.judge(rows, evidence).first_line()
    assert list(tables)[:2] == list(comparison.names)
    for file, rows in tables.items():
        pairs = zip(rows, read_rows(file), strict=True)
        assert [n for n, pair in enumerate(pairs) if not same_row(*pair)] == [], file
    assert len(tables[comparison.names[1]]) == EXPECTED[name].rows


@pytest.mark.parametrize("name", MEASURED)
def test_published_choices_are_those_of_least_validation_loss(name: str) -> None:
    comparison = COMPARISONS[name]
    networks, main = comparison.names
    settings = json.loads((RESULTS / f"{main}.json").read_text(encoding="utf-8"))["config"]
    by, tuned = comparison.table.contender, tuned_columns(comparison)
    trials = defaultdict(dict)
    for row in read_rows(networks):
        if row.get("part") == "trials" and row.get("end", "finished") == "finished":
            key = row.get(comparison.problem), row[by]
            trials[key][tuple(row[c] for c in tuned)] = float(row[comparison.score])
    grid = math.prod(len(settings[field]) for field in ("rates", "sharpness") if field in settings)
    wide = settings.get("widen", 0)
    parts = (part for stage in comparison.stages() for part in stage.parts)
    taken = {each.name: each.tuned_as for part in parts for each in part.contenders}
    for row in read_rows(networks):
        if trials and row["part"] in ("compared", "kernels", "recall"):
            found = trials[row.get(comparison.problem), taken[row[by]] or row[by]]
            least = len(settings.get("rates", ())) if row[by] in CONTROL_MIXERS else grid
            assert least <= len(found) <= least + 2 * wide  # two hyperparameters at an edge
            if taken[row[by]]:  # whose options it has beside its own
                best = dict(zip(tuned, min(found, key=found.__getitem__), strict=True))
                assert row["rate"] == best["rate"]
                assert json.loads(best["options"]).items() < json.loads(row["options"]).items()
                continue
            own = tuple(row[c] for c in tuned)  # that of the preset without a trial
            assert own == min(found, key=found.__getitem__, default=own)
    for row in read_rows(main):
        assert int(row["seeds"]) == len(settings["seeds"])
    values = {value for field in ("rates", "sharpness") for value in settings.get(field, ())}
    for column in set(tuned) - {"options"} if not wide else ():
        tried = [row for row in read_rows(networks) if row[column] or row[by] not in CONTROL_MIXERS]
        assert {float(row[column]) for row in tried} <= values


def tuned_columns(comparison: Comparison) -> list[str]:
    columns = comparison.columns.split()
    return [column for column in ("rate", "sharpness", "options") if column in columns]


@pytest.mark.parametrize("name", MEASURED)
def test_published_settings_are_those_of_the_comparison(name: str) -> None:
    comparison = COMPARISONS[name]
    text = (RESULTS / f"{comparison.names[1]}.json").read_text(encoding="utf-8")
    published = json.loads(text)["config"]
    for field, value in vars(comparison).items():
        if field in published and field not in ("data", "sizes"):  # what was read, what was chosen
            assert published[field] == json.loads(json.dumps(value)), field
