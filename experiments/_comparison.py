"""The command line of the scripts that compare networks, and the files that they write.

A comparison is data of its study (``fourierkernels/studies/*/comparison.py``); training, resuming,
choosing and tables are those of ``fourierkernels/studies/engine/comparison.py``.
"""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from fourierkernels.foundation.provenance import write_study
from fourierkernels.studies.engine.comparison import Comparison, Finished

PACKAGES = ("torch", "transformers", "accelerate", "safetensors")
RESULTS = Path(__file__).parent / "results"


def main(comparisons: Mapping[str, Comparison], *, script: Path, description: str | None) -> None:
    """Train all networks, or those that are not yet trained, and write the tables.

    Parameters
    ----------
    comparisons : mapping of str to Comparison
        By the name that an option chooses, if there are several; the first is the default.
    """
    options = _options(comparisons, description)
    first = next(iter(comparisons))
    comparison = comparisons[getattr(options, "chosen", first)]
    torch.set_num_interop_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        if options.quick:
            comparison = comparison.quick(Path(scratch))
        else:
            named = {name: getattr(options, name) for name in comparison.places}
            comparison = replace(comparison, **named)
        _compare(comparison, options.output, script, options.workers)


def _options(comparisons: Mapping[str, Comparison], description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    first = next(iter(comparisons.values()))
    if len(comparisons) > 1:
        names = list(comparisons)
        parser.add_argument(f"--{first.variant}", choices=names, default=names[0], dest="chosen")
    for name, text in first.places.items():
        parser.add_argument(f"--{name}", default=getattr(first, name), help=text)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--workers", type=int, default=1, help="networks trained at a time")
    parser.add_argument("--quick", action="store_true", help="a few updates on small data")
    return parser.parse_args()


def _compare(comparison: Comparison, output: Path, script: Path, workers: int) -> None:
    output.mkdir(parents=True, exist_ok=True)
    main_table = comparison.names[1]
    partial = output / f"{main_table}.partial.jsonl"
    rows, chosen = comparison.run(
        Finished(partial), workers=workers, report=lambda line: print(line, flush=True)
    )
    config, tables = comparison.config(chosen), comparison.tables(rows)
    packages = (*PACKAGES, *comparison.packages)
    for name, lines in tables.items():
        write_study(output, name, lines, config, source=script, packages=packages)
    partial.unlink()
    for line in tables[main_table]:
        print(line)
