"""The README, the start page and the guides show what really comes out; the studies run."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise, takewhile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fourierkernels.cli import app

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = [
    "book/checkpoints.md",
    "book/explore.md",
    "book/gpu.md",
    "book/install.md",
    "book/tables.md",
    "book/training.md",
]
PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in ["README.md", "book/index.md", *GUIDES]
}
BLOCKS = [
    block
    for text in PAGES.values()
    for block in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
]
CONSOLES = list(dict.fromkeys(text for language, text in BLOCKS if language == "console"))
PREPARED = [text for text in CONSOLES if text.startswith("$ python ")]


def commands_of(text: str) -> list[tuple[str, str]]:
    return re.findall(r"\$ fourierkernels ([^\n]*)\n((?:(?!\$ ).*\n)*)", text)


SESSIONS = [commands_of(text) for text in CONSOLES if text not in PREPARED]
CONSOLE = [
    # The numbers of heads are also those of the README's Python example, which always runs.
    pytest.param(*session[0], marks=[pytest.mark.slow] if session[0][0].startswith("heads") else [])
    for session in SESSIONS
    if len(session) == 1
]
TRAINING = [session for session in SESSIONS if len(session) > 1]


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def printed_by(arguments: str, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "fourierkernels.cli", *shlex.split(arguments)]
    environment = {**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, cwd=folder, env=environment
    )
    return squeezed(done.stdout)


@pytest.mark.parametrize(("arguments", "shown"), CONSOLE, ids=lambda text: text[:30])
def test_console_examples_print_what_is_shown(arguments: str, shown: str, tmp_path: Path) -> None:
    printed, lines = printed_by(arguments, tmp_path), squeezed(shown)
    assert len(lines) > 4
    start = printed.index(lines[0])
    assert printed[start : start + len(lines)] == lines


def test_commands_that_are_shown_alone_have_their_options() -> None:
    """Those that take long or need data."""
    texts = [text.replace("\\\n", " ") for language, text in BLOCKS if language == "bash"]
    commands = [shlex.split(line) for text in texts for line in text.splitlines()]
    assert len(commands) >= 6
    for program, *words in commands:
        assert program == "fourierkernels"
        named = list(takewhile(lambda word: not word.startswith("-"), words))
        shown = CliRunner().invoke(app, [*named, "--help"], env={"COLUMNS": "200"}).output
        options = {word for word in words if word.startswith("--")}
        assert all(option in shown for option in options), (named, options)


def test_examples_on_tables_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for first in {text.splitlines()[0] for text in PREPARED}:
        program = shlex.split(first.removeprefix("$ python "))
        subprocess.run([sys.executable, *program], check=True, capture_output=True, text=True)
    session = [example for text in PREPARED for example in commands_of(text)]
    runs = {each: CliRunner().invoke(app, shlex.split(each)) for each in dict(session)}
    assert {arguments.split()[0] for arguments in runs} == {"density", "regress"}
    for arguments, shown in session:
        assert runs[arguments].exit_code == 0
        lines = squeezed(shown)
        assert squeezed(runs[arguments].output)[: len(lines)] == lines


@pytest.mark.slow
def test_training_example_prints_what_is_shown(tmp_path: Path) -> None:
    """One after the other; numbers to a quarter, as other machines and other Pythons have them."""
    (session,) = TRAINING
    assert [arguments.split()[0] for arguments, _ in session] == ["train", "evaluate", "heads"]
    for arguments, shown in session:
        printed, lines = printed_by(arguments, tmp_path), squeezed(shown)
        start = [without_numbers(line) for line in printed].index(without_numbers(lines[0]))
        for line, found in zip(lines, printed[start:], strict=False):
            assert without_numbers(found) == without_numbers(line)
            assert numbers(found) == pytest.approx(numbers(line), rel=0.25, abs=0.02)


def without_numbers(line: str) -> str:
    return " ".join(re.sub(r"[\d.,]+", "0", line).split())


def numbers(line: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d.,]*", line)]


def programs() -> list[tuple[str, str]]:
    """Python blocks that are no dialogue, each with the block that follows it."""
    return [
        (program, shown if label == "text" else "")
        for (language, program), (label, shown) in pairwise([*BLOCKS, ("", "")])
        if language == "python" and not program.startswith(">>>")
    ]


@pytest.mark.parametrize(("program", "shown"), programs(), ids=lambda text: text[:20])
def test_programs_print_what_is_shown(program: str, shown: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown
    assert done.stdout == shown


@pytest.mark.skipif(shutil.which("make") is None, reason="make is missing")
def test_make_knows_the_commands_that_are_shown() -> None:
    lines = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
    assert len(lines) >= 2
    for line in lines:
        command = shlex.split(line, comments=True)
        command = [word for word in command if word != "FK_FAST=1"]
        assert command[0] == "make"
        subprocess.run([*command, "--dry-run"], check=True, capture_output=True, cwd=ROOT)


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if ">>> " in text])
def test_python_examples_run_as_shown(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # an empty folder, as a reader's
    results = doctest.testfile(str(ROOT / page), module_relative=False)
    assert results.attempted == PAGES[page].count(">>> ") > 3
    assert results.failed == 0, capsys.readouterr().out


def test_description_on_an_index_refers_to_nothing_beside_it() -> None:
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = README
    for row in hook["substitutions"]:
        text = re.sub(row["pattern"], row["replacement"], text)
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if "https://" not in link] == []
    assert text.count("*Figure: ") == README.count("](book/_static/readme/")
    assert re.findall(r"```.*?```", text, flags=re.DOTALL) == re.findall(
        r"```.*?```", README, flags=re.DOTALL
    )


def test_extras_on_the_installation_page_are_those_of_the_project() -> None:
    table = PAGES["book/install.md"].partition("| extra |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines()))
    inside = {"experiments", "book", "lab", "dev", "release"}  # of a clone
    assert sorted(named) == sorted(set(SETTINGS["project"]["optional-dependencies"]) - inside)


def test_readme_can_be_read_in_five_minutes() -> None:
    assert len(README.split()) <= 900


def test_files_the_readme_names_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    local = [link for link in links if not link.startswith("http")]
    assert len(local) >= 5
    assert [link for link in local if not (ROOT / link).exists()] == []


STUDIES = sorted(  # others are shared by these
    str(p.relative_to(ROOT)) for p in (ROOT / "experiments").rglob("[!_]*.py")
)
LONG = {  # even in their quick mode: whole networks, several of them, or many sizes
    "experiments/benchmarks/attention.py",
    "experiments/benchmarks/billion_samples.py",
    "experiments/benchmarks/dask_workers.py",
    "experiments/benchmarks/error_theory.py",
    "experiments/benchmarks/explorations.py",
    "experiments/benchmarks/heads.py",
    "experiments/benchmarks/kernel_limits.py",
    "experiments/benchmarks/kernel_sums.py",
    "experiments/benchmarks/local_polynomial.py",
    "experiments/benchmarks/mixed_data.py",
    "experiments/benchmarks/mixers.py",
    "experiments/benchmarks/plan_accuracy.py",
    "experiments/benchmarks/sweep.py",
    "experiments/adaptive_radii.py",
    "experiments/correlation.py",
    "experiments/fnet_costs.py",
    "experiments/genera.py",
    "experiments/kernel_rules.py",
    "experiments/language_content.py",
    "experiments/language_costs.py",
    "experiments/language_heads.py",
    "experiments/limits_coverage.py",
    "experiments/linear_attention.py",
    "experiments/lra_costs.py",
    "experiments/proper_densities.py",
    "experiments/rates_density.py",
    "experiments/rates_families.py",
    "experiments/rates_regression.py",
    "experiments/readme_figures.py",
    "experiments/real_heads.py",
    "experiments/robust_densities.py",
    "experiments/robustness.py",
    "experiments/silverman_size.py",
    "experiments/theorems.py",
    "experiments/translation_report.py",
}


def test_long_studies_exist() -> None:
    assert set(STUDIES) >= LONG


def test_every_study_is_listed_with_results_that_exist() -> None:
    text = (ROOT / "experiments/README.md").read_text(encoding="utf-8").partition("## Origin")[0]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    names = [row[1].strip(" `") for row in rows]
    scripts = sorted(f"experiments/{name}" for name in names if name.endswith(".py"))
    assert scripts == STUDIES
    committed = {path.stem for path in (ROOT / "experiments/results").iterdir()}
    listed = {Path(name).stem for row in rows for name in re.findall(r"`([^`]+)`", row[4])}
    assert committed <= listed


@pytest.mark.parametrize(
    "study",
    [pytest.param(s, marks=[pytest.mark.slow] if s in LONG else []) for s in STUDIES],
)
def test_every_study_has_a_quick_mode_that_runs(study: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / study), "--quick", "--output"]
    subprocess.run([*command, str(tmp_path)], check=True, capture_output=True, text=True)
    assert list(tmp_path.iterdir())
