"""What :func:`~fourierkernels.checkpoints.load.load_checkpoint` was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.models.tensor_files import load_exactly, read_tensors

Config = Mapping[str, Any]


@dataclass(frozen=True)
class LoadRequest:
    """What to load and how; see :func:`~fourierkernels.checkpoints.load.load_checkpoint`.

    Attributes
    ----------
    config : mapping or None
        Content of the config of a file; None if it was not given.
    """

    files: CheckpointFiles
    model_class: str | None = None
    config: Config | None = None
    part: str | None = None
    task_head: bool = False
    random_weights: bool = False

    def fill(self, model: nn.Module) -> nn.Module:
        """Return a model with the weights of the file, unless random ones were asked for."""
        if not self.random_weights:
            load_exactly(model, read_tensors(self.files.path))
        return model.float().eval().requires_grad_(False)

    def refuse_part(self) -> None:
        """Refuse a part of a network that is not known to have any."""
        if self.part is not None:
            raise ValueError(f"part must be left out for {self.model_class}, got {self.part!r}")
