"""Find and load networks of any kind, read their inputs, and record their attention.

Names are loaded on first use: finding checkpoints and reading texts needs no framework.
"""

from typing import TYPE_CHECKING

from fourierkernels.foundation.lazy import loaded_on_first_use

if TYPE_CHECKING:
    from fourierkernels.checkpoints.checkpoint import Checkpoint
    from fourierkernels.checkpoints.find import CheckpointFiles, find_checkpoint
    from fourierkernels.checkpoints.input_files import (
        TextFile,
        read_images,
        read_sounds,
        read_texts,
    )
    from fourierkernels.checkpoints.inputs import read_items
    from fourierkernels.checkpoints.load import load_checkpoint
    from fourierkernels.checkpoints.recorders.call import AttentionCall
    from fourierkernels.checkpoints.recorders.gates import gated_heads
    from fourierkernels.checkpoints.recorders.recording import attention_calls, recording
    from fourierkernels.checkpoints.tokenizers import load_tokenizer
    from fourierkernels.checkpoints.tokens import InputCounts

# Public name -> the module that defines it.
_HOMES = {
    "AttentionCall": "fourierkernels.checkpoints.recorders.call",
    "Checkpoint": "fourierkernels.checkpoints.checkpoint",
    "CheckpointFiles": "fourierkernels.checkpoints.find",
    "InputCounts": "fourierkernels.checkpoints.tokens",
    "TextFile": "fourierkernels.checkpoints.input_files",
    "attention_calls": "fourierkernels.checkpoints.recorders.recording",
    "find_checkpoint": "fourierkernels.checkpoints.find",
    "gated_heads": "fourierkernels.checkpoints.recorders.gates",
    "load_checkpoint": "fourierkernels.checkpoints.load",
    "load_tokenizer": "fourierkernels.checkpoints.load",
    "read_images": "fourierkernels.checkpoints.input_files",
    "read_items": "fourierkernels.checkpoints.inputs",
    "read_sounds": "fourierkernels.checkpoints.input_files",
    "read_texts": "fourierkernels.checkpoints.input_files",
    "recording": "fourierkernels.checkpoints.recorders.recording",
}

__all__ = [
    "AttentionCall",
    "Checkpoint",
    "CheckpointFiles",
    "InputCounts",
    "TextFile",
    "attention_calls",
    "find_checkpoint",
    "gated_heads",
    "load_checkpoint",
    "load_tokenizer",
    "read_images",
    "read_items",
    "read_sounds",
    "read_texts",
    "recording",
]

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES, extra="heads")
