"""Nothing but its words tells a wrong next segment: no rule on lengths, ends or tokens is right."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binomtest
from tiny_documents import document_ends
from training_runs import error_of

from fourierkernels.studies.masked import segments
from fourierkernels.studies.masked.document_files import DocumentFiles, build_document_files
from fourierkernels.studies.masked.documents import DocumentSource
from fourierkernels.studies.masked.segments import Draw, SegmentPairs

DRAWS = 6_000
WORDS = ["sea", "stone", "under", "wind", "rises", "slowly", "the", "old", "birds", "over", "water"]


class Shape(NamedTuple):
    """A text: places of a sequence, and from a document to the words of its lines."""

    length: int
    words: Callable[[np.random.Generator], int]
    documents: int = 60


# Those of the presets tiny and small, lines of very different lengths, few documents.
SHAPES = {
    "tiny": Shape(64, lambda rng: int(rng.integers(4, 14))),
    "small": Shape(128, lambda rng: int(rng.integers(6, 18))),
    "uneven": Shape(64, lambda rng: int(np.exp(rng.uniform(0, 4)))),
    "few": Shape(64, lambda rng: int(rng.integers(2, 20)), documents=5),
}


def text(shape: Shape, seed: int = 0) -> Iterator[tuple[int, str]]:
    """Yield lines, most of which end in a full stop; each document has a length of its own."""
    rng = np.random.default_rng(seed)
    for document in range(shape.documents):
        scale = rng.uniform(0.6, 1.4)
        for _ in range(int(rng.integers(8, 60))):
            words = rng.choice(WORDS, max(int(scale * shape.words(rng)), 1))
            yield document, " ".join(words) + rng.choice([".", ".", ".", ":"])


def files_of(shape: Shape, folder: Path) -> DocumentFiles:
    source = DocumentSource("made", repr(shape.documents), lambda split: text(shape))
    return build_document_files("made", source, size=60, length=shape.length, folder=folder)


@pytest.fixture(scope="module", params=SHAPES)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return files_of(SHAPES[request.param], tmp_path_factory.mktemp(request.param))


def draws_of(files: DocumentFiles, count: int = DRAWS) -> list[Draw]:
    pairs, rng = SegmentPairs(files, "train", wrong="other_document"), np.random.default_rng(1)
    return [pairs.draw(place % len(pairs), rng) for place in range(count)]


def features(files: DocumentFiles, draws: list[Draw]) -> dict[str, list[object]]:
    """Return what rules can look at: line ends, lengths, tokens at the ends, marks in B."""
    tokens, ends = np.array(files.tokens("train")), set(files.line_ends("train").tolist())
    (stop,) = files.pieces.encode(["a."])[0][-1:]
    sides = [(draw.first, draw.second) for draw in draws]
    sizes = [(a[1] - a[0], b[1] - b[0]) for a, b in sides]
    return {
        "B ends a line": [b[1] in ends for _, b in sides],
        "length of A": [a for a, _ in sizes],
        "length of B": [b for _, b in sizes],
        "length of both": [a + b for a, b in sizes],
        "both lengths": list(sizes),
        "first token of B": [int(tokens[b[0]]) for _, b in sides],
        "last token of B": [int(tokens[b[1] - 1]) for _, b in sides],
        "last token and length of B": [
            (int(tokens[b[1] - 1]), n) for (_, b), (_, n) in zip(sides, sizes, strict=True)
        ],
        "full stops in B": [int((tokens[slice(*b)] == stop).sum()) for _, b in sides],
        "lines that end in B": [
            sum(p in ends for p in range(b[0] + 1, b[1] + 1)) for _, b in sides
        ],
    }


def hits(values: list[object], labels: list[bool]) -> tuple[int, int]:
    """Return how often the best rule on half of the values is right on the others, and of how many.

    The rule has an answer for each value that it has met; values that are new are not judged.
    """
    half, votes = len(values) // 2, dict[object, int]()
    for value, label in zip(values[:half], labels[:half], strict=True):
        votes[value] = votes.get(value, 0) + (1 if label else -1)
    judged = [
        (votes[v] > 0) is label
        for v, label in zip(values[half:], labels[half:], strict=True)
        if votes.get(v)
    ]
    return sum(judged), len(judged)


def test_no_rule_on_lengths_ends_or_tokens_beats_chance(files: DocumentFiles) -> None:
    draws = draws_of(files)
    labels = [draw.wrong for draw in draws]
    found = {name: hits(values, labels) for name, values in features(files, draws).items()}
    for name, (right, judged) in found.items():
        assert binomtest(right, judged, 0.5, alternative="greater").pvalue > 1e-4, (name, found)


class Scripted:
    """Gives the numbers that it is told to, whatever they are drawn from."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = iter(numbers)

    def integers(self, *bounds: int) -> int:
        return next(self._numbers)


def test_a_continuation_is_wrong_exactly_as_often_as_it_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rotation leads the shares of all draws to as large shares of other documents."""
    monkeypatch.setattr(segments, "_MASS", 60)
    made = files_of(SHAPES["few"], tmp_path)
    table = SegmentPairs(made, "train", wrong="other_document")._table(0)
    pools, masses = table._pools, table._masses
    for turn in ("smallest", "largest"):
        wrong = np.zeros_like(masses)
        for own, mass in enumerate(masses.tolist()):
            most, total = int(pools.largest[pools.pool[own]]), int(pools.total[pools.pool[own]])
            shift = most if turn == "smallest" else total - most
            for inside in range(mass):
                wrong[table.other(own, Scripted(inside, shift))] += 1  # type: ignore[arg-type]
        assert (wrong == masses).all()


def test_segments_have_whole_lines_where_a_pool_has_one_length(files: DocumentFiles) -> None:
    """What is cut off is little, and as much from right as from wrong continuations."""
    ends, spans = files.line_ends("train"), files.span_rows("train")
    pairs, rng = SegmentPairs(files, "train", wrong="other_document"), np.random.default_rng(2)
    cut = total = 0
    for place in range(len(pairs)):
        draw = pairs.draw(place, rng)
        if not draw.wrong:
            cut += int(ends[spans[place]["last"] - 1]) - draw.second[1]
            total += draw.second[1] - draw.second[0]
    assert cut < 0.15 * total


def test_wrong_segments_are_of_another_document_in_large_texts_too(
    files: DocumentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "ONE_TABLE", 10)
    monkeypatch.setattr(segments, "SMALL_TABLE", 20)
    bounds = files.line_ends("train")[document_ends(files, "train") - 1]
    for draw in draws_of(files, 400):
        one, other = (
            int(np.searchsorted(bounds, side[0], "right")) for side in (draw.first, draw.second)
        )
        assert (one == other) is not draw.wrong


def test_a_document_of_more_than_half_of_the_text_is_refused(tmp_path: Path) -> None:
    def lines(split: str) -> Iterator[tuple[int, str]]:
        return ((document, line) for document, line in text(SHAPES["tiny"]) if document < 2)

    source = DocumentSource("two", "two", lines)
    made = build_document_files("two", source, size=60, length=64, folder=tmp_path)
    assert "train text must have documents none of which has more than half of it" in error_of(
        lambda: SegmentPairs(made, "train", wrong="other_document")
    )
    assert len(SegmentPairs(made, "train", wrong="swapped")) == made.spans["train"]
