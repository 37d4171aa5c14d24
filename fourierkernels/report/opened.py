"""A network that was found, and texts as it reads them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from fourierkernels.checkpoints import Checkpoint, CheckpointFiles, find_checkpoint, read_items
from fourierkernels.checkpoints.contexts import computing_on, device_of
from fourierkernels.checkpoints.in_memory import unwrapped
from fourierkernels.checkpoints.load import load_tokenizer
from fourierkernels.checkpoints.options import LoadOptions
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.report.inputs import inputs_in_memory
from fourierkernels.report.sources import FileSource, ModelSource, Source

Network = str | Path | CheckpointFiles | nn.Module
Found = CheckpointFiles | nn.Module


def find_network(name: str, network: Network) -> Found:
    """Return the files of a network, or a model in memory without its wrappers.

    Raises
    ------
    TypeError, ValueError
        If the argument of this name is neither, or there are no such files.
    """
    if not isinstance(network, str | Path | CheckpointFiles | nn.Module):
        raise TypeError(f"{name} must be a path or a torch module, got {type(network).__name__}")
    return unwrapped(network) if isinstance(network, nn.Module) else find_checkpoint(network)


@dataclass(frozen=True)
class NetworkWithTexts:
    """A network, and texts as it reads them."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer | None
    texts: Sequence[Any]

    def items(self) -> list[Any]:
        """Return the item of each text.

        Raises
        ------
        ValueError
            If a text has no token, or more than the network reads at once.
        """
        items = []
        for text in self.texts:
            read = list(read_items(self.checkpoint, self._given(text), tokenizer=self.tokenizer))
            if len(read) != 1:
                raise ValueError(
                    f"text must be one input of the network, at most {self.checkpoint.limit} "
                    f"tokens long, got {len(read)} from {text!r:.40}"
                )
            items += read
        return items

    def one(self) -> Any:
        """Return the item of the one text."""
        return self.items()[0]

    def _given(self, text: Any) -> Any:
        return inputs_in_memory([text]) if self.checkpoint.reads == "batches" else [text]


@dataclass(frozen=True)
class OpenedNetwork:
    """A network that was found, and how it is loaded."""

    network: Found
    load: LoadOptions
    tokens: str
    device: str | None

    @contextmanager
    def with_texts(self, texts: Sequence[Any]) -> Iterator[NetworkWithTexts]:
        """Yield the network with texts; a model in memory is left as it was."""
        source = self._source(texts)
        with source.borrowed():
            in_files = isinstance(source, FileSource)
            checkpoint = self._loaded if in_files else source.load(task_head=True)
            tokenizer = None
            if checkpoint.reads_texts:
                read = load_tokenizer(checkpoint, tokens=self.tokens)
                tokenizer = replace(read, stream=False)
                checkpoint = _named(checkpoint, tokenizer)
            with computing_on(device_of(checkpoint.model)):
                yield NetworkWithTexts(checkpoint, tokenizer, texts)

    @cached_property
    def _loaded(self) -> Checkpoint:
        return self._source(()).load(task_head=True)

    def _source(self, texts: Sequence[Any]) -> Source:
        if isinstance(self.network, CheckpointFiles):
            return FileSource(self.network, self.load, self.device)
        inputs = inputs_in_memory(list(texts))
        return ModelSource(self.network, inputs, self.load.tokenizer, self.load.part, self.tokens)


def _named(checkpoint: Checkpoint, tokenizer: Tokenizer) -> Checkpoint:
    """Return a checkpoint, and its body, with the names of tokens."""
    body = checkpoint.body
    named = checkpoint.with_tokenizer(tokenizer)
    return named if body is None else replace(named, body=body.with_tokenizer(tokenizer))
