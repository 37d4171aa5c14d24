"""What checkpoints tell of their inputs, and that batches give what items give alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import IDS, PAIRS, check_batches, recorded_calls

from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
from fourierkernels.diagnostics.networks.samples import head_samples

Tiny = Callable[[str], Path]
PARTED = [
    (kind, part) for kind in ("t5", "bart", "marian") for part in ("encoder", "decoder", "cross")
]


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "albert", "llama", "t5"])
def test_padded_batches_of_tokens_give_what_each_text_gives_alone(kind: str, tiny: Tiny) -> None:
    check_batches(load_checkpoint(tiny(kind)), IDS)


@pytest.mark.parametrize(("kind", "part"), PARTED)
def test_padded_batches_of_pairs_give_what_each_pair_gives_alone(
    kind: str, part: str, tiny: Tiny
) -> None:
    checkpoint = load_checkpoint(tiny(kind), part=part)
    items: list[Any] = IDS if part == "encoder" else PAIRS
    assert checkpoint.reads == ("tokens" if part == "encoder" else "pairs")
    check_batches(checkpoint, items)


@pytest.mark.parametrize(("kind", "part"), PARTED)
def test_part_of_an_encoder_decoder_has_its_calls_only(kind: str, part: str, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny(kind), part=part)
    calls = recorded_calls(checkpoint, IDS[:1] if part == "encoder" else PAIRS[:1])
    assert len(calls) == 3
    n, m = {"encoder": (7, 7), "decoder": (7, 7), "cross": (7, 7)}[part]
    assert [call.maps.shape[2:] for call in calls] == [(n, m)] * 3
    later = [bool(np.triu(call.maps.numpy(), k=1).any()) for call in calls]
    assert later == [part != "decoder"] * 3


@pytest.mark.parametrize("kind", ["t5", "bart", "marian"])
def test_cross_maps_have_target_queries_and_source_keys(kind: str, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny(kind), part="cross")
    item = ([3, 4, 5, 6], [1, 2])
    assert checkpoint.spans(item) == (2, 4)
    assert checkpoint.labels(item) == (("1", "2"), ("3", "4", "5", "6"))
    assert [call.maps.shape[2:] for call in recorded_calls(checkpoint, [item])] == [(2, 4)] * 3


def test_targets_begin_with_what_the_decoder_starts_from(tiny: Tiny) -> None:
    assert load_checkpoint(tiny("t5"), part="cross").start == (0,)
    assert load_checkpoint(tiny("bart"), part="decoder").start == (2,)
    assert load_checkpoint(tiny("bart")).start == ()


def test_part_is_for_encoder_decoders(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match=r"part must be left out .* got 'decoder' for BertModel"):
        load_checkpoint(tiny("bert"), part="decoder")
    with pytest.raises(ValueError, match="part must be one of"):
        load_checkpoint(tiny("t5"), part="reader")


def test_tokenizer_gives_labels_and_special_tokens(tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny("bert"))
    assert checkpoint.labels([2, 4, 3]) == (("2", "4", "3"),) * 2
    assert checkpoint.special([2, 4, 3]) is None
    for tokens in ("auto", "whitespace"):
        named = checkpoint.with_tokenizer(load_tokenizer(checkpoint, tokens=tokens))
        assert named.labels([2, 4, 3]) == (("[CLS]", "a", "[SEP]"),) * 2
        assert named.special([2, 4, 1, 3]).tolist() == [True, False, False, True]
    bare = checkpoint.with_tokenizer(load_tokenizer(checkpoint, tokens="ids"))
    assert (bare.labels([2]), bare.special([2])) == ((("2",), ("2",)), None)


def test_special_tokens_of_cross_attention_are_those_of_the_source(tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny("t5"), part="cross")
    named = checkpoint.with_tokenizer(load_tokenizer(checkpoint, tokens="whitespace"))
    assert named.special(([4, 3], [2, 2, 4])).tolist() == [False, True]


@pytest.mark.parametrize("kind", ["longformer", "windows"])
def test_attention_in_windows_is_refused(
    kind: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut out of windows, maps would be those of other texts."""
    checkpoint = load_checkpoint(tiny("bert" if kind == "windows" else kind))
    if kind == "windows":  # texts in two halves, as if they were two texts
        whole = type(checkpoint).forward
        halves = [row[i : i + 2] for row in ([1, 2, 3, 4], [5, 6, 7, 8]) for i in (0, 2)]
        monkeypatch.setattr(type(checkpoint), "forward", lambda self, batch: whole(self, halves))
    with pytest.raises(ValueError, match=r"checkpoint must (attend from every|have attention)"):
        list(head_samples(checkpoint, [[1, 2, 3, 4], [5, 6, 7, 8]]))
