"""Reports without their figures, which take most of the time that saving takes."""

from pathlib import Path
from typing import Any

import pytest

from fourierkernels.report import files


class Sketch:
    """What stands for a figure where no test looks at it."""

    def savefig(self, path: Path, **options: Any) -> None:
        path.write_text("a figure", encoding="utf-8")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files of figures without drawing them."""
    for name in ("heads_figure", "statistics_figure", "pruning_figure"):
        monkeypatch.setattr(files, name, lambda *given, **options: Sketch())
