"""Sweeps of simulated error: many cells, many processes or a cluster, one line per finished cell.

A sweep is the product densities × kernels × sizes × dimensions × radius rules × blocks of
replicates. Each cell draws from a generator keyed by its identity, so its numbers do not depend on
who computes it, when, or beside what. Finished cells are kept on disk whatever happens; the same
call resumes where the last one stopped.
"""

from fourierkernels.simulation.sweep.cells import TASKS, Cell, Outcome, Task, compute
from fourierkernels.simulation.sweep.grid import Sweep
from fourierkernels.simulation.sweep.results import Results, read_results
from fourierkernels.simulation.sweep.summary import Row, run_sweep, summarise

__all__ = [
    "TASKS",
    "Cell",
    "Outcome",
    "Results",
    "Row",
    "Sweep",
    "Task",
    "compute",
    "read_results",
    "run_sweep",
    "summarise",
]
