"""A ninth study is a folder and a row: commands, lists and help read the row."""

import os
import subprocess
import sys
from pathlib import Path

import ninth_study
import pytest
from study_cases import NINTH
from training_runs import Call

from book.studies import study_list
from fourierkernels.studies.registry import STUDIES, StudyRow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(STUDIES.rows, "ninth", NINTH)
    return ninth_study.write_bits(tmp_path / "bits")


def test_lists_and_help_have_it(data: Path, call: Call) -> None:
    assert "ninth: Bits: a study from outside." in call("train", "--help")[1]
    assert "ninth:" in call("train", "--list", "--data", data.parent)[1]
    text = " ".join(call("train", "ninth", "--list", "--data", data)[1].split())
    assert "tiny: 1 layer of 16 features" in text
    assert "bits: rows of bits. Source: your own. Layout: bits.txt" in text
    assert f"bits: {data}" in text.replace(" /", "/").replace(":/", ": /")


def test_the_book_has_it(data: Path) -> None:
    page = study_list()
    assert "Bits: a study from outside." in page
    assert "`bits`: rows of bits. Source: your own. Layout: bits.txt" in page
    assert all(f"(study-{name})=" in page for name in STUDIES.rows)


def test_commands_plan_train_resume_and_evaluate_it(data: Path, tmp_path: Path, call: Call) -> None:
    output, study = tmp_path / "run", ("train", "ninth", "--data", data)
    status, out, err = call(*study, "--plan")
    assert (status, err) == (0, "")
    assert "training rows" in out
    assert call(*study, "--output", output, "--limit-steps", 4)[0] == 0
    status, _, err = call("train", "ninth", "--resume", "--output", output)
    assert status == 0, err
    status, out, err = call("evaluate", output, "--split", "test")
    assert (status, err) == (0, "")
    assert ninth_study.ACCURACY in out
    ninth_study.write_bits(data, rows=60)
    assert call("evaluate", output, "--data", data)[0] == 0
    (data / "bits.txt").write_text("0101\n1100\n1110\n" * 4)
    status, _, err = call("evaluate", output, "--data", data)
    assert (status, "got others: length" in err) == (2, True)


def test_a_module_without_a_study_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES.rows, "ninth", StudyRow("Bits", "tiny_series"))
    rule = "module of the study ninth must have STUDY, got none in tiny_series"
    with pytest.raises(TypeError, match=f"^{rule}$"):
        STUDIES["ninth"]


def test_it_is_small() -> None:
    assert len(Path(ninth_study.__file__).read_text(encoding="utf-8").splitlines()) <= 300


def run_command(*arguments: str) -> tuple[str, list[str]]:
    """Run a command in a process of its own; return its output and the modules that it loaded."""
    code = (
        f"import sys\nsys.argv = ['fourierkernels', *{arguments!r}]\n"
        "from fourierkernels.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end\n"
        "print('\\nloaded', *sys.modules)\n"
    )
    environment = {"COLUMNS": "100", "PATH": "", "PYTHONPATH": str(ROOT), "HOME": "/nowhere"}
    environment |= {name: os.environ[name] for name in ("NUMBA_CACHE_DIR",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    output, _, loaded = done.stdout.rpartition("\nloaded ")
    return output, loaded.split()


def test_a_command_imports_no_other_study() -> None:
    output, loaded = run_command("train", "lra", "--preset", "tiny", "--plan")
    assert "training sequences" in output
    folders = {name.split(".")[2] for name in loaded if name.startswith("fourierkernels.studies.")}
    assert folders & {*STUDIES, "lra"} == {"lra"}


def test_help_is_one_screen_without_torch() -> None:
    output, loaded = run_command("train", "--help")
    assert not {"torch", "transformers"} & set(loaded)
    assert not [name for name in loaded if name.endswith(".study")]
    assert len(output.rstrip().splitlines()) <= 60
    assert all(f"{name}: {row.title}." in output for name, row in STUDIES.rows.items())
