"""What CONTRIBUTING says of the package is so: its rooms, and where the next one goes."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from rooms import FOUNDATIONS, ROOMS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")


def rows_below(title: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, its header left out."""
    section = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# What it is, what to write, its registry and the test that adds a row.
NEXT = [
    [row[0], row[1], *re.findall(r"`([^`]+)`", row[2])]
    for row in rows_below("Where the next one goes")
]


def test_every_room_is_described() -> None:
    described = " ".join(row[0] for row in rows_below("The rooms"))
    names = {name.strip("/") for name in re.findall(r"`([^`]+)`", described)}
    assert names == ({*ROOMS, *FOUNDATIONS} - {"sinc"})


@pytest.mark.parametrize("row", NEXT, ids=lambda row: row[0])
def test_registry_is_where_the_tour_says(row: list[str]) -> None:
    module, _, name = row[2].rpartition(".")
    registry: Any = getattr(importlib.import_module(f"fourierkernels.{module}"), name)
    assert isinstance(registry, type) or len(registry) >= 2


@pytest.mark.parametrize("row", NEXT, ids=lambda row: row[0])
def test_registry_is_tried_from_outside(row: list[str]) -> None:
    registry = row[2].rpartition(".")[2]
    tests = (ROOT / row[3]).read_text(encoding="utf-8")
    assert registry in tests


@pytest.mark.parametrize("row", NEXT, ids=lambda row: row[0])
def test_classes_of_the_tour_are_in_the_room(row: list[str]) -> None:
    room = row[2].split(".")[0]
    files = [ROOT / f"fourierkernels/{room}.py", *(ROOT / "fourierkernels" / room).rglob("*.py")]
    source = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    named = re.findall(r"`([A-Z]\w+)`", row[1])
    assert [name for name in named if not re.search(rf"\bclass {name}\b", source)] == []


def test_files_and_commands_of_the_tour_exist() -> None:
    paths = re.findall(
        r"`((?:tests|experiments|book|notebooks|theory|estimators|checkpoints"
        r"|diagnostics|cli|bench|plotting)[\w/]*(?:\.(?:py|md|yml|bib)|/))`",
        TEXT,
    )
    found = [p for p in paths if (ROOT / p).exists() or (ROOT / "fourierkernels" / p).exists()]
    assert found == paths
    assert len(paths) > 30
    targets = re.findall(r"^(?:FK_FAST=1 )?make ([\w-]+)", TEXT, flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [t for t in targets if not re.search(rf"^{t}:", makefile, flags=re.MULTILINE)] == []
