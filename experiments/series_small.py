"""Three kernels of attention on a problem of the UEA archive, tuned alike.

    python experiments/series_small.py [--problem NAME] [--data FOLDER] [--output FOLDER] [--quick]

What is compared, and how: ``fourierkernels/studies/series/comparison.py``.
"""

from pathlib import Path

from _comparison import main

from fourierkernels.studies.series.comparison import COMPARISONS

if __name__ == "__main__":
    main(COMPARISONS, script=Path(__file__), description=__doc__)
