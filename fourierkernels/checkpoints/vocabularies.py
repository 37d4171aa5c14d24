"""Vocabularies in files: plain lists of tokens, and the subwords of a training run.

They are read without what trained them.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.tokens import SPLITTERS, Tokenizer
from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.run_folder import PIECES, SUBWORDS
from fourierkernels.foundation.words import MARKS, PIECE_MARKS, UNKNOWN

UNKNOWN_TOKEN = "[UNK]"
MASK_TOKEN = "[MASK]"
FIRST_TOKEN = "[CLS]"
LAST_TOKEN = "[SEP]"


def list_tokenizer(vocabulary: Path, splitter: str) -> Tokenizer:
    """Return the tokenizer of a list of tokens, one per line; the line number is the id.

    A list of characters need not have ``[UNK]``: then every character must be in it.

    Parameters
    ----------
    vocabulary : Path
        See :func:`read_token_list`.

    Raises
    ------
    ValueError
        If the file is missing or has no token ``[UNK]`` or ``<unk>``.
    """
    if not vocabulary.is_file():
        raise ValueError(f"tokens={splitter!r} needs a list of tokens, got no file {vocabulary}")
    lines = read_token_list(vocabulary)
    known = {token: number for number, token in enumerate(lines)}
    unknown = next((known[token] for token in (UNKNOWN_TOKEN, UNKNOWN) if token in known), None)
    if unknown is None and splitter != "characters":
        raise ValueError(f"{vocabulary.name} must hold {UNKNOWN_TOKEN}, got {len(known)} others")
    pattern = re.compile(SPLITTERS[splitter])

    def encode(text: str) -> list[int]:
        ids = [known.get(token, unknown) for token in pattern.findall(text)]
        if None in ids:
            raise ValueError(
                f"characters must be in {vocabulary.name}, which has no {UNKNOWN_TOKEN}, got "
                f"{next(token for token in pattern.findall(text) if token not in known)!r}"
            )
        return [i for i in ids if i is not None]

    prefix = tuple(known[token] for token in (FIRST_TOKEN,) if token in known)
    suffix = tuple(known[token] for token in (LAST_TOKEN,) if token in known)
    return Tokenizer(
        encode=encode,
        prefix=prefix,
        suffix=suffix,
        unknown=unknown,
        mask=known.get(MASK_TOKEN),
        names=lambda ids: tuple(lines[i] for i in ids),
        special=frozenset(prefix + suffix),
    )


def read_token_list(file: Path) -> tuple[str, ...]:
    """Return the tokens of a list by their ids.

    Parameters
    ----------
    file : Path
        One token per line, whose number from 0 is its id; or, for .json, an object of tokens and
        ids, or an array of tokens.

    Raises
    ------
    ValueError
        If the file is not UTF-8, or the JSON is no such list: ids must be 0, 1, 2, ..., each once.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name} must be UTF-8, got {error}") from error
    if file.suffix != ".json":
        return tuple(line.rstrip("\r") for line in text.split("\n"))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} must be JSON, got one that fails: {error}") from error
    tokens = _in_order(content) if isinstance(content, dict) else content
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(
            f"{file.name} must hold tokens and their ids 0, 1, 2, ..., got {str(content)[:40]!r}"
        )
    return tuple(tokens)


def _in_order(ids: dict[str, object]) -> list[str] | None:
    """Return tokens in the order of their ids; None if these are not 0, 1, 2, ..."""
    by_id = {number: token for token, number in ids.items() if type(number) is int}
    if len(by_id) != len(ids) or set(by_id) != set(range(len(ids))):
        return None
    return [by_id[number] for number in range(len(ids))]


def run_tokenizer(run: Path, *, size: int) -> Tokenizer:
    """Return the tokenizer of a run of translation or of masked pre-training.

    Raises
    ------
    ValueError, ImportError
        As for :func:`subword_tokenizer`.
    """
    if (run / PIECES).is_file():
        return piece_tokenizer(run / PIECES, size=size)
    return subword_tokenizer(run / SUBWORDS, size=size)


def piece_tokenizer(file: Path, *, size: int) -> Tokenizer:
    """Return the tokenizer of a file of SentencePiece, whose texts stand between two marks.

    Raises
    ------
    ValueError, ImportError
        As for :func:`subword_tokenizer`.
    """
    with needed_for("a vocabulary of subwords"):
        import sentencepiece
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())
        count: int = processor.get_piece_size()
    except RuntimeError as error:
        raise ValueError(f"{file} must be a file of SentencePiece, got {error}") from error
    marks = tuple(processor.id_to_piece(list(range(min(count, len(PIECE_MARKS))))))
    if marks != PIECE_MARKS or count != size:
        raise ValueError(
            f"{file} must have the {size} subwords of the network, {', '.join(PIECE_MARKS)} first, "
            f"got {count} after {', '.join(marks)}"
        )
    first, separator, mask = (PIECE_MARKS.index(name) for name in ("[CLS]", "[SEP]", "[MASK]"))
    return Tokenizer(
        encode=lambda text: list(processor.encode(text)),
        prefix=(first,),
        suffix=(separator,),
        unknown=0,
        names=lambda ids: tuple(map(str, processor.id_to_piece([int(i) for i in ids]))),
        special=frozenset(range(1, len(PIECE_MARKS))),
        mask=mask,
    )


def subword_tokenizer(file: Path, *, size: int) -> Tokenizer:
    """Return the tokenizer of a file of subwords, whose sentences stand between two marks.

    Parameters
    ----------
    size : int
        Number of subwords that the network knows.

    Raises
    ------
    ValueError
        If the file is damaged, of another size, or has other marks.
    ImportError
        If tokenizers is missing.
    """
    tokenizer = _read(file)
    if tokenizer.get_vocab_size() != size:
        raise ValueError(
            f"{file} must have the {size} subwords of the network, got {tokenizer.get_vocab_size()}"
        )
    padding, start, stop, unknown = range(len(MARKS))
    return Tokenizer(
        encode=partial(_ids, tokenizer),
        prefix=(start,),
        suffix=(stop,),
        unknown=unknown,
        names=lambda ids: tuple(map(str, map(tokenizer.id_to_token, ids))),
        special=frozenset({padding, start, stop}),
    )


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _read(file: Path) -> Any:
    """Return the tokenizer in a JSON file; no code is run."""
    with needed_for("a vocabulary of subwords"):
        import tokenizers
    try:
        tokenizer = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except Exception as error:  # tokenizers raises nothing more exact
        raise ValueError(f"{file} must be a file of subwords, got {error}") from error
    marks = tuple(tokenizer.id_to_token(number) for number in range(len(MARKS)))
    if marks != MARKS:
        raise ValueError(f"{file} must begin with {', '.join(MARKS)}, got {marks}")
    tokenizer.encode_special_tokens = True  # text that looks like a mark is text
    return tokenizer
