"""A sentence's answer is its own: alone, in any batch, in any order, padded to any width."""

import itertools
from typing import Any

import pytest
import torch
from tiny_models import V, tokens, translation
from torch.nn.functional import pad

from fourierkernels import models
from fourierkernels.mixing import mixer_names
from fourierkernels.models.sequences import Group, group_sources, padded_length

LENGTHS = (7, 3, 12, 1, 7)
KINDS: list[Any] = ["own", "fixed", (4, 9)]
FIXED = ("dft", "fnet", "hadamard", "linear", "random", "parametrised")
FORMS = [  # attention and no mixing at all are never regrouped
    (mixer, kind)
    for mixer in mixer_names(causal=False)
    for kind in (KINDS if mixer in FIXED else KINDS[:1])
]


def model(mixer: str = "dft", **changes: Any) -> models.TranslationModel:
    torch.manual_seed(3)
    options = {"zero_padding": True} if mixer in FIXED else {}
    return translation("attention", mixer=mixer, mixer_options=options, **changes).double().eval()


def sentences() -> list[torch.Tensor]:
    return [tokens(1, n, vocabulary=V, seed=n + i)[0] for i, n in enumerate(LENGTHS)]


def batch(rows: list[torch.Tensor], width: int = 12) -> torch.Tensor:
    return torch.stack([pad(row, (0, width - len(row))) for row in rows])


@pytest.mark.parametrize(("mixer", "kind"), FORMS, ids=str)
def test_answers_do_not_depend_on_the_batch(mixer: str, kind: Any) -> None:
    net, rows, target = model(mixer, source_lengths=kind), sentences(), tokens(5, 6, vocabulary=V)
    together = net(batch(rows), target)
    states = net.encode(batch(rows))
    order = torch.tensor([3, 1, 4, 0, 2])
    shuffled = net(batch(rows)[order], target[order])
    torch.testing.assert_close(shuffled, together[order], rtol=0, atol=1e-12)
    for i, row in enumerate(rows):
        for width in {len(row), 12}:
            alone = batch([row], width)
            found = net(alone, target[i : i + 1])[0]
            torch.testing.assert_close(found, together[i], rtol=0, atol=1e-12)
            state = net.encode(alone)[0, : len(row)]
            torch.testing.assert_close(state, states[i, : len(row)], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_attention_above_a_dft_reads_no_padding(kind: Any) -> None:
    net, rows = model(source_lengths=kind, attention_layers=1), sentences()
    together = net.encode(batch(rows))
    for i, row in enumerate(rows):
        alone = net.encode(row[None])[0]
        torch.testing.assert_close(alone, together[i, : len(row)], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("preset", ["dft_both", "parametrised_both", "dft_last2"])
def test_translations_and_steps_do_not_depend_on_the_batch(preset: str, kind: Any) -> None:
    torch.manual_seed(3)
    net = translation(preset, source_lengths=kind, decoder_layers=3).double().eval()
    rows = sentences()
    whole = batch(rows)
    together = models.beam_search(net, whole, beam=2)
    for i, row in enumerate(rows):
        alone = models.beam_search(net, row[None], beam=2)
        torch.testing.assert_close(alone.scores[0], together.scores[i], rtol=0, atol=1e-12)
        width = max(alone.tokens.shape[-1], together.tokens.shape[-1])
        one, other = (
            pad(found, (0, width - found.shape[-1]))
            for found in (alone.tokens[0], together.tokens[i])
        )
        assert torch.equal(one, other)
    logits, state = net.step(torch.ones(5, 1, dtype=torch.long), net.start(whole))
    expected = net(whole, torch.ones(5, 1, dtype=torch.long))[:, 0]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
    assert state.seen == 1


@pytest.mark.parametrize("mixer", mixer_names(causal=True))
def test_padding_of_a_target_reaches_none_of_its_tokens(mixer: str) -> None:
    net = translation("attention", decoder_mixer=mixer).double().eval()
    source, target = tokens(2, 5, vocabulary=V), tokens(2, 6, vocabulary=V, seed=1)
    padded = net(source, pad(target, (0, 4)))
    torch.testing.assert_close(padded[:, :6], net(source, target), rtol=0, atol=1e-12)


def test_without_the_rule_the_width_of_the_batch_decides() -> None:
    """What the rule is for: the same encoder, given the batch as it is."""
    net, row = model(), sentences()[0]
    states = []
    for width in (7, 12):
        ids = batch([row], width)
        group = Group(torch.tensor([0]), ids, width > 7)
        states.append(net._encode_alike(group, width)[0, :7])
    assert (states[0] - states[1]).abs().max() > 0.1


def test_dft_of_its_own_length_is_that_of_the_sentence() -> None:
    net, row = model(layers=1), sentences()[1]
    mixed = net.encoder[0].mixer(net._embed(row[None]))
    expected = torch.fft.fft2(net._embed(row[None]), norm="ortho").real
    torch.testing.assert_close(mixed, expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_padded_states_are_zero_and_gradients_flow(kind: Any) -> None:
    net, whole = model(source_lengths=kind), batch(sentences())
    states = net.encode(whole)
    assert states.shape == (5, 12, 16)
    assert torch.count_nonzero(states[whole == 0]) == 0
    states.square().sum().backward()
    assert torch.count_nonzero(net.embedding.weight.grad) > 0


def test_groups_hold_every_row_once_at_its_length() -> None:
    whole = batch(sentences())
    groups = group_sources(whole, (4, 9), length=12, padding_id=0)
    assert [group.tokens.shape for group in groups] == [(2, 4), (2, 9), (1, 12)]
    assert sorted(itertools.chain(*(group.rows.tolist() for group in groups))) == list(range(5))
    for group in groups:
        for row, ids in zip(group.rows.tolist(), group.tokens, strict=True):
            assert ids[ids != 0].tolist() == whole[row][whole[row] != 0].tolist()
    assert [padded_length(5, kind, length=12) for kind in KINDS] == [5, 12, 9]


def test_attention_is_not_regrouped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("attention needs no groups")

    monkeypatch.setattr(models.translation, "group_sources", refuse)
    for mixer in ("softmax", "fourier", "hard_gaussian", "none"):
        model(mixer).encode(batch(sentences()))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("longest", "source_lengths must be own, fixed or lengths, got 'longest'"),
        ((), r"source_lengths must be own, fixed or lengths, got \(\)"),
        ((5, 5), r"must increase and be at most length = 12, got \(5, 5\)"),
        ((5, 13), r"must increase and be at most length = 12, got \(5, 13\)"),
        ((0, 3), "source_lengths must be at least 1, got 0"),
    ],
)
def test_other_lengths_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(source_lengths=value)


@pytest.mark.parametrize("mixer", ["softmax", "dft"])
def test_a_source_without_a_token_is_refused(mixer: str) -> None:
    source = batch(sentences())
    source[2] = 0
    with pytest.raises(ValueError, match="must hold a token in every row, got none in row 2"):
        model(mixer).encode(source)


@pytest.mark.parametrize("mixer", ["dft", "softmax"])
def test_padding_before_a_token_is_refused(mixer: str) -> None:
    """Whether it is masked would depend on the lengths of the other sentences."""
    source = torch.tensor([[3, 4, 5, 0], [3, 0, 4, 5]])
    with pytest.raises(ValueError, match="padded at the end only, got a token after in row 1"):
        model(mixer).encode(source)


def test_groups_refuse_padding_before_a_token_where_models_read_no_values() -> None:
    """The lengths of rows are read on any device; other checks read none on a GPU."""
    source = torch.tensor([[3, 4, 5, 0], [3, 0, 4, 5]])
    with pytest.raises(ValueError, match="padded at the end only, got a token after in row 1"):
        group_sources(source, (6,), length=12, padding_id=0)
