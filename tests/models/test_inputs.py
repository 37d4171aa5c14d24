"""What models refuse: ids, targets, features and padding of another kind, shape or range."""

import math
from typing import Any

import pytest
import torch
from tiny_models import (
    TINY,
    V,
    arena,
    decision,
    encoder_config,
    language,
    numbers,
    series,
    tokens,
    trajectory,
    translation,
    vision,
)
from torch import Tensor, nn

from fourierkernels import models

TEXT = tokens(2, 12, vocabulary=V)


# --- the loss of the language model ----------------------------------------------------------


def test_targets_outside_the_vocabulary_are_refused() -> None:
    """Once 10⁹ gave a finite loss."""
    for wrong in (10**9, V, -1):
        targets = TEXT.clone()
        targets[1, 3] = wrong
        with pytest.raises(
            ValueError, match=rf"targets must be in \[0, {V}\) or -100, got {wrong}"
        ):
            language()(TEXT, targets)


def test_targets_of_another_batch_or_length_are_refused() -> None:
    """Once (2, 4) targets were taken for (2, 5) tokens."""
    for shape in ((2, 11), (1, 12), (24,)):
        targets = tokens(*shape, vocabulary=V)
        with pytest.raises(ValueError, match=r"targets must have the shape of the tokens, \(2, 12"):
            language()(TEXT, targets)


@pytest.mark.parametrize("ignore_index", [-100, 0])
def test_ignored_targets_count_for_nothing(ignore_index: int) -> None:
    model, targets = language().double(), tokens(2, 12, vocabulary=V, seed=1)
    expected = model(TEXT, targets)
    some = torch.zeros(2, 12, dtype=torch.bool)
    some[0, 2:] = some[1, 5] = True
    found = model(TEXT, targets.masked_fill(some, ignore_index), ignore_index=ignore_index)
    torch.testing.assert_close(found, expected.masked_fill(some, 0.0), rtol=0, atol=1e-15)
    gradients = [
        torch.autograd.grad(loss.sum(), list(model.parameters()))
        for loss in (found, expected[~some])
    ]
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other)
    nothing = model(TEXT, torch.full_like(TEXT, ignore_index), ignore_index=ignore_index)
    assert torch.count_nonzero(nothing) == 0


def test_a_target_that_could_not_be_checked_makes_the_loss_nan() -> None:
    """As on a GPU, where values are not read before they are used."""
    model = language()
    for wrong in (10**9, V, -1):
        targets = TEXT.flatten().index_fill(0, torch.tensor([3]), wrong)
        loss = model.softmax.nll(model.states(TEXT).flatten(0, 1), targets, model.embedding)
        assert loss.isnan().tolist() == [place == 3 for place in range(24)]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_ids_of_any_integer_type_are_the_same_ids(dtype: torch.dtype) -> None:
    for kind in ("language", "arena", "translation"):
        model = TINY[kind].build().eval()
        expected = TINY[kind].loss(model)

        class Narrow(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, *ids: Tensor) -> Tensor:
                found: Tensor = self.inner(*(part.to(dtype) for part in ids))
                return found

        assert torch.equal(TINY[kind].loss(Narrow(model)), expected)


# --- everything else -------------------------------------------------------------------------


def encode(**given: Any) -> Any:
    return lambda: models.Encoder(encoder_config("softmax"))(TEXT, **given)


def decide(**changes: Any) -> Any:
    names = ("returns", "states", "actions", "steps")
    given: dict[str, Any] = dict(zip(names, trajectory(), strict=True)) | changes
    return lambda: decision()(**given)


def with_nan(values: Tensor) -> Tensor:
    values = values.clone()
    values[0, -1, 0] = math.nan
    return values


ALL_PADDING = torch.zeros(2, 10, dtype=torch.bool).index_fill(0, torch.tensor([1]), True)
SERIES = numbers(2, 10, 3)
BAD = [
    (
        lambda: language()([[1, 2]], TEXT),
        TypeError,
        "must be a tensor of integers, got list",
    ),
    (lambda: language()(TEXT, TEXT.double()), TypeError, "targets must be integers, got torch.fl"),
    (lambda: language()(TEXT > 0, TEXT), TypeError, "tokens must be integers, got torch.bool"),
    (lambda: language()(TEXT[:0], TEXT[:0]), ValueError, r"tokens must be .* got shape \(0, 12\)"),
    (lambda: language()(TEXT[0], TEXT[0]), ValueError, r"tokens must be .* got shape \(12,\)"),
    (encode(segments=TEXT), ValueError, r"segments must be in \[0, 4\), got"),
    (encode(segments=TEXT[:1]), ValueError, r"segments must have the shape of the tokens"),
    (encode(segments=TEXT / 2), TypeError, "segments must be integers, got torch.float32"),
    (encode(padding=TEXT), TypeError, "padding must be"),
    (encode(padding=TEXT[:, 1:] > 0), ValueError, "padding must have shape"),
    (
        lambda: vision()(torch.ones(2, 3, 8, 8).byte()),
        TypeError,
        "tensor, got torch.uint8",
    ),
    (lambda: vision()(torch.ones(0, 3, 8, 8)), ValueError, r"images must have .* not be empty"),
    (lambda: vision()(torch.ones(3, 8, 8)), ValueError, r"\(any, 3, 8, 8\) .* got shape \(3,"),
    (
        lambda: vision()(with_nan(torch.ones(2, 3, 8, 8))),
        ValueError,
        "images must be finite, got",
    ),
    (
        lambda: series()(SERIES.long()),
        TypeError,
        "series must be .* got torch.int64",
    ),
    (lambda: series()(with_nan(SERIES)), ValueError, "series must be finite, got nan"),
    (lambda: series()(SERIES / 0), ValueError, "series must be finite, got -?inf"),
    (lambda: series()(SERIES[0]), ValueError, r"series must have shape \(any, any, 3\)"),
    (lambda: series()(numbers(1, 11, 3)), ValueError, "at most length = 10 long, got 11"),
    (lambda: series()(SERIES, padding=ALL_PADDING), ValueError, "every sequence, got all of row 1"),
    (lambda: series()(SERIES, padding=ALL_PADDING.int()), TypeError, "padding must be a boolean"),
    (
        lambda: series()(SERIES, padding=ALL_PADDING[:1]),
        ValueError,
        r"padding must have shape",
    ),
    (decide(steps=torch.full((3, 4), 9)), ValueError, r"steps must be in \[0, 9\), got 9"),
    (decide(steps=torch.ones(3, 5).long()), ValueError, "at most context = 4 long, got 5"),
    (decide(steps=torch.ones(3, 4)), TypeError, "steps must be integers, got torch.float32"),
    (decide(returns=torch.ones(3, 4)), ValueError, r"returns must have shape \(3, 4, 1\)"),
    (decide(states=torch.ones(3, 4, 2)), ValueError, r"states must have shape \(3, 4, 5\)"),
    (decide(actions=torch.ones(2, 4, 2)), ValueError, r"actions must have shape \(3, 4, 2\)"),
    (decide(actions=torch.ones(3, 4, 2).long()), TypeError, "actions must be a floating tensor"),
    (decide(states=with_nan(numbers(3, 4, 5))), ValueError, "states must be finite, got nan"),
    (decide(padding=torch.ones(3, 4) > 0), ValueError, "every sequence, got all of row 0"),
    (lambda: translation()(TEXT, TEXT[:1]), ValueError, "target must have a row for each of the 2"),
    (lambda: translation()(TEXT + V, TEXT), ValueError, rf"source must be in \[0, {V}\)"),
    (lambda: translation()(TEXT, TEXT.float()), TypeError, "target must be integers"),
    (lambda: arena()(TEXT[:, :0]), ValueError, r"tokens must be .* got shape \(2, 0\)"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_refused_by_name_rule_and_value(
    call: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_two_documents_of_different_batches_are_refused() -> None:
    config = models.arena_config("retrieval", vocabulary=V, length=12, dim=16, heads=2, layers=1)
    with pytest.raises(ValueError, match="other must have a row for each of the 2 of tok"):
        models.ArenaClassifier(config)(TEXT, TEXT[:1])
