"""The tokenizer of a checkpoint: its own, or one that the user names."""

from pathlib import Path
from typing import Any

import transformers

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.offline import offline_and_quiet, one_line
from fourierkernels.checkpoints.subwords import run_tokenizer
from fourierkernels.checkpoints.tokens import (
    SPLITTERS,
    Tokenizer,
    ids_tokenizer,
    list_tokenizer,
    token_choices,
)
from fourierkernels.checkpoints.word_lists import (
    has_subwords,
    word_ids_tokenizer,
    word_tokenizer,
)
from fourierkernels.validation import check_choice

TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_NO_LIMIT = 10**6  # transformers writes 1e30 where a tokenizer declares no limit


def load_tokenizer(checkpoint: Checkpoint, *, tokens: str = "auto") -> Tokenizer:
    """Return the tokenizer that turns texts into ids for a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        Returned by :func:`~fourierkernels.checkpoints.load.load_checkpoint`.
    tokens : str
        "auto" for the tokenizer in the checkpoint's folder or the subwords of its training run,
        "ids" for texts that already are ids,
        or a key of :data:`~fourierkernels.checkpoints.tokens.SPLITTERS`, which splits texts into
        tokens of the folder's vocab.txt, or of the checkpoint's list of words if it has one.

    Raises
    ------
    ValueError
        If the files of a tokenizer are missing or cannot be read.
    """
    check_choice("tokens", tokens, token_choices())
    if checkpoint.words is not None:
        size = checkpoint.vocabulary or 0
        if tokens == "ids":
            return word_ids_tokenizer(checkpoint.words, size=size)
        return word_tokenizer(checkpoint.words, tokens, size=size)
    if tokens == "ids":
        return ids_tokenizer()
    files = checkpoint.files
    if tokens == "auto" and files is not None and files.run is not None and has_subwords(files):
        return run_tokenizer(files.run, size=checkpoint.vocabulary or 0)
    if checkpoint.folder is None:
        raise ValueError(
            "checkpoint must lie in a folder with its tokenizer, "
            f"got {checkpoint.name}: {_advice()}"
        )
    if tokens in SPLITTERS:
        return list_tokenizer(checkpoint.folder / "vocab.txt", tokens)
    return _folder_tokenizer(checkpoint.folder)


def _folder_tokenizer(folder: Path) -> Tokenizer:
    # Without any of these files, transformers would return an empty tokenizer.
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ValueError(
            f"checkpoint must hold a tokenizer ({', '.join(TOKENIZER_FILES)}), "
            f"got none in {folder.name}: {_advice()}"
        )
    with offline_and_quiet(), one_line(f"tokenizer of {folder.name} cannot be read; {_advice()}"):
        found = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        prefix, suffix = _special_tokens(found)
        target = _target_tokens(found)
    limit = found.model_max_length if found.model_max_length < _NO_LIMIT else None
    return Tokenizer(
        # verbose=False: long texts are cut into windows here, so its warning would mislead
        encode=lambda text: list(found(text, add_special_tokens=False, verbose=False)["input_ids"]),
        prefix=prefix,
        suffix=suffix,
        unknown=found.unk_token_id,
        limit=limit,
        names=lambda ids: tuple(map(str, found.convert_ids_to_tokens(list(ids)))),
        special=frozenset(found.all_special_ids) - {found.unk_token_id},
        mask=found.mask_token_id,
        target=target,
    )


def _advice() -> str:
    return f"name a way to split (--tokens {' or '.join(SPLITTERS)}) or give ids (--ids FILE)"


def _target_tokens(found: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the ids around a target; None if its language is not known."""
    try:
        return _special_tokens(found, "text_target")
    except Exception:  # whatever a tokenizer raises without its tgt_lang
        return None


def _special_tokens(found: Any, side: str = "text") -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that a tokenizer puts before and after a text, found with one letter."""
    bare = list(found(**{side: "a"}, add_special_tokens=False)["input_ids"])
    full = list(found(**{side: "a"})["input_ids"])
    starts = range(len(full) - len(bare) + 1)
    start = next(i for i in starts if full[i : i + len(bare)] == bare)
    return tuple(full[:start]), tuple(full[start + len(bare) :])
