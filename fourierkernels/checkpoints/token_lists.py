"""Plain lists of tokens, as vocab.txt and vocab.json hold them."""

import json
from pathlib import Path


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
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} must be JSON, got one that fails: {error}") from error
    tokens = _in_order(found) if isinstance(found, dict) else found
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(
            f"{file.name} must hold tokens and their ids 0, 1, 2, ..., got {str(found)[:40]!r}"
        )
    return tuple(tokens)


def _in_order(found: dict[str, object]) -> list[str] | None:
    """Return tokens in the order of their ids; None if these are not 0, 1, 2, ..."""
    by_id = {number: token for token, number in found.items() if type(number) is int}
    if len(by_id) != len(found) or set(by_id) != set(range(len(found))):
        return None
    return [by_id[number] for number in range(len(found))]
