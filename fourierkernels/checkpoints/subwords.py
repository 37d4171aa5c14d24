"""The subwords of a training run: the file in its folder, read without what trained it."""

from functools import partial
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.run_folder import PIECES, SUBWORDS
from fourierkernels.foundation.words import MARKS, PIECE_MARKS


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
        found = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())
        count: int = found.get_piece_size()
    except RuntimeError as error:
        raise ValueError(f"{file} must be a file of SentencePiece, got {error}") from error
    marks = tuple(found.id_to_piece(list(range(min(count, len(PIECE_MARKS))))))
    if marks != PIECE_MARKS or count != size:
        raise ValueError(
            f"{file} must have the {size} subwords of the network, {', '.join(PIECE_MARKS)} first, "
            f"got {count} after {', '.join(marks)}"
        )
    first, separator, mask = (PIECE_MARKS.index(name) for name in ("[CLS]", "[SEP]", "[MASK]"))
    return Tokenizer(
        encode=lambda text: list(found.encode(text)),
        prefix=(first,),
        suffix=(separator,),
        unknown=0,
        names=lambda ids: tuple(map(str, found.id_to_piece([int(i) for i in ids]))),
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
    found = _read(file)
    if found.get_vocab_size() != size:
        raise ValueError(
            f"{file} must have the {size} subwords of the network, got {found.get_vocab_size()}"
        )
    padding, start, stop, unknown = range(len(MARKS))
    return Tokenizer(
        encode=partial(_ids, found),
        prefix=(start,),
        suffix=(stop,),
        unknown=unknown,
        names=lambda ids: tuple(map(str, map(found.id_to_token, ids))),
        special=frozenset({padding, start, stop}),
    )


def _ids(found: Any, text: str) -> list[int]:
    ids: list[int] = found.encode(text, add_special_tokens=False).ids
    return ids


def _read(file: Path) -> Any:
    """Return the tokenizer in a JSON file; no code is run."""
    with needed_for("a vocabulary of subwords"):
        import tokenizers
    try:
        found = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except Exception as error:  # tokenizers raises nothing more exact
        raise ValueError(f"{file} must be a file of subwords, got {error}") from error
    marks = tuple(found.id_to_token(number) for number in range(len(MARKS)))
    if marks != MARKS:
        raise ValueError(f"{file} must begin with {', '.join(MARKS)}, got {marks}")
    found.encode_special_tokens = True  # text that looks like a mark is text
    return found
