"""The arena's data: grammar, files as they are distributed, and what is wrong with them."""

import statistics
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tiny_arena import COUNTS, cifar, listops, pairs, pathfinder, texts
from training_runs import error_of

from fourierkernels.studies.lra import contours, sets
from fourierkernels.studies.lra import listops as ops
from fourierkernels.studies.lra.contours import SMALL, draw_image
from fourierkernels.studies.lra.drawn import DRAWN
from fourierkernels.studies.lra.examples import ArenaData, byte_tokens, collate
from fourierkernels.studies.lra.listops import SYMBOLS, Grammar, draw_expressions, read_expression
from fourierkernels.studies.lra.pixels import grey
from fourierkernels.studies.lra.sets import ARENA_SETS, read_arena
from fourierkernels.studies.lra.study import PRESETS, STUDY

WRITERS: dict[str, Callable[[Path], Path]] = {
    "listops": listops,
    "texts": texts,
    "aan": pairs,
    "cifar10": cifar,
    "pathfinder": pathfinder,
}
FREE = [name for name, row in ARENA_SETS.items() if not row.needs_folder]
TRAIN = "basic_train.tsv"


def slow_value(words: list[str]) -> int:
    """Compute an expression by replacing its innermost application, again and again."""
    words = list(words)
    while len(words) > 1:
        end = words.index("]")
        start = max(i for i in range(end) if words[i].startswith("["))
        values = [int(word) for word in words[start + 1 : end]]
        result = {
            "[MIN": lambda v: min(v),
            "[MAX": lambda v: max(v),
            "[MED": lambda v: int(statistics.median(v)),
            "[SM": lambda v: sum(v) % 10,
        }[words[start]](values)
        words[start : end + 1] = [str(result)]
    return int(words[0])


def words_of(tokens: np.ndarray) -> list[str]:
    return [SYMBOLS[token - 1].decode() for token in tokens]


def depth_of(words: list[str]) -> int:
    steps = [(word[0] == "[") - (word == "]") for word in words]
    return int(np.cumsum(steps).max())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: write(tmp_path_factory.mktemp(name) / "data") for name, write in WRITERS.items()}


def test_values_of_drawn_expressions_are_those_of_the_slow_evaluator() -> None:
    grammar = Grammar(depth=6, arguments=5, shortest=20, longest=200)
    drawn = list(islice(draw_expressions(grammar, np.random.default_rng(0)), 150))
    for tokens, value in drawn:
        words = words_of(tokens)
        assert slow_value(words) == value
        assert 20 < len(words) < 200
        assert depth_of(words) < 6  # the deepest level has digits alone
        assert np.array_equal(read_expression(" ".join(words).encode(), "it"), tokens)
    assert len({tokens.tobytes() for tokens, _ in drawn}) == 150
    assert {word for tokens, _ in drawn for word in words_of(tokens)} == {
        symbol.decode() for symbol in SYMBOLS
    }


def test_published_expressions_have_the_published_lengths() -> None:
    tokens, value = next(draw_expressions(Grammar(), np.random.default_rng(1)))
    assert 500 < len(tokens) < 2000
    assert slow_value(words_of(tokens)) == value


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    first, again, other = (
        (listops(tmp_path / str(i), seed=seed) / TRAIN).read_bytes()
        for i, seed in enumerate((1, 1, 2))
    )
    assert first == again != other


def test_distributed_parentheses_are_no_tokens() -> None:
    source = b"( ( ( ( [MAX 2 ) ( ( ( [SM 4 ) 8 ) ] ) ) 9 ) ] )"
    assert words_of(read_expression(source, "it")) == ["[MAX", "2", "[SM", "4", "8", "]", "9", "]"]


@pytest.mark.parametrize("name", WRITERS)
def test_each_layout_is_recognised_and_split(name: str, folders: dict[str, Path]) -> None:
    data = read_arena(folders[name])
    assert data.corpus == name
    assert set(data.splits) == {"train", "valid", "test"}
    for split in data.splits.values():
        assert split.labels.min() >= 0
        assert split.labels.max() < len(data.vocabulary)
        for place in range(len(split)):
            example = split.open(place)
            assert len(example) == 1 + data.pairs
            assert max(map(len, example)) == split.lengths[place]
            assert all(own.min() >= 1 and own.max() < data.tokens for own in example)
    assert read_arena(folders[name]).digest == data.digest


@pytest.mark.parametrize("name", FREE)
def test_sets_without_a_folder_are_the_same_each_time(name: str) -> None:
    first, again = read_arena(name), read_arena(name)
    assert (first.digest, first.counts) == (again.digest, again.counts)
    for split, own in first.splits.items():
        other = again.splits[split]
        assert np.array_equal(own.labels, other.labels)
        assert np.array_equal(own.open(len(own) - 1)[0], other.open(len(own) - 1)[0])
        counts = np.bincount(own.labels, minlength=len(first.vocabulary))
        assert counts.min() > 0.5 * counts.mean()


def test_texts_are_the_bytes_of_their_files(folders: dict[str, Path]) -> None:
    data = read_arena(folders["texts"])
    assert data.vocabulary == ("neg", "pos")
    assert data.counts == {"train": 54, "valid": 6, "test": 12}
    first = (folders["texts"] / "test/neg/0_7.txt").read_bytes()
    assert np.array_equal(data.splits["test"].open(0)[0], byte_tokens(first))


def test_pairs_are_read_by_their_places(folders: dict[str, Path]) -> None:
    data = read_arena(folders["aan"])
    lines = (folders["aan"] / "new_aan_pairs.eval.tsv").read_bytes().splitlines()
    for place, line in enumerate(lines):
        columns = line.split(b"\t")
        texts_of = data.splits["valid"].open(place)
        assert [bytes((own - 1).astype(np.uint8)) for own in texts_of] == columns[3:]
        assert data.splits["valid"].labels[place] == float(columns[0])


def test_colours_become_the_published_greys(folders: dict[str, Path]) -> None:
    data = read_arena(folders["cifar10"])
    assert data.counts == {"train": 18, "valid": 2, "test": 4}
    record = np.fromfile(folders["cifar10"] / "data_batch_5.bin", np.uint8).reshape(-1, 3073)[-1]
    red, green, blue = record[1:].reshape(3, -1).astype(float)
    mean = 0.2989 * red + 0.587 * green + 0.114 * blue
    found = data.splits["valid"].open(1)[0] - 1
    assert np.abs(found - mean).max() <= 1
    assert data.splits["valid"].labels[1] == record[0]
    ends = grey(np.array([[0, 255], [0, 255], [0, 255]], dtype=np.uint8))
    assert ends.tolist() == [0, 255]


def test_empty_images_are_left_out_and_counted(folders: dict[str, Path]) -> None:
    data = read_arena(folders["pathfinder"])
    assert (data.left_out, sum(data.counts.values()), data.side) == (1, 39, SMALL.side)
    assert read_arena(folders["pathfinder"] / "curv_contour_length_14").counts == data.counts


@pytest.mark.parametrize("label", [0, 1])
def test_dots_are_ends_of_one_contour_or_of_two(
    label: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def painted(side: int, contours: list[np.ndarray], dots: tuple) -> np.ndarray:
        seen.append((contours, dots))
        return draw(side, contours, dots)

    draw = contours._painted
    monkeypatch.setattr(contours, "_painted", painted)
    for seed in range(5):
        image = draw_image(SMALL, label, np.random.default_rng(seed))
        (first, second, *others), (one, two) = seen[-1]
        assert np.array_equal(one, first[0])
        assert np.array_equal(two, first[-1] if label else second[0])
        assert len(first) == len(second) == 2 * SMALL.dashes
        assert len(others) == SMALL.distractors
        gaps = np.linalg.norm(first[:, None] - second, axis=-1)
        assert gaps.min() > 2
        for dot in (one, two):
            assert image[tuple(dot.round().astype(int))] == 255
        assert 0.02 < (image > 100).mean() < 0.5


def test_longer_sequences_are_cut_and_counted(folders: dict[str, Path]) -> None:
    data = read_arena(folders["texts"])
    batch = collate(data.splits["train"], range(54), length=50)
    assert batch["tokens"].shape == (54, 50)
    cut = int((data.splits["train"].lengths > 50).sum())
    assert data.longer(50)["train"] == cut
    assert 0 < cut < 54
    assert int((batch["tokens"][:, -1] > 0).sum()) >= cut


def test_pairs_are_padded_to_the_longest_of_both(folders: dict[str, Path]) -> None:
    split = read_arena(folders["aan"]).splits["train"]
    batch = collate(split, range(4), length=1000)
    assert batch["tokens"].shape == batch["other"].shape == (4, split.lengths[:4].max())


def test_order_is_that_of_the_seed_wherever_a_run_goes_on() -> None:
    data, preset = read_arena("listops_small"), PRESETS["tiny"]
    data = replace(data, splits={"train": data.splits["valid"]})
    recipe = replace(preset.recipe, steps=40, batch=20)
    first, other = (STUDY.batches(preset, data, replace(recipe, seed=seed)) for seed in (1, 2))
    one, two = (batches.__getitems__(range(490, 510))["tokens"] for batches in (first, other))
    same = STUDY.batches(preset, data, replace(recipe, seed=1))
    again = same.__getitems__(range(490, 510))["tokens"]
    assert np.array_equal(one, again)
    assert one.shape != two.shape or not np.array_equal(one, two)
    everything = [first.order(index) for index in range(500)]
    assert sorted(everything) == list(range(500))


def test_memory_of_a_reader_does_not_grow_with_its_file(tmp_path: Path) -> None:
    """120 MB of pairs: what is held is the places of the lines."""
    folder = pairs(tmp_path)
    text = b"word " * 6000
    with (folder / "new_aan_pairs.train.tsv").open("wb") as file:
        for number in range(2000):
            file.write(b"%d\ta\tb\t%s\t%s\n" % (number % 2, text, text))
    tracemalloc.start()
    split = read_arena(folder).splits["train"]
    split.open(1999)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(split) == 2000
    assert peak < 4e6


# --- broken files ----------------------------------------------------------------------------


def spoil(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    (folder / name).write_bytes(change((folder / name).read_bytes()))


def last_line(text: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content + text


BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "cut off": (
        "listops",
        lambda f: spoil(f, TRAIN, lambda b: b[:-6]),
        "line 61 of .* must be an expression, a tab and a digit",
    ),
    "unknown token": (
        "listops",
        lambda f: spoil(f, TRAIN, last_line(b"[MAX 1 [SUM 2 3 ] ]\t3\r\n")),
        r"line 62 of .* must have tokens of \[MIN .*, got b'\[SUM'",
    ),
    "open bracket": (
        "listops",
        lambda f: spoil(f, TRAIN, last_line(b"[MAX 1 [SM 2 3 ]\t3\r\n")),
        "must be one expression whose brackets match",
    ),
    "closed too often": (
        "listops",
        lambda f: spoil(f, TRAIN, last_line(b"[MAX 1 2 ] ]\t3\r\n")),
        "must be one expression whose brackets match",
    ),
    "two expressions": (
        "listops",
        lambda f: spoil(f, TRAIN, last_line(b"[MAX 1 2 ] [MIN 3 4 ]\t3\r\n")),
        "must be one expression whose brackets match",
    ),
    "no arguments": (
        "listops",
        lambda f: spoil(f, TRAIN, last_line(b"[MAX 1 [SM ] ]\t3\r\n")),
        "must have an argument for each operator, got none",
    ),
    "label out of range": (
        "listops",
        lambda f: spoil(f, TRAIN, last_line(b"[MAX 1 2 ]\t12\r\n")),
        "must be an expression, a tab and a digit",
    ),
    "other header": (
        "listops",
        lambda f: spoil(f, TRAIN, lambda b: b[2:]),
        r"must begin with the line 'Source\\tTarget', got another",
    ),
    "missing file": (
        "listops",
        lambda f: (f / "basic_val.tsv").unlink(),
        "data must have the file basic_val.tsv, got none",
    ),
    "no examples": (
        "listops",
        lambda f: spoil(f, "basic_test.tsv", lambda b: b[:15]),
        "data must have an example to test by, got none",
    ),
    "empty text": (
        "texts",
        lambda f: (f / "train/neg/0_7.txt").write_bytes(b""),
        "texts must have at least one byte, got .*0_7.txt",
    ),
    "other classes": (
        "texts",
        lambda f: (f / "test/pos").rename(f / "test/good"),
        "must have the same two or more classes .* got neg, pos and good, neg",
    ),
    "columns": (
        "aan",
        lambda f: spoil(f, "new_aan_pairs.test.tsv", last_line(b"1\ta\tb\ttext\n")),
        r"line 21 of .* must have 5 columns \(label, id1, id2, text1, text2\), got 4",
    ),
    "label": (
        "aan",
        lambda f: spoil(f, "new_aan_pairs.test.tsv", last_line(b"2\ta\tb\ttext\ttext\n")),
        "must begin with the label 0 or 1, got b'2'",
    ),
    "empty document": (
        "aan",
        lambda f: spoil(f, "new_aan_pairs.test.tsv", last_line(b"1\ta\tb\t\ttext\n")),
        "must have two texts, got an empty one",
    ),
    "cut batch": (
        "cifar10",
        lambda f: spoil(f, "data_batch_2.bin", lambda b: b[:-1]),
        "must have whole records of 3073 bytes, got 12291 bytes",
    ),
    "label of an image": (
        "cifar10",
        lambda f: spoil(f, "data_batch_2.bin", lambda b: b"\x0a" + b[1:]),
        "must have labels below 10, got 10",
    ),
    "pickles": (
        "cifar10",
        lambda f: (f / "test_batch.bin").rename(f / "test_batch"),
        "test_batch must be a whole pickle, got",
    ),
    "metadata": (
        "pathfinder",
        lambda f: spoil(f, "curv_contour_length_14/metadata/1.npy", last_line(b"imgs/1 x.png\n")),
        "line 21 of .* must have a folder, a file inside it, a number and the class 0 or 1",
    ),
    "outside": (
        "pathfinder",
        lambda f: spoil(
            f, "curv_contour_length_14/metadata/1.npy", last_line(b"imgs/../.. x.png 1 1\n")
        ),
        "must have a folder, a file inside it",
    ),
    "pickled metadata": (
        "pathfinder",
        lambda f: spoil(f, "curv_contour_length_14/metadata/1.npy", lambda b: b"\x93NUMPY" + b),
        "must be lines of text",
    ),
    "lost image": (
        "pathfinder",
        lambda f: (f / "curv_contour_length_14/imgs/1/sample_2.png").unlink(),
        "data must have the images that metadata name, got no .*sample_2.png",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_data_are_refused(what: str, tmp_path: Path) -> None:
    name, damage, message = BROKEN[what]
    folder = WRITERS[name](tmp_path / "data")
    damage(folder)
    with pytest.raises(ValueError, match=message):
        read_arena(folder)


def test_a_broken_image_is_told_when_it_is_opened(tmp_path: Path) -> None:
    place = pathfinder(tmp_path / "data") / "curv_contour_length_14"
    for file in (place / "imgs/1").iterdir():
        spoil(file.parent, file.name, lambda content: content[:60])
    data = read_arena(tmp_path / "data")

    def open_all() -> None:
        for split in data.splits.values():
            for number in range(len(split)):
                split.open(number)

    assert "images must be whole files" in error_of(open_all)


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.studies.lra.examples.MOST_BYTES", 100)
    assert "must have fewer than 100 bytes, got more" in error_of(
        lambda: read_arena(pairs(tmp_path))
    )


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").touch()
    message = error_of(lambda: read_arena(tmp_path))
    assert "data must be a folder that a reader knows" in message
    assert "got" in message
    assert "notes.md" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"arguments": 1}, "arguments must be at least 2, got 1"),
        ({"shortest": 10, "longest": 11}, "longest must be at least 12, got 11"),
    ],
)
def test_impossible_grammars_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Grammar(**changes)


def test_a_set_from_outside_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = read_arena("listops_small")
    row = replace(ARENA_SETS["aan"], recognises=lambda folder: True, open=lambda folder: mine)
    monkeypatch.setattr(sets, "ARENA_SETS", {"mine": row, **ARENA_SETS})
    assert read_arena(tmp_path) is mine


def test_counts_of_the_small_set_are_those_that_are_said() -> None:
    data = read_arena("listops_small")
    assert isinstance(data, ArenaData)
    assert data.counts == ops.SMALL_COUNTS
    assert sum(COUNTS.values()) < sum(data.counts.values())


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_tasks_have_the_answers_that_their_rules_say(name: str) -> None:
    data = read_arena(name)
    task, split = DRAWN[name], data.splits["test"]
    for place in range(40):
        (tokens,) = split.open(place)
        assert len(tokens) == task.length
        asked = tokens[tokens != task.tokens + 1] - 1  # without blanks
        symbols = asked[:8].tolist()
        answers = {
            "place": lambda asked=asked, symbols=symbols: symbols.index(asked[8] - 8) < 4,
            "lookup": lambda asked=asked, symbols=symbols: symbols[asked[8] - 2],
            "before": lambda asked=asked, symbols=symbols: (
                symbols.index(asked[6] - 6) < symbols.index(asked[7] - 12)
            ),
            "names": lambda asked=asked: {w // 2: w % 2 for w in asked[:4].tolist()}[asked[4] - 16],
            "dictionary": lambda asked=asked: {w // 2: w % 2 for w in asked[:4].tolist()}[
                asked[4] - 64
            ],
            "present": lambda asked=asked: asked[3] - 16 in asked[:3],
            "copies": lambda asked=asked: bool((asked[:12] == asked[13:]).all()),
        }
        assert split.labels[place] == answers[data.task]()


@pytest.mark.parametrize("name", ["dictionary", "present"])
def test_no_single_token_of_a_drawn_task_says_what_the_answer_is(name: str) -> None:
    """Given any one token the class is even, so that no weighted sum of counts tells it."""
    task = DRAWN[name]
    rows, labels = task.draw(40_000, np.random.default_rng(1))
    for token in range(task.tokens):
        own = labels[(rows == token).any(axis=1)]
        assert abs(own.mean() - 0.5) < 5 * 0.5 / len(own) ** 0.5


@pytest.mark.parametrize("name", ["place", "lookup", "before"])
def test_counts_of_tokens_say_nothing_about_what_is_asked_of_a_drawn_task(name: str) -> None:
    """Sequences with the same tokens have all classes about as often as others."""
    task = DRAWN[name]
    rows, labels = task.draw(20_000, np.random.default_rng(1))
    shares = np.bincount(labels, minlength=2) / len(labels)
    _, groups = np.unique(np.sort(rows, axis=1), axis=0, return_inverse=True)
    for group in range(groups.max() + 1):
        own = labels[groups == group]
        counts = np.bincount(own, minlength=2)
        deviations = np.sqrt(shares * (1 - shares) * len(own))
        assert (np.abs(counts - shares * len(own)) < 5 * deviations).all()
