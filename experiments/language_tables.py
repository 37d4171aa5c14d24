"""Kernels, radii and sizes of very small language models compared.

    python experiments/language_tables.py [--data FOLDER] [--output FOLDER] [--workers N] [--quick]

What is compared, and how: ``fourierkernels/studies/language/comparison.py``.
The heads of the networks are measured as well.
"""

from pathlib import Path

from _comparison import main
from _head_stages import HeadComparison

if __name__ == "__main__":
    main({"language": HeadComparison()}, script=Path(__file__), description=__doc__)
