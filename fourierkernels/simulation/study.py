"""What a study leaves behind: a table as CSV, and as JSON what its numbers depend on."""

import csv
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("fourierkernels", "numpy", "scipy", "numba", "finufft", "scikit-learn")


def write_study(
    folder: Path, name: str, rows: Sequence[Any], config: Mapping[str, object], *, source: Path
) -> None:
    """Write NAME.csv, one line per row, and NAME.json into a folder, which is made if need be.

    Parameters
    ----------
    rows : sequence of dataclass instances
        All of one class; its fields are the columns.
    config : mapping
        Seed and settings, written with the provenance.
    source : Path
        The script; the commit is that of its repository.

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> import tempfile
    >>> from fourierkernels.theory import Mise
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_study(Path(folder), "x", [Mise(0.1, 0.2)], {"seed": 0}, source=Path(__file__))
    ...     print((Path(folder) / "x.csv").read_text().split())
    ['bias2,variance', '0.1,0.2']
    """
    if not rows or not is_dataclass(rows[0]):
        raise ValueError(f"rows must be dataclass instances and at least one, got {len(rows)}")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    text = json.dumps(provenance(config, source), indent=2) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def provenance(config: Mapping[str, object], source: Path) -> dict[str, Any]:
    """Return what numbers depend on: script, commit, versions, machine, settings."""
    git = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, cwd=source.parent, check=False)
        commit = done.stdout.strip() or "unknown"
    except OSError:  # no git here
        commit = "unknown"
    return {
        "script": source.name,
        "commit": commit,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {package: metadata.version(package) for package in _PACKAGES},
        "config": dict(config),
    }
