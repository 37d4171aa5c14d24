"""Tokenizers out of the folder of a checkpoint."""

from pathlib import Path
from typing import Any

import transformers

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.tokens import (
    SPLITTERS,
    TOKENS,
    Tokenizer,
    ids_tokenizer,
    list_tokenizer,
)
from fourierkernels.checkpoints.transformers_models import offline_and_quiet, one_line
from fourierkernels.validation import check_choice

TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_NO_LIMIT = 10**6  # transformers writes 1e30 where a tokenizer declares no length
_ADVICE = f"name a way to split (--tokens {' or '.join(SPLITTERS)}) or give ids (--ids FILE)"


def load_tokenizer(checkpoint: Checkpoint, *, tokens: str = "auto") -> Tokenizer:
    """Return how texts become ids for a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`load_checkpoint` returned.
    tokens : str
        "auto" for the checkpoint's own tokenizer, "ids" for texts that already are ids, or a key
        of :data:`fourierkernels.checkpoints.tokens.SPLITTERS` together with its vocab.txt.

    Raises
    ------
    ValueError
        If the files of a tokenizer are missing or cannot be read.
    """
    check_choice("tokens", tokens, TOKENS)
    if tokens == "ids":
        return ids_tokenizer()
    if checkpoint.folder is None:
        raise ValueError(
            f"checkpoint must lie in a folder with its tokenizer, got {checkpoint.name}: {_ADVICE}"
        )
    if tokens in SPLITTERS:
        return list_tokenizer(checkpoint.folder / "vocab.txt", tokens)
    return _own_tokenizer(checkpoint.folder)


def _own_tokenizer(folder: Path) -> Tokenizer:
    # Without any of these files transformers makes up an empty tokenizer.
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ValueError(
            f"checkpoint must hold a tokenizer ({', '.join(TOKENIZER_FILES)}), "
            f"got none in {folder.name}: {_ADVICE}"
        )
    with offline_and_quiet(), one_line(f"tokenizer of {folder.name} cannot be read; {_ADVICE}"):
        own = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        prefix, suffix = _special_tokens(own)
    limit = own.model_max_length if own.model_max_length < _NO_LIMIT else None
    return Tokenizer(
        # verbose=False: long texts are cut into windows here, its warning would mislead
        encode=lambda text: list(own(text, add_special_tokens=False, verbose=False)["input_ids"]),
        prefix=prefix,
        suffix=suffix,
        unknown=own.unk_token_id,
        limit=limit,
        names=lambda ids: tuple(map(str, own.convert_ids_to_tokens(list(ids)))),
        special=frozenset(own.all_special_ids) - {own.unk_token_id},
        mask=own.mask_token_id,
    )


def _special_tokens(own: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what a tokenizer puts before and after a text, read off a text of one letter."""
    bare = list(own("a", add_special_tokens=False)["input_ids"])
    full = list(own("a")["input_ids"])
    starts = range(len(full) - len(bare) + 1)
    start = next(i for i in starts if full[i : i + len(bare)] == bare)
    return tuple(full[:start]), tuple(full[start + len(bare) :])
