"""What the chapters of the book share."""

from pathlib import Path

import matplotlib as mpl
import pytest

from fourierkernels import notebook

ROOT = Path(__file__).parents[1]


def test_a_table_is_markdown_with_its_mathematics():
    written = notebook.table(["$l$", "mass"], [[1, "$\\pi$"], [2, 3.5]])
    assert written.data.splitlines() == [
        "| $l$ | mass |",
        "| --- | --- |",
        "| 1 | $\\pi$ |",
        "| 2 | 3.5 |",
    ]


def test_negative_numbers_of_a_table_have_a_minus_sign():
    negative = [-0.5, "(-2 to -1)", "1e-05", "**-.5**", "x=-2", "≤ -1,-3", "-inf"]
    others = ["$x^{-2}$", "$$x -1$$", "`-1`", "``a -1``", "2023-01-02", "part-1", "[a](-1)"]
    others += ['<b style="margin: -2px">', "https://x.y/-1/2"]
    written = notebook.table(["a"] * 16, [[*negative, *others]]).data.splitlines()[-1]
    shown = written.removeprefix("| ").removesuffix(" |").split(" | ")
    expected = ["−0.5", "(−2 to −1)", "1e−05", "**−.5**", "x=−2", "≤ −1,−3", "−inf"]
    assert shown == [*expected, *others]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="rows must have 2 cells like the header, got 1 in row 1"):
        notebook.table(["a", "b"], [[1, 2], [3]])


@pytest.mark.parametrize("place", [".", "notebooks", "notebooks/data"])
def test_a_checkout_has_its_results_from_any_folder(monkeypatch, place):
    monkeypatch.chdir(ROOT / place)
    assert notebook.read_rows("rates_density.csv")[0]["kernel"]
    assert notebook.data("genera.txt").is_file()


def test_a_download_brings_its_results(monkeypatch, tmp_path):
    for name in ("results", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.csv").write_text("n,error\n10,0.5\n")
    monkeypatch.chdir(tmp_path)
    assert notebook.read_rows("own.csv") == [{"n": "10", "error": "0.5"}]
    assert notebook.read_frame("own.csv")["error"].sum() == 0.5
    assert notebook.data("own.csv") == tmp_path / "data" / "own.csv"


def test_a_missing_result_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"got 'none\.csv': unpack the download"):
        notebook.result("none.csv")


def test_the_start_sets_the_look(monkeypatch):
    with mpl.rc_context({"axes.spines.top": True}):
        notebook.start()
        assert not mpl.rcParams["axes.spines.top"]
