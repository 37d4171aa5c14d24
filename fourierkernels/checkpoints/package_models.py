"""Models of this package out of single files: how each is run on what it reads.

Mixers without attention are refused. Their mixing matrices are no maps: those of Fourier and dense
mixers are one for all heads and all texts, and their rows are not probabilities (complex numbers,
in a Fourier transform); :func:`fourierkernels.mixing.mixing_matrices` gives them.

To run another model, write a function and add a row to :data:`READERS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import PARTS, Checkpoint, token_fields
from fourierkernels.checkpoints.images import read_preprocessing
from fourierkernels.checkpoints.running import image_checkpoint, pad
from fourierkernels.mixing import AttentionMixer, TokenMixer
from fourierkernels.validation import check_choice


@dataclass(frozen=True)
class Scored:
    """Last states of a language model; the scores of all words are computed when asked for."""

    last_hidden_state: Tensor
    score: Callable[[Tensor], Tensor]

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the next word, ``(B, n, V)``."""
        return self.score(self.last_hidden_state)


def own_checkpoint(model: Any, *, name: str, part: str | None) -> Checkpoint:
    """Return a model of :data:`fourierkernels.models.MODELS` ready to be looked at.

    Raises
    ------
    ValueError
        If the model reads other things than :data:`READERS` know, or has no attention.
    """
    own = check_choice("model_class", type(model).__name__, list(READERS))
    mixers = [module for module in model.modules() if isinstance(module, TokenMixer)]
    if not any(isinstance(mixer, AttentionMixer) for mixer in mixers):
        kinds = sorted({type(mixer).__name__ for mixer in mixers}) or ["nothing"]
        raise ValueError(
            f"checkpoint must have attention, got none in {own}: "
            f"its tokens are mixed by {', '.join(kinds)}"
        )
    if part is not None and own != "TranslationModel":
        raise ValueError(
            f"part must be left out for a network that is no encoder-decoder, got {part!r} "
            f"for {own}"
        )
    return READERS[own](model.eval().requires_grad_(False), name, part)


def _language(model: Any, name: str, part: str | None) -> Checkpoint:
    def run(batch: Sequence[Any]) -> Scored:
        ids, _ = pad(batch, 0)  # no token sees what comes after it
        return Scored(model.states(ids), lambda x: model.softmax(x, model.embedding))

    fields = token_fields(PARTS["encoder"])
    if model.config.positions == "from_the_end":
        fields["together"] = len
    return Checkpoint(
        name=name,
        folder=None,
        model=model,
        limit=model.config.length,
        vocabulary=model.config.vocabulary,
        run=run,
        selects=lambda call: True,
        **fields,
    )


def _encoder(model: Any, name: str, part: str | None) -> Checkpoint:
    config = getattr(model, "encoder", model).config

    def run(batch: Sequence[Any]) -> Any:
        ids, mask = pad(batch, config.padding_id or 0)
        return model(ids, padding=None if mask.all() else mask == 0)

    fields = token_fields(PARTS["encoder"])
    if not _leaves_padding_out(model):
        fields["together"] = len
    return Checkpoint(
        name=name,
        folder=None,
        model=model,
        limit=config.length,
        vocabulary=config.vocabulary,
        run=run,
        selects=lambda call: True,
        **fields,
    )


def _leaves_padding_out(module: nn.Module) -> bool:
    mixers = (part for part in module.modules() if isinstance(part, TokenMixer))
    return all(mixer.masks_padding for mixer in mixers)


def _vision(model: Any, name: str, part: str | None) -> Checkpoint:
    config = model.config
    shape = (config.channels, config.image, config.image)
    return image_checkpoint(
        model,
        model,
        name=name,
        folder=None,
        shape=shape,
        patch=(config.patch, config.patch),
        preprocess=read_preprocessing(None, height=shape[1], width=shape[2], channels=shape[0]),
    )


def _translation(model: Any, name: str, part: str | None) -> Checkpoint:
    config = model.config
    chosen = PARTS["encoder" if part is None else check_choice("part", part, list(PARTS))]

    def encode(batch: Sequence[Any]) -> Tensor:
        states: Tensor = model.encode(pad(batch, config.padding_id)[0])
        return states

    def translate(batch: Sequence[Any]) -> Any:
        source, target = (pad([pair[i] for pair in batch], config.padding_id)[0] for i in (0, 1))
        return model(source, target)

    fields = token_fields(chosen)
    if not _leaves_padding_out(model.encoder):  # the decoder sees nothing that comes later
        fields["together"] = (lambda pair: len(pair[0])) if chosen.pairs else len
    side, cross = "decoder." if chosen.pairs else "encoder.", chosen.name == "cross"
    return Checkpoint(
        name=name,
        folder=None,
        model=model,
        limit=config.length,
        vocabulary=config.vocabulary,
        run=translate if chosen.pairs else encode,
        selects=lambda call: call.name.startswith(side) and call.cross == cross,
        start=(config.start_id,) if chosen.pairs else (),
        **fields,
    )


Reader = Callable[[Any, str, str | None], Checkpoint]
READERS: dict[str, Reader] = {
    "Encoder": _encoder,
    "EncoderClassifier": _encoder,
    "LanguageModel": _language,
    "PretrainingEncoder": _encoder,
    "TranslationModel": _translation,
    "VisionTransformer": _vision,
}
