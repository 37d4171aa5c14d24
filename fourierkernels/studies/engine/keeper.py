"""Which checkpoints stay: the best, the last, and those before the last until it has proved good.

A checkpoint may hold parameters that an update has ruined without one of them being infinite. It is
good when they have been validated, or when the next update from them was healthy.
"""

import shutil
from pathlib import Path

from fourierkernels.studies.engine.checkpoints import checkpoint_folder, keep_only


class Keeper:
    """Deletes checkpoints in time.

    Parameters
    ----------
    output : Path
        Where they lie.
    deletes : bool
        Whether this is the process that does it.
    """

    def __init__(self, output: Path, *, deletes: bool) -> None:
        self._output, self._deletes = output, deletes
        self._last: int | None = None  # not yet proved good
        self._kept: set[int] = set()

    def saved(self, step: int, best: int | None, *, proved: bool) -> None:
        """Take note of a new checkpoint and of the best one."""
        self._last, self._kept = step, {step, step if best is None else best}
        if proved:
            self.prove()

    def prove(self) -> None:
        """Delete what came before the last checkpoint, which is good, and is not the best."""
        if self._last is not None and self._deletes:
            keep_only(self._output, self._kept)
        self._last = None

    def reject(self, step: int) -> None:
        """Delete the last checkpoint if the update that failed was the first one from it."""
        if self._last is not None and self._last + 1 == step and self._deletes:
            shutil.rmtree(checkpoint_folder(self._output, self._last))
