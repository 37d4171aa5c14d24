"""The program under any terminal, locale and reader; the habits of a command."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fourierkernels.cli import app
from fourierkernels.foundation.version import __version__

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAM = [sys.executable, "-m", "fourierkernels.cli"]
RATES = ["rates", "--power", "1", "--smallest", "2", "--largest", "2"]
COMMANDS = [
    *([command.callback.__name__] for command in app.registered_commands),
    *(
        [group.name, command.name or command.callback.__name__]
        for group in app.registered_groups
        for command in group.typer_instance.registered_commands
    ),
]


def test_version_is_that_of_the_package(command: Run) -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"fourierkernels {__version__}\n")


@pytest.mark.parametrize("names", [[], ["cuda"], *COMMANDS], ids=" ".join)
def test_h_is_the_help_of_every_command_and_group(names: list[str], command: Run) -> None:
    done = command(*names, "-h")
    assert done.returncode == 0
    assert re.search(rf"Usage: .*{' '.join(names)} \[OPTIONS\]", done.stdout)


def test_the_shell_completes_options() -> None:
    """As the script that typer installs asks the program, which goes by its name."""
    asked = {"COMP_WORDS": "fourierkernels rates --dens", "COMP_CWORD": "2"}
    code = "import sys; sys.argv = ['fourierkernels']; from fourierkernels import cli; cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked | {"_FOURIERKERNELS_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["--density"], done.stderr


@pytest.mark.parametrize(
    ("misspelt", "meant"), [(["ratse"], "rates"), (["rates", "--densty", "x"], "--density")]
)
def test_a_misspelt_word_is_one_line_with_the_one_meant(
    misspelt: list[str], meant: str, command: Run
) -> None:
    done = command(*misspelt)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert meant in done.stderr


# Terminals and locales

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SETTINGS = {
    "plain": {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "40", "LC_ALL": "C"},
    "ASCII": ASCII,
    "colour": {"FORCE_COLOR": "1"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_in_a_pipe_only_colour_depends_on_the_terminal(name: str) -> None:
    done = subprocess.run(
        [*PROGRAM, *RATES], env=os.environ | SETTINGS[name], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"\x1b[" in done.stdout) == (name == "colour")
    shown = re.sub(rb"\x1b\[[0-9;]*m", b"", done.stdout).decode("utf-8")
    assert re.search(r"fourier1[ |]+1e2[ |]+2\.1483[ |]+4\.6955e-03", shown)


def test_output_in_an_encoding_keeps_what_that_has() -> None:
    """From a process of its own; the old code page of Windows has ² and neither √ nor →."""
    code = """import sys; from fourierkernels.cli import app, main
app.command("show")(lambda: print("√n → ²")); sys.argv[1:] = ["show"]; main()"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("cp1252") == "\\u221an -> ²\n"


def test_an_error_is_one_line_in_ascii_too() -> None:
    failed = subprocess.run(
        [*PROGRAM, "rates", "--density", "é".encode()], env=os.environ | ASCII, capture_output=True
    )
    assert failed.returncode == 2
    assert failed.stderr.startswith(b"error: density must be a family")
    assert failed.stderr.isascii()
    assert failed.stderr.count(b"\n") == 1


def on_a_terminal(*arguments: str, columns: int, term: str) -> str:
    """Run the program on a terminal; return what that was sent."""
    ours, theirs = pty.openpty()
    variables = os.environ | {"TERM": term, "COLUMNS": str(columns), "LINES": "24"}
    with subprocess.Popen(
        [*PROGRAM, *arguments], env=variables, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        sent = b""
        while part := _read(ours):
            sent += part
    os.close(ours)
    assert process.returncode == 0
    return sent.decode("utf-8").replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the program has ended
        return b""


def test_a_terminal_of_forty_columns_has_whole_numbers() -> None:
    shown = on_a_terminal(*RATES, columns=40, term="dumb")
    assert "\x1b" not in shown
    assert "…" not in shown
    assert re.search(r"exact MISE +4\.6955e-03", shown)
    assert max(map(len, shown.splitlines())) <= 40


# Readers, folders and interrupts


def test_files_are_written_although_nobody_reads_the_table(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, *RATES, "--output", tmp_path / "a table.csv"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "a table.csv").is_file()


def test_a_reader_of_the_help_may_leave() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, "rates", "-h"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == b""
