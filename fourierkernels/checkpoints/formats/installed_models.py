"""Files of weights of torch modules of installed packages: ``module:Class`` and ``timm:NAME``.

The module must take token ids or images as its one positional argument. The weights must fit the
class exactly. No code in the file or beside it is run.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import Checkpoint, TokenCheckpoint
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.image_networks import ImageCheckpoint, read_preprocessing
from fourierkernels.checkpoints.formats.request import LoadRequest, as_pair, must_run, pad
from fourierkernels.checkpoints.options import Config
from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.image_files import Preprocessing, Resampling

_READS_IDS = "network must read token ids as its one positional argument"


def load_installed(request: LoadRequest) -> Checkpoint:
    """Load a file of weights of ``module:Class``."""
    request.refuse_part()
    name = request.model_class or ""
    build = _installed_class(name, away_from=request.files.path.parent)
    config = dict(request.config or {})
    with must_run("config must hold arguments of the class", name):
        model = build(**config)
    filled = request.fill(model)
    has = {
        kind: any(isinstance(m, kind) for m in filled.modules())
        for kind in (nn.Embedding, nn.Conv2d)
    }
    if has[nn.Embedding] and not has[nn.Conv2d]:
        return token_network(filled, request.files, name)
    return _image_network(filled, request, config)


def _installed_class(model_class: str, *, away_from: Path) -> Callable[..., nn.Module]:
    """Return the class ``module:Class``; no module beside the weights is imported."""
    module, _, name = model_class.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ValueError(f"model_class must be module:Class, got {model_class!r}")
    path: Sequence[str] | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:depth]), path)
        if spec is None:
            raise ValueError(f"model_class must be in an installed package, got {model_class!r}")
        path = spec.submodule_search_locations
        for place in (spec.origin, *(path or ())):
            if place is not None and _lies_in(Path(place), away_from):
                raise ValueError(
                    f"model_class must not come from the folder of the weights, got {place}: "
                    "no code of a checkpoint is run"
                )
    model = getattr(importlib.import_module(module), name, None)
    if not (inspect.isclass(model) and issubclass(model, nn.Module)):
        raise ValueError(f"model_class must be a torch module, got {model_class!r}")
    return model


def _find_spec(module: str, path: Sequence[str] | None) -> Any:
    """Find a module without importing; importlib.util would import the packages around it."""
    specs = (finder.find_spec(module, path) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


def _lies_in(place: Path, folder: Path) -> bool:
    folders = (folder.absolute(), folder.resolve())
    return any(p.is_relative_to(f) for p in (place.absolute(), place.resolve()) for f in folders)


class PlainCheckpoint(TokenCheckpoint):
    """A network that reads token ids without a mask: a batch has texts of one length."""

    def forward(self, batch: Sequence[Any]) -> Any:
        """Run the model on ids alone."""
        return self.model(pad(batch, 0)[0])

    def padding_key(self, item: Any) -> Hashable:
        """Return the length of a text."""
        return len(item)


def token_network(model: nn.Module, files: CheckpointFiles, name: str) -> Checkpoint:
    """Return a checkpoint of a network that takes token ids as its one positional argument."""
    vocabulary, limit = _embeddings(model, name)
    return PlainCheckpoint(files=files, model=model, limit=limit, vocabulary=vocabulary)


def _embeddings(model: nn.Module, name: str) -> tuple[int, int | None]:
    """Return the sizes of the table of token ids and of the table of positions, if there is one."""
    place = next((parameter.device for parameter in model.parameters()), None)
    ids = torch.zeros(1, 3, dtype=torch.long, device=place)
    tables: dict[str, int] = {}

    def note(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        given = inputs[0].flatten()
        kind = "ids" if not given.any() else "places"
        if len(given) % 3 == 0:
            tables.setdefault(kind, module.num_embeddings)

    hooks = [m.register_forward_hook(note) for m in model.modules() if isinstance(m, nn.Embedding)]
    try:
        with torch.inference_mode(), must_run(_READS_IDS, name):
            model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    if "ids" not in tables:
        raise ValueError(
            f"network must look up token ids in an nn.Embedding, but {name} has none for them"
        )
    return tables["ids"], tables.get("places")


def _image_network(model: nn.Module, request: LoadRequest, config: Config) -> Checkpoint:
    size = _first(config, ("image_size", "img_size", "image"))
    if size is None:
        raise ValueError(
            "config must give the size of the images as image_size, img_size or image for a "
            f"network without an nn.Embedding for token ids, got {sorted(config)}"
        )
    patches = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    height, width = as_pair(size)
    channels = _first(config, ("channels", "in_channels", "in_chans", "num_channels"))
    if channels is None:
        channels = 3 if patches is None else patches.in_channels
    patch = _first(config, ("patch_size", "patch"))
    if patch is None and patches is not None:
        patch = patches.kernel_size
    return ImageCheckpoint(
        files=request.files,
        model=model,
        preprocess=read_preprocessing(None, height=height, width=width, channels=int(channels)),
        shape=(int(channels), height, width),
        patch=None if patch is None else as_pair(patch),
    ).counted()


def _first(config: Config, names: Sequence[str]) -> Any:
    return next((config[name] for name in names if name in config), None)


def load_timm(request: LoadRequest) -> Checkpoint:
    """Load a file of weights of ``timm:NAME``; nothing is downloaded."""
    request.refuse_part()
    with needed_for(str(request.model_class)):
        import timm
    architecture = (request.model_class or "").removeprefix("timm:")
    if architecture not in timm.list_models():  # other names may be addresses to download from
        raise ValueError(f"model_class must name a model of timm, got {architecture!r}")
    config = request.config or {}
    with must_run("config must hold arguments of the class", f"timm:{architecture}"):
        model = timm.create_model(architecture, pretrained=False, **config)
    settings, patches = model.pretrained_cfg, getattr(model, "patch_embed", None)
    channels, *size = settings["input_size"]
    channels = int(config.get("in_chans", channels))
    height, width = as_pair(getattr(patches, "img_size", None) or size)
    patch = getattr(patches, "patch_size", None)
    default = read_preprocessing(None, height=height, width=width, channels=channels)
    return ImageCheckpoint(
        files=request.files,
        model=request.fill(model),
        preprocess=_as_timm_does(settings, default),
        shape=(channels, height, width),
        patch=None if patch is None else as_pair(patch),
    ).counted()


def _as_timm_does(settings: Config, default: Preprocessing) -> Preprocessing:
    """Follow the settings of a model; grey images are normalised with means over the colours."""
    height, width = as_pair(default.size)
    mean, std = (
        tuple(numbers) if len(numbers) == default.channels else (sum(numbers) / len(numbers),)
        for numbers in (settings["mean"], settings["std"])
    )
    changed = replace(
        default,
        mean=mean,
        std=std,
        resample=Resampling.__members__[settings.get("interpolation", "bilinear").upper()],
    )
    if height != width:
        return changed
    return replace(changed, size=int(height / settings.get("crop_pct", 1)), crop=(height, width))
