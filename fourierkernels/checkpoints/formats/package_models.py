"""Files of weights of this package's models, and how each model is run on its items.

Models without attention are refused. Their mixing matrices are not attention maps: Fourier and
dense mixers have one matrix for all heads and texts, and its rows are not probabilities (those of a
Fourier transform are complex); :func:`fourierkernels.mixing.mixing_matrices` returns them.

State dicts of the language models that the FourierFormer authors' code trains are read with a
preset. To load another model, write a function and add a row to :data:`ADAPTERS`.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import Checkpoint, TokenCheckpoint, choose_part
from fourierkernels.checkpoints.formats.image_networks import ImageCheckpoint, read_preprocessing
from fourierkernels.checkpoints.formats.request import LoadRequest, pad
from fourierkernels.checkpoints.options import Config
from fourierkernels.checkpoints.recorders.call import AttentionCall
from fourierkernels.mixing import AttentionMixer, TokenMixer
from fourierkernels.models.language import LanguageModel
from fourierkernels.models.published_language import published_config, published_model
from fourierkernels.models.saved import CLASS, MODELS, build_model, saved_class
from fourierkernels.models.tensor_files import read_metadata, read_tensors, unwrapped

CHANGES = {"heads", "length", "cutoffs", "power", "eps"}  # what no tensor says


@dataclass(frozen=True)
class LanguageOutput:
    """Last states of a language model; scores of the vocabulary are computed on request."""

    last_hidden_state: Tensor
    score: Callable[[Tensor], Tensor]

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the next word, ``(B, n, V)``."""
        return self.score(self.last_hidden_state)


def load_package_model(request: LoadRequest) -> Checkpoint:
    """Load a file of weights of a model of :data:`fourierkernels.models.MODELS`.

    Raises
    ------
    ValueError
        If the file does not fit the class, or the model has no row in :data:`ADAPTERS` or no
        attention.
    """
    name, config = _class_and_config(request)
    _refuse_class(name)
    model = request.fill(build_model(name, config))
    mixers = [module for module in model.modules() if isinstance(module, TokenMixer)]
    if not any(isinstance(mixer, AttentionMixer) for mixer in mixers):
        kinds = sorted({type(mixer).__name__ for mixer in mixers}) or ["nothing"]
        raise ValueError(
            f"checkpoint must have attention, got none in {name}: "
            f"its tokens are mixed by {', '.join(kinds)}"
        )
    if request.part is not None and name != "TranslationModel":
        raise ValueError(
            "part must be left out for a network that is not an encoder-decoder, "
            f"got {request.part!r} for {name}"
        )
    return ADAPTERS[name](model, request)


def refuse_unread(file: Path) -> None:
    """Refuse a file that names a model of this package without a row in :data:`ADAPTERS`."""
    if file.is_file():
        _refuse_class(read_metadata(file).get(CLASS, ""))


def _refuse_class(name: str) -> None:
    if name in MODELS and name not in ADAPTERS:
        raise ValueError(
            f"checkpoint must hold a model that heads reads ({', '.join(ADAPTERS)}), "
            f"got {name!r}, which heads does not read"
        )


def _class_and_config(request: LoadRequest) -> tuple[str, Config]:
    """Return the class and config that were given, or those that the file names."""
    file, name, config = request.files.path, request.model_class, request.config
    if name is not None and config is not None:
        return name, config
    if config is not None:
        raise ValueError("model_class must be named with a config, got None")
    try:
        saved, config = saved_class(file)
    except ValueError as error:
        if name is not None:
            raise
        raise ValueError(
            f"model_class must be named for a file of weights: {error}; or preset, for the "
            "FourierFormer authors' language models (--preset small)"
        ) from error
    if name not in (None, saved):
        raise ValueError(f"model_class must be {saved} for this file, got {name}")
    return saved, config


class LanguageCheckpoint(TokenCheckpoint):
    """A language model, in which no token attends to later ones."""

    def forward(self, batch: Sequence[Any]) -> LanguageOutput:
        """Return last states; padding comes behind all tokens."""
        model = self.model
        states = model.states(pad(batch, 0)[0])
        return LanguageOutput(states, lambda x: model.softmax(x, model.embedding))

    def padding_key(self, item: Any) -> Hashable:
        """Return the length of a text whose positions count from its end."""
        return len(item) if self.model.config.positions == "from_the_end" else None


class EncoderCheckpoint(TokenCheckpoint):
    """An encoder of texts, with a head for its task or without one."""

    def forward(self, batch: Sequence[Any]) -> Any:
        """Run the model with a mask of padding, if there is any."""
        ids, mask = pad(batch, _encoder_config(self.model).padding_id or 0)
        return self.model(ids, padding=None if mask.all() else mask == 0)

    def padding_key(self, item: Any) -> Hashable:
        """Return the length of a text if a mixer would read padding."""
        return None if _masks_padding(self.model) else len(item)


class TranslationCheckpoint(TokenCheckpoint):
    """A part of a translation model, in which no target token attends to later ones."""

    def forward(self, batch: Sequence[Any]) -> Any:
        """Encode texts, or run the model on pairs."""
        padding = self.model.config.padding_id
        if not self.part.pairs:
            return self.model.encode(pad(batch, padding)[0])
        source, target = (pad([pair[i] for pair in batch], padding)[0] for i in (0, 1))
        return self.model(source, target)

    def selects(self, call: AttentionCall) -> bool:
        """Return whether a call belongs to the part."""
        side, cross = "decoder." if self.part.pairs else "encoder.", self.part.name == "cross"
        return call.name.startswith(side) and call.cross == cross

    def padding_key(self, item: Any) -> Hashable:
        """Return the length of the source if a mixer would read padding."""
        if _masks_padding(self.model.encoder):
            return None
        return len(item[0]) if self.part.pairs else len(item)


def _masks_padding(module: nn.Module) -> bool:
    mixers = (part for part in module.modules() if isinstance(part, TokenMixer))
    return all(mixer.masks_padding for mixer in mixers)


def _encoder_config(model: Any) -> Any:
    return getattr(model, "encoder", model).config


def _language(model: Any, request: LoadRequest) -> Checkpoint:
    limit, words = model.config.length, model.config.vocabulary
    return LanguageCheckpoint(files=request.files, model=model, limit=limit, vocabulary=words)


def _encoder(model: Any, request: LoadRequest) -> Checkpoint:
    config = _encoder_config(model)
    limit, words = config.length, config.vocabulary
    return EncoderCheckpoint(files=request.files, model=model, limit=limit, vocabulary=words)


def _vision(model: Any, request: LoadRequest) -> Checkpoint:
    config, home = model.config, request.files.run
    shape = (config.channels, config.image, config.image)
    return ImageCheckpoint(
        files=request.files,
        model=model,
        shape=shape,
        patch=(config.patch, config.patch),
        preprocess=read_preprocessing(home, height=shape[1], width=shape[2], channels=shape[0]),
    ).counted()


def _translation(model: Any, request: LoadRequest) -> Checkpoint:
    config, part = model.config, choose_part(request.part)
    return TranslationCheckpoint(
        files=request.files,
        model=model,
        limit=config.length,
        vocabulary=max(config.vocabulary, config.source_words),
        part=part,
        start=(config.start_id,) if part.pairs else (),
    )


# Class of a model -> from the model to a checkpoint.
ADAPTERS: dict[str, Callable[[Any, LoadRequest], Checkpoint]] = {
    "Encoder": _encoder,
    "EncoderClassifier": _encoder,
    "LanguageModel": _language,
    "PretrainingEncoder": _encoder,
    "TranslationModel": _translation,
    "VisionTransformer": _vision,
}


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
