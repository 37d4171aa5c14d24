"""The encoders of the FNet paper in very small: masked pre-training, and one task after it.

    python experiments/masked_small.py [--titles FOLDER] [--output FOLDER] [--workers N] [--quick]

What is compared, and how: ``fourierkernels/studies/masked/comparison.py``.
"""

from pathlib import Path

from _comparison import main

from fourierkernels.studies.masked.comparison import COMPARISONS

if __name__ == "__main__":
    main(COMPARISONS, script=Path(__file__), description=__doc__)
