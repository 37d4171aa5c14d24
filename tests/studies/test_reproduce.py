"""``fourierkernels reproduce``: tables of networks, made at will in several goes."""

import json
import re
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ninth_study
import numpy as np
import pytest
import torch
from clusters import start_cluster
from study_cases import NINTH, reproduce_and_die
from study_cases import ninth_table as ninth
from study_modules import EXPERIMENTS
from training_runs import Call, start

from fourierkernels.cli.reproduce import _tables
from fourierkernels.foundation.workers import DeadlyPieceError
from fourierkernels.studies.engine import finished, reproduce_command, reproduction, trained
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row, interval
from fourierkernels.studies.engine.contenders import Network
from fourierkernels.studies.engine.finished import Finished
from fourierkernels.studies.engine.paper_table import AVERAGE, PaperTable
from fourierkernels.studies.engine.planning import Plan
from fourierkernels.studies.engine.reproduce_command import (
    ELSEWHERE,
    all_tables,
    plan_table,
    size_of,
)
from fourierkernels.studies.engine.reproduction import Workers, reproduce
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.engine.settings import Settings
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.teacher import Start
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.glue.tasks import TASKS
from fourierkernels.studies.registry import STUDIES

TABLES = all_tables()
PAPERS = {  # without those that a study has for want of others
    name: table
    for name, table in TABLES.items()
    if isinstance(table, PaperTable) and name not in STUDIES
}
FAST = "fourierformer-3"
QUICK = sorted({*TABLES, "language-small"} - {FAST})


@pytest.fixture
def bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(STUDIES.rows, "ninth", NINTH)
    return ninth_study.write_bits(tmp_path / "data" / "bits").parent


@pytest.mark.parametrize("name", [FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in QUICK)])
def test_every_table_has_a_quick_mode_that_says_what_the_whole_takes(
    name: str, call: Call, tmp_path: Path
) -> None:
    status, out, err = call("reproduce", name, "--quick", "--output", tmp_path)
    assert (status, err) == (0, "")
    table = _tables()[name]
    size = f"the whole table: {sum(len(s.networks({})) for s in table.planned()):,} networks"
    assert size in " ".join(out.split())
    files = sorted(path.name for path in tmp_path.iterdir())
    assert all(file.startswith(("quick_", "runs")) for file in files)
    assert "quick_data" in files
    assert len([file for file in files if file.endswith(".csv")]) >= 2


def test_tables_of_the_papers_are_there_and_none_has_two_names() -> None:
    wanted = {
        *(f"fourierformer-{number}" for number in (1, 2, 3, 4, 5, "arxiv-4", "arxiv-5")),
        *(f"fnet-{number}" for number in (2, 4, "4-large", 6, "figure-2")),
        *(f"need-attention-{number}" for number in (2, 3)),
        "series-vowels",
    }
    assert set(PAPERS) == wanted
    assert not set(ELSEWHERE) & set(TABLES)
    assert all((EXPERIMENTS.parent / script).is_file() for script in ELSEWHERE.values())
    assert str(size_of(PAPERS["fourierformer-1"])) == (
        "20 networks, 9,000,000 updates, about 170,000 hours of one core"
    )
    files = [table.names[1] for table in TABLES.values()]
    assert len(set(files)) == len(files)


@pytest.mark.parametrize("name", PAPERS)
def test_a_table_of_a_paper_is_of_its_presets_as_they_are(name: str) -> None:
    table = PAPERS[name]
    compared = table.stages()[-1].networks({})
    assert {network.seed for network in compared} == {1, 2, 3, 4, 5}
    for network in compared:
        preset = STUDIES[network.part.study].presets[network.part.preset]
        assert network.part.steps == preset.recipe.steps
        assert table.shortened(preset.recipe, network.part.steps) is preset.recipe


def test_published_averages_are_those_that_the_papers_print() -> None:
    """Of all numbers that a table would have if its data were the paper's."""
    printed = {
        "fourierformer-3": {"softmax": 72.07, "fourier": 73.17},
        "fourierformer-4": {"softmax": 74.39, "fourier": 75.69},
        "fnet-6": {"softmax": 55.83, "linear": 54.16, "fnet": 55.30},
    }
    for name, means in printed.items():
        table = PAPERS[name]
        rows = []
        for network in table.stages()[-1].networks({}):
            preset = STUDIES[network.part.study].presets[network.part.preset]
            known = dict(preset.published.get(network.contender.mixer, {}))
            if name == "fourierformer-4":
                known = {"score": known.get(f"{network.part.problem}-v2")}
            row = dict.fromkeys(table.metrics, float(network.seed))
            row |= {f"published {table.metrics[0]}": v for v in known.values() if v is not None}
            rows.append({**table.labels(network), **row})
        lines = table.tables(rows)[table.names[1]]
        found = {r["model"]: r["published"] for r in lines if r["problem"] == AVERAGE}
        assert {model: found[model] for model in means} == {
            model: pytest.approx(mean, abs=0.005) for model, mean in means.items()
        }


def rows_of(table: PaperTable, values: dict[tuple[str, str, int], float]) -> list[Row]:
    return [
        {**table.labels(network), "end": "finished", table.metrics[0]: values[key]}
        for network in table.stages()[-1].networks({})
        if (key := (network.part.problem, network.contender.name, network.seed)) in values
    ]


def test_means_intervals_and_averages_are_over_seeds() -> None:
    table = replace(PAPERS[FAST], problems=PAPERS[FAST].problems[:2], seeds=(1, 2, 3))
    names = [problem.name for problem in table.problems]
    rng = np.random.default_rng(5)
    values = {
        (p, m, s): rng.normal() for p in names for m in ("softmax", "fourier") for s in (1, 2, 3)
    }
    lines = table.tables(rows_of(table, values))[table.names[1]]
    for line in lines:
        model, problem = line["model"], line["problem"]
        over = names if problem == AVERAGE else [problem]
        own = np.array([np.mean([values[p, model, s] for p in over]) for s in (1, 2, 3)])
        middle, reach = interval(own, 1)
        assert (line["mean"], line["mean_low"]) == pytest.approx((middle, middle - reach))
        assert (line["least"], line["largest"]) == pytest.approx((own.min(), own.max()))
        assert line["published"] == ""
    assert [line["problem"] for line in lines] == [n for n in [*names, AVERAGE] for _ in range(2)]
    del values[names[0], "fourier", 2], values[names[1], "softmax", 1]
    lines = table.tables(rows_of(table, values))[table.names[1]]
    assert {line["model"]: line["seeds"] for line in lines if line["problem"] == AVERAGE} == {
        "softmax": 2,
        "fourier": 2,
    }


def test_a_network_that_diverged_takes_its_seed_out_of_the_average() -> None:
    table = replace(PAPERS[FAST], problems=PAPERS[FAST].problems[:2], seeds=(1, 2, 3))
    first, hard = (problem.name for problem in table.problems)
    values = {
        (problem, model, seed): 100.0 if problem == first else 80.0
        for problem in (first, hard)
        for model in ("softmax", "fourier")
        for seed in (1, 2, 3)
    }
    rows = rows_of(table, values)
    metric = table.metrics[0]
    for row in rows:
        row[f"published {metric}"] = 90.0
        if (row["problem"], row["model"], row["seed"]) == (hard, "fourier", 1):
            row["end"] = "diverged"
            del row[metric], row[f"published {metric}"]
    lines = {(line["problem"], line["model"]): line for line in table.tables(rows)[table.names[1]]}
    assert (lines[AVERAGE, "fourier"]["mean"], lines[AVERAGE, "fourier"]["seeds"]) == (90.0, 2)
    assert (lines[AVERAGE, "softmax"]["mean"], lines[AVERAGE, "softmax"]["seeds"]) == (90.0, 3)
    assert lines[hard, "fourier"]["published"] == 90.0  # of a later seed


def test_a_study_from_outside_has_its_table(bits: Path, call: Call, tmp_path: Path) -> None:
    status, out, _ = call("reproduce", "--list", "--data", bits)
    assert status == 0
    text = " ".join(re.sub("[│┃]", " ", out).split())
    assert "ninth: Bits: a study from outside" in text
    options = ("--data", bits, "--output", tmp_path / "out", "--seeds", 1)
    status, out, err = call("reproduce", "ninth", "--quick", *options)
    assert (status, err) == (0, "")
    assert "decides nothing: the table names no metric" in out
    status, out, err = call("reproduce", "ninth", *options, "--plan")
    assert (status, err) == (0, "")
    assert "fourier" in out


def test_a_plan_says_what_cannot_be_planned_yet(tmp_path: Path) -> None:
    table = PAPERS["fnet-4"].quick(tmp_path)
    table = replace(table, contenders=table.contenders[:1], problems=table.problems[:1])
    shown = plan_table("fnet-4", table)
    times = dict(zip(shown.columns[0].cells, shown.columns[-1].cells, strict=True))
    assert times["mnli BERT"] == "start must be pre-trained first, got no softmax of seed 1"
    assert times["pretraining BERT"] == times["all"]
    assert "seconds on this machine" in times["all"]


def test_a_plan_adds_up_all_parts_of_the_time_of_all_networks(
    bits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Plan(1, 1, 1, 1.0, 1, seconds=10.0, loading=1.0, validating=100.0, measuring=1000.0)
    monkeypatch.setattr(reproduce_command, "plan", lambda run: one)
    table = replace(ninth(bits), seeds=(1, 2, 3))
    shown = plan_table("ninth", table)
    *kinds, whole = zip(shown.columns[1].cells, shown.columns[-1].cells, strict=True)
    for count, time in kinds:
        assert str(time).startswith(f"about {int(str(count)) * one.total / 60:.3g} minutes")
    networks = sum(int(str(count)) for count, _ in kinds)
    assert networks == 3 * len(kinds)
    assert str(whole[1]).startswith(f"about {networks * one.total / 60:.3g} minutes")


def give_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the ninth study into a package, with its tables beside it."""
    package = folder / "bits_study"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "study.py").write_text("from ninth_study import STUDY\n")
    (package / "comparison.py").write_text("from ninth_study import COMPARISONS\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(STUDIES.rows, "ninth", replace(NINTH, module="bits_study.study"))


def test_a_study_from_outside_may_have_tables_of_its_own(
    bits: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_tables(tmp_path, monkeypatch)
    assert "ninth" not in all_tables()
    status, out, err = call(
        "reproduce", "bits-1", "--data", bits, "--output", tmp_path / "out", "--seeds", 1
    )
    assert (status, err) == (0, "")
    assert out.count("finished: trials bits") == 4
    assert out.count("finished: compared bits") == 2
    config = json.loads((tmp_path / "out/bits_1.json").read_text())["config"]
    assert set(config["chosen"]) == {"bits softmax", "bits none"}


def test_settings_of_how_all_is_computed_are_those_of_every_network(
    bits: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_tables(tmp_path, monkeypatch)
    options = ("--data", bits, "--output", tmp_path / "out", "--seeds", 1)
    status, _, err = call("reproduce", "bits-1", *options, "--set", "precision=bf16")
    assert (status, err) == (0, "")
    config = json.loads((tmp_path / "out/bits_1.json").read_text())["config"]
    assert config["settings"] == {"precision": "bfloat16"}
    table = replace(all_tables()["bits-1"], settings=Settings({"accumulation": 2}))
    networks = [network for stage in table.stages() for network in stage.networks({})]
    assert {table.setup(network).recipe.accumulation for network in networks} == {2}
    for given, rule in (
        ((), "finished networks must be of settings {}, got {'precision': 'bfloat16'}"),
        (("--set", "steps=3"), "set must be one of accumulation, precision, "),
        (("--set", "seed=3"), "the others are the table's; got seed"),
    ):
        status, _, err = call("reproduce", "bits-1", *options, *given)
        assert (status, rule in err) == (2, True), err


def test_a_name_that_is_not_there_names_similar_ones(call: Call) -> None:
    for given, rule in (
        ("fourierfomer-3", "such as fourierformer-3"),
        ("fnet-7", "experiments/lra_costs.py measures fnet-7"),
    ):
        status, _, err = call("reproduce", given)
        assert (status, rule in err) == (2, True), err
    assert call("reproduce")[0] == 2


def test_missing_data_are_named_with_what_is_expected_where(call: Call, tmp_path: Path) -> None:
    for name, expected in (
        ("fourierformer-3", "PEMS-SF_TRAIN.ts"),
        ("fourierformer-4", "hopper[-_]medium-v2.*"),
        ("fnet-4", "c4-train.*.json.gz"),
        ("fnet-6", "new_aan_pairs.train.tsv"),
        ("language-small", "experiments/data_manuals.py"),
    ):
        status, _, err = call("reproduce", name, "--data", tmp_path)
        assert (status, expected in err, str(tmp_path) in err) == (2, True, True), err
        assert len(err.splitlines()) == 1


def test_data_are_found_up_to_two_folders_below(tmp_path: Path) -> None:
    places = {
        "fourierformer-3": "uea/JapaneseVowels/JapaneseVowels_TRAIN.ts",
        "fourierformer-4": "d4rl/hopper_medium_replay-v2.hdf5",
        "fnet-4": "GLUE/SST-2/train.tsv",
    }
    for name, file in places.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_text("")
        (path.parent / "JapaneseVowels_TEST.ts").write_text("")
        needs = PAPERS[name].needs(tmp_path)
        found = [need.place for need in needs if need.place is not None]
        expected = path if name == "fourierformer-4" else path.parent
        assert found == [str(expected)], name


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("ninth*.csv"))}


def test_a_killed_reproduction_goes_on_to_the_same_bytes(bits: Path, tmp_path: Path) -> None:
    table = ninth(bits)
    reproduce("ninth", table, tmp_path / "whole")
    parts = tmp_path / "parts"
    process = start(reproduce_and_die, bits, parts)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert not contents(parts)
    lines = (parts / "ninth.finished.jsonl").read_bytes()
    assert lines.count(b"\n") == 2  # the header, and one network
    (parts / "ninth.finished.jsonl").write_bytes(lines + b'{"key": "half a li')
    assert list((parts / "runs").glob("ninth-tiny-fourier-1-*/checkpoint-6"))  # goes on from there
    trained: list[str] = []
    written = reproduce(
        "ninth", table, parts, report=lambda network, error: trained.append(str(network) + error)
    )
    assert (len(trained), written.missing) == (3, 0)
    assert contents(parts) == contents(tmp_path / "whole")


def test_two_at_once_in_one_folder_are_refused(bits: Path, tmp_path: Path) -> None:
    table = ninth(bits)

    def again(network: Network, error: str) -> None:
        reproduce("ninth", table, tmp_path / "out")

    with pytest.raises(ValueError, match="output must not be in use by another run"):
        reproduce("ninth", table, tmp_path / "out", report=again)


def test_too_few_devices_are_told_before_any_network_is_trained(
    bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"together must be at most 1, .* got 2"):
        reproduce("ninth", replace(ninth(bits), together=2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_processor_time_has_that_of_processes_that_train_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent = [0.0, 0.0]  # by this process, by those that it waited for

    def train(*given: object) -> list[Measured]:
        spent[:] = 2.0, 9.0
        return []

    monkeypatch.setattr(trained, "_train", train)
    monkeypatch.setattr(trained.time, "process_time", lambda: spent[0])
    monkeypatch.setattr(
        trained.os, "times", lambda: SimpleNamespace(children_user=spent[1], children_system=1.0)
    )
    for together, seconds in ((1, 2.0), (2, 11.0)):
        spent[:] = 0.0, 0.0
        with trained.trained(setup("language"), Path(), together=together) as found:
            assert found.seconds == seconds


def test_finished_networks_of_other_data_or_versions_are_refused(
    bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f.jsonl"
    Finished(file, {"data": "here"})
    with pytest.raises(ValueError, match="must be of data there, got here"):
        Finished(file, {"data": "there"})
    monkeypatch.setattr(finished, "__version__", "9")
    with pytest.raises(ValueError, match="must be of fourierkernels 9"):
        Finished(file, {"data": "here"})
    monkeypatch.undo()
    file.write_bytes(file.read_bytes() + b'{"key": "a", "row": {}}\n')
    with pytest.raises(ValueError, match="got a damaged line 2"):
        Finished(file, {"data": "here"})


def test_networks_of_other_numbers_of_processes_are_not_mixed(
    bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding and dropout depend on how many processes train a network together."""
    nothing = reproduction.Ended([], {}, 0, {})
    monkeypatch.setattr(reproduction, "run_comparison", lambda *given, **options: nothing)
    table = ninth(bits)
    for first, then in ((1, 2), (2, 1)):
        output = tmp_path / f"out{first}"
        for _ in range(2):
            reproduce("ninth", replace(table, together=first), output)
        with pytest.raises(ValueError, match="finished networks must be of together"):
            reproduce("ninth", replace(table, together=then), output)


def test_a_network_that_fails_is_a_line_and_the_others_go_on(
    bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ninth(bits)
    whole = Comparison.train

    def train(self: Comparison, network: Network) -> Row:
        if (network.contender.name, network.seed) == ("fourier", 1):
            raise RuntimeError("no room\nleft")
        return whole(self, network)

    monkeypatch.setattr(Comparison, "train", train)
    errors: list[str] = []
    written = reproduce("ninth", table, tmp_path, report=lambda n, error: errors.append(error))
    assert sorted(filter(None, errors)) == ["RuntimeError: no room left"]
    assert (len(errors), written.missing) == (4, 1)
    assert {row["model"]: row["seeds"] for row in written.rows} == {"softmax": 2, "fourier": 1}
    monkeypatch.undo()
    monkeypatch.setitem(STUDIES.rows, "ninth", NINTH)
    errors.clear()
    written = reproduce("ninth", table, tmp_path, report=lambda n, error: errors.append(error))
    assert (errors, written.missing) == ([""], 0)


def test_a_network_that_ends_its_workers_is_a_line_and_the_others_go_on(
    bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PaperTable, "train", lambda self, network: {"seed": network.seed})
    networks = ninth(bits).stages()[0].networks({})
    whole, killed = reproduction.spread, []

    def spread(work: Any, pieces: Any, **options: Any) -> Any:
        if not killed:
            killed.append(pieces[1])
            raise DeadlyPieceError(pieces[1], "network x ended 3 workers")
        return whole(work, pieces, **options)

    monkeypatch.setattr(reproduction, "spread", spread)
    finished = Finished(tmp_path / "f.jsonl")
    found = dict(reproduction.finish(ninth(bits), networks, finished))
    assert found == {n: "network x ended 3 workers" if n in killed else "" for n in networks}


def test_contenders_without_a_finished_trial_are_left_out(
    bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(self: Comparison, network: Network) -> Row:
        if network.contender.name == "fourier" and network.part.name == "trials":
            raise RuntimeError("always")
        return {**self.labels(network), "valid_loss": network.tuning.rate, "test x": 1.0}

    monkeypatch.setattr(Comparison, "train", train)
    table = ninth(bits, rates=(2e-3, 1e-3))
    ended = reproduction.run_comparison(
        table, Finished(tmp_path / "f.jsonl"), report=lambda network, error: None
    )
    assert ended.missing == 4  # two trials and two seeds
    rates = {(row["part"], row["model"], row["rate"]) for row in ended.rows}
    assert rates == {
        ("trials", "softmax", 2e-3),
        ("trials", "softmax", 1e-3),
        ("compared", "softmax", 1e-3),
    }


@pytest.mark.slow
def test_several_processes_give_the_same_bytes(bits: Path, tmp_path: Path) -> None:
    table = replace(PAPERS[FAST].quick(tmp_path), seeds=(1, 2))
    for processes in (1, 2):
        output = tmp_path / str(processes)
        reproduce(FAST, table, output, Workers(processes))
    one, two = ((tmp_path / n / "fourierformer_3.csv").read_bytes() for n in ("1", "2"))
    assert one == two


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes_as_this_process(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    table = PAPERS[FAST].quick(tmp_path)
    table = replace(table, problems=table.problems[:1], seeds=(1,))
    process, address, _ = start_cluster(tmp_path / "cluster.py")
    with process:
        try:
            reproduce(FAST, table, tmp_path / "far", Workers(scheduler=address))
        finally:
            process.kill()
    reproduce(FAST, table, tmp_path / "here")
    far, here = ((tmp_path / n / "fourierformer_3.csv").read_bytes() for n in ("far", "here"))
    assert far == here


@pytest.mark.slow
def test_processes_together_train_each_network(tmp_path: Path) -> None:
    table = PAPERS[FAST].quick(tmp_path)
    table = replace(table, seeds=(1,), contenders=table.contenders[:1], problems=table.problems[:1])
    written = reproduce(FAST, replace(table, together=2), tmp_path / "out")
    assert written.missing == 0
    (file,) = (tmp_path / "out/runs").glob("*/results.json")
    assert json.loads(file.read_text())["config"]["processes"] == 2
    broken = replace(table, together=2, seeds=(3,), data="x")
    broken = replace(broken, problems=tuple(p.at(str(tmp_path)) for p in table.problems))
    errors: list[str] = []
    reproduce(FAST, broken, tmp_path / "no", report=lambda n, error: errors.append(error))
    assert errors[0].startswith("ChildProcessError: ValueError: data must be")


@pytest.mark.parametrize("corpus", ["wikitext-103", "text"])
def test_numbers_of_other_options_than_the_presets_are_those_of_their_row(
    corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trained, "facts", {"corpus": corpus})
    monkeypatch.setattr(Trained, "least_loss", 1.0)
    table = PAPERS["fourierformer-arxiv-4"]
    of_preset = [
        Measured(split, "sliding perplexity", 5.0, 9, 31.86) for split in ("valid", "test")
    ]
    found = {
        network.contender.name: table.measured(
            network, Trained(table.setup(network), Path(), of_preset, "finished", 0.0)
        ).get(f"published {table.metrics[1]}")
        for network in table.stages()[0].networks({})
    }
    own = {"l = 2": 33.10, "l = 4": 32.85, "l = 6": 32.81}
    none = dict.fromkeys(("l = 1", "l = 2", "l = 3", "l = 4", "l = 6"))
    expected = none | (own if corpus == "wikitext-103" else {})
    assert found == {"softmax": 31.86, **expected}  # as the study says


@pytest.mark.parametrize(("part", "spans"), [(0, 10**9), (1, 10**9), (0, 10**6)])
def test_published_numbers_of_glue_are_those_of_the_size_on_whole_tasks(
    part: int, spans: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of an encoder that has read nothing twice, as the paper's on the whole of C4."""
    monkeypatch.setattr(Trained, "least_loss", 1.0)
    (tmp_path / "study.json").write_text("{}")
    known = {"corpus": "c4", "spans": {"train": spans}}
    (tmp_path / "results.json").write_text(json.dumps({"config": known}))
    means = {
        "fnet-4": (83.3, 77.0, 76.7, 56.6, 49.3, 80.6),
        "fnet-4-large": (84.7, 59.8, 81.9),
    }
    for name, printed in means.items():
        table, rows = replace(PAPERS[name], seeds=(1,)), []
        for network in table.stages()[-1].networks({}):
            task = TASKS[network.part.problem]
            counts = {"train": task.rows * 19 // 20, "valid": task.rows - task.rows * 19 // 20}
            counts["valid"] -= part
            monkeypatch.setattr(Trained, "facts", {"rows": counts})
            splits = [f"test{ending}" for ending, _ in task.held]
            measured = [Measured(split, task.measures[0], 50.0, 9, 1.0) for split in splits]
            run = replace(
                setup("glue", preset=network.part.problem), start=Start(str(tmp_path), "")
            )
            row = table.measured(network, Trained(run, Path(), measured, "finished", 0.0))
            rows.append({**table.labels(network), **row})
        lines = table.tables(rows)[table.names[1]]
        found = [row["published"] for row in lines if row["problem"] == AVERAGE]
        assert len(found) == len(printed)
        whole = not part and spans == 10**9
        assert found == (pytest.approx(printed, abs=0.05) if whole else [""] * len(printed))
