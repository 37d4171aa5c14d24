"""Files of weights of models of timm; the library is imported when one is loaded."""

from dataclasses import replace

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.options import Config
from fourierkernels.checkpoints.preprocessing import read_preprocessing
from fourierkernels.checkpoints.running import ImageCheckpoint, as_pair, must_run
from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.image_files import Preprocessing, Resampling


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
