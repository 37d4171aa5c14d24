"""``fourierkernels reproduce``: a table of a paper, from data on disk to means over seeds."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fourierkernels.foundation.console import standard_output, visible

if TYPE_CHECKING:
    from fourierkernels.studies.engine.comparison import Comparison
    from fourierkernels.studies.engine.contenders import Network
    from fourierkernels.studies.engine.reproduce_command import Asked
    from fourierkernels.studies.engine.reproduction import Written

_Table = Annotated[
    str | None,
    typer.Argument(help="A table, see --list.", show_default="required but for --list"),
]
_Data = Annotated[
    Path | None,
    typer.Option(help="Folder of all data sets; they are found up to two folders below it."),
]
_Seeds = Annotated[int | None, typer.Option(min=1, help="Seeds of each network; 5 of most tables.")]
_Processes = Annotated[int, typer.Option(min=1, help="Networks trained at a time on this machine.")]
_Together = Annotated[
    int, typer.Option(min=1, help="Processes that train each network together, as by torchrun.")
]
_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="NAME=VALUE of how all is computed, as precision=bf16 or accumulation=8; repeat for "
        "more.",
    ),
]
_Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to use instead.", metavar="ADDRESS")
]
_Output = Annotated[
    Path | None,
    typer.Option(help="Folder of tables and runs, to be resumed; reproduced by default."),
]
_Quick = Annotated[
    bool,
    typer.Option("--quick", help="Two updates of small models on data made for it, two seeds."),
]
_Plan = Annotated[
    bool, typer.Option("--plan", help="Show size, memory and time of each network; do not train.")
]
_Pilot = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="Seeds of a pilot, trained first and in no table, which tells the smallest gain that "
        "would show.",
    ),
]
_Rewrite = Annotated[
    bool,
    typer.Option(
        "--rewrite", help="Write the table of --output anew from its networks; train nothing."
    ),
]
_List = Annotated[
    bool, typer.Option("--list", help="Show all tables, their data and what they take.")
]


def reproduce(
    table: _Table = None,
    data: _Data = None,
    seeds: _Seeds = None,
    processes: _Processes = 1,
    together: _Together = 1,
    settings: _Settings = None,
    scheduler: _Scheduler = None,
    output: _Output = None,
    quick: _Quick = False,
    plan: _Plan = False,
    pilot: _Pilot = None,
    rewrite: _Rewrite = False,
    list_tables: _List = False,
) -> None:
    """Train all networks of a table over several seeds, and write it beside the published numbers.

    Whatever ends it, the same command goes on: finished networks are kept, others go on from
    their checkpoints. With --scheduler, all machines reach --data and --output by the same paths.

    Example: fourierkernels reproduce fourierformer-3 --data FOLDER --seeds 5 --processes 8
    """
    from fourierkernels.studies.engine import reproduce_command as command  # loads torch
    from fourierkernels.studies.engine.reproduction import Workers
    from fourierkernels.studies.engine.settings import read_free

    tables = _tables()
    if list_tables:
        standard_output().print(command.tables_table(tables, data))
        return
    chosen = command.with_seeds(command.choose_table(table, tables), seeds)
    chosen = replace(chosen, together=together, settings=read_free(settings or []))
    chosen = command.with_pilot(chosen, pilot)
    asked = command.Asked(str(table), chosen, data, output, quick=quick)
    if plan:
        standard_output().print(command.plan_table(str(table), chosen.located(data)))
        for line in command.smallest_gains(asked):
            standard_output().print(line, highlight=False, soft_wrap=True)
        return
    run = command.rewrite_table if rewrite else command.run_table
    _show(asked, run(asked, Workers(processes, scheduler), _report))


def _show(asked: "Asked", written: "Written") -> None:
    """Show a table, and refuse to end well while networks are missing."""
    from fourierkernels.studies.engine.reproduce_command import rows_table, size_of

    if written.rows:
        standard_output().print(written.decides, highlight=False, soft_wrap=True)
        standard_output().print(rows_table(asked.name, list(written.rows)))
    if asked.quick:
        standard_output().print(f"the whole table: {size_of(asked.comparison)}", highlight=False)
    if written.missing:
        raise ValueError(
            f"networks must all finish, got {written.missing} missing: the same command tries them "
            "again"
        )


def _tables() -> "dict[str, Comparison]":
    from fourierkernels.cli.head_stages import HeadComparison
    from fourierkernels.studies.engine.reproduce_command import all_tables

    return all_tables() | {"language-small": HeadComparison(time="72 min")}


def _report(network: "Network", error: str) -> None:
    """Say in a line that a network is finished, or why it is not."""
    if error:
        sys.stderr.write(visible(f"failed: {network}: {error}") + "\n")
    else:
        standard_output().print(f"finished: {network}", markup=False, soft_wrap=True)
