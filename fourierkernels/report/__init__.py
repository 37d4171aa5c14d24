"""What is known of the heads of a checkpoint, as one report: tables, files, figures and a page.

Names are loaded on first use: they need torch and transformers.
"""

from typing import TYPE_CHECKING

from fourierkernels.lazy import loaded_on_first_use

if TYPE_CHECKING:
    from fourierkernels.report.heads import HeadReport
    from fourierkernels.report.measuring import head_report

# Public name -> the module that defines it.
_HOMES = {
    "HeadReport": "fourierkernels.report.heads",
    "head_report": "fourierkernels.report.measuring",
}

__all__ = ["HeadReport", "head_report"]

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES)
