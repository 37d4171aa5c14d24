"""ListOps: nested operations on digits, whose value is to be found.

The grammar and the files are those of ``lra_benchmarks/data/listops.py`` of
https://github.com/google-research/long-range-arena: a digit, or with probability 1/4 an operator
with 2 to 10 arguments, each of them such an expression again, at most 10 deep; expressions are kept
that have more than 500 and fewer than 2,000 tokens. Operators are the least and the largest
argument, the median (of an even number, the mean of the middle two, rounded down) and the sum
modulo 10. Distributed files write each application in parentheses, which are no tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.lra.examples import (
    ArenaData,
    ArenaSplit,
    LineFile,
    Tokens,
    check_splits,
    digest_of,
    index_lines,
    packed,
)

OPERATORS = (b"[MIN", b"[MAX", b"[MED", b"[SM")
END = b"]"
SYMBOLS = (*OPERATORS, END, *(b"%d" % digit for digit in range(10)))
NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS, start=1)}  # 0 is padding
CLASSES = tuple("0123456789")
FILES = {"train": "basic_train.tsv", "valid": "basic_val.tsv", "test": "basic_test.tsv"}
HEADER = b"Source\tTarget"
_LAST_OPERATOR, _END = len(OPERATORS), NUMBERS[END]
_OPERATOR_SHARE = 0.25
_RULE = "listops 1"


@dataclass(frozen=True)
class Grammar:
    """What is drawn; by default as published.

    Attributes
    ----------
    depth, arguments : int
        Deepest expression, and most arguments of an operator.
    shortest, longest : int
        Tokens of an expression are more than the one and fewer than the other.
    """

    depth: int = 10
    arguments: int = 10
    shortest: int = 500
    longest: int = 2000

    def __post_init__(self) -> None:
        check_integer("depth", self.depth)
        check_integer("arguments", self.arguments, least=2)
        check_integer("shortest", self.shortest, least=0)
        check_integer("longest", self.longest, least=self.shortest + 2)


SMALL = Grammar(depth=4, arguments=4, shortest=8, longest=64)
SMALL_COUNTS = {"train": 6000, "valid": 500, "test": 1000}
_SMALL_SEED = 2020


def draw_expressions(grammar: Grammar, rng: np.random.Generator) -> Iterator[tuple[Tokens, int]]:
    """Yield expressions, all of them different, with their values.

    Examples
    --------
    >>> tokens, value = next(draw_expressions(SMALL, np.random.default_rng(0)))
    >>> 8 < len(tokens) < 64, 0 <= value < 10
    (True, True)
    """
    seen: set[bytes] = set()
    while True:
        tokens: list[int] = []
        value = _draw(tokens, 1, grammar, rng)
        found = np.array(tokens, dtype=np.uint8)
        if grammar.shortest < len(tokens) < grammar.longest and found.tobytes() not in seen:
            seen.add(found.tobytes())
            yield found.astype(np.int64), value


def open_small(folder: Path) -> ArenaData:
    """Return short expressions, drawn anew each time, the same ones; `folder` is not used."""
    drawn = draw_expressions(SMALL, np.random.default_rng(_SMALL_SEED))
    splits = {}
    for name, count in SMALL_COUNTS.items():
        pairs = [next(drawn) for _ in range(count)]
        splits[name] = packed([tokens for tokens, _ in pairs], (value for _, value in pairs))
    rule = f"{_RULE} {SMALL} {SMALL_COUNTS} {_SMALL_SEED}"
    return _data("listops_small", str(SMALL), digest_of(rule, ()), splits)


def write_listops(
    folder: Path, counts: dict[str, int], *, grammar: Grammar | None = None, seed: int = 0
) -> None:
    """Write expressions into files as they are distributed, one line at a time.

    Parameters
    ----------
    counts : dict
        Examples of "train", "valid" and "test"; 96,000, 2,000 and 2,000 are published.
    grammar : Grammar, optional
        The published one by default.
    seed : int
        Of the expressions; those of all files are different.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = draw_expressions(grammar or Grammar(), np.random.default_rng(seed))
    for split, count in counts.items():
        with (folder / FILES[split]).open("wb") as file:
            file.write(HEADER + b"\r\n")
            for _ in range(count):
                tokens, value = next(drawn)
                file.write(b" ".join(SYMBOLS[t - 1] for t in tokens) + b"\t%d\r\n" % value)


def has_listops(folder: Path) -> bool:
    """Return whether a folder has a file of ListOps."""
    return any((folder / name).is_file() for name in FILES.values())


def open_listops(folder: Path) -> ArenaData:
    """Return the expressions of three files of lines.

    Raises
    ------
    ValueError
        If a file is missing or empty, or a line is cut off, has an unknown token, brackets that do
        not match, an operator without arguments, or a value that is no digit.
    """
    splits = {}
    for split, name in FILES.items():
        lines, labels, lengths = index_lines(folder / name, check_line, header=HEADER)
        splits[split] = ArenaSplit(labels, lengths, _reader(lines))
    digest = digest_of(_RULE, (folder / name for name in FILES.values()))
    return _data("listops", str(folder), digest, splits)


def check_line(line: bytes, name: str) -> tuple[int, int]:
    """Return the value of a line and the number of its tokens."""
    source, tab, target = line.partition(b"\t")
    if not tab or len(target) != 1 or not target.isdigit():
        raise ValueError(
            f"{name} must be an expression, a tab and a digit, got {line[-20:]!r} at its end"
        )
    tokens = read_expression(source, name)
    return int(target), len(tokens)


def read_expression(source: bytes, name: str) -> Tokens:
    """Return the tokens of an expression.

    Raises
    ------
    ValueError
        If it is not exactly one expression of the grammar.
    """
    words = source.replace(b"(", b" ").replace(b")", b" ").split()
    try:
        tokens = np.array([NUMBERS[word] for word in words], dtype=np.int64)
    except KeyError as error:
        known = " ".join(symbol.decode() for symbol in SYMBOLS)
        raise ValueError(f"{name} must have tokens of {known}, got {error.args[0]!r}") from error
    opens, closes = tokens <= _LAST_OPERATOR, tokens == _END
    depth = np.cumsum(opens.astype(np.int64) - closes)
    if not len(tokens) or depth[-1] != 0 or (depth[:-1] <= 0).any():
        raise ValueError(
            f"{name} must be one expression whose brackets match, got {source[:40]!r}…"
        )
    if (opens[:-1] & closes[1:]).any():
        raise ValueError(f"{name} must have an argument for each operator, got none")
    return tokens


def _draw(tokens: list[int], depth: int, grammar: Grammar, rng: np.random.Generator) -> int:
    """Append an expression to the tokens and return its value."""
    if depth >= grammar.depth or rng.random() > _OPERATOR_SHARE:
        digit = int(rng.integers(10))
        tokens.append(NUMBERS[b"%d" % digit])
        return digit
    operator = int(rng.integers(len(OPERATORS)))
    tokens.append(operator + 1)
    count = int(rng.integers(2, grammar.arguments + 1))
    values = [_draw(tokens, depth + 1, grammar, rng) for _ in range(count)]
    tokens.append(_END)
    return _VALUES[operator](values)


def _median(values: list[int]) -> int:
    ordered, middle = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) // 2


_VALUES = (min, max, _median, lambda values: sum(values) % 10)


def _reader(lines: LineFile) -> Callable[[int], tuple[Tokens, ...]]:
    def opened(place: int) -> tuple[Tokens, ...]:
        source = lines.line(place).partition(b"\t")[0]
        return (read_expression(source, f"example {place + 1} of {lines.path}"),)

    return opened


def _data(corpus: str, source: str, digest: str, splits: dict[str, ArenaSplit]) -> ArenaData:
    check_splits(source, splits)
    return ArenaData("listops", corpus, source, digest, CLASSES, len(SYMBOLS) + 1, splits)
