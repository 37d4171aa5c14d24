"""Three lines from a checkpoint to its report, and rows that are added from outside the package."""

import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from pages import embedded, rows_of, written_page
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

import fourierkernels as fk
from fourierkernels import cli
from fourierkernels.checkpoints import (
    Checkpoint,
    CheckpointFiles,
    find_checkpoint,
    load,
    read_texts,
)
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.options import LoadOptions, ReadOptions
from fourierkernels.diagnostics import METRICS, STATISTICS
from fourierkernels.diagnostics.distances import HeadMetric
from fourierkernels.diagnostics.networks import importance, losses
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.diagnostics.statistics import KEYS, Heads, HeadStatistic
from fourierkernels.report import HeadReport, files, head_report
from fourierkernels.report.finding import head_finding
from fourierkernels.report.heads import MOST_SHOWN
from fourierkernels.report.options import ReportOptions, Team
from fourierkernels.report.page import page_html
from fourierkernels.report.page.tables import notes_list
from fourierkernels.report.request import HeadsRequest, InputOptions
from fourierkernels.report.terminal import report_parts

Tiny = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]
TEXTS = ["a b c d e", "f g", "h i j a b c", "d c b"]


@pytest.fixture(scope="module")
def report(tiny: Tiny) -> HeadReport:
    """Return a report that all tests read and none changes."""
    return fk.head_report(tiny("bert"), TEXTS, tokens="whitespace", examples=2)


def test_report_prints_what_the_command_prints(
    report: HeadReport, run: Run, tiny: Tiny, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    _, out, _ = run(tiny("bert"), "--text", tmp_path / "texts.txt", "--tokens", "whitespace")
    assert str(report) == repr(report) == out.rstrip("\n")
    assert "layer average" in str(report)


def test_text_of_a_report_displays_nothing_in_jupyter(
    report: HeadReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, shown = str(report), []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *of: shown.append(of))
    assert str(report) == expected
    assert not shown


def test_rich_prints_all_lines_of_the_report(report: HeadReport) -> None:
    console = Console(width=60)
    with console.capture() as capture:
        console.print(report)
    shown = " ".join(capture.get().split())
    assert "root mean square over query rows" in shown  # of a line longer than the console


def test_report_is_saved_as_the_command_writes_it(
    report: HeadReport, run: Run, tiny: Tiny, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    options = ("--tokens", "whitespace", "--examples", 2, "--output", tmp_path / "command")
    run(tiny("bert"), "--text", tmp_path / "texts.txt", *options)
    paths = report.save(tmp_path / "saved")
    assert [path.name for path in paths] == sorted(p.name for p in (tmp_path / "command").iterdir())
    for path in paths:
        other = tmp_path / "command" / path.name
        if path.suffix not in (".json", ".html"):  # they hold the options as given
            assert path.read_bytes() == other.read_bytes()
    mine, theirs = (
        json.loads((tmp_path / name / "heads.json").read_text()) for name in ("saved", "command")
    )
    assert mine.pop("options")["tokens"] == theirs.pop("options")["tokens"] == "whitespace"
    assert mine == theirs  # digests too: a list of texts is that of a file with one per line


class Frames(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe"
        self.found.append(dict(attributes))


def test_report_shows_itself_as_its_page_in_a_frame(report: HeadReport) -> None:
    (frame,) = Frames(report._repr_html_()).found
    assert frame["srcdoc"] == page_html(report)
    assert "Report on the heads of" in str(frame["title"])


def test_frame_stays_small_and_says_what_is_left_out(report: HeadReport) -> None:
    example, n = report.first.examples[0], 300
    maps = np.full((3, 4, n, n), 1 / n, dtype=np.float16)
    labels = tuple(map(str, range(n)))
    long = replace(example, maps=maps, queries=labels, keys=labels)
    first = replace(report.first, examples=[long])
    longer = replace(report, profiles={**report.profiles, "trained": first})
    (frame,) = Frames(longer._repr_html_()).found
    page = str(frame["srcdoc"])
    found = embedded(page)["examples"][0]
    assert found["of"] == [300, 300]
    assert np.prod(found["shape"]) <= MOST_SHOWN < maps.size
    assert len(page) < 1e6


def test_path_of_texts_is_read_as_the_command_reads_it(tiny: Tiny, texts: Path) -> None:
    options = {"tokens": "whitespace", "statistics": "none", "baseline": False}
    of_path = head_report(tiny("bert"), str(texts), **options)
    of_file = head_report(tiny("bert"), read_texts(texts), **options)
    assert of_path.skipped == of_file.skipped == 1
    assert str(of_path) == str(of_file)
    assert of_path.summaries()["trained"].n_texts == 3


def test_folder_of_images_is_read_as_images(tiny: Tiny, pictures: list[Path]) -> None:
    of_folder = head_report(tiny("vit"), pictures[0].parent, baseline=False)
    of_list = head_report(tiny("vit"), pictures, baseline=False)
    assert of_folder.kind == of_list.kind == "image"
    assert str(of_folder) == str(of_list)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the checkpoints that are found, one after the other."""
    names: list[str] = []
    bare = CheckpointFiles.__init__

    def counted(self: CheckpointFiles, name: str, path: Path) -> None:
        names.append(name)
        bare(self, name, path)

    monkeypatch.setattr(CheckpointFiles, "__init__", counted)
    return names


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Return the names of the checkpoints that are loaded, and whether with random weights."""
    requests: list[tuple[str, bool]] = []
    bare = load._load

    def counted(request: LoadRequest, seed: int) -> Checkpoint:
        requests.append((request.files.name, request.random_weights))
        return bare(request, seed)

    monkeypatch.setattr(load, "_load", counted)
    return requests


@pytest.mark.parametrize("importance", [None, "masking"])
@pytest.mark.parametrize("asked_by", ["function", "command"])
def test_each_network_is_found_once_and_loaded_once(
    asked_by: str,
    importance: str | None,
    tiny: Tiny,
    run: Run,
    texts: Path,
    found: list[str],
    built: list[tuple[str, bool]],
) -> None:
    bert, roberta = str(tiny("bert")), str(tiny("roberta"))
    if asked_by == "function":
        head_report(bert, TEXTS, tokens="whitespace", importance=importance, against=roberta)
    else:
        options = () if importance is None else ("--importance", importance)
        status, _, _ = run(
            bert, "--text", texts, "--tokens", "whitespace", "--against", roberta, *options
        )
        assert status == 0
    assert found == [bert, roberta]
    assert built == [(bert, False), (bert, True), (roberta, False)]


def test_importance_changes_nothing_else(tiny: Tiny, report: HeadReport) -> None:
    other = head_report(tiny("bert"), TEXTS, tokens="whitespace", importance="masking")
    for name, summary in report.summaries().items():
        np.testing.assert_array_equal(other.summaries()[name].distances, summary.distances)
    assert str(other).startswith(str(report))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spread": "layers"}, r"spread \(--std\) must be one of"),
        ({"metrics": ["charm"]}, "metric must be one of"),
        ({"statistics": ["charm"]}, "statistic must be one of"),
        ({"importance": "luck"}, "importance must be one of"),
        ({"loss": "states"}, "loss needs an importance"),
        ({"metrics": "none", "permutations": 2}, "permutations need a metric"),
        ({"examples": -1}, "examples must be at least 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        (
            {"metrics": "none", "statistics": "none", "examples": 0, "roles": "none"},
            "must name something to measure",
        ),
        ({"against": "nowhere"}, "checkpoint must be an existing folder"),
    ],
)
def test_options_are_refused_before_anything_is_loaded(
    options: dict[str, object], message: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "_load", None)
    with pytest.raises(ValueError, match=message):
        head_report(tiny("bert"), TEXTS, **options)


def test_metrics_must_be_names(tiny: Tiny) -> None:
    with pytest.raises(TypeError, match=r"metrics \(--metric\) must be names of metrics, got None"):
        head_report(tiny("bert"), TEXTS, metrics=None)  # type: ignore[arg-type]


@pytest.mark.usefixtures("undrawn")
def test_report_is_read_and_saved_when_its_checkpoint_is_gone(
    own: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = own("bert")
    report = head_report(folder, TEXTS, against=find_checkpoint(folder), statistics="none")
    shutil.rmtree(folder)
    written = report.save(tmp_path / "heads")
    numbers = json.loads(next(p for p in written if p.suffix == ".json").read_text())
    assert len(numbers["sha256"]["weights"]) == 64
    assert numbers["options"]["against"] == folder.name  # no folder of this machine


def test_report_is_not_saved_over_a_file(report: HeadReport, tmp_path: Path) -> None:
    (tmp_path / "heads").write_text("mine")
    with pytest.raises(ValueError, match="output must be a folder, got the file"):
        report.save(tmp_path / "heads")
    assert (tmp_path / "heads").read_text() == "mine"


def test_metrics_of_a_report_are_asked_for_by_name(report: HeadReport) -> None:
    assert report.summaries("frobenius_per_sqrt_n").keys() == {
        "trained",
        "unrelated keys",
        "all keys unrelated",
        "positions only",
        "random",
    }
    with pytest.raises(ValueError, match="metric must be one of frobenius_per_sqrt_n, got 'cka'"):
        report.summaries("cka")


def test_options_of_the_command_are_keywords_of_the_function_word_for_word() -> None:
    options = {parameter.name for parameter in get_command(cli.app).commands["heads"].params}
    of_the_command = {"text", "target", "ids", "images", "sounds", "output"}
    names = set(inspect.signature(head_report).parameters)
    assert options - of_the_command == names - {"inputs", "progress", "resume"}
    assert options >= of_the_command


def test_everything_that_was_asked_for_is_recorded() -> None:
    names = set(inspect.signature(head_report).parameters)
    recorded = ReportOptions(LoadOptions(), ReadOptions(), MeasureOptions()).record("a", None)
    assert recorded.keys() == names - {"inputs", "workers", "scheduler", "resume", "progress"}


def test_record_of_the_command_has_its_options_in_their_order() -> None:
    parameters = get_command(cli.app).commands["heads"].params
    options = ReportOptions(LoadOptions(), ReadOptions(), MeasureOptions())
    recorded = HeadsRequest("a", None, InputOptions(), options, Team()).record()
    names = [parameter.opts[0].removeprefix("--").replace("-", "_") for parameter in parameters]
    assert list(recorded) == names


def test_checkpoint_that_was_found_is_taken_as_it_is(tiny: Tiny) -> None:
    files_found = find_checkpoint(tiny("bert"))
    options = {"tokens": "whitespace", "statistics": "none", "baseline": False}
    assert head_report(files_found, TEXTS, **options).title == str(tiny("bert"))


def test_measures_import_nothing_that_draws() -> None:
    code = (
        "import sys, fourierkernels.diagnostics.networks.pruning, "
        "fourierkernels.diagnostics.networks.profile;"
        "print([m for m in ('rich', 'fourierkernels.report', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fourierkernels.report" not in out.stdout
    assert "matplotlib" not in out.stdout


def test_arrays_are_measured_without_torch() -> None:
    code = "import sys, fourierkernels.diagnostics; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


# Rows from outside the package, as CONTRIBUTING tells.


def run_bert(run: Run, tiny: Tiny, texts: Path, *options: object) -> tuple[int, str, str]:
    return run(tiny("bert"), "--text", texts, "--tokens", "whitespace", *options)


def largest_gap(maps: np.ndarray) -> np.ndarray:
    return np.abs(maps[:, None] - maps).max(axis=(-2, -1))


@pytest.fixture
def metric(monkeypatch: pytest.MonkeyPatch) -> str:
    row = HeadMetric(
        name="largest_gap",
        function=largest_gap,
        any_length=True,
        probabilities=False,
        normaliser="nothing",
        unit="weight",
        description="largest difference of two weights",
        source="a test",
    )
    monkeypatch.setitem(METRICS, row.name, row)
    return row.name


def test_new_metric_is_in_help_tables_files_page_and_figure(
    metric: str, run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    out = run_bert(run, tiny, texts, "--metric", metric, "--output", tmp_path / "out")[1]
    assert "metric: largest_gap (weight); largest difference of two weights" in out
    assert {row["metric"] for row in rows_of(tmp_path / "out" / "heads.csv")} == {metric}
    content = json.loads((tmp_path / "out" / "heads.json").read_text())
    assert content["networks"]["trained"][metric]["normaliser"] == "nothing"
    assert written_page(tmp_path / "out")["metric"]["name"] == metric
    assert "largest_gap (weight)" in (tmp_path / "out" / "heads.svg").read_text()
    shown = CliRunner().invoke(cli.app, ["heads", "--help"], env={"COLUMNS": "200"}).output
    assert "largest_gap" in shown


def test_new_metric_equals_its_function_on_the_maps(metric: str, tiny: Tiny) -> None:
    from fourierkernels.checkpoints import load_checkpoint
    from fourierkernels.diagnostics import head_samples

    report = head_report(tiny("gpt2"), ["1 2 3 4"], tokens="ids", metrics=metric, baseline=False)
    maps = next(head_samples(load_checkpoint(tiny("gpt2")), [[1, 2, 3, 4]])).maps
    expected = [largest_gap(layer) for layer in maps]
    np.testing.assert_allclose(report.summaries()["trained"].distances, expected, rtol=1e-6)


@pytest.mark.usefixtures("distances_undrawn")
@pytest.mark.parametrize("reads", ["maps", KEYS])
def test_new_statistic_is_in_tables_files_page_and_figure(
    reads: str, run: Run, tiny: Tiny, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(heads: Heads) -> np.ndarray:
        values = heads.maps if reads == "maps" else heads.keys
        return values.max(axis=(-2, -1))

    row = HeadStatistic("top_value", function, "a unit", "largest of all", reads=reads)
    monkeypatch.setitem(STATISTICS, row.name, row)
    of_set = "all" if reads == KEYS else "maps"
    for statistic in ("top_value", of_set):
        options = ("--statistic", statistic, "--output", tmp_path / "out")
        out = run_bert(run, tiny, texts, *options)[1]
        assert "top value" in out
        assert "a unit" in out
        rows = rows_of(tmp_path / "out" / "statistics.csv")
        assert "top_value" in {one["statistic"] for one in rows}
        content = json.loads((tmp_path / "out" / "heads.json").read_text())
        assert content["statistics"]["top_value"]["unit"] == "a unit"
        shown = {one["name"]: one for one in written_page(tmp_path / "out")["statistics"]}
        assert shown["top_value"]["description"] == "largest of all"
        assert "top value" in (tmp_path / "out" / "statistics.svg").read_text()
    assert (
        "top_value"
        not in head_report(
            tiny("bert"), TEXTS, tokens="whitespace", statistics="none"
        ).first.statistics
    )


@pytest.mark.usefixtures("undrawn")
def test_new_importance_is_measured_shown_and_written(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbered(probe: importance.Probe, batch: object) -> np.ndarray:
        return np.arange(np.prod(probe.shape), dtype=float).reshape(probe.shape)

    row = importance.Importance("numbered", numbered, "the number of the head", "a test")
    monkeypatch.setitem(importance.IMPORTANCES, row.name, row)
    options = ("--importance", "numbered", "--output", tmp_path / "out")
    _, out, err = run_bert(run, tiny, texts, *options)
    assert err == ""
    assert "importance: numbered" in out
    assert "least important heads (layer.head): 1.1, 1.2, 1.3, 1.4, 2.1;" in out
    written = rows_of(tmp_path / "out" / "importance.csv")
    assert [float(one["importance"]) for one in written] == list(range(12))
    shown = {one["name"]: one for one in written_page(tmp_path / "out")["statistics"]}
    assert shown["importance"]["title"] == "importance (numbered)"


@pytest.mark.parametrize("chosen", ["mine", "auto"])
def test_new_loss_is_chosen_by_name_and_by_the_class_it_is_meant_for(
    chosen: str, run: Run, tiny: Tiny, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(checkpoint: object, tokenizer: object, items: list, seed: int) -> tuple:
        def loss(model: object, item: object) -> torch.Tensor:
            return checkpoint.run([item]).last_hidden_state.square().mean()

        return loss, list(items)

    row = losses.LossRule("mine", ("BertModel",), make, "a loss of a test")
    monkeypatch.setitem(losses.LOSSES, row.name, row)
    options = ("--importance", "gradient", "--loss", chosen, "--no-baseline")
    _, out, err = run_bert(run, tiny, texts, *options)
    assert err == ""
    assert "loss: mine (a loss of a test)" in out


@pytest.mark.usefixtures("undrawn")
def test_new_file_is_written_where_there_is_something_for_it_and_taken_away_later(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = files.ReportFile(
        name="layers.txt",
        write=lambda report, path: path.write_text(str(len(report.summaries()["trained"].mean))),
        applies=lambda report: "random" in report.profiles,
    )
    monkeypatch.setitem(files.FILES, row.name, row)
    out = run_bert(run, tiny, texts, "--output", tmp_path / "out")[1]
    assert "layers.txt" in out
    assert (tmp_path / "out" / "layers.txt").read_text() == "3"
    run_bert(run, tiny, texts, "--output", tmp_path / "out", "--no-baseline")
    assert not (tmp_path / "out" / "layers.txt").exists()


def test_what_was_not_understood_is_named_before_the_numbers(report: HeadReport) -> None:
    sentence = "attention seen in layer.1, not understood because its weights are changed"
    partial = replace(report.first, unread=sentence, layers=("layer.0", "layer.2"))
    found = replace(report, profiles={"trained": partial})
    assert (
        next(report_parts(found)) == f"not accounted for: {sentence}\nlayers: 1 layer.0, 2 layer.2"
    )
    assert f"<li>not accounted for: {sentence}</li>" in notes_list(found)
    assert "not accounted for" not in notes_list(report)
    said, whole = (head_finding(one).sentences[0] for one in (found, report))
    assert said.startswith("Of the attention that is accounted for, the heads are ")
    assert whole.startswith("The heads are ")
