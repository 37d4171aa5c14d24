"""What is known of the heads of a checkpoint, as one report: tables, files, figures and a page.

Names are loaded on first use: they need torch and transformers.
"""

from typing import TYPE_CHECKING

from fourierkernels.foundation.lazy import loaded_on_first_use

if TYPE_CHECKING:
    from fourierkernels.report.during_training import HeadDistances, layer_distances, log_heads
    from fourierkernels.report.heads import HeadReport
    from fourierkernels.report.lens import HeadLens
    from fourierkernels.report.measuring import head_report

# Public name -> the module that defines it.
_HOMES = {
    "HeadDistances": "fourierkernels.report.during_training",
    "HeadLens": "fourierkernels.report.lens",
    "HeadReport": "fourierkernels.report.heads",
    "head_report": "fourierkernels.report.measuring",
    "layer_distances": "fourierkernels.report.during_training",
    "log_heads": "fourierkernels.report.during_training",
}

__all__ = ["HeadDistances", "HeadLens", "HeadReport", "head_report", "layer_distances", "log_heads"]

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES, extra="heads")
