"""Mixers on three tasks of the Long-Range Arena in very small, tuned alike.

    python experiments/lra_small.py [--output FOLDER] [--workers N] [--quick]

What is compared, and how: ``fourierkernels/studies/lra/comparison.py``.
"""

from pathlib import Path

from _comparison import main

from fourierkernels.studies.lra.comparison import COMPARISONS

if __name__ == "__main__":
    main(COMPARISONS, script=Path(__file__), description=__doc__)
