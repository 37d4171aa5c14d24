"""``python -m fourierkernels``."""

from fourierkernels.cli import main

main()
