"""Three kernels in image classifiers, from starts of equal sharpness.

    python experiments/images_small.py [--images fashion --data FOLDER] [--output FOLDER] [--quick]

What is compared, and how: ``fourierkernels/studies/images/comparison.py``.
"""

from pathlib import Path

from _comparison import main

from fourierkernels.studies.images.comparison import COMPARISONS

if __name__ == "__main__":
    main(COMPARISONS, script=Path(__file__), description=__doc__)
