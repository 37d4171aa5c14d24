"""What is known of the heads of a checkpoint, as one report: tables, files, figures and a page.

Names are loaded on first use: they need torch and transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fourierkernels.report.heads import HeadReport
    from fourierkernels.report.measuring import head_report

# Public name -> the module that defines it.
_HOMES = {
    "HeadReport": "fourierkernels.report.heads",
    "head_report": "fourierkernels.report.measuring",
}

__all__ = ["HeadReport", "head_report"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
