"""How a network of Hugging Face transformers is run on its items, whatever file it comes from."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fourierkernels.checkpoints.checkpoint import (
    AttentionPart,
    Checkpoint,
    choose_part,
    token_fields,
)
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.class_hints import sides
from fourierkernels.checkpoints.formats.decoder_starts import start_ids
from fourierkernels.checkpoints.formats.masked_images import unmasked
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.formats.sound_networks import SOUNDS, sound_checkpoint
from fourierkernels.checkpoints.preprocessing import read_preprocessing
from fourierkernels.checkpoints.running import as_pair, image_checkpoint, pad

_LIMITS = ("max_position_embeddings", "max_seq_len")  # the latter of MPT


def transformers_checkpoint(model: Any, request: LoadRequest) -> Checkpoint:
    """Return a model of transformers ready to give what the heads of a part compute."""
    model = model.eval().requires_grad_(False)
    model, chosen, selects = attended_part(model, request.part)
    reads = _main_input(model)
    if reads == "pixel_values":
        return _vision_checkpoint(model, request.files)
    if reads in SOUNDS:
        return sound_checkpoint(model, reads, chosen, request.files)
    model.config.use_cache = False  # keys and values of past tokens would only cost memory
    return Checkpoint(
        files=request.files,
        model=model,
        limit=_position_limit(model),
        vocabulary=_vocabulary(model),
        run=_run_pairs(model) if chosen.pairs else _run_tokens(model),
        selects=selects,
        start=start_ids(model, request.files.folder) if chosen.pairs else (),
        **token_fields(chosen),
    )


def attended_part(model: Any, part: str | None) -> tuple[Any, AttentionPart, Callable[[Any], bool]]:
    """Return what has to be run for a part, the part, and which calls of attention belong to it."""
    chosen = _part(model, part)
    if model.config.is_encoder_decoder and not chosen.pairs:
        model = _encoder(model)
    return model, chosen, _selects(model, chosen)


def _main_input(model: Any) -> str:
    """Return what a model reads; "input_ids", "pixel_values" or one of `SOUNDS`."""
    given = inspect.signature(model.forward).parameters
    both = "input_ids" in given and "pixel_values" in given
    if both and hasattr(model, "logit_scale"):  # CLIP and its kin run on both together only
        named = " or ".join(f"--model-class {one}" for one in sides(model))
        raise ValueError(
            f"checkpoint must read token ids or images, got both in {type(model).__name__}"
            f"{named and f': name one side ({named})'}"
        )
    known = [one for one in ("input_ids", "pixel_values", *SOUNDS) if one in given]
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


def _vision_checkpoint(model: Any, files: CheckpointFiles) -> Checkpoint:
    config = model.config
    if not hasattr(config, "image_size"):
        raise ValueError(
            f"checkpoint must say the image_size of its images, got {type(model).__name__}"
        )
    height, width = as_pair(config.image_size)
    channels = int(getattr(config, "num_channels", 3))
    patch = as_pair(config.patch_size) if hasattr(config, "patch_size") else None
    patches = 0 if patch is None else (height // patch[0]) * (width // patch[1])
    options, notes = unmasked(model, patches)
    read = image_checkpoint(
        model,
        lambda images: model(pixel_values=images, **options(len(images))),
        files=files,
        preprocess=read_preprocessing(files.folder, height=height, width=width, channels=channels),
        shape=(channels, height, width),
        patch=patch,
    )
    return replace(read, notes=notes)


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


def _run_tokens(model: Any) -> Callable[[Sequence[Any]], Any]:
    padding = getattr(model.config, "pad_token_id", None) or 0

    def run(batch: Sequence[Any]) -> Any:
        ids, mask = pad(batch, padding)
        return model(input_ids=ids, attention_mask=mask)

    return run


def _run_pairs(model: Any) -> Callable[[Sequence[Any]], Any]:
    padding = getattr(model.config, "pad_token_id", None) or 0

    def run(batch: Sequence[Any]) -> Any:
        source, mask = pad([pair[0] for pair in batch], padding)
        target, target_mask = pad([pair[1] for pair in batch], padding)
        return model(
            input_ids=source,
            attention_mask=mask,
            decoder_input_ids=target,
            decoder_attention_mask=target_mask,
            use_cache=False,
        )

    return run


def _selects(model: Any, part: AttentionPart) -> Callable[[Any], bool]:
    if not part.pairs:
        return lambda call: not call.cross
    decoder = model.get_decoder()
    inside = next(name for name, module in model.named_modules() if module is decoder) + "."
    cross = part.name == "cross"
    return lambda call: call.name.startswith(inside) and call.cross == cross


def _vocabulary(model: Any) -> int:
    """Return the number of token ids; CANINE reads any character of Unicode and counts none."""
    config = model.config.get_text_config()
    found = getattr(config, "vocab_size", None)
    if found is None and config.model_type != "canine":
        raise ValueError(
            f"checkpoint must say its number of token ids (vocab_size), got {type(model).__name__}"
        )
    return sys.maxunicode + 1 if found is None else int(found)


def _position_limit(model: Any) -> int | None:
    """Longest text; the RoBERTa family counts positions from its padding index + 1."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None):
            return int(module.weight.shape[0] - module.padding_idx - 1)
    config = model.config.get_text_config()
    found = (getattr(config, name, None) for name in _LIMITS)
    limit = next((limit for limit in found if limit is not None), None)
    return int(limit) if limit and limit > 0 else None
