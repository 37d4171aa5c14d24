"""``fourierkernels heads`` on pairs, images and files of weights, with null and importance."""

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from pages import rows_of
from PIL import Image

from fourierkernels import cli, models
from fourierkernels.diagnostics import STATISTICS
from fourierkernels.models import save_model

pytestmark = pytest.mark.usefixtures("undrawn")
Tiny = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]
Whole = tuple[tuple[int, str, str], Path]


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("1 2 3 4\n\n5 6\n7 8 9\n")
    target.write_text("2 3\n4 5 6 7\n8\n")
    return source, target


@pytest.fixture
def images(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(3):
        pixels = rng.integers(0, 255, size=(10, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    return tmp_path / "images"


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Return what the command says and where it writes with all that it measures, run once."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "texts.txt").write_text("a b c d e\n\nf g\nh i j a b c\n")
    options = ["--tokens", "whitespace", "--permutations", "9", "--importance", "masking"]
    arguments = (tiny("bert"), "--text", folder / "texts.txt", "--against", tiny("roberta"))
    printed, told = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(told):
        given = map(str, (*arguments, *options, "--output", folder / "out"))
        patch.setattr(sys, "argv", ["fourierkernels", "heads", *given])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    said = int(stopped.value.code or 0), printed.getvalue(), told.getvalue()
    return said, folder / "out"


@pytest.mark.parametrize(
    ("part", "queries"), [("encoder", "2 to 4"), ("decoder", "2 to 5"), ("cross", "2 to 5")]
)
def test_every_part_of_an_encoder_decoder_is_measured(
    part: str, queries: str, run: Run, tiny: Tiny, pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    source, target = pairs
    options = ["--text", source, "--tokens", "ids", "--part", part, "--output", tmp_path / "out"]
    if part != "encoder":
        options += ["--target", target]
    status, out, err = run(tiny("bart"), *options)
    assert (status, err) == (0, "")
    # The decoder reads one more token than the target has: its start.
    assert f"n: {queries} query tokens" in out
    names = {row["statistic"] for row in rows_of(tmp_path / "out" / "statistics.csv")}
    of_one_sequence = {name for name, row in STATISTICS.items() if row.own}
    assert bool(names & of_one_sequence) == (part != "cross")


def test_images_are_measured_and_named_on_the_page(
    run: Run, tiny: Tiny, images: Path, tmp_path: Path
) -> None:
    status, out, err = run(tiny("vit"), "--images", images, "--output", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "n: 5 to 5 query tokens, median 5; 3 texts, 3 windows; 2 heads" in out
    page = (tmp_path / "out" / "heads.html").read_text()
    assert all(f"{number}.png" in page for number in range(3))


def test_file_of_weights_brings_its_class_and_sizes(run: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": 20, "dim": 16, "layers": 2, "hidden": 16, "heads": 4, "length": 16}
    model = models.LanguageModel(models.language_config("small", cutoffs=(), **sizes))
    save_model(model, tmp_path / "model.safetensors")
    (tmp_path / "ids.txt").write_text("1 2 3 4 5\n6 7 8\n9 10 11 12\n1 1 2\n")
    options = ("--ids", tmp_path / "ids.txt", "--importance", "gradient")
    output = tmp_path / "out"
    status, out, err = run(tmp_path / "model.safetensors", *options, "--output", output)
    assert (status, err) == (0, "")
    assert "random weights" in out
    assert "loss: next_token (-log p of the next token, in nats)" in out
    content = json.loads((output / "heads.json").read_text())
    assert len(content["sha256"]["weights"]) == 64
    names = {path.name for path in output.iterdir()}
    assert {"importance.csv", "pruning.csv", "pruning.svg"} <= names


def test_null_and_importance_are_shown_and_written(
    whole: Whole,
) -> None:
    (status, out, err), folder = whole
    assert (status, err) == (0, "")
    for part in (
        "permuted keys",
        "9 permutations",
        "heads taken away",
        "in random order",
        "loss: states",
        "least important heads (layer.head): ",
    ):
        assert part in out
    null = rows_of(folder / "null.csv")
    assert [row["layer"] for row in null] == ["1", "2", "3"]
    assert all(float(row["permuted_least"]) <= float(row["permuted_most"]) for row in null)
    importance = rows_of(folder / "importance.csv")
    places = [(row["layer"], row["head"]) for row in importance[:5]]
    assert places == [*(("1", str(head)) for head in range(1, 5)), ("2", "1")]
    assert {row["loss"] for row in importance} == {"states"}
    pruning = rows_of(folder / "pruning.csv")
    assert {row["order"] for row in pruning} == {"importance", "random"}
    assert [row["removed"] for row in pruning if row["order"] == "random"][-1] == "12"


def test_several_metrics_and_chosen_statistics(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    chosen = (
        "--metric jensen_shannon --metric projected_cka --statistic gaussian_gap "
        "--statistic entropy --tokens whitespace"
    )
    options = (*chosen.split(), "--against", tiny("roberta"), "--output", output)
    status, out, _ = run(tiny("bert"), "--text", texts, *options)
    assert status == 0
    assert "metric: jensen_shannon" in out
    assert "metric: projected_cka" in out
    metrics = {row["metric"] for row in rows_of(output / "heads.csv")}
    assert metrics == {"jensen_shannon", "projected_cka"}
    assert {row["metric"] for row in rows_of(output / "difference.csv")} == metrics
    statistics = rows_of(output / "statistics.csv")
    assert {row["statistic"] for row in statistics} == {"gaussian_gap", "entropy"}
    assert len(statistics) == 2 * 3 * 4


def test_one_head_has_everything_but_distances(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    options = ["--text", texts, "--tokens", "whitespace", "--output", tmp_path / "out"]
    status, out, err = run(tiny("one_head"), *options)
    assert (status, err) == (0, "")
    assert "left out: frobenius_per_sqrt_n: maps must have at least 2 heads" in out
    status, out, err = run(tiny("one_head"), *options, "--metric", "none")
    assert (status, err) == (0, "")
    assert "entropy" in out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    expected = {"heads.html", "heads.json", "roles.csv", "statistics.csv", "statistics.svg"}
    assert names == expected


def test_report_leaves_nothing_of_an_earlier_one_and_all_of_others(
    whole: Whole, run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.copytree(whole[1], output)
    (output / "mine.csv").write_text("kept")
    before = {path.name for path in output.iterdir()}
    assert {"difference.csv", "null.csv", "importance.csv"} < before
    options = ("--text", texts, "--tokens", "whitespace", "--output", output)
    assert run(tiny("bert"), *options)[0] == 0
    taken = {"difference.csv", "matches.csv", "null.csv", "importance.csv"}
    assert before - {path.name for path in output.iterdir()} == taken | {
        "pruning.csv",
        "pruning.svg",
    }
    assert (output / "mine.csv").read_text() == "kept"


def test_json_holds_all_numbers_and_the_options_that_held(
    whole: Whole,
) -> None:
    content = json.loads((whole[1] / "heads.json").read_text())
    assert content["options"]["metric"] == ["frobenius_per_sqrt_n"]
    assert content["options"]["statistic"] == ["maps"]
    assert np.shape(content["null"]["permuted"]) == (9, 3)
    assert np.shape(content["importance"]["values"]) == (3, 4)
    assert len(content["difference"]["frobenius_per_sqrt_n"]["layers"]) == 3
    assert np.shape(content["statistics"]["entropy"]["std_texts"]) == (3, 4)
    null = rows_of(whole[1] / "null.csv")
    assert [float(row["observed"]) for row in null] == content["null"]["observed"]
    assert {row["metric"] for row in null} == {"frobenius_per_sqrt_n"}


def test_p_value_is_what_the_note_says(whole: Whole) -> None:
    (_, out, _), folder = whole
    assert "p: (1 + number of them with a distance as small) / (1 + 9), so 0.1 at least" in out
    content = json.loads((folder / "heads.json").read_text())["null"]
    permuted, observed = np.array(content["permuted"]), np.array(content["observed"])
    np.testing.assert_allclose(content["p_value"], (1 + (permuted <= observed).sum(axis=0)) / 10)


@pytest.mark.parametrize(
    ("metric", "drawn"), [("frobenius_per_sqrt_n", False), ("jensen_shannon", True)]
)
def test_seed_reaches_the_draws_of_a_control(
    metric: str, drawn: bool, run: Run, tiny: Tiny, tmp_path: Path
) -> None:
    texts, ends = tmp_path / "many.txt", []
    texts.write_text("\n".join("abcdefghij"[k:] for k in range(8)).replace("", " "))
    for seed in (0, 0, 1):
        options = ("--tokens", "whitespace", "--seed", seed, "--metric", metric, "--no-baseline")
        run(tiny("bert"), "--text", texts, *options, "--output", tmp_path / "out")
        controls = json.loads((tmp_path / "out" / "heads.json").read_text())["controls"]
        ends.append(controls[metric]["rows"]["mean"])
    assert ends[0] == ends[1]
    assert (ends[1] != ends[2]) == drawn  # a closed form needs no draw


def test_output_that_cannot_be_written_is_refused_before_the_work(
    run: Run, tiny: Tiny, texts: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file" / "out", Path("/proc/out")):
        status, out, err = run(tiny("bert"), "--text", texts, "--output", output)
        assert (status, out) == (2, "")
        assert f"output must be in a folder that can be written, got {output}" in err


CROSS = "--text {source} --target {target} --part cross"


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("bert", "--text {source} --part cross", "part must be left out"),
        ("bart", "--text {source} --part middle", "part must be one of encoder,"),
        ("bart", "--text {source} --part cross", "pairs (source, target)"),
        ("bert", "--text {source} --target {target}", "texts must be strings"),
        (
            "bart",
            "--text {source} --target {short} --part cross",
            "target must have as many texts as text, 3, got 1",
        ),
        ("bart", f"{CROSS} --context 8", "context must be left out for a network that reads pairs"),
        ("bart", f"{CROSS} --statistic distance", "names must have a meaning for this network"),
        (
            "bart",
            "--text {long} --target {short} --part cross",
            "pairs must have at most 32 tokens on each side, got 40 in pair 1",
        ),
        ("bert", "--images {images}", "texts must be strings, got"),
        ("vit", "--images {images} --target {target}", "target must be given with --text or"),
        ("bert", "--ids {source} --tokens words", "tokens must be auto or ids without --text, got"),
        ("vit", "--text {source}", "images must be paths of files, got"),
        ("vit", "--images {source}", "image folder must exist"),
        ("vit", "--images {images} --text {source}", "got text and images"),
        ("bert", "--text {source} --statistic charm", "statistic must be one of all,"),
        ("bert", "--text {source} --importance gradient", "method must be masking"),
        ("bert", "--text {source} --importance luck", "importance must be one of gradient"),
        ("bert", "--text {source} --loss luck --importance masking", "loss must be one of auto,"),
        ("bert", "--text {source} --loss states", "loss needs an importance"),
        (
            "bert",
            "--text {source} --importance masking --metric charm",
            "metric must be one of frobenius",
        ),
        (
            "bert",
            "--text {source} --importance masking --against nowhere",
            "checkpoint must be an existing folder",
        ),
        (
            "bert",
            "--text {source} --statistic all --statistic entropy",
            "statistic must be one of entropy,",
        ),
        ("bert", "--text {source} --metric none --permutations 3", "permutations need a metric"),
        ("bert", "--text {source} --permutations -1", "permutations must be at least 0, got -1"),
        ("bert", "--text {source} --examples -1", "examples must be at least 0, got -1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    kind: str,
    arguments: str,
    message: str,
    run: Run,
    tiny: Tiny,
    pairs: tuple[Path, Path],
    images: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "short.txt").write_text("1 2\n")
    (tmp_path / "long.txt").write_text("1 " * 40 + "\n")
    places = {
        "source": pairs[0],
        "target": pairs[1],
        "images": images,
        "short": tmp_path / "short.txt",
        "long": tmp_path / "long.txt",
    }
    filled = [argument.format(**places) for argument in arguments.split()]
    given = "--images" in arguments or "--tokens" in arguments
    tokens = [] if given else ["--tokens", "ids"]
    status, _, err = run(tiny(kind), *filled, *tokens, "--output", tmp_path / "out")
    assert status == 2
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
