"""Padding is told by what a network computes: what no query sees is cut away, or named."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fourierkernels.report import HeadReport, head_report

TEXTS = [torch.tensor([ids]) for ids in ([3, 9, 4, 7, 5, 8, 11], [6, 2, 10], [12, 5, 1, 3, 9])]
OPTIONS: dict[str, Any] = {"baseline": False, "permutations": 0, "examples": 3}


class Masked(nn.Module):
    """An encoder of torch whose padding is told in one of several ways."""

    def __init__(self, hidden: Callable[..., Tensor], *, causal: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.causal = hidden, causal
        self.embed = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 16, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor, **given: Tensor) -> Tensor:
        n = ids.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1) if self.causal else None
        hidden = self.hidden(ids, **given)
        found: Tensor = self.body(self.embed(ids), mask=later, src_key_padding_mask=hidden)
        return found


def inside(ids: Tensor, **given: Tensor) -> Tensor:
    return ids == 0


#: How a network is told, and what a batch has for it.
TOLD: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor], dict[str, Tensor]]]] = {
    "inside, by its ids": (inside, lambda ids: {}),
    "src_key_padding_mask": (
        lambda ids, src_key_padding_mask: src_key_padding_mask,
        lambda ids: {"src_key_padding_mask": ids == 0},
    ),
    "mask": (lambda ids, mask: mask == 0, lambda ids: {"mask": (ids != 0).long()}),
}


def padded(*, left: bool = False) -> Tensor:
    rows = [nn.functional.pad(text, (0, 7 - text.shape[1])) for text in TEXTS]
    return torch.cat([row.roll(int((row == 0).sum()), 1) if left else row for row in rows])


def means(report: HeadReport) -> np.ndarray:
    return report.summaries()["trained"].distances


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("told", TOLD)
def test_padding_does_not_count_whatever_its_mask_is_called(told: str, causal: bool) -> None:
    hidden, entries = TOLD[told]
    alone = head_report(Masked(inside, causal=causal), TEXTS, **OPTIONS)
    batch = {"ids": padded(), **entries(padded())}
    found = head_report(Masked(hidden, causal=causal), batch, **OPTIONS)
    np.testing.assert_allclose(means(found), means(alone), rtol=1e-4, atol=1e-6)
    assert found.summaries()["trained"].n_min == 3
    assert [one.maps.shape[2] for one in found.first.examples] == [7, 3, 5]
    assert found.first.unread == ""
    assert found.first.notes == (
        "inputs whose padding at the end is cut away: 2, at most 4 tokens of one",
    )


def test_padding_before_a_text_is_named() -> None:
    found = head_report(Masked(inside), padded(left=True), **OPTIONS)
    assert found.first.notes == ("4 of 7 keys, within 1 to 4, get no weight from any query",)
    assert found.first.unread == ""


class Choosy(nn.Module):
    """Attention to the one best key."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.q, self.k = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in (self.q(x), self.k(x), x))
        scores = (q @ k.mT).masked_fill((ids == 0)[:, None, None], -torch.inf)
        best = scores == scores.amax(-1, keepdim=True)
        found: Tensor = scores.masked_fill(~best, -torch.inf).softmax(-1) @ v
        return found.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("ends", [0, 2])
def test_tokens_without_weight_are_no_padding(ends: int) -> None:
    text = torch.arange(1, 13)[None]
    found = head_report(Choosy(), nn.functional.pad(text, (0, ends)), **OPTIONS)
    assert found.summaries()["trained"].n_min == 12
    assert found.first.unread == ""
    assert found.first.notes[-1].endswith(" get no weight from any query")
    assert len(found.first.notes) == 1 + (ends > 0)


@pytest.mark.parametrize("slab", [0, 2])
def test_keys_that_a_query_sees_are_told_from_maps_and_from_slabs(slab: int) -> None:
    from fourierkernels.checkpoints.recorders.recording import recording

    with torch.inference_mode(), recording(model := Masked(inside).eval(), slab=slab) as calls:
        model(padded())
    for call in calls:
        seen = [call.seen_keys(row, 7, 7).tolist() for row in range(3)]
        assert torch.equal(torch.tensor(seen), padded() != 0)
