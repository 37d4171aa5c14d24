"""Running a comparison: its networks on several processes or machines, whatever ends one of them.

What is finished is on the disk before the next network counts. One that was interrupted goes on
from its last checkpoint; one that fails is said in a line, and the others go on.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fourierkernels.foundation.device import check_shared_devices, keep_devices
from fourierkernels.foundation.files import claimed
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.workers import DeadlyPieceError, Work, spread
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import Choices, Network
from fourierkernels.studies.engine.finished import Finished

PACKAGES = ("torch", "transformers", "accelerate", "safetensors")
QUICK = "quick_"  # before the names of files of a quick mode
Report = Callable[[Network, str], object]  # takes a network and what made it fail, "" if nothing


@dataclass(frozen=True)
class Workers:
    """Where networks are trained.

    Attributes
    ----------
    processes : int
        On this machine, each of which trains a network at a time.
    scheduler : str or None
        Address of a Dask scheduler to use instead; its workers reach the output folder by the same
        path.
    """

    processes: int = 1
    scheduler: str | None = None


@dataclass(frozen=True)
class _Attempt:
    """Training of a network, which may fail.

    Attributes
    ----------
    beside : bool
        Whether others are trained at the same time, so that each needs devices of its own.
    """

    comparison: Comparison
    beside: bool

    def __call__(self, network: Network) -> Row | str:
        try:
            if self.beside:
                keep_devices(self.comparison.together)
            return self.comparison.train(network)
        except Exception as error:  # the others go on
            return f"{type(error).__name__}: {' '.join(str(error).split())}"


def finish(
    comparison: Comparison,
    networks: Sequence[Network],
    finished: Finished,
    workers: Workers = Workers(),
) -> Iterator[tuple[Network, str]]:
    """Train what is not yet trained, keep each row at once, and yield what failed by what."""
    missing = [network for network in networks if network not in finished]
    beside = workers.processes > 1 or workers.scheduler is not None
    work = Work(_Attempt(comparison, beside), "network", "comparison")
    while missing:
        try:
            with spread(
                work,
                _apart(comparison, missing),
                workers=workers.processes,
                scheduler=workers.scheduler,
            ) as results:
                for network, row in results:
                    missing.remove(network)
                    if not isinstance(row, str):
                        finished.add(network, row)
                        _remove_run(comparison, network)
                    yield network, row if isinstance(row, str) else ""
        except DeadlyPieceError as error:
            lost = next(network for network in missing if network is error.piece)
            missing.remove(lost)
            yield lost, str(error)


def _apart(comparison: Comparison, networks: Sequence[Network]) -> list[Network]:
    """Return networks no two of which have the same run."""
    runs: dict[object, Network] = {}
    for network in networks:
        try:
            folder = comparison.run_folder(comparison.setup(network))
        except (ValueError, OSError):  # it will fail, and say by what
            folder = None
        runs.setdefault(folder or network, network)
    return list(runs.values())


def _remove_run(comparison: Comparison, network: Network) -> None:
    if comparison.runs is not None and not comparison.keeps_runs:
        folder = comparison.run_folder(comparison.setup(network))
        shutil.rmtree(str(folder), ignore_errors=True)


class Ended(NamedTuple):
    """What is left of a comparison: finished rows, choices, and how many networks are missing."""

    rows: list[Row]
    chosen: Choices
    missing: int


def run_comparison(
    comparison: Comparison, finished: Finished, workers: Workers = Workers(), *, report: Report
) -> Ended:
    """Train all networks, or those that are not yet trained.

    A contender none of whose trials has finished has no hyperparameters, and is left out.
    """
    networks: list[Network] = []
    chosen: Choices = {}
    lost: set[tuple[str, str]] = set()
    missing = 0
    for stage in comparison.stages():
        wanted = stage.networks(chosen)
        able = [network for network in wanted if not lost & _tuned_like(network)]
        for network, error in finish(comparison, able, finished, workers):
            report(network, error)
        done = [network for network in able if network in finished]
        if stage.chooses:
            chosen |= _choices(comparison, done, finished)
            lost |= {_tuned(network) for network in wanted} - chosen.keys()
        missing += len(wanted) - len(done)
        networks += done
    return Ended(finished.rows(networks), chosen, missing)


def _tuned(network: Network) -> tuple[str, str]:
    return network.part.problem, network.contender.name


def _tuned_like(network: Network) -> set[tuple[str, str]]:
    return {_tuned(network), (network.part.problem, network.contender.tuned_as)}


def _choices(comparison: Comparison, done: Sequence[Network], finished: Finished) -> Choices:
    """Return what the trials of each contender choose, if one of them has not diverged."""
    groups: dict[tuple[str, str], list[Network]] = {}
    for network in done:
        groups.setdefault(_tuned(network), []).append(network)
    chosen: Choices = {}
    for group in groups.values():
        try:
            chosen |= comparison.choose(group, finished.rows(group))
        except ValueError:  # all diverged
            continue
    return chosen


class Written(NamedTuple):
    """Rows of the main table, and how many networks are missing in it."""

    rows: Sequence[Row]
    missing: int


def reproduce(
    name: str,
    comparison: Comparison,
    output: Path,
    workers: Workers = Workers(),
    *,
    prefix: str = "",
    report: Report = lambda network, error: None,
) -> Written:
    """Train all networks of a comparison and write its tables into a folder.

    Parameters
    ----------
    name : str
        Of the table.
    comparison : Comparison
        Whose data have been located.
    prefix : str
        Before the names of all files.

    Raises
    ------
    ValueError
        If another process works in this folder, or what is finished there is of other data,
        settings or another version; if there are fewer CUDA devices than all workers need.
    OSError
        If a line cannot be written; what was finished before is kept.
    """
    if workers.scheduler is None:
        check_shared_devices(workers.processes, comparison.together)
    with claimed(output):
        settings = dict(comparison.settings)
        header = {"table": name, "data": _places(comparison), "settings": settings}
        main = comparison.names[1]
        finished = Finished(output / f"{prefix}{main}.finished.jsonl", header)
        kept = replace(comparison, runs=str((output / "runs").resolve()))
        ended = run_comparison(kept, finished, workers, report=report)
        if not ended.rows or (ended.missing and not comparison.partial):
            return Written([], ended.missing)
        tables = comparison.tables(ended.rows)
        config = {"table": name, **comparison.config(ended.chosen)}
        for file, rows in tables.items():
            write_study(
                output,
                f"{prefix}{file}",
                rows,
                config,
                source=Path(__file__),
                packages=(*PACKAGES, *comparison.packages),
            )
        return Written(tables[main], ended.missing)


def _places(comparison: Comparison) -> dict[str, str | None]:
    fields = ("data", *comparison.places)
    return {field: _absolute(getattr(comparison, field)) for field in fields}


def _absolute(place: str | None) -> str | None:
    return str(Path(place).resolve()) if place and Path(place).exists() else place
