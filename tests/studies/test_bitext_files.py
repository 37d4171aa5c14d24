"""Splits, subwords and mapped files of pairs."""

import json
import random
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from tiny_bitext import lines, tiny_files, write_lines

from fourierkernels.studies.translation import building
from fourierkernels.studies.translation.bpe import Bpe, learn_bpe
from fourierkernels.studies.translation.corpora import open_bitext, read_bitext
from fourierkernels.studies.translation.pair_files import INDEX, Shards, open_pair_files
from fourierkernels.studies.translation.pairs import Pair
from fourierkernels.studies.translation.splitting import (
    COPY,
    CROSSED,
    TEST,
    TRAIN,
    VALID,
    crossing,
    masked,
    random_split,
    split_pairs,
    survey,
)

PAIRS = [Pair(*line) for line in lines(2000)]


def crossing_slowly(pairs: list[Pair], parts: np.ndarray) -> int:
    """Held-out pairs with a side, masked, that is in another split, looked up one by one."""
    seen = defaultdict(set)
    for pair, part in zip(pairs, parts, strict=True):
        for side in (0, 1):
            seen[side, masked(pair[side])].add(int(part))
    others = {TEST: {TRAIN, VALID}, VALID: {TRAIN}}
    return sum(
        any(seen[side, masked(pair[side])] & others.get(int(part), set()) for side in (0, 1))
        for pair, part in zip(pairs, parts, strict=True)
    )


def test_no_near_duplicate_crosses_the_splits() -> None:
    """Of pairs drawn one by one, many would."""
    found = survey(PAIRS)
    ours, at_random = split_pairs(found), random_split(len(PAIRS))
    assert crossing(found, at_random) == crossing_slowly(PAIRS, at_random) > 50
    assert crossing(found, ours) == crossing_slowly(PAIRS, ours) == 0


def test_splits_are_eight_one_one_with_little_left_out() -> None:
    parts = split_pairs(survey(PAIRS))
    shares = [float((parts == part).mean()) for part in (TRAIN, VALID, TEST, CROSSED)]
    assert 0.6 < shares[0] < 0.82
    assert 0.07 < shares[1] < 0.12
    assert 0.07 < shares[2] < 0.12
    assert shares[3] < 0.2


def test_documents_stay_whole() -> None:
    parts = split_pairs(survey(PAIRS))
    homes = defaultdict(set)
    for pair, part in zip(PAIRS, parts, strict=True):
        if part >= 0:
            homes[pair.document].add(int(part))
    assert {len(home) for home in homes.values()} == {1}


def test_documents_that_share_sentences_go_together_while_they_are_few() -> None:
    pairs = [Pair("x" * i, "y" * i, f"page {i // 2}") for i in range(1, 600)]
    twins = [Pair("x" * i, "z" * i, f"twin of {i // 2}") for i in range(1, 600)]
    parts = split_pairs(survey(pairs + twins))
    assert not (parts == CROSSED).any()
    apart = split_pairs(survey(pairs + twins), largest=0.0)
    assert (apart == CROSSED).sum() > 50


def test_split_is_that_of_the_content_whatever_the_order() -> None:
    order = random.Random(3).sample(range(len(PAIRS)), len(PAIRS))
    parts = split_pairs(survey(PAIRS))
    shuffled = split_pairs(survey([PAIRS[i] for i in order]))
    assert shuffled.tolist() == parts[order].tolist()


def test_exact_copies_are_kept_once_and_always_the_same_one() -> None:
    pairs = [
        *PAIRS[:200],
        *(pair._replace(document=f"copy {i}") for i, pair in enumerate(PAIRS[:200])),
    ]
    parts = split_pairs(survey(pairs))
    kept = Counter(tuple(pair[:2]) for pair, part in zip(pairs, parts, strict=True) if part != COPY)
    assert set(kept.values()) == {1}
    again = split_pairs(survey(pairs[::-1]))
    assert again.tolist() == parts[::-1].tolist()


def test_pairs_without_documents_are_split_by_their_masked_source() -> None:
    pairs = [Pair(f"Section {i} of {'x' * (i % 50)}", f"{i} y") for i in range(2000)]
    parts = split_pairs(survey(pairs))
    homes = defaultdict(set)
    for pair, part in zip(pairs, parts, strict=True):
        homes[masked(pair.source)].add(int(part) if part != CROSSED else TRAIN)
    assert all(len(home) == 1 for home in homes.values())


TEXT = [text for pair in PAIRS[:300] for text in pair[:2]]


def test_marks_have_the_first_numbers() -> None:
    bpe = learn_bpe(TEXT, 150)
    assert bpe.vocabulary.words[:4] == ("<pad>", "<s>", "</s>", "<unk>")
    assert len(bpe) == len(bpe.vocabulary) == 150


@pytest.mark.parametrize("size", [60, 150, 35_000])
def test_text_comes_back_from_its_numbers(size: int) -> None:
    extra = [
        "Don't (ever) say “no”: 3.14, x_1!",
        "</s> <pad> <s> <unk>",
        "città über 日本",
        "a",
        "- -",
    ]
    bpe = learn_bpe(TEXT + extra, size)
    assert [bpe.decode(numbers) for numbers in bpe.encode(TEXT + extra)] == TEXT + extra
    assert len(bpe) <= size
    assert min(number for numbers in bpe.encode(extra) for number in numbers) > 2


def test_larger_vocabularies_have_shorter_texts() -> None:
    few, many = (sum(map(len, learn_bpe(TEXT, size).encode(TEXT))) for size in (60, 400))
    assert many < 0.8 * few


def test_numbers_of_marks_are_not_text() -> None:
    bpe = learn_bpe(TEXT, 60)
    numbers = bpe.encode([TEXT[0]])[0]
    assert bpe.decode([1, *numbers, 2, 0, 0]) == TEXT[0]
    assert bpe.encode(["日"])[0][-1] == 3


def test_subwords_are_learnt_alike_and_survive_the_disk(tmp_path: Path) -> None:
    bpe, again = learn_bpe(TEXT, 150), learn_bpe(TEXT, 150)
    assert bpe.vocabulary == again.vocabulary
    bpe.save(tmp_path / "bpe.json")
    loaded = Bpe.load(tmp_path / "bpe.json")
    assert loaded.encode([*TEXT, "</s>"]) == again.encode([*TEXT, "</s>"])
    json.loads((tmp_path / "bpe.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "subwords must be a file, got"),
        (b"{", "must be a file of subwords, got"),
        (b"\x80\x04K\x01.", "must be a file of subwords, got"),
        (b"{}", "must be a file of subwords, got"),
    ],
)
def test_foreign_subwords_are_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "bpe.json").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Bpe.load(tmp_path / "bpe.json")


def test_subwords_of_another_model_are_refused(tmp_path: Path) -> None:
    bpe = learn_bpe(TEXT, 60)
    text = bpe.tokenizer.to_str().replace('"<pad>"', '"<fill>"')
    (tmp_path / "bpe.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must begin with <pad>, <s>, </s>, <unk>, got"):
        Bpe.load(tmp_path / "bpe.json")


@pytest.mark.parametrize("size", [4, 0, 2.5])
def test_vocabulary_has_room_for_more_than_marks(size: float) -> None:
    with pytest.raises((ValueError, TypeError), match="size must be"):
        learn_bpe(TEXT, size)  # type: ignore[arg-type]


def test_pairs_come_back_from_the_files(tmp_path: Path) -> None:
    """Every pair of the corpus, as text, is in its split once, sorted by class."""
    files = tiny_files(tmp_path)
    source = open_bitext(tmp_path / "corpus")[1]
    pairs = list(source.pairs("all", Counter()))
    parts = split_pairs(survey(pairs))
    for number, split in enumerate(("train", "valid", "test")):
        tokens, index = files.tokens(split), files.index(split)
        assert isinstance(tokens, np.memmap)
        found = [
            tuple(files.bpe.decode(side) for side in (tokens[s : s + n], tokens[s + n : s + n + m]))
            for s, n, m in index.tolist()
        ]
        expected = [p[:2] for p, part in zip(pairs, parts, strict=True) if part == number]
        fits = [p for p in expected if max(map(len, files.bpe.encode(p))) <= 50]
        if split == "train":
            assert sorted(found) == sorted(fits)
        else:  # a letter that the training text lacks is <unk>
            assert len(found) == len(fits)
        classes = (index["source"].astype(int) - 1) // 5
        assert (np.diff(classes) >= 0).all()
        assert np.bincount(classes, minlength=10).tolist() == files.classes[split]
        assert files.counts[split] == len(tokens) == index["source"].sum() + index["target"].sum()
    assert files.crossing == 0 < files.crossing_at_random


def test_table_has_every_pair_of_the_corpus(tmp_path: Path) -> None:
    corpus = [
        *lines(300),
        ("", "x", "p"),
        ("same", "same", "p"),
        lines(1)[0],
        ("a " * 60, "b", "p"),
    ]
    write_lines(tmp_path / "corpus", corpus)
    files = read_bitext(tmp_path / "corpus", size=150, folder=tmp_path / "cache")
    dropped = sum(sum(counts.values()) for counts in files.dropped.values())
    assert dropped + sum(files.pairs.values()) == len(corpus)
    reasons = {reason for counts in files.dropped.values() for reason in counts}
    assert reasons >= {"an empty side", "two identical sides", "an exact copy of another pair"}
    assert all(reason in files.table() for reason in reasons)


def test_limits_of_length_are_options(tmp_path: Path) -> None:
    files = tiny_files(tmp_path)
    assert sum(files.dropped["train"].values()) == 0
    short = tiny_files(tmp_path, longest=12, difference=1)
    index = short.index("train")
    assert index["source"].max() <= 12
    assert np.abs(index["source"].astype(int) - index["target"]).max() == 1
    assert short.digest != files.digest
    assert short.bpe.vocabulary == files.bpe.vocabulary
    assert len(list((tmp_path / "cache").glob("bpe-*"))) == 1  # learnt once


def test_given_splits_stay_but_for_copies_in_the_training(tmp_path: Path) -> None:
    corpus = lines(100)
    known = [(*pair[:2], "another page") for pair in corpus[:10]]
    for split, part in (("train", corpus[:80] * 2), ("valid", known), ("test", corpus[80:])):
        write_lines(tmp_path / "corpus", part, split)
    files = read_bitext(tmp_path / "corpus", size=150, folder=tmp_path / "cache")
    assert files.pairs == {"train": 80, "valid": 10, "test": 20}
    assert files.crossing >= 10
    assert files.dropped["all"] == {"an exact copy of another pair": 80}


def test_files_are_built_once_and_known_by_their_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tiny_files(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(building, "_build", None)
        assert tiny_files(tmp_path).digest == first.digest
    write_lines(tmp_path / "corpus", lines(601))
    assert (
        read_bitext(tmp_path / "corpus", size=200, folder=tmp_path / "cache").digest != first.digest
    )
    assert (
        read_bitext(tmp_path / "corpus", size=99, folder=tmp_path / "cache").digest != first.digest
    )


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "training text must have lines, got none"),
        ([("", "", "")], "training text must have lines, got none"),
        ([("a b c", "d", "")], "valid text must have at least one pair, got 0 of 1 pairs"),
        (
            [("a" * i, "b" * i, "one") for i in range(1, 50)],
            "valid text must have at least one pair",
        ),
        (
            [("x " * 60 + "y" * i, "b" * i, f"{i}") for i in range(1, 99)],
            "train text must have at least",
        ),
    ],
    ids=["empty", "empty line", "one line", "one document", "all too long"],
)
def test_corpus_too_small_to_split_is_one_clear_error(
    pairs: list[tuple[str, str, str]], message: str, tmp_path: Path
) -> None:
    write_lines(tmp_path / "corpus", pairs) if pairs else write_empty(tmp_path / "corpus")
    with pytest.raises(ValueError, match=message):
        read_bitext(tmp_path / "corpus", size=100, folder=tmp_path / "cache")
    left = [
        path.name for path in (tmp_path / "cache").glob("*") if not path.name.startswith("bpe-")
    ]
    assert left == []


def write_empty(folder: Path) -> None:
    folder.mkdir()
    for ending in ("en", "it"):
        (folder / f"text.{ending}").write_text("")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train.bin", b"", r"train.bin must hold \d+ numbers, got 0 bytes; delete .* built again"),
        ("train.index", b"1234", r"train.index must hold \d+ numbers, got 4 bytes"),
        ("tokens.json", b"{", r"must hold token files with their tokens.json, got .*; delete it"),
        ("tokens.json", b"[]", "must hold token files"),
        ("bpe.json", b"[]", "must be a file of subwords"),
    ],
)
def test_damaged_files_are_refused(name: str, damage: bytes, message: str, tmp_path: Path) -> None:
    files = tiny_files(tmp_path, pairs=200)
    (files.folder / name).write_bytes(damage)
    with pytest.raises(ValueError, match=message):
        tokens_and_index(files.folder)


def tokens_and_index(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    files = open_pair_files(folder)
    return files.tokens("train"), files.index("train")


def test_numbers_are_not_held_while_they_are_written(tmp_path: Path) -> None:
    """Three million numbers, which are 24 megabytes as words of the machine."""
    shards = Shards(tmp_path, 2, np.dtype("<u2"), unknown=3)
    side = list(range(100))
    tracemalloc.start()
    for number in range(15_000):
        split = "valid" if number == 7 else "test" if number == 8 else "train"
        shards.add(split, number % 2, side, side)
    facts = shards.join()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts["classes"] == {"train": [7499, 7499], "valid": [0, 1], "test": [1, 0]}
    assert facts["unknown"] == {"train": 2 * 14_998, "valid": 2, "test": 2}
    assert peak < 5e6
    index = np.fromfile(tmp_path / "train.index", dtype=INDEX)
    assert index["start"].tolist() == list(range(0, 14_998 * 200, 200))


@pytest.mark.slow
def test_a_hundred_thousand_lines_are_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "corpus", lines(100_000))
    files = read_bitext(tmp_path / "corpus", size=1000, folder=tmp_path / "cache")
    dropped = sum(sum(counts.values()) for counts in files.dropped.values())
    assert sum(files.pairs.values()) + dropped == 100_000
    assert files.crossing == 0 < files.crossing_at_random
