"""Reports without their figures, which take most of the time that saving takes."""

from pathlib import Path
from typing import Any

import pytest

from fourierkernels.report import files


class Sketch:
    """What stands for a figure where no test looks at it."""

    def savefig(self, path: Path, **options: Any) -> None:
        path.write_text("a figure", encoding="utf-8")


def _sketch(monkeypatch: pytest.MonkeyPatch, *figures: str) -> None:
    for name in figures:
        monkeypatch.setattr(files, name, lambda *given, **options: Sketch())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files of figures without drawing them."""
    _sketch(monkeypatch, "heads_figure", "statistics_figure", "pruning_figure")


@pytest.fixture
def distances_undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the figures of distances without drawing them."""
    _sketch(monkeypatch, "heads_figure")
