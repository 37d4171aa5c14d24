"""How a checkpoint is loaded, and how its inputs are read: options that travel as objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Config = Mapping[str, Any]  # JSON of a network, with the keys of whoever wrote it


@dataclass(frozen=True)
class LoadOptions:
    """How a checkpoint is loaded; see :func:`~fourierkernels.checkpoints.load.load_checkpoint`.

    Attributes
    ----------
    tokenizer : str, Path or object
        A folder or file; for a model in memory also the tokenizer itself.
    """

    model_class: str | None = None
    config: str | Path | Config | None = None
    preset: str | None = None
    vocabulary: str | Path | None = None
    tokenizer: Any = None
    part: str | None = None

    @property
    def names_tokenizer(self) -> bool:
        """Whether the tokenizer, if there is one, is named by a path."""
        return isinstance(self.tokenizer, str | Path | None)

    def of_files(self) -> Iterator[tuple[str, object]]:
        """Yield the options that apply to files alone, with their values."""
        yield "model_class", self.model_class
        yield "config", self.config
        yield "preset", self.preset
        yield "vocabulary", self.vocabulary


@dataclass(frozen=True)
class ReadOptions:
    """How inputs become the items of a checkpoint, and how many of them share a batch.

    Attributes
    ----------
    tokens : str
        See :func:`~fourierkernels.checkpoints.tokenizers.load_tokenizer`.
    context : int or None
        See :func:`~fourierkernels.checkpoints.inputs.read_items`.
    max_tokens : int or None
        Longer texts are cut into windows of at most so many tokens.
    """

    tokens: str = "auto"
    context: int | None = None
    max_tokens: int | None = None
    batch_size: int = 16
