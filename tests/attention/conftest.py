"""Let these tests import the shared table of tolerances."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tolerances.py
