"""What must never run."""

import os
from pathlib import Path


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = str(target)

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.target,))
