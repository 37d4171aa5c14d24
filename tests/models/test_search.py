"""Beam search in batches: what it never writes, when it stops, and thousands of sentences."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tiny_models import V, tokens, translation
from torch import Tensor

from fourierkernels import models
from fourierkernels.models.search import penalty
from fourierkernels.models.translating import like_lengths

W = 7  # words: padding, start, end and four others


def sharp(preset: str = "dft_both", **changes: Any) -> models.TranslationModel:
    """A model whose sentences differ in length."""
    torch.manual_seed(1)
    model = translation(preset, vocabulary=W, **{"length": 8, **changes}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch() -> Tensor:
    return torch.tensor([[3, 0, 0, 0], [4, 5, 6, 3], [6, 6, 0, 0], [5, 3, 4, 0], [4, 0, 0, 0]])


def all_sentences(
    model: models.TranslationModel, source: Tensor, longest: int, alpha: float, divisor: str
) -> list[tuple[float, list[int]]]:
    """Each sentence that ends or is cut off at the limit, best first, by a pass for each length."""
    scored, words = [], range(3, W)
    for n in range(longest):
        end = [] if n == longest - 1 else [2]
        target = torch.tensor([[1, *m, *end] for m in itertools.product(words, repeat=n)])
        log_p = model(source.expand(len(target), -1), target[:, :-1]).log_softmax(-1)
        total = log_p.gather(-1, target[:, 1:, None]).sum(dim=(1, 2))
        n_words = target.shape[1] - 1
        scores = total / (n_words**alpha if divisor == "length" else penalty(n_words, alpha))
        scored += zip(scores.tolist(), target[:, 1:].tolist(), strict=True)
    return sorted(scored, reverse=True)


@pytest.mark.parametrize(
    ("alpha", "divisor"), [(0.0, "gnmt"), (0.6, "gnmt"), (2.0, "gnmt"), (1.0, "length")]
)
@pytest.mark.parametrize("preset", ["attention", "dft_both", "dft_last2"])
def test_a_wide_beam_finds_the_best_of_all_sentences(
    preset: str, alpha: float, divisor: str
) -> None:
    """In a batch of several lengths."""
    model, longest = sharp(preset), 4
    options = {"beam": 40, "longest": longest, "length_penalty": alpha, "divisor": divisor}
    found = models.beam_search(model, batch(), **options)
    first = models.beam_search(model, batch(), **options, keep=1)
    assert first.tokens.shape[:2] == (5, 1)
    for row in range(5):
        source = batch()[row][batch()[row] != 0][None]
        best = all_sentences(model, source, longest, alpha, divisor)[:4]
        assert found.scores[row, :4].tolist() == pytest.approx([s for s, _ in best], rel=1e-10)
        sentence = best[0][1]
        for written in (found.tokens[row, 0], first.tokens[row, 0]):
            assert written[1 : len(sentence) + 1].tolist() == sentence
            assert not written[len(sentence) + 1 :].any()


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_of_one_is_greedy(alpha: float) -> None:
    model = sharp()
    found = models.beam_search(model, batch(), beam=1, length_penalty=alpha).tokens[:, 0]
    for row in range(5):
        written = [1]
        while written[-1] != 2 and len(written) < 8:
            logits = model(batch()[row : row + 1], torch.tensor([written]))[0, -1]
            written.append(2 + int(logits[2:].argmax()))
        assert found[row].tolist()[: len(written)] == written


@pytest.mark.parametrize("beam", [1, 3, 30])
def test_padding_and_the_start_are_never_written(beam: int) -> None:
    model = sharp()
    with torch.no_grad():  # what the model likes best is what it must not write
        model.output_bias[:2] += 20.0
    found = models.beam_search(model, batch(), beam=beam)
    for sentence, score in zip(found.tokens.flatten(0, 1), found.scores.flatten(), strict=True):
        words = sentence.tolist()[1:]
        last = words.index(2) + 1 if 2 in words else sum(word != 0 for word in words)
        assert sentence[0] == 1
        assert all(word >= 2 for word in words[:last])
        assert not any(words[last:])
        assert last > 0 or score == -torch.inf


@pytest.mark.parametrize("longest", [2, 3, 8])
def test_no_hypothesis_is_longer_than_asked_for(longest: int) -> None:
    model = sharp()
    with torch.no_grad():
        model.output_bias[2] -= 50.0  # it never ends by itself
    found = models.beam_search(model, batch(), longest=longest)
    assert found.tokens.shape[-1] == longest
    assert (found.tokens[:, 0, 1:] > 2).all()
    assert found.scores[:, 0].isfinite().all()


def test_one_token_and_no_sentence_at_all() -> None:
    model = sharp()
    found = models.beam_search(model, torch.tensor([[3]]), beam=2)
    assert found.scores.isfinite().all()
    nothing = models.beam_search(model, torch.zeros((0, 4), dtype=torch.long), beam=2)
    assert nothing.tokens.shape == (0, 2, 1)
    assert nothing.scores.shape == (0, 2)


def test_it_stops_when_no_hypothesis_alive_can_win(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = sharp(), 0
    with torch.no_grad():
        model.output_bias[2] += 30.0  # the end at once
    step = model.step

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return step(*arguments)

    monkeypatch.setattr(model, "step", counted)
    found = models.beam_search(model, batch(), keep=1, length_penalty=0.6)
    assert steps == 1
    assert found.tokens[:, 0].tolist() == [[1, 2]] * 5


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 2.0])
def test_fewer_wanted_hypotheses_are_the_first_of_more(alpha: float) -> None:
    model = sharp()
    all_four = models.beam_search(model, batch(), length_penalty=alpha)
    one = models.beam_search(model, batch(), length_penalty=alpha, keep=1)
    torch.testing.assert_close(one.scores[:, 0], all_four.scores[:, 0])
    width = one.tokens.shape[-1]
    assert torch.equal(one.tokens[:, 0], all_four.tokens[:, 0, :width])


def test_streamed_steps_are_reordered_with_their_beams() -> None:
    """Sentences of more than a block, so that nodes change places with the hypotheses."""
    found = {}
    for decoding in ("row", "stream"):
        model = sharp("dft_both", length=80, decoder_options={"decoding": decoding})
        with torch.no_grad():
            model.output_bias[2] -= 4.0  # long sentences
        found[decoding] = models.beam_search(model, batch(), beam=3, longest=75)
    assert found["row"].tokens.shape[-1] > 40
    assert torch.equal(found["row"].tokens, found["stream"].tokens)
    torch.testing.assert_close(found["row"].scores, found["stream"].scores)


# --- many sentences ----------------------------------------------------------------------------


def sentences(count: int) -> list[list[int]]:
    lengths = torch.randint(1, 9, (count,), generator=torch.Generator().manual_seed(0)).tolist()
    return [tokens(1, n, vocabulary=V, seed=i)[0].tolist() for i, n in enumerate(lengths)]


def test_translations_come_in_the_order_of_the_sources() -> None:
    torch.manual_seed(0)
    model, sources = translation(length=9).double().eval(), sentences(30)
    found = list(models.translate(model, sources, batch_tokens=30, window=12, beam=2))
    assert len(found) == 30
    for source, words in zip(sources, found, strict=True):
        alone = models.beam_search(model, torch.tensor([source]), beam=2, keep=1).tokens[0, 0]
        expected = [word for word in alone.tolist()[1:] if word > 2]
        assert words == expected


def test_no_more_than_a_window_is_read_ahead() -> None:
    read = 0

    def endless() -> Iterator[list[int]]:
        nonlocal read
        for read in itertools.count(1):
            yield [3 + read % 5] * (1 + read % 4)

    model = translation().eval()
    found = models.translate(model, endless(), window=10, longest=3)
    assert read == 0
    for _ in range(10):
        next(found)
    assert read == 10
    next(found)
    assert read == 20


def test_batches_hold_what_fits() -> None:
    lengths = [len(sentence) for sentence in sentences(200)]
    batches = like_lengths(lengths, 40)
    assert sorted(itertools.chain(*batches)) == list(range(200))
    for places in batches:
        assert len(places) * max(lengths[i] for i in places) <= 40
    assert like_lengths([90], 40) == [[0]]


def test_translate_takes_tensors_and_nothing() -> None:
    model = translation().eval()
    assert list(models.translate(model, [])) == []
    one, other = models.translate(model, [torch.tensor([5, 6]), [5, 6]])
    assert one == other


@pytest.mark.parametrize(
    ("sources", "options", "error", "message"),
    [
        ([[3], []], {}, ValueError, r"sources\[1\] must hold at least one id"),
        ([[3.5]], {}, TypeError, r"sources\[0\] must be integers, got torch\.float32"),
        ([["a"]], {}, TypeError, r"sources\[0\] must be integers, got \['a'\]"),
        ([[3]], {"window": 0}, ValueError, "window must be at least 1, got 0"),
        ([[3]], {"beam": 0}, ValueError, "beam must be at least 1, got 0"),
        ([[99]], {}, ValueError, r"source must be in \[0, 23\), got 99"),
    ],
)
def test_bad_sources_are_refused(
    sources: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(models.translate(translation().eval(), sources, **options))


def test_a_model_that_has_diverged_translates_nothing() -> None:
    model = sharp()
    with torch.no_grad():
        model.output_bias[4] = torch.inf
    with pytest.raises(ValueError, match="model must give probabilities, got NaN"):
        list(models.translate(model, [[3, 4]]))


def test_more_wanted_than_kept_is_refused() -> None:
    with pytest.raises(ValueError, match="keep must be at most beam = 2, got 3"):
        models.beam_search(sharp(), batch(), beam=2, keep=3)


def test_a_sentence_leaves_the_batch_when_it_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    model, sizes = sharp(), []
    step = model.step

    def counted(words: Tensor, state: Any) -> Any:
        sizes.append(len(words))
        return step(words, state)

    monkeypatch.setattr(model, "step", counted)
    models.beam_search(model, batch(), beam=2, keep=1)
    assert sizes[0] == 10
    assert sizes[-1] < 10
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("mask", ["before", "after"])
def test_reordering_beams_is_selecting_their_rows(mask: str) -> None:
    model = sharp("attention", decoder_options={"mask": mask})
    twice = torch.tensor([0, 0, 1, 1])
    state = model.start(batch()[:2]).select(twice)
    _, state = model.step(torch.tensor([[1], [3], [1], [4]]), state)
    rows, words = torch.tensor([1, 0, 3, 3]), torch.tensor([[5], [6], [3], [4]])
    expected, _ = model.step(words, state.select(rows))
    found, _ = model.step(words, state.reorder(rows))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_half_precision_are_sums_of_single_precision(dtype: torch.dtype) -> None:
    model = sharp(length=40).to(dtype)
    source = batch()[1:2]
    found = models.beam_search(model, source, beam=3, length_penalty=0.0, longest=40)
    assert found.scores.dtype is torch.float32
    for sentence, score in zip(found.tokens[0], found.scores[0], strict=True):
        state, total = model.start(source.expand(3, -1)), 0.0
        n = int((sentence != model.config.padding_id).sum())
        for last, word in itertools.pairwise(sentence[:n]):
            logits, state = model.step(last.expand(3, 1), state)
            total += logits[0].double().log_softmax(dim=-1)[word].item()
        assert score.item() == pytest.approx(total, rel=5e-3)
