"""State dicts of the language models that the FourierFormer authors' code trains."""

from typing import Any

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.formats.package_models import ADAPTERS
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.models.language import LanguageModel
from fourierkernels.models.published_language import published_config, published_model
from fourierkernels.models.saved import CLASS
from fourierkernels.models.tensor_files import read_metadata, read_tensors, unwrapped

CHANGES = {"heads", "length", "cutoffs", "power", "eps"}  # what no tensor says


def load_published(request: LoadRequest) -> Checkpoint:
    """Load a file of tensors with the names of the published code.

    ``fourierkernels.models.published_language`` has the names.

    Raises
    ------
    ValueError
        If it is not such a file, or an option does not apply to it.
    """
    _refuse_others(request)
    tensors = unwrapped(read_tensors(request.files.path))
    config = published_config(tensors, preset=str(request.preset), **_changes(request))
    drawn = request.random_weights
    model = LanguageModel(config) if drawn else published_model(tensors, config)
    return ADAPTERS["LanguageModel"](model.float().eval().requires_grad_(False), request)


def _changes(request: LoadRequest) -> dict[str, Any]:
    """Return what a config says in place of the preset."""
    given = {} if request.config is None else dict(request.config)
    unknown = sorted(given.keys() - CHANGES)
    if unknown:
        raise ValueError(
            f"config must name {', '.join(sorted(CHANGES))} only with a preset, "
            f"got {', '.join(unknown)}"
        )
    return given


def _refuse_others(request: LoadRequest) -> None:
    file = request.files.path
    if file.is_dir() or CLASS in read_metadata(file):
        raise ValueError(
            "preset must be left out for a checkpoint that names its own architecture, "
            f"got {request.preset!r} for {request.files}"
        )
    if request.model_class is not None:
        raise ValueError(f"model_class must be left out with a preset, got {request.model_class!r}")
    if request.part is not None:
        raise ValueError(
            "part must be left out for a network that is not an encoder-decoder, "
            f"got {request.part!r}"
        )
