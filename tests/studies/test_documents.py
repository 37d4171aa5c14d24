"""Documents are read, cut, paired and masked as it is said, without ever being held in memory."""

import gzip
import json
import math
import tracemalloc
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from study_modules import study_module
from tiny_documents import LENGTH, SIZE, document, document_ends, read_tiny, write_documents
from training_runs import error_of

from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.epochs import FeistelOrder
from fourierkernels.studies.masked import documents
from fourierkernels.studies.masked.document_files import (
    DocumentFiles,
    build_document_files,
    open_document_files,
)
from fourierkernels.studies.masked.documents import DocumentSource
from fourierkernels.studies.masked.drawn import NAMES, VALUES, drawn_lines
from fourierkernels.studies.masked.masking import NOTHING, example, guesses, sequence
from fourierkernels.studies.masked.measurement import MaskedUpdates, Measurement
from fourierkernels.studies.masked.pieces import (
    FIRST,
    MARKS,
    MASK,
    PADDING,
    SEPARATOR,
    UNKNOWN,
    Pieces,
    learn_pieces,
)
from fourierkernels.studies.masked.segments import SegmentPairs
from fourierkernels.studies.masked.sets import DOCUMENTS, read_documents


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("documents"))


@pytest.fixture(scope="module")
def files(folder: Path, cache: Path) -> DocumentFiles:
    return read_tiny(folder, cache)


def updates(files: DocumentFiles, **changes: object) -> MaskedUpdates:
    return MaskedUpdates(
        files, **{"steps": 40, "batch": 4, "seed": 0, "wrong": "other_document"} | changes
    )


# --- readers ---------------------------------------------------------------------------------


def test_blank_lines_divide_documents(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        text = "\n\n\ufeffone  two\n\n \nthree\r\nfour\n\n"
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    found = list(documents.open_texts(tmp_path).lines("train"))
    assert found == [(0, "one two"), (1, "three"), (1, "four")]


def test_a_file_is_a_document_where_there_are_many(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"a{number}\n\nb{number}\n")
    source = documents.open_texts(tmp_path)
    texts = [list(source.lines(split)) for split in ("train", "valid", "test")]
    assert [[number for number, _ in found] for found in texts] == [[0, 0, 1, 1], [0, 0], [0, 0]]
    lines = [line for found in texts for _, line in found]
    assert sorted(lines) == sorted(f"{part}{number}" for part in "ab" for number in range(4))


def test_an_article_of_wikitext_begins_with_its_title(tmp_path: Path) -> None:
    text = " = One = \n \n a b \n = = Section = = \n c \n = Two = \n d \n"
    for name in ("train", "valid", "test"):
        (tmp_path / f"wiki.{name}.tokens").write_text(text)
    lines = list(documents.open_wikitext(tmp_path).lines("valid"))
    assert [number for number, _ in lines] == [0, 0, 0, 0, 1, 1]
    assert lines[4] == (1, "= Two =")


def test_pages_of_c4_are_documents_and_its_validation_is_shared(tmp_path: Path) -> None:
    for name, count in (("train", 2), ("validation", 4)):
        rows = [json.dumps({"text": f"{name} {i}\nline"}) for i in range(count)]
        with gzip.open(tmp_path / f"c4-{name}.00000-of-00001.json.gz", "wt") as out:
            out.write("\n".join(rows) + "\n")
    source = documents.open_c4(tmp_path)
    assert list(source.lines("train")) == [
        (0, "train 0"),
        (0, "line"),
        (1, "train 1"),
        (1, "line"),
    ]
    assert [line for _, line in source.lines("valid")] == [
        "validation 0",
        "line",
        "validation 2",
        "line",
    ]
    assert next(source.lines("test")) == (1, "validation 1")
    with gzip.open(tmp_path / "c4-train.00001-of-00001.json.gz", "wt") as out:
        out.write('{"text": 3}\n')
    message = error_of(lambda: list(documents.open_c4(tmp_path).lines("train")))
    assert "must have a page on each line, as JSON, got line 1" in message


def test_bad_texts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("a b\nc d\n")
    (tmp_path / "train.txt").write_bytes(b"caf\xe9 au lait\nx\n")
    assert "must be UTF-8 text, got line 1" in error_of(lambda: read_tiny(tmp_path, tmp_path / "c"))
    monkeypatch.setattr(documents, "LONGEST_LINE", 10)
    (tmp_path / "train.txt").write_text("short\n" + 80 * "a" + "\n")
    assert "characters, a sentence or a paragraph each, got a longer one: line 2" in error_of(
        lambda: read_tiny(tmp_path, tmp_path / "c")
    )
    assert not [path for path in (tmp_path / "c").glob("*") if path.is_dir()]


def test_documents_that_cannot_be_paired_are_refused(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("alone here\n\nalone there\n")
    message = error_of(lambda: read_tiny(tmp_path, tmp_path / "c", size=30))
    assert message == (
        "ValueError: train text must have a document of at least two lines, "
        "got 2 documents of 2 lines in all"
    )
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("one line here\nanother line there\n")
    alone = read_tiny(tmp_path, tmp_path / "c", size=30)
    assert "train text must have at least two documents, from one of which" in error_of(
        lambda: updates(alone)
    )
    assert len(updates(alone, wrong="swapped")) == 160
    (tmp_path / "train.txt").write_text("\n \n")
    assert "training text must have lines, got none" in error_of(
        lambda: read_tiny(tmp_path, tmp_path / "c")
    )


def test_a_corpus_from_outside_is_a_row(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    lines = [(number, line) for number in range(9) for line in document(rng)]
    source = DocumentSource("mine", "mine", lambda split: iter(lines))
    row = DataSet(title="", source="", layout="", open=lambda folder: source, needs_folder=False)
    monkeypatch.setitem(DOCUMENTS, "mine", row)
    assert read_documents("mine", size=SIZE, length=LENGTH, folder=cache).documents["test"] == 9


def test_manuals_can_be_fetched_as_documents(tmp_path: Path, cache: Path) -> None:
    with study_module("data_manuals", threads=False) as fetching:
        pages = [[f"page {page} begins", f"page {page} ends"] for page in range(60)]
        fetching.write(tmp_path / "apart", pages, {}, documents=True)
        fetching.write(tmp_path / "joined", pages, {})
    assert read_tiny(tmp_path / "apart", cache, size=40).documents["train"] == 54
    assert read_tiny(tmp_path / "joined", cache, size=40).documents["train"] == 1


# --- subwords --------------------------------------------------------------------------------


def test_texts_never_become_marks_and_come_back(files: DocumentFiles) -> None:
    (ids,) = files.pieces.encode(["[MASK] the cat <pad> [SEP] sees"])
    assert not set(ids) & {PADDING, FIRST, SEPARATOR, MASK}
    (ids,) = files.pieces.encode(["the cat sees"])
    assert files.pieces.decode([FIRST, *ids, SEPARATOR]) == "the cat sees"
    assert files.vocabulary.words[: len(MARKS)] == MARKS
    assert 0 in files.pieces.encode(["中"])[0]


def test_learning_is_deterministic_and_says_what_it_cannot(tmp_path: Path) -> None:
    lines = document(np.random.default_rng(0), 50)
    assert learn_pieces(lines, 40).model == learn_pieces(lines, 40).model
    assert "vocabulary must have room for the characters of the text, got 9" in error_of(
        lambda: learn_pieces(lines, 9)
    )
    (tmp_path / "x").write_bytes(b"no model")
    assert "must be a file of SentencePiece" in error_of(lambda: Pieces.load(tmp_path / "x"))
    assert "subwords must be a file of SentencePiece" in error_of(
        lambda: Pieces.load(tmp_path / "y")
    )


# --- files -----------------------------------------------------------------------------------


def test_spans_are_whole_lines_of_one_document_that_fit(files: DocumentFiles) -> None:
    for split in ("train", "valid", "test"):
        lines, ends = files.line_ends(split), document_ends(files, split)
        starts = np.concatenate([[0], lines[:-1]])
        last = 0
        for first, after, own in files.span_rows(split).tolist():
            assert last <= first <= after - 2
            assert lines[after - 1] - starts[first] <= files.length - 3
            assert (ends[own - 1] if own else 0) <= first
            assert after <= ends[own]
            last = after
        total = files.counts[split] - files.left_out[split]
        spans = files.span_rows(split)
        assert (lines[spans["last"] - 1] - starts[spans["first"]]).sum() == total
        assert len(files.tokens(split)) == lines[-1]


def test_long_lines_are_cut_and_counted(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        text = " ".join(document(np.random.default_rng(0), 12)) + "\nshort\n\nshort\nshort\n"
        (tmp_path / f"{name}.txt").write_text(text)
    found = read_tiny(tmp_path, tmp_path / "c", length=16)
    assert found.cut == {"train": 1, "valid": 1, "test": 1}
    assert np.diff(found.line_ends("train"), prepend=0).max() <= (16 - 3) // 2


def test_damaged_files_are_told(folder: Path, tmp_path: Path) -> None:
    found = read_tiny(folder, tmp_path)
    (found.folder / "train.spans").write_bytes(b"cut")
    assert "delete" in error_of(lambda: read_tiny(folder, tmp_path).span_rows("train"))
    (found.folder / "tokens.json").write_text("{}")
    assert "must hold token files" in error_of(lambda: open_document_files(found.folder))


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    lines = document(np.random.default_rng(0), 40)

    def source(count: int) -> DocumentSource:
        def read(split: str):
            repeats = count if split == "train" else 1
            return ((i // 8, lines[i % 40]) for i in range(8 * repeats))

        return DocumentSource(str(count), str(count), read)

    def peak(count: int) -> int:
        place = tmp_path / str(count)
        tracemalloc.start()
        try:
            build_document_files("x", source(count), size=SIZE, length=32, folder=place)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    small, large = peak(2_000), peak(8_000)
    assert large < 1.3 * small


# --- pairs, masks, order -----------------------------------------------------------------------


def test_half_of_the_segments_do_not_come_next(files: DocumentFiles) -> None:
    pairs = SegmentPairs(files, "train", wrong="other_document")
    rng = np.random.default_rng(0)
    ends = np.concatenate([[0], files.line_ends("train")])
    bounds = np.concatenate([[0], document_ends(files, "train")])
    wrong = 0
    for place in range(600):
        span = place % len(pairs)
        draw = pairs.draw(span, rng)
        first, last, own = files.span_rows("train")[span].item()
        assert draw.first[0] == ends[first]
        assert draw.size <= files.length
        inside = bool(ends[bounds[own]] <= draw.second[0] < ends[bounds[own + 1]])
        assert inside is not draw.wrong
        assert draw.second[1] > draw.second[0]
        if not draw.wrong:
            assert draw.first[1] == draw.second[0]
            assert draw.second[1] <= ends[last]
        wrong += draw.wrong
    assert abs(wrong / 600 - 0.5) < 4 * 0.5 / 600**0.5


def test_length_of_a_sequence_does_not_tell_what_comes_next(files: DocumentFiles) -> None:
    """A wrong segment is as long as the right one behind the same lines."""
    pairs = SegmentPairs(files, "train", wrong="other_document")
    for span in range(len(pairs)):
        draws = [pairs.draw(span, np.random.default_rng(seed)) for seed in range(16)]
        divisions = {draw.first for draw in draws}
        assert len({(draw.first, draw.size) for draw in draws}) == len(divisions)


def test_segments_change_places_as_in_the_published_code(files: DocumentFiles) -> None:
    pairs = SegmentPairs(files, "train", wrong="swapped")
    for seed in range(20):
        draw = pairs.draw(3, np.random.default_rng(seed))
        before, after = sorted((draw.first, draw.second))
        assert before[1] == after[0]
        assert draw.wrong is (draw.first == after)


def test_eight_tenths_are_masked_one_replaced_one_kept(files: DocumentFiles) -> None:
    pairs, text = SegmentPairs(files, "train", wrong="swapped"), files.tokens("train")
    rng, size = np.random.default_rng(0), len(files.pieces)
    masked = kept = total = 0
    for place in range(1500):
        draw = pairs.draw(place % len(pairs), rng)
        tokens, segments = sequence(text, draw)
        found = example(text, draw, size, rng)
        assert len(found.places) == guesses(len(tokens))
        assert len(set(found.places.tolist())) == len(found.places)
        assert (tokens[found.places] == found.words).all()
        others = np.setdiff1d(np.arange(len(tokens)), found.places)
        assert (found.tokens[others] == tokens[others]).all()
        assert not set(found.words.tolist()) & {FIRST, SEPARATOR, PADDING}
        assert tokens[0] == FIRST
        assert (tokens == SEPARATOR).sum() == 2
        assert segments.sum() == len(tokens) - tokens.tolist().index(SEPARATOR) - 1
        read = found.tokens[found.places]
        assert ((read >= len(MARKS)) | (read == MASK) | (read == found.words)).all()
        masked, kept = masked + (read == MASK).sum(), kept + (read == found.words).sum()
        total += len(read)
    error = 4 * 0.5 / total**0.5
    assert masked / total == pytest.approx(0.8, abs=error)
    assert kept / total == pytest.approx(0.1 + 0.1 / (size - len(MARKS)), abs=error)


@pytest.mark.parametrize("count", [1, 2, 5, 64, 1000])
def test_shuffled_order_is_a_permutation(count: int) -> None:
    orders = [[FeistelOrder(count, seed)(place) for place in range(count)] for seed in (0, 1)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert count < 10 or orders[0] != orders[1]


def test_shuffled_places_are_even() -> None:
    """Over many orders, each item comes equally often at a place."""
    counts = np.bincount([FeistelOrder(6, seed)(2) for seed in range(6000)], minlength=6)
    assert (abs(counts - 1000) < 5 * 1000**0.5).all()


def test_each_span_comes_once_in_an_epoch(files: DocumentFiles) -> None:
    data = updates(files, batch=1)
    spans = files.spans["train"]
    starts = [data._draw(place)[0].first[0] for place in range(2 * spans)]
    assert len(set(starts[:spans])) == len(set(starts[spans:])) == spans
    assert starts[:spans] != starts[spans:]
    assert data.updates_per_epoch == spans


def test_sequences_follow_from_seed_and_place_alone(files: DocumentFiles) -> None:
    whole = updates(files).__getitems__(range(8, 12))
    fresh = updates(files)
    fresh.__getitems__(range(100, 104))
    parts = [fresh.__getitems__([place]) for place in (11, 8, 9, 10)]
    for name in ("tokens", "segments", "places", "words", "wrong"):
        found = {place: part[name] for place, part in zip((11, 8, 9, 10), parts, strict=True)}
        for row, place in enumerate(range(8, 12)):
            assert (whole[name][row] == found[place][0]).all()
    assert (updates(files, seed=1).__getitems__(range(8, 12))["tokens"] != whole["tokens"]).any()
    shares = [float(part["guessed"]) for part in parts]
    assert shares == pytest.approx(4 * [float(whole["guessed"]) / 4])
    assert float(whole["guessed"]) == (whole["words"] != NOTHING).sum()
    assert "indices must be of one update, got those of 2" in error_of(
        lambda: fresh.__getitems__([3, 4])
    )


def test_measurement_is_the_same_for_all_runs_and_shared_by_processes(
    files: DocumentFiles,
) -> None:
    held = Measurement(files, "test", wrong="other_document")
    (whole,) = held.batches(1000)
    (again,) = Measurement(files, "test", wrong="other_document").batches(1000)
    assert all((whole[name] == again[name]).all() for name in whole)
    parts = [next(held.batches(1000, (process, 3))) for process in range(3)]
    assert sum(len(part["wrong"]) for part in parts) == len(held)
    assert (parts[1]["tokens"] == whole["tokens"][1::3]).all()
    assert held.guessed == (whole["words"] != NOTHING).sum()
    assert len(Measurement(files, "test", wrong="swapped", most=2)) == 2


def test_padding_is_behind_and_nothing_is_guessed_there(files: DocumentFiles) -> None:
    (batch,) = Measurement(files, "test", wrong="other_document").batches(1000)
    assert batch["tokens"].shape[1] == files.length
    padding = batch["tokens"] == PADDING
    assert padding.any()
    assert (padding.int().diff(dim=1) >= 0).all()
    guessed = batch["words"] != NOTHING
    assert not padding.gather(1, batch["places"])[guessed].any()
    assert (batch["segments"][padding] == 0).all()


# --- drawn documents -------------------------------------------------------------------------


def test_drawn_values_follow_from_one_word_of_their_line() -> None:
    lines = list(drawn_lines("valid"))
    assert lines[:20] == list(islice(drawn_lines("valid"), 20)) != list(drawn_lines("test"))[:20]
    assert [number for number, _ in lines] == np.repeat(range(1_000), 2).tolist()
    for _, text in lines:
        words = text.split()
        value = {word[0]: word[1] for word in words[:8]}
        assert words[8:] == [value[name] for name in NAMES]


def test_other_lines_and_places_tell_no_drawn_value() -> None:
    lines = [text.split() for _, text in drawn_lines("train")][:8_000]
    first, second = lines[::2], lines[1::2]
    assert all(
        [word[0] for word in a[:8]] == [word[0] for word in b[:8]]
        for a, b in zip(first, second, strict=True)
    )
    expected = 1 / VALUES
    for place in range(8, 16):
        same = np.mean([a[place] == b[place] for a, b in zip(first, second, strict=True)])
        assert abs(same - expected) < 5 * math.sqrt(expected / len(first))
    for place in range(8):  # the name is one of eight, and only then the value is its own
        same = np.mean([words[place][1] == words[8] for words in lines])
        chance = 1 / 8 + 7 / 8 * expected
        assert abs(same - chance) < 5 * math.sqrt(chance / len(lines))


def test_drawn_words_are_kept_whole(cache: Path) -> None:
    drawn = read_documents("drawn-documents", size=150, length=36, folder=cache)
    assert sum(drawn.unknown.values()) == sum(drawn.left_out.values()) == 0
    assert drawn.spans == drawn.documents
    line = next(drawn_lines("test"))[1]
    (numbers,) = drawn.pieces.encode([line])
    assert len(numbers) == len(line.split())
    assert drawn.pieces.decode(numbers) == line
    small = learn_pieces(["a b", "a c", "a b"], size=len(MARKS) + 2, whole=True)
    assert small.encode(["c a d b"]) == [[UNKNOWN, len(MARKS), UNKNOWN, len(MARKS) + 1]]
