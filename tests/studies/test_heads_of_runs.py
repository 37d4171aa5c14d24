"""The heads command on the folder of a training run, and texts as the run's corpus reads them."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tiny_models_of_ours import language

from fourierkernels import head_report
from fourierkernels.checkpoints import (
    find_checkpoint,
    load_checkpoint,
    load_tokenizer,
    read_items,
    read_texts,
)
from fourierkernels.checkpoints.word_lists import find_words
from fourierkernels.models import save_model
from fourierkernels.studies.language.corpora import CORPORA, splitting
from fourierkernels.studies.texts.plain import words_of
from fourierkernels.studies.texts.token_files import build_token_files

Run = Callable[..., tuple[int, str, str]]

TEXT = "  the cat , the <unk> Cat.\n\nDon't <eos> x_1\n \n the end .\n" * 3


@pytest.fixture
def own_run(finished: Path, tmp_path: Path) -> Path:
    """A run of the test's own, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def table(out: str) -> str:
    return out.partition("checkpoint:")[0]


def test_folder_of_a_run_is_measured_on_its_test_text(
    finished: Path, run: Run, tmp_path: Path
) -> None:
    status, out, err = run(finished, "--output", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "random weights" in out
    assert f"checkpoint: {finished}\n" in out
    named = run(finished / "model.safetensors", "--ids", finished / "test.ids")
    assert table(out) == table(named[1])
    words = (finished / "vocabulary.txt").read_text().split("\n")
    first = [words[int(i)] for i in (finished / "test.ids").read_text().split("\n")[0].split()]
    report = head_report(finished, baseline=False, examples=1)
    assert list(report.first.examples[0].queries) == first
    options = json.loads((tmp_path / "out" / "heads.json").read_text())["options"]
    assert options["checkpoint"] == finished.name  # no path of this machine


def test_checkpoint_of_a_run_has_its_words_and_texts(finished: Path) -> None:
    place = next(finished.glob("checkpoint-*"))
    files = find_checkpoint(place)
    assert (files.path, files.run) == (place / "model.safetensors", finished)
    assert find_words(files) == find_words(find_checkpoint(finished))


def test_text_of_the_corpus_becomes_the_tokens_of_the_run(finished: Path, texts: Path) -> None:
    """Windows of the model's length; `test.ids` has the last, shorter line too."""
    checkpoint, found = load_checkpoint(finished), []
    lines = read_texts(texts / "test.txt", blank_lines=True)
    found = list(read_items(checkpoint, lines, tokenizer=load_tokenizer(checkpoint)))
    rows = (finished / "test.ids").read_text().splitlines()
    expected = [[int(number) for number in row.split()] for row in rows]
    assert found == [row for row in expected if len(row) == 32]
    assert len(found) >= 5


def lines_as(corpus: str) -> Iterator[Sequence[str]]:
    """Split the text as the reader of a corpus does."""
    for line in TEXT.splitlines():
        if CORPORA[corpus].splitter == "whitespace":
            yield line.split()
        elif corpus == "text" or line.strip():
            yield words_of(line)


def made_run(corpus: str, folder: Path, **results: Any) -> tuple[Path, list[int]]:
    """Write what a run on a corpus leaves, and return its folder and the numbers of the text."""
    files = build_token_files(
        corpus, "text", lambda split: lines_as(corpus), digest=corpus, folder=folder / "tokens"
    )
    run = folder / corpus
    run.mkdir()
    files.vocabulary.save(run / "vocabulary.txt")
    (run / "study.json").write_text("{}")
    config = {"corpus": corpus, **results}
    (run / "results.json").write_text(json.dumps({"config": config}))
    sizes = {"vocabulary": len(files.vocabulary), "cutoffs": (), "length": 5}
    save_model(language(**sizes), run / "model.safetensors")
    return run, files.tokens("test").tolist()


@pytest.mark.parametrize(
    ("recorded", "corpus"),
    [(True, name) for name in CORPORA]
    + [(False, name) for name in CORPORA if name != "recall"],  # younger than the record
)
def test_lines_are_split_as_the_corpus_splits_them(
    corpus: str, recorded: bool, tmp_path: Path
) -> None:
    run, tokens = made_run(corpus, tmp_path, **(splitting(corpus) if recorded else {}))
    (tmp_path / "lines").write_text(TEXT)
    checkpoint = load_checkpoint(run)
    assert checkpoint.words is not None
    lines = read_texts(tmp_path / "lines", blank_lines=checkpoint.words.blank_lines)
    windows = list(read_items(checkpoint, lines, tokenizer=load_tokenizer(checkpoint)))
    assert list(chain(*windows)) == tokens[: 5 * (len(tokens) // 5)]
    assert {len(window) for window in windows} == {5}


def test_words_the_run_does_not_know_are_its_unknown(own_run: Path) -> None:
    words = (own_run / "vocabulary.txt").read_text().split("\n")
    encoded = load_tokenizer(load_checkpoint(own_run)).encode(f"{words[2]} qwertzuiop")
    assert [words[i] for i in encoded] == [words[2], "<unk>", "<eos>"]


@pytest.mark.parametrize("results", ["", "[]", "{}", '{"config": {"corpus": "mine"}}'])
def test_splitter_that_no_result_names_has_to_be_named(
    results: str, own_run: Path, run: Run, tmp_path: Path
) -> None:
    words = (own_run / "vocabulary.txt").read_text().split("\n")
    (tmp_path / "known").write_text(" ".join(words[2:70]))
    (own_run / "results.json").write_text(results)
    status, _, err = run(own_run, "--text", tmp_path / "known")
    assert status == 2
    assert "tokens must say how texts were split" in err
    assert "(--tokens words or whitespace)" in err
    options = ("--text", tmp_path / "known", "--no-baseline")
    assert run(own_run, *options, "--tokens", "words")[0] == 0


def rewrite(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        file = run / "vocabulary.txt"
        words = change(file.read_text().split("\n")[:-1])
        file.write_text("".join(f"{word}\n" for word in words))

    return apply


@pytest.mark.parametrize(
    ("damage", "asks_text", "message"),
    [
        (lambda run: (run / "model.safetensors").unlink(), False, "must have model.safetensors"),
        (lambda run: (run / "test.ids").unlink(), False, "got none and no "),
        (lambda run: (run / "vocabulary.txt").unlink(), True, "--vocabulary FILE"),
        (rewrite(lambda words: words[:-1]), False, "as many words as the embedding"),
        (rewrite(lambda words: [*words, "qwertzuiop"]), True, "as many words as the embedding"),
        (rewrite(lambda words: ["<end>", *words[1:]]), True, "vocabulary must have <eos>"),
        (rewrite(lambda words: [*words[:-1], words[2]]), False, "words must be different"),
        (lambda run: (run / "vocabulary.txt").write_text("a\nb"), False, "end with a whole line"),
        (lambda run: (run / "study.json").unlink(), False, "with the study.json of a training"),
    ],
)
def test_what_a_run_lacks_is_one_line(
    damage: Callable[[Path], None],
    asks_text: bool,
    message: str,
    own_run: Path,
    run: Run,
    texts: Path,
) -> None:
    damage(own_run)
    status, out, err = run(own_run, *(["--text", texts / "test.txt"] if asks_text else []))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_ids_can_do_without_words(own_run: Path, run: Run) -> None:
    (own_run / "vocabulary.txt").unlink()
    assert run(own_run, "--no-baseline")[0] == 0


def test_text_shorter_than_the_context_is_refused(own_run: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("the end\n")
    status, _, err = run(own_run, "--text", tmp_path / "short")
    assert status == 2
    assert "texts must fill at least one window of tokens, got 3 tokens" in err
    assert "context=32" in err
    options = ("--text", tmp_path / "short", "--context", 3, "--no-baseline")
    assert run(own_run, *options, "--statistic", "none")[0] == 0


def test_run_with_other_words_does_not_read_the_ids(finished: Path, own_run: Path) -> None:
    report = head_report(finished, against=own_run, baseline=False, statistics="none")
    difference = report.difference()
    assert difference is not None
    assert difference.average == 0.0
    rewrite(lambda words: [*words[:2], words[3], words[2], *words[4:]])(own_run)
    with pytest.raises(ValueError, match="against must have the words of"):
        head_report(finished, against=own_run, baseline=False)
