"""How a network of Hugging Face transformers is run on its items, whatever file it comes from."""

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierkernels.checkpoints.checkpoint import (
    AttentionPart,
    Checkpoint,
    TokenCheckpoint,
    choose_part,
)
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.image_networks import ImageCheckpoint, read_preprocessing
from fourierkernels.checkpoints.formats.request import LoadRequest, as_pair, pad
from fourierkernels.checkpoints.formats.sound_networks import SOUNDS, sound_checkpoint
from fourierkernels.checkpoints.formats.transformers_weights import sides
from fourierkernels.checkpoints.recorders.call import AttentionCall

UNMASKED = "masking is off: the network reads all patches of an image, in their order"
_GENERATION = "generation_config.json"
_LIMITS = ("max_position_embeddings", "max_seq_len")  # the latter of MPT


@dataclass(frozen=True, eq=False, kw_only=True)
class TransformersCheckpoint(TokenCheckpoint):
    """A network of transformers that reads token ids, or pairs of them.

    Attributes
    ----------
    calls : CallsOfPart
        Which calls of attention belong to the part.
    """

    calls: "CallsOfPart"

    def selects(self, call: AttentionCall) -> bool:
        """Return whether a call belongs to the part."""
        return self.calls.selects(call)

    def forward(self, batch: Sequence[Any]) -> Any:
        """Run the model on padded texts, or on padded pairs."""
        padding = getattr(self.model.config, "pad_token_id", None) or 0
        if not self.part.pairs:
            ids, mask = pad(batch, padding)
            return self.model(input_ids=ids, attention_mask=mask)
        source, mask = pad([pair[0] for pair in batch], padding)
        target, target_mask = pad([pair[1] for pair in batch], padding)
        return self.model(
            input_ids=source,
            attention_mask=mask,
            decoder_input_ids=target,
            decoder_attention_mask=target_mask,
            use_cache=False,
        )


@dataclass(frozen=True)
class CallsOfPart:
    """The calls of attention that belong to a part of a network.

    Attributes
    ----------
    inside : str
        What the names of its modules begin with.
    cross : bool
        Whether their keys belong to another sequence than their queries.
    """

    inside: str = ""
    cross: bool = False

    def selects(self, call: AttentionCall) -> bool:
        """Return whether a call is one of them."""
        return call.name.startswith(self.inside) and call.cross == self.cross


def transformers_checkpoint(model: Any, request: LoadRequest) -> Checkpoint:
    """Return a model of transformers ready to give what the heads of a part compute."""
    model = model.eval().requires_grad_(False)
    model, part, calls = attended_part(model, request.part)
    reads = _main_input(model)
    if reads == "pixel_values":
        return vision_checkpoint(model, request.files)
    if reads in SOUNDS:
        return sound_checkpoint(model, reads, part, request.files)
    model.config.use_cache = False  # keys and values of past tokens would only cost memory
    return TransformersCheckpoint(
        files=request.files,
        model=model,
        limit=_position_limit(model),
        vocabulary=_vocabulary(model),
        part=part,
        calls=calls,
        start=start_ids(model, request.files.folder) if part.pairs else (),
    )


def attended_part(model: Any, part: str | None) -> tuple[Any, AttentionPart, CallsOfPart]:
    """Return what has to be run for a part, the part, and which calls of attention belong to it."""
    chosen = _part(model, part)
    if chosen.pairs:
        inside = place_within(model, model.get_decoder())
        return model, chosen, CallsOfPart(inside, chosen.name == "cross")
    inner = _encoder(model) if model.config.is_encoder_decoder else model
    return inner, chosen, CallsOfPart()


def place_within(model: Any, part: Any) -> str:
    """Return what the names of the modules within a part begin with; "." if it is no part."""
    return next((name for name, module in model.named_modules() if module is part), "") + "."


def reads_images_too(model: Any) -> bool:
    """Return whether a network reads texts and images together."""
    given = inspect.signature(model.forward).parameters
    return "input_ids" in given and "pixel_values" in given


def _main_input(model: Any) -> str:
    """Return what a model reads; "input_ids", "pixel_values" or one of `SOUNDS`."""
    given = inspect.signature(model.forward).parameters
    # CLIP and its kin run on both together only.
    if reads_images_too(model) and hasattr(model, "logit_scale"):
        named = " or ".join(f"--model-class {side}" for side in sides(model))
        raise ValueError(
            f"checkpoint must read token ids or images, got both in {type(model).__name__}"
            f"{named and f': name one side ({named})'}"
        )
    known = [name for name in ("input_ids", "pixel_values", *SOUNDS) if name in given]
    if not known:
        raise ValueError(
            f"checkpoint must read token ids, images or sounds, got {type(model).__name__}"
        )
    main: str = getattr(model, "main_input_name", "")
    return main if main in known else known[0]


def _encoder(model: Any) -> Any:
    """Return the encoder, with the configuration of the whole where it has none (FSMT)."""
    encoder = model.get_encoder()
    if not hasattr(encoder, "config"):
        encoder.config = model.config
    return encoder


def _part(model: Any, part: str | None) -> AttentionPart:
    chosen = choose_part(part)
    if part is not None and not model.config.is_encoder_decoder:
        raise ValueError(
            f"part must be left out for a network that is not an encoder-decoder, got {part!r} "
            f"for {type(model).__name__}"
        )
    names = (name.rpartition(".")[2] for name, _ in model.named_modules())
    if chosen.pairs and "decoder" not in names:
        raise ValueError(f"part must be encoder for {type(model).__name__}, got {part!r}")
    return chosen


def _vocabulary(model: Any) -> int:
    """Return the number of token ids; CANINE reads any character of Unicode and counts none."""
    config = model.config.get_text_config()
    size = getattr(config, "vocab_size", None)
    if size is None and config.model_type != "canine":
        raise ValueError(
            f"checkpoint must say its number of token ids (vocab_size), got {type(model).__name__}"
        )
    return sys.maxunicode + 1 if size is None else int(size)


def _position_limit(model: Any) -> int | None:
    """Longest text; the RoBERTa family counts positions from its padding index + 1."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None):
            return int(module.weight.shape[0] - module.padding_idx - 1)
    config = model.config.get_text_config()
    limits = (getattr(config, name, None) for name in _LIMITS)
    limit = next((limit for limit in limits if limit is not None), None)
    return int(limit) if limit and limit > 0 else None


def start_ids(model: Any, folder: Path | None) -> tuple[int, ...]:
    """Return what the decoder reads first, then what every output is made to begin with.

    They are named by the generation_config.json of a folder or else by the configuration of the
    model; none is returned for what neither names.

    Raises
    ------
    ValueError
        If the file is no JSON object.
    """
    generation, config = _generation(folder), model.config
    first, forced = (
        generation.get(name, getattr(config, name, None))
        for name in ("decoder_start_token_id", "forced_bos_token_id")
    )
    if not isinstance(first, int):  # none, or one for each text of a batch
        return ()
    return (first,) if forced is None else (first, int(forced))


def _generation(folder: Path | None) -> Mapping[str, Any]:
    """Return what a folder says on generation."""
    file = None if folder is None else folder / _GENERATION
    if file is None or not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} must be a JSON object, got {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file.name} must be a JSON object, got {type(content).__name__}")
    return content


@dataclass(frozen=True, eq=False, kw_only=True)
class PixelCheckpoint(ImageCheckpoint):
    """A network of transformers that reads images.

    Attributes
    ----------
    order : Tensor or None
        Places of the patches, for a network that would hide a random part of them otherwise.
    """

    order: Tensor | None = None

    def call(self, images: Tensor) -> Any:
        """Run the model on images."""
        if self.order is None:
            return self.model(pixel_values=images)
        return self.model(pixel_values=images, noise=self.order.expand(len(images), -1))


def vision_checkpoint(model: Any, files: CheckpointFiles) -> Checkpoint:
    """Return a model of transformers that reads images, with its preprocessing."""
    config = model.config
    if not hasattr(config, "image_size"):
        raise ValueError(
            f"checkpoint must say the image_size of its images, got {type(model).__name__}"
        )
    height, width = as_pair(config.image_size)
    channels = int(getattr(config, "num_channels", 3))
    patch = as_pair(config.patch_size) if hasattr(config, "patch_size") else None
    patches = 0 if patch is None else (height // patch[0]) * (width // patch[1])
    order = unmasked(model, patches)
    return PixelCheckpoint(
        files=files,
        model=model,
        preprocess=read_preprocessing(files.folder, height=height, width=width, channels=channels),
        shape=(channels, height, width),
        patch=patch,
        order=order,
        notes=() if order is None else (UNMASKED,),
    ).counted()


def unmasked(model: Any, patches: int) -> Tensor | None:
    """Switch off the masking of a network that hides a random part of every image in training.

    Parameters
    ----------
    patches : int
        Of an image.

    Returns
    -------
    Tensor or None
        The noise by which patches are ordered, their own order; None where images are not masked.
    """
    hides = any(
        hasattr(module, "random_masking") and getattr(module, "is_mae", True)
        for module in model.modules()
    )
    if not hides or "noise" not in inspect.signature(model.forward).parameters:
        return None
    model.config.mask_ratio = 0.0
    return torch.arange(patches, dtype=torch.float32)
