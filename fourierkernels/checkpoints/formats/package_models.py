"""Files of weights of this package's models, and how each model is run on its items.

Models without attention are refused. Their mixing matrices are not attention maps: Fourier and
dense mixers have one matrix for all heads and texts, and its rows are not probabilities (those of a
Fourier transform are complex); :func:`fourierkernels.mixing.mixing_matrices` returns them.

To load another model, write a function and add a row to :data:`ADAPTERS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import PARTS, Checkpoint, choose_part, token_fields
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.options import Config
from fourierkernels.checkpoints.preprocessing import read_preprocessing
from fourierkernels.checkpoints.running import image_checkpoint, pad
from fourierkernels.foundation.validation import check_choice
from fourierkernels.mixing import AttentionMixer, TokenMixer
from fourierkernels.models.saved import build_model, saved_class


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
    model = request.fill(build_model(*_class_and_config(request)))
    name = check_choice("model_class", type(model).__name__, list(ADAPTERS))
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


def _language(model: Any, request: LoadRequest) -> Checkpoint:
    def run(batch: Sequence[Any]) -> LanguageOutput:
        ids, _ = pad(batch, 0)  # no token attends to later ones
        return LanguageOutput(model.states(ids), lambda x: model.softmax(x, model.embedding))

    fields = token_fields(PARTS["encoder"])
    if model.config.positions == "from_the_end":
        fields["batch_key"] = len
    return Checkpoint(
        files=request.files,
        model=model,
        limit=model.config.length,
        vocabulary=model.config.vocabulary,
        run=run,
        selects=lambda call: True,
        **fields,
    )


def _encoder(model: Any, request: LoadRequest) -> Checkpoint:
    config = getattr(model, "encoder", model).config

    def run(batch: Sequence[Any]) -> Any:
        ids, mask = pad(batch, config.padding_id or 0)
        return model(ids, padding=None if mask.all() else mask == 0)

    fields = token_fields(PARTS["encoder"])
    if not _masks_padding(model):
        fields["batch_key"] = len
    return Checkpoint(
        files=request.files,
        model=model,
        limit=config.length,
        vocabulary=config.vocabulary,
        run=run,
        selects=lambda call: True,
        **fields,
    )


def _masks_padding(module: nn.Module) -> bool:
    mixers = (part for part in module.modules() if isinstance(part, TokenMixer))
    return all(mixer.masks_padding for mixer in mixers)


def _vision(model: Any, request: LoadRequest) -> Checkpoint:
    config, home = model.config, request.files.run
    shape = (config.channels, config.image, config.image)
    return image_checkpoint(
        model,
        model,
        files=request.files,
        shape=shape,
        patch=(config.patch, config.patch),
        preprocess=read_preprocessing(home, height=shape[1], width=shape[2], channels=shape[0]),
    )


def _translation(model: Any, request: LoadRequest) -> Checkpoint:
    config = model.config
    chosen = choose_part(request.part)

    def encode(batch: Sequence[Any]) -> Tensor:
        states: Tensor = model.encode(pad(batch, config.padding_id)[0])
        return states

    def translate(batch: Sequence[Any]) -> Any:
        source, target = (pad([pair[i] for pair in batch], config.padding_id)[0] for i in (0, 1))
        return model(source, target)

    fields = token_fields(chosen)
    if not _masks_padding(model.encoder):  # no target token attends to later ones
        fields["batch_key"] = (lambda pair: len(pair[0])) if chosen.pairs else len
    side, cross = "decoder." if chosen.pairs else "encoder.", chosen.name == "cross"
    return Checkpoint(
        files=request.files,
        model=model,
        limit=config.length,
        vocabulary=config.vocabulary,
        run=translate if chosen.pairs else encode,
        selects=lambda call: call.name.startswith(side) and call.cross == cross,
        start=(config.start_id,) if chosen.pairs else (),
        **fields,
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
