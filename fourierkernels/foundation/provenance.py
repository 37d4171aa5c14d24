"""Common parts of studies: options, tables and provenance."""

import argparse
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from fourierkernels.foundation.files import write_table, write_text
from fourierkernels.foundation.version import __version__

_PACKAGES = ("fourierkernels", "numpy", "scipy", "numba", "finufft", "scikit-learn")
_CPUINFO = Path("/proc/cpuinfo")  # Linux

T = TypeVar("T")


def sweep_options(description: str | None, output: Path) -> argparse.Namespace:
    """Read the options of a study that sweeps: output, cells, quick, workers.

    Parameters
    ----------
    description : str
        Shown by ``--help``.
    output : Path
        Default folder of the tables, which is made if need be.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=output)
    parser.add_argument("--cells", type=Path, help="folder of the results files, to be resumed")
    parser.add_argument("--quick", action="store_true", help="small samples, few replicates")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


@contextmanager
def kept_or_scratch(folder: Path | None) -> Iterator[Path]:
    """Yield a folder, made if need be, or for None one that is removed afterwards.

    Examples
    --------
    >>> with kept_or_scratch(None) as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)


def grouped(rows: Iterable[T], *fields: str) -> list[list[T]]:
    """Return rows with the same attributes together, in the order in which these first come.

    Examples
    --------
    >>> grouped([1 + 2j, 3 + 0j, 1 + 5j], "real")
    [[(1+2j), (1+5j)], [(3+0j)]]
    """
    groups: dict[tuple[object, ...], list[T]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, field) for field in fields), []).append(row)
    return list(groups.values())


def write_study(
    folder: Path,
    name: str,
    rows: Sequence[Any],
    config: Mapping[str, object],
    *,
    source: Path,
    packages: Sequence[str] = (),
) -> None:
    """Write NAME.csv, one line per row, and NAME.json into a folder, which is made if need be.

    Parameters
    ----------
    rows : sequence of dataclass instances or of mappings
        All with the same fields or keys, which are the columns.
    config : mapping
        Seed and settings, written with the provenance.
    source : Path
        The script; the commit is that of its repository.
    packages : sequence of str
        Distributions whose versions matter beside those that always do.

    Raises
    ------
    ValueError
        If there are no rows, or if their columns differ.
    TypeError
        If a row is neither a dataclass instance nor a mapping.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_study(Path(folder), "x", [{"n": 10, "mise": 0.1}], {}, source=Path(__file__))
    ...     print((Path(folder) / "x.csv").read_text().split())
    ['n,mise', '10,0.1']
    """
    lines = [_line(row) for row in rows]
    if not lines:
        raise ValueError("rows must be at least one, got 0")
    columns = list(lines[0])
    for line in lines:
        if list(line) != columns:
            raise ValueError(f"rows must have the same columns, got {columns} and {list(line)}")
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / f"{name}.csv", lines)
    text = json.dumps(provenance(config, source, packages), indent=2, ensure_ascii=False) + "\n"
    write_text(folder / f"{name}.json", text)


def provenance(
    config: Mapping[str, object], source: Path, packages: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what numbers depend on: script, commit, versions, machine, settings.

    A package that is not installed is "missing", a commit that cannot be found "unknown".

    Examples
    --------
    >>> provenance({"seed": 1}, Path(__file__), ["no-such-package"])["versions"]["no-such-package"]
    'missing'
    """
    return {
        "script": source.name,
        "commit": _commit(source.parent),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "versions": {package: _version(package) for package in (*_PACKAGES, *packages)},
        "config": dict(config),
    }


def _line(row: Any) -> dict[str, Any]:
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    if isinstance(row, Mapping):
        return dict(row)
    raise TypeError(f"rows must be dataclass instances or mappings, got {row!r}")


def _commit(folder: Path) -> str:
    git = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, cwd=folder, check=False)
    except OSError:  # no git here
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _version(package: str) -> str:
    if package == "fourierkernels":  # what runs may be newer than what was installed
        return __version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _cpu() -> str:
    """Name of the processor's model, which `platform` does not know on Linux."""
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
