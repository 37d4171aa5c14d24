"""What commands print fits the terminal, whole; what they do is seen to go on."""

import io
import re
import sys

import pytest
from rich import box
from rich.console import Console
from rich.table import Table
from terminals import Terminal, show_on

from fourierkernels.foundation import progress
from fourierkernels.foundation.console import made_visible, prepare_streams

NUMBERS = ("1.2345e-02", "-0.98765", "12,345")


def numbers(rows: int = 3) -> Table:
    header = ("kernel", "exact MISE", "local slope", "n", "sharp rate")
    table = Table(*header, title="title", caption="a note", box=box.SIMPLE_HEAD)
    for row in range(rows):
        table.add_row(f"fourier{row}", *NUMBERS, "(log n)^1/2 n^-1")
    return table


def printed(table: Table, width: int) -> str:
    console = made_visible(Console(file=io.StringIO(), width=width, highlight=False))
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.mark.parametrize("width", [24, 30, 40, 55, 60, 64, 70, 80, 120])
def test_no_number_of_a_table_is_cut_at_any_width(width: int) -> None:
    shown = printed(numbers(), width)
    assert "…" not in shown
    for number in NUMBERS:
        assert len(re.findall(rf"(?<!\S){re.escape(number)}(?!\S)", shown)) == 3
    assert max(map(len, shown.splitlines())) <= width
    assert "title" in shown
    assert "a note" in shown


def test_rows_stand_in_lines_while_their_words_fit_and_below_each_other_otherwise() -> None:
    row = next(line for line in printed(numbers(), 70).splitlines() if "fourier1" in line)
    assert all(number in row for number in NUMBERS)
    lines = [line.split("  ")[0] for line in printed(numbers(), 40).splitlines()]
    assert lines.count("exact MISE") == 3


def test_a_cell_of_a_number_and_its_spread_stays_in_a_line() -> None:
    table = Table("layer", "trained weights", "random weights")
    table.add_row("1", "0.123 ± 0.045", "0.678 ± 0.009")
    for width in range(24, 60):
        shown = printed(table, width)
        assert "0.123 ± 0.045" in shown
        assert "0.678 ± 0.009" in shown


def test_a_table_as_it_was_is_not_changed_by_printing_it() -> None:
    table = numbers()
    printed(table, 70)
    printed(table, 30)
    assert [column.width for column in table.columns] == [None] * 5
    assert printed(table, 120) == printed(numbers(), 120)


def test_a_column_that_folds_breaks_anywhere() -> None:
    table, path = Table("n", "file"), "/a/long/path/that/has/no/space/in/it/at/all.csv"
    table.columns[1].overflow = "fold"
    table.add_row("7", path)
    assert path in re.sub(r"[│\s]", "", printed(table, 30))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.1 ± 0.2", b"0.1 +- 0.2"),
        ("R² → ∞", b"R^2 -> inf"),
        ("β and φ", b"beta and phi"),
        ("\u4e2d", b"\\u4e2d"),
        ("\udcff", b"\\udcff"),
    ],
)
def test_a_terminal_of_ascii_is_told_by_letters(
    text: str, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii"))
    prepare_streams()
    sys.stdout.write(text)
    sys.stdout.flush()
    assert content.getvalue() == shown


def test_a_stream_that_is_closed_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    prepare_streams()
    with sys.stdout as stream:
        assert stream.write("nobody reads it")


# Progress


def words(stream: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_work_that_shows_nothing_is_seen_by_its_name_and_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    show_on(shown := Terminal(), monkeypatch)
    with progress.working("rates"):
        pass
    assert "rates" in words(shown)
    assert "0:00:00" in words(shown)


def test_bars_count_and_stand_in_the_place_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    show_on(shown := Terminal(), monkeypatch)
    with progress.working("rates"):
        assert list(progress.tracked([1, 2, 3], "kernels")) == [1, 2, 3]
        with progress.bar("texts") as advance:
            advance(1, 2000)
            advance(1500)
    assert "1,500 of 2,000" in words(shown)


def test_nothing_is_shown_while_another_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    show_on(shown := Terminal(), monkeypatch)
    with progress.working("train"), progress.paused():
        before = shown.getvalue()
        with progress.bar("updates", 3) as advance:
            advance(1)
        assert shown.getvalue() == before


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}])
def test_progress_is_for_terminals_alone(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    show_on(shown := io.StringIO(), monkeypatch)
    with progress.working("rates"), progress.bar("kernels", 2) as advance:
        advance(1)
    assert shown.getvalue() == ""


def test_a_terminal_that_cannot_replace_a_line_has_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    show_on(shown := Terminal(), monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with progress.working("rates"):
        list(progress.tracked([1], "kernels"))
    assert shown.getvalue() == ""


def test_standard_output_is_not_redirected_by_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show_on(Terminal(), monkeypatch)
    with progress.bar("lines", 2):
        sys.stdout.write("a translation\n")
    assert capsys.readouterr().out == "a translation\n"
