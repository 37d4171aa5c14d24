"""Running a comparison: its networks on several processes or machines, whatever ends one of them.

What is finished is on the disk before the next network counts. One that was interrupted goes on
from its last checkpoint; one that fails is said in a line, and the others go on.
"""

import csv
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fourierkernels.foundation.device import device_sharing, keep_devices
from fourierkernels.foundation.files import claimed, write_table, write_text
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.version import __version__
from fourierkernels.foundation.workers import DeadlyPieceError, Work, spread
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import (
    Choices,
    Network,
    by_contender,
    chosen_edges,
    further_trials,
)
from fourierkernels.studies.engine.controls import Evidence
from fourierkernels.studies.engine.finished import Finished
from fourierkernels.studies.engine.power import POWER

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
    sharing : int
        Networks that may share a device; 0 if this one has all of them to itself.
    """

    comparison: Comparison
    sharing: int

    def __call__(self, network: Network) -> Row | str:
        try:
            if self.sharing:
                keep_devices(self.comparison.together, self.sharing)
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
    work = Work(_Attempt(comparison, _sharing(comparison, workers)), "network", "comparison")
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


def _sharing(comparison: Comparison, workers: Workers) -> int:
    if workers.scheduler is not None:  # whose workers may be on machines of any kind
        return 1
    sharing = device_sharing(workers.processes, comparison.together)
    return sharing if workers.processes > 1 else 0


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
    """What is left of a comparison: finished rows, choices, and how many networks are missing.

    `edges` has the hyperparameters chosen at an edge of what was tried.
    """

    rows: list[Row]
    chosen: Choices
    missing: int
    edges: Mapping[str, str]


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
    for stage in comparison.planned():
        wanted = stage.networks(chosen)
        able = [network for network in wanted if not lost & _tuned_like(network)]
        done = _finish(comparison, able, finished, workers, report)
        if stage.chooses:
            choices = _choices(comparison, done, finished)
            for _ in range(comparison.widen):
                further = further_trials(done, choices)
                wanted, able = wanted + further, able + further
                done = _finish(comparison, able, finished, workers, report)
                choices = _choices(comparison, done, finished)
            chosen |= choices
            lost |= {_tuned(network) for network in wanted} - chosen.keys()
        missing += len(wanted) - len(done)
        networks += done
    return Ended(finished.rows(networks), chosen, missing, chosen_edges(networks, chosen))


def _finish(
    comparison: Comparison,
    networks: Sequence[Network],
    finished: Finished,
    workers: Workers,
    report: Report,
) -> list[Network]:
    """Train what is missing and return those that are finished."""
    for network, error in finish(comparison, networks, finished, workers):
        report(network, error)
    return [network for network in networks if network in finished]


def _tuned(network: Network) -> tuple[str, str]:
    return network.part.problem, network.contender.name


def _tuned_like(network: Network) -> set[tuple[str, str]]:
    return {_tuned(network), (network.part.problem, network.contender.tuned_as)}


def _choices(comparison: Comparison, done: Sequence[Network], finished: Finished) -> Choices:
    """Return what the trials of each contender choose, if one of them has not diverged."""
    chosen: Choices = {}
    for group in by_contender(done).values():
        try:
            chosen |= comparison.choose(group, finished.rows(group))
        except ValueError:  # all diverged
            continue
    return chosen


class Written(NamedTuple):
    """Rows of the main table, how many networks are missing in it, and what it decides."""

    rows: Sequence[Row]
    missing: int
    decides: str = ""


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
        settings or another version; if there are fewer CUDA devices than train a network together.
    OSError
        If a line cannot be written; what was finished before is kept.
    """
    if workers.scheduler is None:
        device_sharing(workers.processes, comparison.together)
    with claimed(output):
        settings = dict(comparison.settings.named)
        # One process is not named, as in files of before it was asked for.
        together = {"together": comparison.together} if comparison.together > 1 else {}
        header = {"table": name, "data": _places(comparison), "settings": settings, **together}
        main = comparison.names[1]
        finished = Finished(output / f"{prefix}{main}.finished.jsonl", header)
        kept = replace(comparison, runs=str((output / "runs").resolve()))
        ended = run_comparison(kept, finished, workers, report=report)
        if not ended.rows or (ended.missing and not comparison.partial):
            return Written([], ended.missing)
        evidence = Evidence(comparison.baselines(), ended.edges)
        tables = comparison.tables(ended.rows, evidence)
        config = {"table": name, **comparison.config(ended.chosen), **together}
        config |= ruled(comparison, ended.rows, evidence)
        for file, rows in tables.items():
            write_study(
                output,
                f"{prefix}{file}",
                rows,
                config,
                source=Path(__file__),
                packages=(*PACKAGES, *comparison.packages),
            )
        return Written(tables[main], ended.missing, str(config["decides"]))


def ruled(comparison: Comparison, rows: Sequence[Row], evidence: Evidence) -> dict[str, object]:
    """Return what the provenance says of controls: the table's first line, and its evidence."""
    said = {"decides": comparison.judge(rows, evidence).first_line()}
    return {**said, "controls": comparison.controls(), "power": POWER, **evidence.config()}


def rewrite(comparison: Comparison, folder: Path) -> Written:
    """Write the main table of a folder anew from its networks; nothing is trained.

    The provenance keeps what it says of the networks.

    Raises
    ------
    ValueError
        If the folder has no such networks, or not those of the comparison: further trials of a
        wider grid are known to the command that trained them alone.
    """
    networks, main = comparison.names
    source = folder / f"{networks}.csv"
    if not source.is_file():
        raise ValueError(f"output must have the networks {source.name}, got none in {folder}")
    with source.open(encoding="utf-8", newline="") as content:
        rows: list[Row] = list(csv.DictReader(content))
    file = folder / f"{main}.json"
    known = json.loads(file.read_text(encoding="utf-8"))
    comparison = replace(comparison, seeds=tuple(known["config"]["seeds"]))
    evidence = Evidence(comparison.baselines(), _edges(comparison, rows))
    lines = comparison.tables(rows, evidence)[main]
    known["config"] |= ruled(comparison, rows, evidence)
    known["rewritten_by"] = __version__
    write_table(folder / f"{main}.csv", lines)
    write_text(file, json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    return Written(lines, 0, str(known["config"]["decides"]))


def _edges(comparison: Comparison, rows: Sequence[Row]) -> dict[str, str]:
    """Return the hyperparameters chosen at an edge; the rows of trials come first, in their order.

    Raises
    ------
    ValueError
        If the rows are of other trials.
    """
    chosen: Choices = {}
    seen: list[Network] = []
    for stage in comparison.planned():
        networks = stage.networks(chosen)
        if stage.chooses:
            choices = _choices_of_rows(comparison, networks, rows[len(seen) :])
            for _ in range(comparison.widen):
                networks += further_trials(networks, choices)
                choices = _choices_of_rows(comparison, networks, rows[len(seen) :])
            chosen |= choices
        seen += networks
    return chosen_edges(seen, chosen)


def _choices_of_rows(
    comparison: Comparison, trials: Sequence[Network], rows: Sequence[Row]
) -> Choices:
    """Return what trials chose, whose rows are the first of some."""
    own, columns = rows[: len(trials)], comparison.columns.split()
    if [_named(row, columns) for row in own] != [
        _named(comparison.labels(network), columns) for network in trials
    ]:
        raise ValueError(
            f"trials must be those of the table in their order, got others in "
            f"{comparison.names[0]}.csv: the command without --rewrite writes it"
        )
    return comparison.choose(trials, own)


def _named(row: Row, columns: Sequence[str]) -> list[str]:
    return ["" if row.get(name) is None else str(row[name]) for name in columns]


def _places(comparison: Comparison) -> dict[str, str | None]:
    fields = ("data", *comparison.places)
    return {field: _absolute(getattr(comparison, field)) for field in fields}


def _absolute(place: str | None) -> str | None:
    return str(Path(place).resolve()) if place and Path(place).exists() else place
