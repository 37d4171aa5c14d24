"""The tables that ``fourierkernels reproduce`` makes: finding, listing, planning, running one."""

import difflib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fourierkernels.foundation.provenance import kept_or_scratch
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import PILOT, Contender, Network
from fourierkernels.studies.engine.controls import Evidence
from fourierkernels.studies.engine.data_sets import by_set
from fourierkernels.studies.engine.finished import rows_on_disk
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.planning import Plan, plan
from fourierkernels.studies.engine.reproduction import (
    QUICK,
    Report,
    Workers,
    Written,
    reproduce,
    rewrite,
)
from fourierkernels.studies.registry import STUDIES

if TYPE_CHECKING:
    from rich.table import Table

COMMITTED = Path("experiments/results")
# Tables in which nothing is trained, and what measures them.
ELSEWHERE = {
    "fourierformer-6": "experiments/language_heads.py",
    "fnet-1": "experiments/fnet_costs.py",
    "fnet-3": "experiments/fnet_costs.py",
    "fnet-5": "experiments/fnet_costs.py",
    "fnet-7": "experiments/lra_costs.py",
    "fnet-8": "experiments/lra_costs.py",
    "fnet-9": "experiments/lra_costs.py",
}
_SHOWN = ("problem", "model", "metric", "seeds", "mean", "mean_low", "mean_high", "published")


def all_tables() -> dict[str, Comparison]:
    """Return the tables of all studies by their names."""
    found: dict[str, Comparison] = {}
    for name in STUDIES.rows:
        found |= tables_of(name)
    return found


def tables_of(study: str) -> dict[str, Comparison]:
    """Return the tables of a study by their names.

    They are the ``COMPARISONS`` of the module ``comparison`` beside that of the study; a study
    without one has a table of its default preset.
    """
    package = STUDIES.rows[study].module.rpartition(".")[0]
    module = f"{package}.comparison"
    if not package or find_spec(module) is None:
        return {study: _derived(study)}
    tables: dict[str, Comparison] = import_module(module).COMPARISONS
    return tables


def _derived(name: str) -> PaperTable:
    """Return a table of the default preset of a study, with softmax and Fourier attention."""
    study = STUDIES[name]
    rows = [key for key, row in study.data_sets().items() if row.needs_folder]
    data = "" if study.presets[study.default].data else " ".join(rows)
    mixers = [mixer for mixer in ("softmax", "fourier") if mixer in study.mixers()]
    return PaperTable(
        file=name,
        shows=f"{STUDIES.rows[name].title}: preset {study.default}",
        problems=(Problem(study.default, name, study.default, data),),
        contenders=tuple(Contender(mixer, mixer) for mixer in mixers or study.mixers()[:2]),
    )


def choose_table(name: str | None, tables: Mapping[str, Comparison]) -> Comparison:
    """Return a table by its name.

    Raises
    ------
    ValueError
        If there is none; the message has those with similar names.
    """
    if name is None:
        raise ValueError("table must be named (--list shows them), got none")
    if name in tables:
        return tables[name]
    if name in ELSEWHERE:
        raise ValueError(f"table must train networks; {ELSEWHERE[name]} measures {name}")
    near = difflib.get_close_matches(name, tables, n=3, cutoff=0.3) or list(tables)[:3]
    raise ValueError(
        f"table must be one of those that --list shows, such as {', '.join(near)}, got {name!r}"
    )


@dataclass(frozen=True)
class Size:
    """How much is trained for a table: networks, updates of all, and hours of those timed."""

    networks: int
    updates: int
    hours: tuple[float, ...]
    time: str

    def __str__(self) -> str:
        size = f"{self.networks:,} networks, {self.updates:,} updates"
        if self.time:
            return f"{size}, {self.time} of one core"
        if not self.hours:
            return f"{size}, --plan times them"
        some = "" if len(self.hours) == self.networks else f" for {len(self.hours):,} of them"
        return f"{size}, about {float(f'{sum(self.hours):.2g}'):,.0f} hours of one core{some}"


def size_of(comparison: Comparison) -> Size:
    """Return how much is trained for a table."""
    networks = _networks(comparison)
    hours = tuple(filter(None, map(comparison.hours_of, networks)))
    updates = sum(network.part.steps for network in networks)
    return Size(len(networks), updates, hours, comparison.time)


def _networks(comparison: Comparison) -> list[Network]:
    return [network for stage in comparison.planned() for network in stage.networks({})]


def tables_table(tables: Mapping[str, Comparison], data: Path | None) -> "Table":
    """Return all tables with the data that each needs, what it takes and what is committed."""
    from rich.table import Table

    shown = Table(show_lines=True)
    for heading in ("table", "data", "takes"):
        shown.add_column(heading, overflow="fold")
    for name, comparison in tables.items():
        file = COMMITTED / f"{comparison.names[1]}.csv"
        takes = [str(size_of(comparison))]
        takes += [f"committed: {file}"] if file.is_file() else []
        lines = "\n".join(_data_lines(comparison, data)) or "none: in packages, or drawn"
        shown.add_row(f"{name}: {comparison.title}.", lines, "\n".join(takes))
    for name, script in ELSEWHERE.items():
        shown.add_row(name, "", f"trains nothing: {script}")
    return shown


def _data_lines(comparison: Comparison, data: Path | None) -> Iterator[str]:
    needs = comparison.needs(data)
    for each, files in by_set(needs).items():
        alike = [need for need in needs if need._replace(file="", place=None) == each]
        found = list(dict.fromkeys(need.place for need in alike if need.place))
        missing = [need.file or need.name for need in alike if not need.place]
        yield f"{each.name}: {', '.join([each.layout, *filter(None, files)])}. From {each.source}."
        yield from (f"found: {place}" for place in found)
        if data is not None and missing:
            yield f"not found: {', '.join(missing)}"


def plan_table(name: str, comparison: Comparison) -> "Table":
    """Return what each kind of network will cost on this machine, by a few timed passes."""
    from rich.table import Table

    table = Table(title=name)
    for heading in ("network", "number", "updates", "parameters", "memory", "time of all"):
        table.add_column(heading)
    kinds: dict[tuple[str, str], list[Network]] = {}
    for network in _networks(comparison):
        kinds.setdefault((network.part.problem, network.contender.name), []).append(network)
    total: Plan | None = None
    for (problem, contender), kind in kinds.items():
        label = f"{problem} {contender}".strip()
        updates = sum(network.part.steps for network in kind)
        try:
            found = plan(comparison.setup(kind[0]))
        except ValueError as error:  # such as a start that is not trained yet
            table.add_row(label, f"{len(kind)}", f"{updates:,}", "", "", str(error))
            continue
        of_all = _of_all(found, networks=len(kind), runs=updates / kind[0].part.steps)
        shown = dict(of_all.rows())
        total = of_all if total is None else _added(total, of_all)
        cells = (
            f"{len(kind)}",
            f"{updates:,}",
            shown["parameters"],
            shown["memory"],
            shown["time"],
        )
        table.add_row(label, *cells)
    if total is not None:
        table.add_row("all", "", "", "", "", dict(total.rows())["time"])
    return table


def _of_all(one: Plan, *, networks: int, runs: float) -> Plan:
    """Return the plan of several networks, whose updates are those of so many runs."""
    aside = ("loading", "validating", "measuring")
    others = {name: getattr(one, name) * networks for name in aside}
    return replace(one, seconds=one.seconds * runs, **others)


def _added(one: Plan, other: Plan) -> Plan:
    parts = ("loading", "seconds", "validating", "measuring")
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in parts})


@dataclass(frozen=True)
class Asked:
    """What is to be reproduced.

    Attributes
    ----------
    name : str
        Of the table.
    data : Path or None
        Folder of all data.
    output : Path or None
        Folder of tables and runs; None in the quick mode keeps nothing.
    """

    name: str
    comparison: Comparison
    data: Path | None
    output: Path | None
    quick: bool


def run_table(asked: Asked, workers: Workers, report: Report) -> Written:
    """Train what is missing of a table, and write it.

    Raises
    ------
    ValueError, OSError
        As :func:`~fourierkernels.studies.engine.reproduction.reproduce`, and if data are missing.
    """
    name, whole = asked.name, asked.comparison
    if not asked.quick:
        folder = asked.output or Path("reproduced")
        return reproduce(name, whole.located(asked.data), folder, workers, report=report)
    with kept_or_scratch(asked.output) as folder:
        made = folder.resolve() / f"{QUICK}data" / name
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        small = whole.quick(made).located(asked.data)
        return reproduce(name, small, folder, workers, prefix=QUICK, report=report)


def rewrite_table(asked: Asked, workers: Workers, report: Report) -> Written:
    """Write the main table of a folder anew from its networks; nothing is trained."""
    comparison, folder = asked.comparison, asked.output or Path("reproduced")
    if comparison.with_baselines():  # which read the data
        comparison = comparison.located(asked.data)
    return rewrite(comparison, folder)


def smallest_gains(asked: Asked) -> Iterator[str]:
    """Yield, for each problem, the smallest gain that the table would show by its pilot.

    The pilot is that of the output folder, as far as it is finished.
    """
    comparison = asked.comparison
    file = (asked.output or Path("reproduced")) / f"{comparison.names[1]}.finished.jsonl"
    rows = [row for row in rows_on_disk(file) if row.get("part") == PILOT]
    if not rows:
        yield "the smallest gain that would show: not known before a pilot, see --pilot"
        return
    as_compared = [{**row, "part": comparison.table.parts[0]} for row in rows]
    evidence = Evidence(comparison.located(asked.data).baselines())
    judge = comparison.judge([*as_compared, *rows], evidence)
    for problem, gain in judge.planned(len(comparison.seeds)).items():
        yield f"the smallest gain that would show, {problem or asked.name}: {gain:.3g}"


def with_pilot(comparison: Comparison, seeds: int | None) -> Comparison:
    """Return a table with a pilot of so many seeds, from 101 on; its own if None."""
    pilot = comparison.pilot if seeds is None else tuple(range(101, 101 + seeds))
    return replace(comparison, pilot=pilot)


def with_seeds(comparison: Comparison, seeds: int | None) -> Comparison:
    """Return a table over so many seeds, from 1 on; its own if None."""
    return comparison if seeds is None else replace(comparison, seeds=tuple(range(1, seeds + 1)))


def rows_table(name: str, rows: list[Row]) -> "Table":
    """Return the rows of a table for the terminal."""
    from rich.table import Table

    columns = [c for c in _SHOWN if c in rows[0]] if "metric" in rows[0] else list(rows[0])
    table = Table(*columns, title=name)
    for row in rows:
        table.add_row(*(_shown(row[column]) for column in columns))
    return table


def _shown(value: object) -> str:
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    return f"{number:g}" if number.is_integer() else f"{number:.4g}"
