"""What CONTRIBUTING and the list of registries say of the package is so."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rooms import FOUNDATIONS, ROOMS

from book.registries import Registry, registries, registry_list

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE = (ROOT / "book/registries.md").read_text(encoding="utf-8")
in_every_registry = pytest.mark.parametrize("row", registries(), ids=lambda row: row.next)


def rows_below(title: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, its header left out."""
    section = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_room_is_described_from_the_ground_up() -> None:
    described = " ".join(row[0] for row in rows_below("The rooms"))
    names = [name.strip("/") for name in re.findall(r"`([^`]+)`", described)]
    assert names == [*FOUNDATIONS, *ROOMS]


@in_every_registry
def test_registry_is_where_the_list_says(row: Registry) -> None:
    module, _, name = row.path.rpartition(".")
    registry: Any = getattr(importlib.import_module(f"fourierkernels.{module}"), name)
    assert isinstance(registry, type) or len(row.rows()) >= 2


@in_every_registry
def test_registry_is_tried_from_outside(row: Registry) -> None:
    assert row.path.rpartition(".")[2] in (ROOT / row.test).read_text(encoding="utf-8")


@in_every_registry
def test_classes_of_the_list_are_in_the_room(row: Registry) -> None:
    room = ROOT / "fourierkernels" / row.path.split(".")[0]
    source = "".join(file.read_text(encoding="utf-8") for file in room.rglob("*.py"))
    named = re.findall(r"`([A-Z]\w+)`", row.write)
    assert [name for name in named if not re.search(rf"\bclass {name}\b", source)] == []


def test_generated_list_counts_the_rows_there_are() -> None:
    count = next(len(row.rows()) for row in registries() if row.path == "kernels.KERNELS")
    assert f"Now {count}: `gaussian`" in registry_list()


@pytest.mark.slow
def test_tests_of_a_new_kernel_pass_or_say_what_it_lacks(tmp_path: Path) -> None:
    """As a contributor runs them: a row of `KERNELS` with no more than the protocol asks for."""
    plugin = "from fourierkernels.kernels import KERNELS\n"
    plugin += "from sech_kernel import SechKernel\nKERNELS['sech'] = SechKernel()\n"
    (tmp_path / "with_sech.py").write_text(plugin, encoding="utf-8")
    rooms = ("tests/test_kernels.py", "tests/sums", "tests/theory", "tests/estimators")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "with_sech", "-k", "sech", *rooms],
        cwd=ROOT,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join((str(tmp_path), "tests/support", ".")),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    last = found.stdout.splitlines()[-1]
    assert found.returncode == 0, found.stdout[-2000:]
    assert int(re.search(r"(\d+) passed", last)[1]) > 100  # type: ignore[index]
    assert "skipped" in last


def test_tour_is_one_page() -> None:
    assert len(TEXT.split()) <= 1000


def test_files_and_commands_of_the_tour_exist() -> None:
    text = TEXT + PAGE + "".join(f"{row.write}" for row in registries())
    paths = re.findall(
        r"`((?:tests|experiments|book|notebooks|theory|theorems|estimators|checkpoints|studies"
        r"|diagnostics|cli|plotting)[\w/]*(?:\.(?:py|md|yml|bib)|/))`",
        text,
    )
    exists = [p for p in paths if (ROOT / p).exists() or (ROOT / "fourierkernels" / p).exists()]
    assert exists == paths
    assert len(paths) > 30
    targets = re.findall(r"^(?:FK_FAST=1 )?make ([\w-]+)", TEXT, flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [t for t in targets if not re.search(rf"^{t}:", makefile, flags=re.MULTILINE)] == []
