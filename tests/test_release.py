"""One version everywhere, notes for it, valid metadata, and an origin for all committed data."""

import importlib.util
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import fourierkernels

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
SCHEMAS = {
    "citation-file-format": ["CITATION.cff"],
    "github-workflows": sorted(map(str, (ROOT / ".github/workflows").glob("*.yml"))),
}
WHOLE = {"fourierkernels/py.typed": 0, "fourierkernels-1.dist-info/licenses/LICENSE": 1500}


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_version_is_one(release: ModuleType) -> None:
    assert release.version() == fourierkernels.__version__ == CITATION["version"]


def test_citation_says_when_this_version_was_released() -> None:
    assert isinstance(CITATION["date-released"], date)


def test_changelog_has_notes_of_this_version(release: ModuleType) -> None:
    changelog = (ROOT / "book/changelog.md").read_text(encoding="utf-8")
    assert release.notes(changelog, release.version(), f"v{release.version()}")


def test_notes_end_before_the_next_version(release: ModuleType) -> None:
    changelog = "# Changes\n\n## 1.1.0\n\nNew.\n\n## 1.0.0\n\nOld.\n"
    assert release.notes(changelog, "1.1.0") == "New.\n"
    assert release.notes(changelog, "1.0.0") == "Old.\n"


@pytest.mark.parametrize(
    ("number", "tag", "message"),
    [
        ("1.1.0", "v1.0.0", r"tag must be v1.1.0, .* got v1.0.0"),
        ("1.2.0", "v1.2.0", "must have an entry of 1.2.0, got none"),
        ("1.0.0", None, "must have an entry of 1.0.0, got none"),
    ],
)
def test_release_without_notes_or_of_another_tag_is_refused(
    release: ModuleType, number: str, tag: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        release.notes("## 1.1.0\n\nNew.\n\n## 1.0.0\n\n", number, tag)


@pytest.mark.parametrize(
    ("sizes", "wrong"),
    [
        (WHOLE, []),
        ({"LICENSE": 1500}, ["fourierkernels/py.typed is missing"]),
        ({**WHOLE, "fourierkernels/a.so": 1}, ["is not of the package", "is data"]),
        ({**WHOLE, "tests/big.py": 300_000}, ["tests/big.py has 300,000 bytes"]),
        ({**WHOLE, "notebooks/a.md": 1}, ["notebooks/a.md does not belong here"]),
        ({"fourierkernels/py.typed": 0}, ["LICENSE is missing"]),
    ],
)
def test_what_does_not_belong_into_a_release_is_named(
    release: ModuleType, sizes: dict[str, int], wrong: list[str]
) -> None:
    found = release.wrong_files(sizes, {"fourierkernels/py.typed"})
    assert len(found) == len(wrong)
    assert all(part in line for part, line in zip(wrong, found, strict=True))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_of_other_tools_are_valid(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *SCHEMAS[schema]], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()


def test_origin_of_all_committed_data_is_stated() -> None:
    text = (ROOT / "experiments/README.md").read_text(encoding="utf-8")
    section = text.partition("## Origin and licence of the data\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    patterns = [name for row in rows[2:] for name in re.findall("`([^`]+)`", row)]
    stated = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert all(any(ROOT.glob(pattern)) for pattern in patterns)
    folders = ("experiments/results", "notebooks/data", "book/_static/readme")
    files = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert sorted(map(str, files - stated)) == []
