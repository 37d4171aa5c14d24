"""Three kernels in very small decision transformers on generated episodes of Hopper.

    python experiments/control_small.py [--data FILE] [--output FOLDER] [--workers N] [--quick]

What is compared, and how: ``fourierkernels/studies/control/comparison.py``.
"""

from pathlib import Path

from _comparison import main

from fourierkernels.studies.control.comparison import COMPARISONS

if __name__ == "__main__":
    main(COMPARISONS, script=Path(__file__), description=__doc__)
