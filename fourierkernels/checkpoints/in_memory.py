"""A model in memory as a checkpoint: measured where it is, with the weights that it has now.

Building the checkpoint and running it change the model, so both belong inside
:func:`~fourierkernels.checkpoints.contexts.left_as_it_was`.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from torch import nn

from fourierkernels.checkpoints.batches import Row
from fourierkernels.checkpoints.checkpoint import AttentionPart, Checkpoint, choose_part
from fourierkernels.checkpoints.contexts import device_of, offline_and_quiet
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.batch_networks import (
    TRIED,
    BatchCheckpoint,
    part_with_images,
)
from fourierkernels.checkpoints.formats.installed_models import token_network
from fourierkernels.checkpoints.formats.package_models import ADAPTERS
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.formats.transformers_networks import (
    CallsOfPart,
    attended_part,
    reads_images_too,
    transformers_checkpoint,
)
from fourierkernels.checkpoints.recorders.call import watched_modules
from fourierkernels.checkpoints.tokenizer_places import TOKENIZER_FILES, check_tokenizer, holds
from fourierkernels.checkpoints.tokenizers import as_tokenizer, read_tokenizer
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.models import MODELS

_NOWHERE = Path(os.devnull)  # neither a folder nor in one of a training run


def model_checkpoint(
    model: nn.Module, *, tokenizer: Tokenizer | None = None, part: str | None = None
) -> Checkpoint:
    """Return a model in memory that reads texts, pairs of texts, or images in files.

    Parameters
    ----------
    model : nn.Module
        A model of transformers or of this package, or one that takes token ids as its one
        positional argument.
    tokenizer : Tokenizer, optional
    part : str, optional
        See :func:`~fourierkernels.checkpoints.load.load_checkpoint`.

    Raises
    ------
    ValueError
        If the model reads something else.
    """
    checkpoint = replace(_as_checkpoint(model.eval(), part), files=None, tokenizer=tokenizer)
    if checkpoint.body is not None:
        body = replace(checkpoint.body, files=None, tokenizer=tokenizer)
        checkpoint = replace(checkpoint, body=body)
    again = partial(model_checkpoint, tokenizer=tokenizer, part=part)
    placed = checkpoint.on_device(device_of(model))
    return replace(placed, redraw=_redraw(model, _body(model), again))


def batch_checkpoint(
    model: nn.Module, first: Row, *, tokenizer: Tokenizer | None = None, part: str | None = None
) -> Checkpoint:
    """Return a model in memory that is given the rows of ready batches.

    Parameters
    ----------
    first : Row
        The model is run on it, to see that rows are what it attends within.
    tokenizer : Tokenizer, optional
        For the names of tokens.

    Raises
    ------
    ValueError
        If the model cannot be run on it, has no attention, or attends across rows.
    """
    model.eval().requires_grad_(False)
    inner, chosen, calls = _runner(model, part)
    bare = BatchCheckpoint(files=None, model=model, inner=inner, part=chosen, calls=calls)
    placed = bare.on_device(device_of(model)).with_tokens_of(first)
    tried = first if placed.added is None else placed.beginning(first, TRIED)
    again = partial(batch_checkpoint, first=first, tokenizer=tokenizer, part=part)
    known = tokenizer or Tokenizer(encode=lambda text: [])
    sides = tuple(map(len, bare.sides(tried)))
    return replace(
        placed,
        redraw=_redraw(model, model, again),
        tokenizer=known if sides == placed.span(tried) else None,
    )


def unwrapped(model: nn.Module) -> nn.Module:
    """Return a model itself, out of what compiles it or spreads it over devices.

    Raises
    ------
    TypeError
        If it is a script of torch.jit.
    """
    next(watched_modules(model))
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    inner = (
        model.module if isinstance(model, wrappers) else vars(model)["_modules"].get("_orig_mod")
    )
    return unwrapped(inner) if isinstance(inner, nn.Module) else model


def model_tokenizer(model: nn.Module, given: Any = None) -> Tokenizer | None:
    """Return the tokenizer of a model in memory: the given one, or that of its ``name_or_path``.

    The latter is a folder or a name in the local cache of Hugging Face; nothing is downloaded.

    Parameters
    ----------
    given : tokenizer or processor of transformers, Tokenizer, str or Path, optional
        A path is that of a folder or a file.

    Returns
    -------
    Tokenizer or None
        None if there is none.

    Raises
    ------
    TypeError
        If something else is given.
    ValueError
        If its files cannot be read.
    """
    if given is None:
        folder = _local_folder(model)
        return None if folder is None else read_tokenizer(folder)
    if isinstance(given, Tokenizer):
        return given
    if isinstance(given, str | Path):
        return read_tokenizer(check_tokenizer(given))
    tokenizer = getattr(given, "tokenizer", given)  # of a processor
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        raise TypeError(
            "tokenizer must be a tokenizer of transformers or its folder, "
            f"got {type(given).__name__}"
        )
    return as_tokenizer(tokenizer)


def _local_folder(model: nn.Module) -> Path | None:
    """Return the folder with the tokenizer of a model, if its name leads to one."""
    name = getattr(model, "name_or_path", None)
    if not isinstance(name, str) or not name:
        return None
    if Path(name).is_dir():
        return Path(name) if holds(Path(name)) else None
    try:
        places = [huggingface_hub.try_to_load_from_cache(name, file) for file in TOKENIZER_FILES]
    except ValueError:  # not a name of the Hub
        return None
    return next((Path(place).parent for place in places if isinstance(place, str)), None)


def _as_checkpoint(model: nn.Module, part: str | None) -> Checkpoint:
    name = type(model).__name__
    folder = _local_folder(model)
    files = CheckpointFiles(name, _NOWHERE if folder is None else folder)
    request = LoadRequest(files, model_class=name, part=part)
    if isinstance(model, transformers.PreTrainedModel):
        whole = transformers_checkpoint(model, request)
        body = _body(model)
        return (
            whole if body is model else replace(whole, body=transformers_checkpoint(body, request))
        )
    model.requires_grad_(False)
    if _is_ours(model) and name in ADAPTERS:
        return ADAPTERS[name](model, request)
    request.refuse_part()
    return token_network(model, files, name)


def _is_ours(model: nn.Module) -> bool:
    row = MODELS.get(type(model).__name__)
    return row is not None and type(model) is row.build


def _body(model: nn.Module) -> nn.Module:
    """Return the model of transformers without the head for its task, or any other as it is."""
    body = getattr(model, "base_model", model)
    kind = transformers.PreTrainedModel
    return body if isinstance(model, kind) and isinstance(body, kind) else model


def _redraw(
    model: nn.Module, kind: nn.Module, again: Callable[[nn.Module], Checkpoint]
) -> Callable[[int], Checkpoint] | None:
    """Return how to draw the architecture of `kind` anew; None if there is no rule for it."""
    ours = MODELS.get(type(kind).__name__) if _is_ours(kind) else None
    if ours is None and not isinstance(kind, transformers.PreTrainedModel):
        return None

    def build() -> nn.Module:
        if ours is not None:
            return ours.build(ours.find(kind), **ours.options(kind))
        owner: Any = type(kind)
        made: nn.Module = owner._from_config(copy.deepcopy(kind.config), dtype=torch.float32)
        return made

    def draw(seed: int) -> Checkpoint:
        with offline_and_quiet(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            drawn = build()
        return again(drawn.to(next(model.parameters())))

    return draw


def _runner(model: nn.Module, part: str | None) -> tuple[nn.Module, AttentionPart, CallsOfPart]:
    """Return what is run on rows, the part of the model, and which calls belong to it."""
    if isinstance(model, transformers.PreTrainedModel):
        model.config.use_cache = False  # keys and values of past tokens would only cost memory
        joint = reads_images_too(model) and not model.config.is_encoder_decoder
        if part is not None and joint:
            return model, *part_with_images(model, part)
        return attended_part(model, part)
    chosen = choose_part(part)
    if part is not None:
        raise ValueError(f"part must be left out for {type(model).__name__}, got {part!r}")
    return model, chosen, CallsOfPart()
