"""``python -m fourierkernels.cli``."""

from fourierkernels.cli import main

main()
