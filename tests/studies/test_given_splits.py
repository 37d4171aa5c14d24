"""Validation and test texts that the data give are kept whole, and what they share is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_bitext import lines, write_lines
from torch.nn.functional import log_softmax
from translation_runs import mini, mini_run, train_mini

pytest.importorskip("sacrebleu")

from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.translation import study as translation
from fourierkernels.studies.translation.classes import BatchRule
from fourierkernels.studies.translation.corpora import read_bitext
from fourierkernels.studies.translation.pair_files import PairFiles
from fourierkernels.studies.translation.study import remarks
from fourierkernels.studies.translation.translation_measures import translate_split, validation_sums

ROOM = 30  # tokens of a sentence that the model of the tests reads
ODD = [  # longer than 50 subwords, sides that differ by more than 20, alike, and an empty one
    ("bal gen dora " * 25 + ".", "lab neg arod " * 25 + "!", ""),
    ("bal " * 40, "lab", ""),
    ("same.", "same.", ""),
    ("", "lab neg.", ""),
]


def write(folder: Path, test: list[tuple[str, str, str]] | None = None) -> Path:
    """Write train, valid and test; odd pairs are in the training and in the test text."""
    known = lines(160, longest=5)
    training, rest = known[:120] + ODD, lines(60, longest=5, seed=9)
    write_lines(folder, training, "train")
    write_lines(folder, rest[:30], "valid")
    return write_lines(folder, rest[30:] + ODD if test is None else test, "test")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> PairFiles:
    return read_bitext(write(tmp_path_factory.mktemp("given")), size=120, folder=cache)


def test_only_the_training_text_is_filtered(files: PairFiles) -> None:
    assert files.pairs == {"train": 120, "valid": 30, "test": 34}
    assert sum(files.dropped["train"].values()) == len(ODD)
    assert not files.dropped["valid"]
    assert not files.dropped["test"]
    table = files.table()
    assert "a side of more than 50 tokens" in table
    index = files.index("test")
    assert (index["source"].max() > 50, index["source"].min()) == (True, 0)


def test_what_a_model_reads_of_long_sentences_is_measured(files: PairFiles) -> None:
    """Each token of the first that fit, by itself; ends of sentences that end there."""
    torch.set_num_threads(1)
    model = translation.STUDY.build(mini(), files, ChosenMixer("attention")).eval()
    with torch.no_grad():
        total, count, _ = validation_sums(model, files, "test", rule=BatchRule(400))
        expected, tokens, words = 0.0, files.tokens("test"), 0
        for start, n, m in files.index("test").tolist():
            source = [1, *tokens[start : start + n][:ROOM].tolist(), 2]
            target = [1, *tokens[start + n : start + n + m].tolist(), 2][: ROOM + 2]
            logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))
            rows = log_softmax(logits[0], dim=-1)
            expected -= sum(float(row[word]) for row, word in zip(rows, target[1:], strict=True))
            words += len(target) - 1
    assert (count, total) == (words, pytest.approx(expected, rel=1e-5))
    assert len(translate_split(model, files, "test", positions=3)) == 3  # the longest is the last
    longer = translation.STUDY.facts(mini(), files)["pairs_longer_than_the_model_reads"]
    assert longer == {"train": 0, "valid": 0, "test": 2}


def test_a_test_set_copied_from_training_is_told(
    tmp_path: Path,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(translation.PRESETS, "mini", mini())
    folder = write(tmp_path / "copied-en-it", lines(160, longest=5)[100:140])
    train_mini(mini_run(folder, steps=2, evaluate_every=2, save_every=2), tmp_path / "run", cache)
    told = capsys.readouterr().err
    assert "warning: 20 of 40 pairs of the test text are exact copies of training pairs" in told
    assert "exact copies of training pairs" not in told.partition("warning")[0]
    assert "a side of more than 50 tokens" in told
    config = json.loads((tmp_path / "run" / "results.json").read_text())["config"]
    assert config["held_out_copies_of_training_pairs"] == {"valid": 0, "test": 20}
    assert config["held_out_pairs_in_another_split"] >= 20
    assert config["pairs_left_out"]["train"]["two identical sides"] == 1
    assert set(config["unknown"]) == {"train", "valid", "test"}


def test_unknown_subwords_and_shared_sentences_are_told(files: PairFiles) -> None:
    told = list(remarks(replace(files, crossing=3, copied={"valid": 0, "test": 1})))
    assert any(line.startswith("unknown subwords: ") and "(test)" in line for line in told)
    assert any(
        line.startswith("3 held-out pairs have a sentence in another split") for line in told
    )
    assert sum(line.startswith("warning") for line in told) == 1
