"""What all kinds of checkpoints share: the request, padding, and errors of a network."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.options import Config
from fourierkernels.checkpoints.word_lists import WordList
from fourierkernels.models.tensor_files import load_exactly, read_tensors, without_wrappers


@dataclass(frozen=True)
class LoadRequest:
    """What to load and how; see :func:`~fourierkernels.checkpoints.load.load_checkpoint`.

    Attributes
    ----------
    config : mapping or None
        Content of the config for a file of weights; None if none was given.
    preset : str or None
        Sizes of a model of the FourierFormer authors' code.
    words : WordList or None
        The words of a language model of words.
    tokenizer : Path or None
        Folder or file of the tokenizer that was named.
    """

    files: CheckpointFiles
    model_class: str | None = None
    config: Config | None = None
    part: str | None = None
    task_head: bool = False
    random_weights: bool = False
    preset: str | None = None
    words: WordList | None = None
    tokenizer: Path | None = None

    def fill(self, model: nn.Module) -> nn.Module:
        """Return the model with the weights of the file, or as it is for random weights."""
        if not self.random_weights:
            tensors = read_tensors(self.files.path)
            load_exactly(model, without_wrappers(tensors, model.state_dict().keys()))
        return model.float().eval().requires_grad_(False)

    def refuse_part(self) -> None:
        """Refuse a part, for a network that is not an encoder-decoder."""
        if self.part is not None:
            raise ValueError(f"part must be left out for {self.model_class}, got {self.part!r}")


def pad(batch: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Return ids ``(B, n)`` padded at their ends, and the mask that is 1 where they are not."""
    longest = max(map(len, batch))
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in batch])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
    return ids, mask


def as_pair(size: Any) -> tuple[int, int]:
    """Return height and width of a size given as one number or as a pair."""
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


@contextmanager
def must_run(rule: str, name: str) -> Iterator[None]:
    """Turn any exception of a network into a ValueError that begins with the rule it breaks."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise ValueError(f"{rule}, but {name} fails: {reason}") from error
