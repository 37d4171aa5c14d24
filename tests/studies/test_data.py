"""Readers: what is read is what the published code reads, and bad data is one clear error."""

import gzip
import json
import math
import multiprocessing
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training_runs import number_and_wait, read_texts, start

from fourierkernels.foundation import files
from fourierkernels.foundation.files import write_folder
from fourierkernels.foundation.words import Vocabulary
from fourierkernels.studies.engine.data_sets import find_row
from fourierkernels.studies.language import corpora
from fourierkernels.studies.language.corpora import CORPORA, read_corpus
from fourierkernels.studies.language.recall_text import GIVEN, VALUES, recall_lines
from fourierkernels.studies.masked.sets import DOCUMENTS
from fourierkernels.studies.texts.plain import text_files, words_of
from fourierkernels.studies.texts.token_files import (
    build_token_files,
    count_words,
    open_token_files,
)

LINES = {
    "train": " = Title = \n \n The cat sat , the <unk> Cat . \n the cat \n",
    "valid": " = the = \n \n",
    "test": "the cat\n",
}


@pytest.fixture
def wikitext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny text in the layout of WikiText-103, whose counts are those of the row."""
    folder = tmp_path / "wikitext-103"
    folder.mkdir()
    for split, text in LINES.items():
        (folder / f"wiki.{split}.tokens").write_text(text)
    counts = {"train": 17, "valid": 5, "test": 3}
    row = replace(CORPORA["wikitext-103"], counts=counts)
    monkeypatch.setitem(corpora.CORPORA, "wikitext-103", row)
    return folder


def test_wikitext_is_read_as_the_published_code_reads_it(wikitext: Path, tmp_path: Path) -> None:
    """<eos> after every line, empty ones too; capitals stay; vocabulary by falling frequency."""
    files = read_corpus(wikitext, folder=tmp_path / "cache")
    words = files.vocabulary.words
    assert words[0] == "<eos>"
    assert words[1:] == ("=", "cat", "the", "Title", "The", "sat", ",", "<unk>", "Cat", ".")
    text = [words[i] for i in files.tokens("train")]
    assert text[:5] == ["=", "Title", "=", "<eos>", "<eos>"]
    assert text[-3:] == ["the", "cat", "<eos>"]
    assert [words[i] for i in files.tokens("valid")] == ["=", "the", "=", "<eos>", "<eos>"]
    assert read_corpus(wikitext.parent, folder=tmp_path / "cache").digest == files.digest


def named(wikitext: Path, name: str, ending: str, *, packed: bool = False) -> Path:
    """Copy the files of WikiText under another name, with another ending, packed."""
    folder = wikitext.parent / "copies" / name
    folder.mkdir(parents=True)
    for split, text in LINES.items():
        content = text.encode()
        file = folder / f"wiki.{split}.{ending}{'.gz' if packed else ''}"
        file.write_bytes(gzip.compress(content) if packed else content)
    return folder


def test_packed_wikitext_is_that_of_its_files(wikitext: Path, tmp_path: Path) -> None:
    whole = read_corpus(wikitext, folder=tmp_path / "cache")
    for name in ("wikitext-103", "other"):
        packed = read_corpus(
            named(wikitext, name, "tokens", packed=True), folder=tmp_path / "cache"
        )
        assert (packed.corpus, packed.counts) == ("wikitext-103", whole.counts)
        assert packed.vocabulary == whole.vocabulary


def test_a_part_of_wikitext_is_read_and_never_taken_for_it(wikitext: Path, tmp_path: Path) -> None:
    folder = named(wikitext, "articles", "tokens")
    (folder / "wiki.train.tokens").write_text(LINES["train"][:-10])
    with pytest.warns(UserWarning, match=r"17 tokens, got 14: .*articles is read as a part"):
        part = read_corpus(folder, folder=tmp_path / "cache")
    assert (part.corpus, part.counts["train"]) == ("wikitext-part", 14)
    assert corpora.splitting(part.corpus) == {"splitter": "whitespace", "blank_lines": True}
    again = folder.rename(folder.with_name("wikitext-1"))
    assert read_corpus(again, folder=tmp_path / "cache").corpus == "wikitext-part"


@pytest.mark.parametrize("packed", [False, True])
def test_raw_wikitext_is_read_and_rare_words_are_unknown(
    packed: bool, wikitext: Path, tmp_path: Path
) -> None:
    folder = named(wikitext, "wikitext-103-raw", "raw", packed=packed)
    for place in (folder, folder.parent):
        found = read_corpus(place, folder=tmp_path / "cache")
        assert (found.corpus, found.source) == ("wikitext-raw", "wikitext-103-raw")
        assert found.counts == {"train": 17, "valid": 5, "test": 3}
        assert found.vocabulary.words == (
            "<eos>",
            "<unk>",
        )  # no word of so small a text comes 3 times
    name, place = find_row(DOCUMENTS, folder)
    assert (name, len(list(DOCUMENTS[name].open(place).lines("train")))) == ("wikitext-articles", 3)


def test_packed_texts_are_those_that_are_not(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder in (plain, packed):
        folder.mkdir()
        for split in ("train", "valid", "test"):
            content = f"the cat sat on the mat, the {split} cat\n".encode() * 3
            packs = folder is packed
            file = folder / (f"{split}.txt.gz" if packs else f"{split}.txt")
            file.write_bytes(gzip.compress(content) if packs else content)
    one, other = (read_corpus(folder, folder=tmp_path / "cache") for folder in (plain, packed))
    assert (one.vocabulary, one.counts) == (other.vocabulary, other.counts)
    shutil.copy(packed / "train.txt.gz", packed / "more.txt.gz")
    for split in ("train", "valid", "test"):
        (packed / f"{split}.txt.gz").rename(packed / f"book of {split}.txt.gz")
    assert read_corpus(packed, folder=tmp_path / "cache").corpus == "text"


def test_text_that_is_there_packed_too_is_read_once(tmp_path: Path) -> None:
    for number in range(6):
        content = f"text number {number}\n".encode()
        (tmp_path / f"{number}.txt").write_bytes(content)
        (tmp_path / f"{number}.txt.gz").write_bytes(gzip.compress(content))
    paths = [path.name for split in text_files(tmp_path).values() for path in split]
    assert sorted(paths) == [f"{number}.txt" for number in range(6)]


def test_byte_order_mark_is_no_word(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("the cat\n" * 3, encoding="utf-8-sig")
    found = read_corpus(tmp_path, folder=tmp_path / "cache")
    assert found.vocabulary.words == ("<eos>", "<unk>", "the", "cat")
    assert found.counts == dict.fromkeys(("train", "valid", "test"), 9)


def test_truncated_wikitext_is_recognised_by_its_count(wikitext: Path, tmp_path: Path) -> None:
    (wikitext / "wiki.train.tokens").write_text(LINES["train"][:-10])
    with pytest.raises(ValueError, match="train text of wikitext-103 must have 17 tokens, got 14"):
        read_corpus(wikitext, folder=tmp_path / "cache")


def spoil(name: str, folder: Path) -> None:
    file = folder / "wiki.valid.tokens"
    changes: dict[str, Callable[[], object]] = {
        "missing": file.unlink,
        "empty": lambda: file.write_text(""),
        "latin": lambda: file.write_bytes("caf\xe9".encode("latin-1")),
        "binary": lambda: file.write_bytes(b"the\0cat\n"),
        "renamed": lambda: [path.rename(path.with_suffix(".bak")) for path in folder.iterdir()],
    }
    changes[name]()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "must have wiki.valid.tokens, got wiki.test.tokens, wiki.train.tokens"),
        ("empty", "wiki.valid.tokens must have text, got an empty file"),
        ("latin", "wiki.valid.tokens must be UTF-8 text, got line 1"),
        ("binary", "wiki.valid.tokens must be text, got a zero byte in line 1"),
        ("renamed", "data must be a folder that a reader knows .* got .* with wiki.test.bak"),
    ],
)
def test_bad_wikitext_is_one_clear_error(
    name: str, message: str, wikitext: Path, tmp_path: Path
) -> None:
    spoil(name, wikitext)
    with pytest.raises(ValueError, match=message):
        read_corpus(wikitext, folder=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*")) if (tmp_path / "cache").exists() else True


@pytest.mark.parametrize("data", ["no such folder", "wikitext-103", ""])
def test_data_that_are_no_folder_are_refused(data: str, tmp_path: Path) -> None:
    named = data or tmp_path / "missing"
    with pytest.raises(ValueError, match="data must be a folder or one of python, recall, got"):
        read_corpus(named, folder=tmp_path)


def test_folder_with_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"got .*empty with nothing in it"):
        read_corpus(tmp_path / "empty")


def test_plain_text_keeps_marks_as_words_and_replaces_rare_ones(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a b, a.\na b c\n a, b.\n.\n,\n")
    files = read_corpus(tmp_path, folder=tmp_path / "cache")
    assert files.vocabulary.words == ("<eos>", "<unk>", "a", "b", ",", ".")
    assert files.unknown == {"train": 1, "valid": 1, "test": 1}
    assert files.corpus == "text"
    assert read_corpus(tmp_path, most=4, folder=tmp_path / "cache").vocabulary.words[2:] == (
        "a",
        "b",
    )


def test_one_of_three_files_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a")
    with pytest.raises(ValueError, match=r"must have valid.txt, test.txt beside train.txt"):
        read_corpus(tmp_path)


def test_many_files_are_split_by_file_whatever_their_order(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"page word word {number}\n")
    first = read_corpus(tmp_path, folder=tmp_path / "cache")
    assert first.counts == {"train": 36 * 5, "valid": 2 * 5, "test": 2 * 5}
    copy = tmp_path / "copy"
    copy.mkdir()
    for number in reversed(range(40)):
        shutil.copy(tmp_path / f"{number}.txt", copy)
    assert read_corpus(copy, folder=tmp_path / "cache").digest == first.digest


def test_too_few_files_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("a\n")
    with pytest.raises(ValueError, match=r"or at least three .txt files, got 2"):
        read_corpus(tmp_path)


def test_word_outside_the_vocabulary_needs_an_unknown() -> None:
    vocabulary = count_words([["a", "b"]])
    with pytest.raises(ValueError, match=r"words must be in the vocabulary .* got 'c'"):
        vocabulary.encode(["a", "c"])
    assert count_words([["a", "b", "a"]], most=3).encode(["a", "b"]) == [2, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a\nb", "end with a whole line"), (b"\xff\n", "must be UTF-8"), (b"a\na\n", "different")],
)
def test_damaged_vocabulary_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Vocabulary.load(tmp_path / "vocabulary.txt")


def test_vocabulary_survives_the_disk(tmp_path: Path) -> None:
    words = ("<eos>", "a", "\u2028", "\x85", "é")  # what splitlines would split at
    Vocabulary(words).save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt").words == words


@pytest.mark.parametrize("words", [3, 100_000])
def test_numbers_are_those_of_the_words(words: int, tmp_path: Path) -> None:
    """More than 65,536 words need wider numbers."""
    text = [str(i) for i in np.random.default_rng(0).integers(0, words, 200_000)]
    lines = [text[i : i + 100] for i in range(0, len(text), 100)]
    files = build_token_files("x", "x", lambda split: lines, digest="x", folder=tmp_path)
    found = files.tokens("train")
    expected = [word for line in lines for word in [*line, "<eos>"]]
    assert [files.vocabulary.words[i] for i in found] == expected
    assert found.dtype.itemsize == (2 if words == 3 else 4)
    assert isinstance(found, np.memmap)


def test_corpus_larger_than_memory_is_never_held(tmp_path: Path) -> None:
    """Fifteen million bytes of text, and as many words as fill 24, pass through eight of memory."""
    line = [f"w{i % 1000}" for i in range(1000)]

    def lines(split: str) -> object:
        return (line for _ in range(3_000 if split == "train" else 2))

    tracemalloc.start()
    files = build_token_files("x", "x", lines, digest="x", folder=tmp_path)  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tokens = files.tokens("train")
    assert len(tokens) == 3_000 * 1_001
    assert sum(len(word) + 1 for word in line) * 3_000 > 14e6
    assert peak < 8e6


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train.bin", b"", r"train.bin must hold 9 numbers, got 0 bytes; delete .* built again"),
        ("tokens.json", b"{", r"must hold token files with their tokens.json, got .*; delete it"),
        ("tokens.json", b"{}", "must hold token files"),
        ("vocabulary.txt", b"a", "must end with a whole line"),
    ],
)
def test_damaged_token_files_are_refused(
    name: str, damage: bytes, message: str, tmp_path: Path
) -> None:
    lines = [["a", "b"]] * 3
    files = build_token_files("x", "x", lambda split: lines, digest="x", folder=tmp_path)
    (files.folder / name).write_bytes(damage)
    with pytest.raises(ValueError, match=message):
        open_token_files(files.folder).tokens("train")


def test_token_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    def lines(split: str) -> list[list[str]]:
        return [["a", "b"]] if split != "test" else []

    with pytest.raises(ValueError, match="test text must have at least two words, got 0"):
        build_token_files("x", "x", lines, digest="x", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(
    texts: Path, tmp_path: Path
) -> None:
    queue = multiprocessing.get_context("forkserver").Queue()
    process = start(number_and_wait, tmp_path, queue)
    try:
        assert queue.get(timeout=60) == "at work"
        (left,) = tmp_path.iterdir()
        read_corpus(texts, folder=tmp_path)
        assert left.is_dir()
        assert {path.name for path in left.iterdir()} >= {"train.bin", "valid.bin"}
    finally:
        process.kill()
        process.join()
    assert left.is_dir()
    read_corpus(texts, most=100, folder=tmp_path)
    assert not left.exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_folder_that_is_taken_for_a_left_one_before_it_is_locked_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = files._lock, []

    def late(folder: Path, *, wait: bool) -> int | None:
        if not taken:
            taken.append(folder)
            files.remove_unfinished(tmp_path)
        return lock(folder, wait=wait)

    monkeypatch.setattr(files, "_lock", late)
    write_folder(tmp_path / "a", lambda folder: (folder / "x").touch())
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "x"]
    assert len(taken) == 1


def test_processes_may_read_the_same_text_at_once(texts: Path, tmp_path: Path) -> None:
    processes = [start(read_texts, texts, tmp_path) for _ in range(3)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_text_of_python_is_real_and_needs_no_folder(tmp_path: Path) -> None:
    files = read_corpus("python", most=5000, folder=tmp_path)
    assert files.source.startswith("Python 3.")
    assert files.counts["train"] > 300_000
    assert min(files.counts["valid"], files.counts["test"]) > 5_000
    assert files.unknown["train"] < 0.05 * files.counts["train"]
    assert "the" in files.vocabulary.words[:20]


def test_corpus_can_be_added_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(CORPORA["text"].open(_texts(tmp_path)), name="mine")
    row = replace(CORPORA["text"], recognises=lambda folder: True, open=lambda folder: source)
    monkeypatch.setattr(corpora, "CORPORA", {"mine": row, **CORPORA})
    files = read_corpus(tmp_path, folder=tmp_path / "cache")
    assert (files.corpus, files.source) == ("mine", "mine")
    assert json.loads((files.folder / "tokens.json").read_text())["corpus"] == "mine"


def _texts(folder: Path) -> Path:
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("a a a b b b\n")
    return folder


def test_punctuation_is_split_off() -> None:
    assert words_of("x_1 = f(y)  # done") == ["x_1", "=", "f", "(", "y", ")", "#", "done"]


def test_drawn_lines_ask_for_the_names_that_they_give() -> None:
    lines = list(recall_lines("valid"))
    assert len(lines) == 800
    assert lines == list(recall_lines("valid"))
    assert lines[:20] != list(recall_lines("test"))[:20]
    for words in lines:
        given = dict(word.split("=") for word in words[:GIVEN])
        asked = {
            name.removesuffix("?"): value
            for name, value in zip(words[GIVEN::2], words[GIVEN + 1 :: 2], strict=True)
        }
        assert given == asked
        assert len(given) == GIVEN


def test_places_tell_no_answer_of_drawn_lines() -> None:
    lines = list(recall_lines("train"))[:4_000]
    for place in range(GIVEN):
        for asked in range(GIVEN):
            pairs = [(w[place][-1], w[GIVEN + 2 * asked + 1]) for w in lines]
            same = sum(given == answer for given, answer in pairs) / len(pairs)
            expected = 1 / GIVEN + (1 - 1 / GIVEN) / VALUES  # the same name, or another's value
            assert abs(same - expected) < 5 * math.sqrt(expected * (1 - expected) / len(pairs))
