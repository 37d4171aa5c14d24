"""What pyproject.toml and the constraints files promise of releases and of Pythons is so."""

import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FIXED = ("book", "lab", "dev", "release")  # installed at the releases of constraints.txt only
PYTHONS = [Version(f"3.{minor}.0") for minor in range(11, 15)]
BOUNDED = [
    requirement
    for lines in [PROJECT["dependencies"], *(EXTRAS[name] for name in EXTRAS if name not in FIXED)]
    for requirement in map(Requirement, lines)
    if requirement.name != PROJECT["name"]
]


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in found}


def test_every_bound_is_the_release_that_is_tested() -> None:
    oldest = pins("constraints-oldest.txt")
    assert len(BOUNDED) > 20
    for requirement in BOUNDED:
        (bound,) = requirement.specifier
        tested = oldest[canonicalize_name(requirement.name)]
        assert (bound.operator, Version(bound.version)) == (">=", Version(tested)), requirement


def test_pins_allow_every_python_that_the_project_allows() -> None:
    allowed = [p for p in PYTHONS if p in SpecifierSet(PROJECT["requires-python"])]
    assert Version("3.11.0") in allowed
    wrong = []
    for package, version in pins("constraints.txt").items():
        try:
            facts = metadata(package)
        except PackageNotFoundError:  # JupyterLab's are installed by `make lab` only
            continue
        needed = SpecifierSet(facts.get("Requires-Python") or "")
        if facts["Version"] == version and not all(p in needed for p in allowed):
            wrong.append(f"{package}=={version} needs Python {needed}")
    assert wrong == []


def test_a_conflict_of_pins_is_shown_by_make(tmp_path: Path) -> None:
    """Pip prints it on standard output, and the error alone on the other stream."""
    told = "The conflict is caused by:\n    The user requested (constraint) numpy==2.0"
    pip = tmp_path / "bin/pip"
    pip.parent.mkdir()
    pip.write_text(f"#!/bin/sh\necho 'Collecting numpy'\necho '{told}'\necho ERROR >&2\nexit 1\n")
    pip.chmod(0o755)
    command = ["make", "env", f"ENV={tmp_path}", "PYTHON=true"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert told in done.stdout
    assert re.search("^ERROR$", done.stderr, flags=re.MULTILINE)
    assert "\nCollecting" not in done.stdout
