"""Drawn tasks have the labels that they say, and none that a count of words tells."""

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from fourierkernels.studies.engine.contenders import Choices
from fourierkernels.studies.glue.comparison import COMPARISONS
from fourierkernels.studies.glue.drawn import DRAWN, TEXTS, drawn_rows
from fourierkernels.studies.glue.drawn_comparison import PRETRAINING, UNTRAINED, bag_of_words
from fourierkernels.studies.glue.labelled import open_drawn
from fourierkernels.studies.masked.drawn import NAMES, drawn_lines
from fourierkernels.studies.masked.pieces import learn_pieces

N = len(NAMES)


def agrees(line: str) -> bool:
    """Read a line word by word."""
    words = line.split()
    named = dict(zip((word[0] for word in words[:N]), (word[1] for word in words[:N]), strict=True))
    return [named[name] for name in NAMES] == words[N:]


@pytest.mark.parametrize("split", DRAWN)
@pytest.mark.parametrize("task", TEXTS)
def test_labels_are_those_that_a_reader_finds(task: str, split: str) -> None:
    rows = drawn_rows(task, split).rows
    assert len(rows) == DRAWN[split]
    for row in rows:
        right = [agrees(line) for line in row.texts]
        assert right == (
            [row.label == "1"] if task == "agrees" else [row.label == "1", row.label == "0"]
        )
    assert np.mean([row.label == "1" for row in rows]) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("task", TEXTS)
def test_values_are_as_frequent_at_the_end_as_among_the_names(task: str) -> None:
    """Whatever the label; so a count of words has nothing to go by."""
    for row in drawn_rows(task, "test").rows:
        for line in row.texts:
            words = line.split()
            assert sorted(word[0] for word in words[:N]) == list(NAMES)
            assert Counter(word[1] for word in words[:N]) == Counter(words[N:])
    assert abs(bag_of_words(task).value - 50) < 4


def test_no_row_is_one_of_another_split() -> None:
    splits = [{row.texts for row in drawn_rows("agrees", split).rows} for split in DRAWN]
    assert not splits[0] & splits[1]
    assert len(splits[0]) == DRAWN["train"]


def test_rows_fit_the_encoder_and_keep_their_labels(tmp_path: Path) -> None:
    lines = (line for _, line in islice(drawn_lines("train"), 20_000))
    pieces = learn_pieces(lines, 150, whole=True)
    data = open_drawn(tmp_path, "which", pieces, length=36)
    assert data.counts == {"train": 19_000, "valid": 1_000, "test": 2_000}
    assert all(split.cut == 0 for split in data.splits.values())
    labels = [float(row.label or "nan") for row in drawn_rows("which", "test").rows]
    assert data.splits["test"].labels.tolist() == labels
    assert data.digest != open_drawn(tmp_path, "agrees", pieces, length=36).digest
    with pytest.raises(ValueError, match="task must be one of agrees, which, got 'rte'"):
        open_drawn(tmp_path, "rte", pieces, length=36)


def test_each_network_begins_with_the_encoder_of_its_seed(tmp_path: Path) -> None:
    comparison = COMPARISONS["glue-drawn"]
    chosen: Choices = {}
    first, tried, compared = (stage.networks(chosen) for stage in comparison.stages())
    assert all(comparison.beginning(network) is None for network in first)
    kept = {network.key for network in first}
    for network in (*tried, *compared):
        begun = comparison.beginning(network)
        assert begun.key in kept
        assert (begun.contender, begun.part.name) == (network.contender, PRETRAINING)
        assert begun.seed == (network.seed if network in compared else comparison.seeds[0])
        assert begun.part.steps == (1 if network.contender.name == UNTRAINED else 1_500)
    with pytest.raises(ValueError, match="start must be pre-trained first, got no softmax"):
        comparison.setup(compared[0])
