"""Every kind of checkpoint that can be loaded, one row per kind.

To add another kind, write a function from a :class:`~.request.LoadRequest` to a
:class:`~fourierkernels.checkpoints.checkpoint.Checkpoint` in a file beside this one and add a row
to :data:`FORMATS`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.formats.installed_class import load_installed
from fourierkernels.checkpoints.formats.package_models import load_package_model
from fourierkernels.checkpoints.formats.published_models import load_published
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.formats.timm_models import load_timm
from fourierkernels.checkpoints.formats.transformers_models import load_folder, load_pretrained
from fourierkernels.models import MODELS


@dataclass(frozen=True)
class CheckpointFormat:
    """A kind of checkpoint: how it is recognised, and how it is loaded."""

    name: str
    recognises: Callable[[LoadRequest], bool]
    load: Callable[[LoadRequest], Checkpoint]


# The last row that recognises a request loads it, so the general rows come first.
FORMATS = {
    row.name: row
    for row in (
        CheckpointFormat("file of transformers", lambda request: True, load_pretrained),
        CheckpointFormat(
            "class of an installed package",
            lambda request: ":" in (request.model_class or ""),
            load_installed,
        ),
        CheckpointFormat(
            "timm", lambda request: (request.model_class or "").startswith("timm:"), load_timm
        ),
        CheckpointFormat(
            "model of this package",
            lambda request: request.model_class is None or request.model_class in MODELS,
            load_package_model,
        ),
        CheckpointFormat(
            "folder of transformers", lambda request: request.files.folder is not None, load_folder
        ),
        CheckpointFormat(
            "published language model", lambda request: request.preset is not None, load_published
        ),
    )
}
