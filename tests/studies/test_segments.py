"""Segments are those of the published iterators, written here once more in the obvious way."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from fourierkernels.studies.language.perplexity import passes, segments, windows

TEXT = np.arange(1, 104, dtype=np.uint16)


def ordered(
    text: np.ndarray, batch: int, length: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """``LMOrderedIterator`` of lmtool-fwp: streams side by side, time first, one step at a time."""
    steps = len(text) // batch
    columns = torch.tensor(text[: steps * batch].astype(np.int64)).view(batch, steps).t()
    for start in range(0, steps - 1, length):
        n = min(length, steps - 1 - start)
        yield columns[start : start + n].t(), columns[start + 1 : start + 1 + n].t()


@pytest.mark.parametrize("batch", [1, 3, 4, 10])
@pytest.mark.parametrize("length", [1, 7, 25, 40])
def test_streams_are_those_of_the_published_iterator(batch: int, length: int) -> None:
    data = segments(TEXT, length=length, batch=batch, order="streams")
    expected = list(ordered(TEXT, batch, length))
    assert len(data) == len(expected) * batch
    for number, (tokens, targets) in enumerate(expected):
        found = data.__getitems__(range(number * batch, (number + 1) * batch))
        assert torch.equal(found["tokens"], tokens)
        assert torch.equal(found["targets"], targets)


def test_shuffled_epochs_cover_the_text_but_for_the_last_batch() -> None:
    data = segments(TEXT, length=10, batch=4, order="shuffled", steps=5, seed=1)
    assert (len(data), data.examples) == (20, 8)
    epochs = [data.__getitems__(range(8)), data.__getitems__(range(8, 16))]
    for found in epochs:
        assert sorted(found["tokens"].flatten().tolist()) == TEXT[:80].tolist()
        assert torch.equal(found["targets"], found["tokens"] + 1)
    assert not torch.equal(epochs[0]["tokens"], epochs[1]["tokens"])


def test_order_depends_on_the_seed_alone() -> None:
    def order(seed: int, places: list[int]) -> list[list[int]]:
        data = segments(TEXT, length=10, batch=4, order="shuffled", steps=5, seed=seed)
        return [data.__getitems__([place])["tokens"][0].tolist() for place in places]

    places = list(range(20))
    assert order(1, places) == order(1, places[::-1])[::-1]
    assert order(1, places) != order(2, places)


@pytest.mark.parametrize(("length", "batch"), [(10, 4), (1, 1), (102, 1), (102, 9), (200, 2)])
def test_a_pass_predicts_every_word_but_the_first_once(length: int, batch: int) -> None:
    parts = list(passes(TEXT, length=length, batch=batch))
    assert torch.cat([p["targets"].flatten() for p in parts]).tolist() == TEXT[1:].tolist()
    assert torch.cat([p["tokens"].flatten() for p in parts]).tolist() == TEXT[:-1].tolist()
    assert all(len(p["tokens"]) <= batch for p in parts)


@pytest.mark.parametrize("starts", [range(len(TEXT) - 10), [0], [0, 3, 40], range(5, 90, 7)])
def test_windows_begin_where_they_are_asked_for(starts: Sequence[int]) -> None:
    found = list(windows(TEXT, starts, length=10, batch=7))
    assert all(len(part["tokens"]) <= 7 for part in found)
    rows = torch.cat([part["tokens"] for part in found])
    assert rows.tolist() == [TEXT[i : i + 10].tolist() for i in starts]
    ends = torch.cat([part["targets"][:, -1] for part in found])
    assert ends.tolist() == [TEXT[i + 10] for i in starts]


@pytest.mark.parametrize("order", ["streams", "shuffled"])
def test_text_that_is_too_short_is_refused(order: str) -> None:
    with pytest.raises(ValueError, match=r"text must have at least one batch of 8 .* got 8 tokens"):
        segments(TEXT[:8], length=50, batch=8, order=order)
