"""Draw ListOps as the Long-Range Arena has it: 100,000 nested operations of 500 to 2,000 tokens.

    python experiments/data_listops.py [--output FOLDER] [--seed N] [--quick]

Writes basic_train.tsv (96,000 lines), basic_val.tsv and basic_test.tsv (2,000 each), as
``lra_benchmarks/data/listops.py`` of https://github.com/google-research/long-range-arena does, by
the same grammar, but without the parentheses that are no tokens, and by a seed. Then:

    fourierkernels train lra --preset listops --data FOLDER

--quick draws a few short ones.
"""

import argparse
from pathlib import Path

from fourierkernels.studies.lra.listops import SMALL, Grammar, write_listops

COUNTS = {"train": 96_000, "valid": 2_000, "test": 2_000}
QUICK = {"train": 20, "valid": 5, "test": 5}


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("listops"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few short expressions")
    options = parser.parse_args()
    counts, grammar = (QUICK, SMALL) if options.quick else (COUNTS, Grammar())
    write_listops(options.output, counts, grammar=grammar, seed=options.seed)
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
