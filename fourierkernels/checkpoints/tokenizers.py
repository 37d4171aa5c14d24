"""The tokenizer of a checkpoint: its own, or one that the user names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import transformers

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.contexts import offline_and_quiet, one_line
from fourierkernels.checkpoints.tokenizer_places import (
    as_folder,
    find_list,
    find_tokenizer,
    tokenizer_advice,
)
from fourierkernels.checkpoints.tokens import SPLITTERS, Tokenizer, ids_tokenizer, token_choices
from fourierkernels.checkpoints.vocabularies import list_tokenizer, run_tokenizer
from fourierkernels.checkpoints.word_lists import has_subwords, word_ids_tokenizer, word_tokenizer
from fourierkernels.foundation.validation import check_choice

_NO_LIMIT = 10**6  # transformers writes 1e30 where a tokenizer declares no limit


def load_tokenizer(checkpoint: Checkpoint, *, tokens: str = "auto") -> Tokenizer:
    """Return the tokenizer that turns texts into ids for a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        Returned by :func:`~fourierkernels.checkpoints.load.load_checkpoint`. The tokenizer that it
        was loaded with goes first; then those of its folder and of the folder above, which a note
        says.
    tokens : str
        "auto" for the tokenizer of the checkpoint or the subwords of its training run, or the one
        given with a model in memory,
        "ids" for texts that already are ids,
        or a key of :data:`~fourierkernels.checkpoints.tokens.SPLITTERS`, which splits texts into
        tokens of a vocab.txt or vocab.json, or of the checkpoint's list of words if it has one.

    Raises
    ------
    ValueError
        If the files of a tokenizer are missing or cannot be read.
    """
    check_choice("tokens", tokens, token_choices())
    if checkpoint.tokenizer is not None and tokens == "auto":
        return checkpoint.tokenizer
    if checkpoint.words is not None:
        size = checkpoint.vocabulary or 0
        if tokens == "ids":
            return word_ids_tokenizer(checkpoint.words, size=size)
        return word_tokenizer(checkpoint.words, tokens, size=size)
    files, named = checkpoint.files, checkpoint.tokenizer_path
    if tokens == "ids":
        if named is None:
            return ids_tokenizer()
        return _ids_of(read_tokenizer(named, _config(checkpoint.model)))
    if tokens in SPLITTERS:
        place = find_list(files, named)
        return replace(list_tokenizer(place.path, tokens), note=place.note)
    if named is None and files is not None and files.run is not None and has_subwords(files):
        return run_tokenizer(files.run, size=checkpoint.vocabulary or 0)
    place = find_tokenizer(files, named)
    config = None if place.path == checkpoint.folder else _config(checkpoint.model)
    return replace(read_tokenizer(place.path, config), note=place.note)


def _ids_of(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of ids that are displayed as the tokens of another."""
    return replace(
        ids_tokenizer(), names=tokenizer.names, special=tokenizer.special, mask=tokenizer.mask
    )


def _config(model: Any) -> Any:
    """Return what tells transformers the class of a tokenizer whose files do not name it."""
    config = getattr(model, "config", None)
    return config if isinstance(config, transformers.PreTrainedConfig) else None


def read_tokenizer(place: Path, config: Any = None) -> Tokenizer:
    """Return the tokenizer of a folder or file that has one of transformers' names.

    Parameters
    ----------
    config : PreTrainedConfig, optional
        That of the network, which tells transformers its class where the files do not.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    rule = f"tokenizer of {place.name} cannot be read; {tokenizer_advice()}"
    kind = {} if config is None else {"config": config}
    with offline_and_quiet(), one_line(rule), as_folder(place) as folder:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **kind
        )
        # Of files that are not those of its class, transformers makes an empty tokenizer.
        if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
            raise ValueError(f"{type(tokenizer).__name__} finds no tokens in {place.name}")
        return as_tokenizer(tokenizer)


def as_tokenizer(tokenizer: Any) -> Tokenizer:
    """Return a tokenizer of transformers as this package reads texts with it."""
    prefix, suffix = _special_tokens(tokenizer)
    target = _target_tokens(tokenizer)
    limit = tokenizer.model_max_length if tokenizer.model_max_length < _NO_LIMIT else None
    return Tokenizer(
        # verbose=False: long texts are cut into windows here, so its warning would mislead
        encode=lambda text: list(
            tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        ),
        prefix=prefix,
        suffix=suffix,
        unknown=tokenizer.unk_token_id,
        limit=limit,
        names=lambda ids: tuple(map(str, tokenizer.convert_ids_to_tokens(list(ids)))),
        special=frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id},
        mask=tokenizer.mask_token_id,
        target=target,
    )


def _target_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the ids around a target; None if its language is not known."""
    try:
        return _special_tokens(tokenizer, "text_target")
    except Exception:  # whatever a tokenizer raises without its tgt_lang
        return None


def _special_tokens(tokenizer: Any, side: str = "text") -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that a tokenizer puts before and after a text, found with one letter."""
    bare = list(tokenizer(**{side: "a"}, add_special_tokens=False)["input_ids"])
    full = list(tokenizer(**{side: "a"})["input_ids"])
    starts = range(len(full) - len(bare) + 1)
    start = next(i for i in starts if full[i : i + len(bare)] == bare)
    return tuple(full[:start]), tuple(full[start + len(bare) :])
