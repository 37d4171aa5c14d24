"""How different are the attention heads of a network? Distances, summaries, checkpoints, reports.

Names that need torch and transformers are loaded on first use: distances and summaries of maps from
any source work without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fourierkernels.diagnostics.distances import METRICS, HeadMetric, head_distances
from fourierkernels.diagnostics.summary import (
    SPREADS,
    HeadAccumulator,
    HeadSummary,
    summarise_maps,
)
from fourierkernels.diagnostics.texts import TextFile, read_texts

if TYPE_CHECKING:
    from fourierkernels.diagnostics.capture import (
        attention_maps,
        load_checkpoint,
        load_tokenizer,
    )
    from fourierkernels.diagnostics.heads import compare_networks, summarise_heads

# Public name -> the module that defines it and needs torch.
_HOMES = {
    "attention_maps": "capture",
    "compare_networks": "heads",
    "load_checkpoint": "capture",
    "load_tokenizer": "capture",
    "summarise_heads": "heads",
}

__all__ = [
    "METRICS",
    "SPREADS",
    "HeadAccumulator",
    "HeadMetric",
    "HeadSummary",
    "TextFile",
    "attention_maps",
    "compare_networks",
    "head_distances",
    "load_checkpoint",
    "load_tokenizer",
    "read_texts",
    "summarise_heads",
    "summarise_maps",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
