"""Networks out of single files of weights, whose class somebody names.

A class is one of this package's models, of transformers, of timm (``timm:NAME``) or of an
installed package (``module:Class``). Weights must be those of the class exactly. Nothing in the
file or beside it is run.

To take classes from elsewhere, write a function and add a row to :data:`SOURCES`.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Resampling
from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import PARTS, Checkpoint, token_fields
from fourierkernels.checkpoints.images import Preprocessing, read_preprocessing
from fourierkernels.checkpoints.package_models import own_checkpoint
from fourierkernels.checkpoints.running import as_pair, image_checkpoint, must_run, pad
from fourierkernels.models import MODELS
from fourierkernels.models.saved import build_model, read_config, saved_class
from fourierkernels.models.tensor_files import load_exactly, read_tensors

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """What somebody asks for; `config` is read already, and None if it was not given."""

    file: Path
    name: str
    model_class: str
    config: Config | None
    part: str | None
    random_weights: bool

    def fill(self, model: nn.Module) -> nn.Module:
        """Return a model with the weights of the file, unless random ones were asked for."""
        if not self.random_weights:
            load_exactly(model, read_tensors(self.file))
        return model.float().eval().requires_grad_(False)

    def refuse_part(self) -> None:
        """Refuse a part of a network that is not known to have any."""
        if self.part is not None:
            raise ValueError(f"part must be left out for {self.model_class}, got {self.part!r}")


def load_file(
    file: Path,
    name: str,
    *,
    model_class: str | None,
    config: str | Path | Config | None,
    part: str | None,
    random_weights: bool,
) -> Checkpoint:
    """Load a file of weights; see :func:`~.checkpoint.load_checkpoint`."""
    given = _given(config)
    if model_class is None:
        if given is not None:
            raise ValueError("model_class must be named with a config, got None")
        try:
            model_class, given = saved_class(file)
        except ValueError as error:
            raise ValueError(f"model_class must be named for a file of weights: {error}") from error
    request = Request(file, name, model_class, given, part, random_weights)
    return next(row for row in SOURCES if row.knows(model_class)).load(request)


def _given(config: str | Path | Config | None) -> Config | None:
    if config is None or isinstance(config, Mapping):
        return config
    file = Path(config)
    if not file.is_file():
        raise ValueError(f"config must be a JSON file, got {config}")
    try:
        return read_config(file.read_text(encoding="utf-8"), file.name)
    except UnicodeDecodeError as error:
        raise ValueError(f"config of {file.name} must be UTF-8, got {error}") from error


def _load_own(request: Request) -> Checkpoint:
    config = request.config
    if config is None:
        saved, config = saved_class(request.file)
        if saved != request.model_class:
            raise ValueError(
                f"model_class must be {saved} for this file, got {request.model_class}"
            )
    model = request.fill(build_model(request.model_class, config))
    return own_checkpoint(model, name=request.name, part=request.part)


def _load_pretrained(request: Request) -> Checkpoint:
    from fourierkernels.checkpoints.transformers_models import build_alone, listen_to

    if request.config is None:
        raise ValueError(
            f"config must be the config.json of {request.model_class} for a single file, got None"
        )
    tensors = None if request.random_weights else read_tensors(request.file)
    model = build_alone(request.model_class, request.config, tensors, request.file.name)
    return listen_to(model, name=request.name, folder=None, part=request.part)


def _load_timm(request: Request) -> Checkpoint:
    request.refuse_part()
    try:
        import timm
    except ImportError as error:
        raise ImportError(
            f"{request.model_class} needs timm ({error}): pip install timm"
        ) from error
    architecture = request.model_class.removeprefix("timm:")
    if architecture not in timm.list_models():  # other names may be addresses to download from
        raise ValueError(f"model_class must name a model of timm, got {architecture!r}")
    with must_run("its config", f"timm:{architecture}"):
        model = timm.create_model(architecture, pretrained=False, **(request.config or {}))
    settings, patches = model.pretrained_cfg, getattr(model, "patch_embed", None)
    channels, *size = settings["input_size"]
    channels = int((request.config or {}).get("in_chans", channels))
    height, width = as_pair(getattr(patches, "img_size", None) or size)
    patch = getattr(patches, "patch_size", None)
    preprocess = _as_timm_does(
        settings, read_preprocessing(None, height=height, width=width, channels=channels)
    )
    filled = request.fill(model)
    return image_checkpoint(
        filled,
        filled,
        name=request.name,
        folder=None,
        preprocess=preprocess,
        shape=(channels, height, width),
        patch=None if patch is None else as_pair(patch),
    )


def _as_timm_does(settings: Config, default: Preprocessing) -> Preprocessing:
    """Follow a model's settings; grey images are normalised by the mean over colours."""
    height, width = as_pair(default.size)
    mean, std = (
        tuple(numbers) if len(numbers) == default.channels else (sum(numbers) / len(numbers),)
        for numbers in (settings["mean"], settings["std"])
    )
    changed = replace(
        default,
        mean=mean,
        std=std,
        resample=Resampling[settings.get("interpolation", "bilinear").upper()],
    )
    if height != width:
        return changed
    return replace(changed, size=int(height / settings.get("crop_pct", 1)), crop=(height, width))


def _load_plain(request: Request) -> Checkpoint:
    request.refuse_part()
    build = _installed_class(request.model_class, away_from=request.file.parent)
    config = dict(request.config or {})
    with must_run("its config", request.model_class):
        model = build(**config)
    filled = request.fill(model)
    has = {
        kind: any(isinstance(m, kind) for m in filled.modules())
        for kind in (nn.Embedding, nn.Conv2d)
    }
    if has[nn.Embedding] and not has[nn.Conv2d]:
        return _plain_tokens(filled, request)
    return _plain_images(filled, request, config)


def _installed_class(model_class: str, *, away_from: Path) -> Callable[..., nn.Module]:
    """Return a class by ``module:Class``; a module that lies with the weights is not imported."""
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
    found = getattr(importlib.import_module(module), name, None)
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise ValueError(f"model_class must be a torch module, got {model_class!r}")
    return found


def _find_spec(module: str, path: Sequence[str] | None) -> Any:
    """Find a module and import nothing; importlib.util would import the packages it is in."""
    found = (finder.find_spec(module, path) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


def _lies_in(place: Path, folder: Path) -> bool:
    folders = (folder.absolute(), folder.resolve())
    return any(p.is_relative_to(f) for p in (place.absolute(), place.resolve()) for f in folders)


def _plain_tokens(model: nn.Module, request: Request) -> Checkpoint:
    """Token ids without a mask: only texts of one length share a batch."""
    vocabulary, limit = _embeddings(model, request.model_class)

    def run(batch: Sequence[Any]) -> Any:
        return model(pad(batch, 0)[0])

    fields = token_fields(PARTS["encoder"]) | {"together": len}
    return Checkpoint(
        name=request.name,
        folder=None,
        model=model,
        limit=limit,
        vocabulary=vocabulary,
        run=run,
        selects=lambda call: not call.cross,
        **fields,
    )


def _embeddings(model: nn.Module, name: str) -> tuple[int, int | None]:
    """Return the rows of the table that is given the ids, and of one that is given places."""
    ids = torch.zeros(1, 3, dtype=torch.long)
    tables: dict[str, int] = {}

    def hear(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        given = inputs[0].flatten()
        kind = "ids" if not given.any() else "places"
        if len(given) % 3 == 0:
            tables.setdefault(kind, module.num_embeddings)

    hooks = [m.register_forward_hook(hear) for m in model.modules() if isinstance(m, nn.Embedding)]
    try:
        with torch.inference_mode(), must_run("token ids as its one positional argument", name):
            model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    if "ids" not in tables:
        raise ValueError(f"network must look up token ids in an nn.Embedding, got none in {name}")
    return tables["ids"], tables.get("places")


def _plain_images(model: nn.Module, request: Request, config: Config) -> Checkpoint:
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
    return image_checkpoint(
        model,
        model,
        name=request.name,
        folder=None,
        preprocess=read_preprocessing(None, height=height, width=width, channels=int(channels)),
        shape=(int(channels), height, width),
        patch=None if patch is None else as_pair(patch),
    )


def _first(config: Config, names: Sequence[str]) -> Any:
    return next((config[name] for name in names if name in config), None)


@dataclass(frozen=True)
class Source:
    """Where a class may come from: how its name is recognised, and how it is loaded."""

    name: str
    knows: Callable[[str], bool]
    load: Callable[[Request], Checkpoint]


SOURCES = (
    Source("fourierkernels", lambda name: name in MODELS, _load_own),
    Source("timm", lambda name: name.startswith("timm:"), _load_timm),
    Source("an installed package", lambda name: ":" in name, _load_plain),
    Source("transformers", lambda name: True, _load_pretrained),
)
