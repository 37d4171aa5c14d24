"""Written text: cached decoding against whole passes, sampling rules, ends and limits."""

import math
from typing import Any

import pytest
import torch
from tiny_models import V, language, tokens

from fourierkernels import models
from fourierkernels.mixing import MIXERS, create_mixer, mixer_names
from fourierkernels.mixing.mixer import TokenMixer
from fourierkernels.models.generation import restrict

EXACT = {"rtol": 1e-12, "atol": 1e-12}
CAUSAL = mixer_names(causal=True)
PROMPTS = [[5, 6, 7, 8, 9], [4], [10, 11, 12]]


def model_of(mixer: str = "fourier", **changes: Any) -> models.LanguageModel:
    """A model whose probabilities are far from even."""
    options = {"radius": 0.05} if mixer == "linear_fourier" else {}
    model = language(mixer, mixer_options=options, length=20, **changes).double().eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter += 0.3 * noise
    return model


# --- caches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAUSAL)
def test_a_mixer_that_reads_many_tokens_at_once_is_where_steps_lead(name: str) -> None:
    torch.manual_seed(0)
    mixer = create_mixer(name, dim=8, length=40, heads=2, causal=True).double()
    x = torch.randn(3, 35, 8, dtype=torch.float64)
    for n in (1, 2, 34):
        mixed, state = mixer.prefill(x[:, :n])
        by_base, expected = TokenMixer.prefill(mixer, x[:, :n])
        torch.testing.assert_close(mixed, by_base, **EXACT)
        for mine, other in zip(state, expected, strict=True):
            torch.testing.assert_close(mine, other, **EXACT)
        found, _ = mixer.step(x[:, n : n + 1], state)
        torch.testing.assert_close(found[:, 0], mixer(x[:, : n + 1])[:, n], **EXACT)


@pytest.mark.parametrize("name", CAUSAL)
def test_no_mixer_reads_ahead_without_a_causal_order(name: str) -> None:
    if MIXERS[name].encoder:
        mixer = create_mixer(name, dim=8, length=40, heads=2)
        with pytest.raises(ValueError, match="prefill needs a causal mixer"):
            mixer.prefill(torch.randn(1, 3, 8))


@pytest.mark.parametrize("mixer", CAUSAL)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_cached_probabilities_are_those_of_the_whole_pass(mixer: str, positions: str) -> None:
    model = model_of(mixer, positions=positions, divisor=2)
    text = tokens(3, 20, vocabulary=V)
    expected = model.log_probabilities(text)
    state = model.start()
    for t in range(20):
        if t == 14:
            found, state = model.prefill(text[:, :14])
            torch.testing.assert_close(found, expected[:, 13], **EXACT)
        found, state = model.step(text[:, t : t + 1], state)
        torch.testing.assert_close(found, expected[:, t], **EXACT)
    with pytest.raises(ValueError, match="at most length = 20 long, got 21"):
        model.step(text[:, :1], state)


@pytest.mark.parametrize("mixer", CAUSAL)
def test_text_written_with_a_cache_is_that_written_without(mixer: str) -> None:
    model = model_of(mixer)
    found = []
    for cache in (True, False):
        generator = torch.Generator().manual_seed(1)
        options = {"new_tokens": 12, "temperature": 0.7, "cache": cache, "generator": generator}
        found.append(models.generate(model, PROMPTS, **options))
    assert torch.equal(found[0].tokens, found[1].tokens)
    assert found[0].lengths.tolist() == [17, 13, 15]


@pytest.mark.parametrize("mixer", CAUSAL)
def test_prompts_of_several_lengths_are_continued_as_each_alone(mixer: str) -> None:
    model = model_of(mixer)
    together = models.generate(model, PROMPTS, new_tokens=8, temperature=0.0, fill_id=2)
    for row, prompt in enumerate(PROMPTS):
        alone = models.generate(model, [prompt], new_tokens=8, temperature=0.0)
        n = len(prompt) + 8
        assert together.lengths[row] == n
        assert together.tokens[row, :n].tolist() == alone.tokens[0].tolist()
        assert alone.tokens[0, : len(prompt)].tolist() == prompt
        assert (together.tokens[row, n:] == 2).all()


def test_a_mask_after_the_softmax_is_written_with_in_whole_passes_only() -> None:
    model = language("softmax", mixer_options={"mask": "after"}).eval()
    with pytest.raises(ValueError, match="prefill needs outputs that later tokens leave alone"):
        models.generate(model, PROMPTS, new_tokens=2)
    written = models.generate(model, PROMPTS, new_tokens=2, temperature=0, cache=False)
    assert written.lengths.tolist() == [7, 3, 5]


def test_text_of_several_blocks_is_written_from_nodes_as_from_whole_passes() -> None:
    """Beyond 128 tokens the causal DFT streams: prompts end inside and at the end of a block."""
    model = language("causal_dft", length=130).double().eval()
    assert model.blocks[0].mixer.streams
    prompts = [tokens(1, n, vocabulary=V, seed=n)[0].tolist() for n in (64, 40)]
    written = [
        models.generate(model, prompts, new_tokens=40, temperature=0, cache=cache).tokens
        for cache in (True, False)
    ]
    assert torch.equal(*written)


def test_the_most_probable_words_are_those_of_whole_passes() -> None:
    model = model_of()
    found = models.generate(model, tokens(4, 6, vocabulary=V), new_tokens=9, temperature=0.0)
    best = model.log_probabilities(found.tokens).argmax(dim=-1)
    assert torch.equal(found.tokens[:, 6:], best[:, 5:-1])


def test_positions_from_the_end_need_whole_passes() -> None:
    model = model_of(positions="from_the_end")
    with pytest.raises(ValueError, match="cache must be False where positions are counted from"):
        models.generate(model, PROMPTS, new_tokens=2)
    found = models.generate(model, [[4, 5]], new_tokens=3, temperature=0.0, cache=False)
    text = [4, 5]
    for _ in range(3):
        text.append(int(model.log_probabilities(torch.tensor([text]))[0, -1].argmax()))
    assert found.tokens[0].tolist() == text


# --- sampling --------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [None, 1, 5, 99])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.6, 1.0])
def test_words_are_left_out_as_hugging_face_does(
    temperature: float, top_k: int | None, top_p: float | None
) -> None:
    warpers = pytest.importorskip("transformers.generation.logits_process")
    logits = 2.0 * torch.randn(50, 23, dtype=torch.float64)
    expected = warpers.TemperatureLogitsWarper(temperature)(None, logits)
    if top_k is not None:
        expected = warpers.TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None and top_p < 1.0:
        expected = warpers.TopPLogitsWarper(top_p)(None, expected)
    found = restrict(logits.log_softmax(-1), temperature, top_k, top_p)
    torch.testing.assert_close(found, expected.log_softmax(-1))


def test_words_are_drawn_as_often_as_they_are_probable() -> None:
    model = model_of("softmax", cutoffs=())  # the mixer only gives probabilities
    draws = 20_000
    generator = torch.Generator().manual_seed(0)
    options = {"new_tokens": 1, "temperature": 1.3, "top_k": 6, "generator": generator}
    found = models.generate(model, torch.full((draws, 2), 5), **options).tokens[:, -1]
    log_p = model.log_probabilities(torch.full((1, 2), 5))[0, -1]
    p = restrict(log_p, 1.3, 6).exp()
    counts = torch.bincount(found, minlength=V)
    assert (counts[p == 0] == 0).all()
    kept = p > 0
    assert kept.sum() == 6
    deviation = (counts - draws * p)[kept] / (draws * p * (1 - p))[kept].sqrt()
    assert deviation.abs().max() < 5.0


def test_a_generator_decides_what_is_drawn() -> None:
    model = model_of()
    found = [
        models.generate(
            model, PROMPTS, new_tokens=9, generator=torch.Generator().manual_seed(seed)
        ).tokens
        for seed in (0, 0, 1)
    ]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-39, 1e-45, 1e-310])
def test_a_temperature_of_nearly_nothing_leaves_the_most_probable_word(
    temperature: float, dtype: torch.dtype
) -> None:
    log_p = torch.tensor([0.2, 0.5, 0.3], dtype=dtype).log()
    for options in ({}, {"top_k": 2}, {"top_p": 0.9}):
        found = restrict(log_p, temperature, **options)
        assert torch.equal(found.exp(), restrict(log_p, 0.0).exp())


def test_a_small_temperature_is_greedy_search() -> None:
    model = model_of()
    greedy = models.generate(model, PROMPTS, new_tokens=9, temperature=0.0).tokens
    assert torch.equal(
        models.generate(model, PROMPTS, new_tokens=9, temperature=1e-4).tokens, greedy
    )
    assert torch.equal(models.generate(model, PROMPTS, new_tokens=9, top_k=1).tokens, greedy)


# --- ends and limits -------------------------------------------------------------------------


def test_a_row_ends_with_its_end_token_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of()
    whole = models.generate(model, PROMPTS, new_tokens=9, temperature=0.0)
    end = int(whole.tokens[0, 7])
    found = models.generate(model, PROMPTS, new_tokens=9, temperature=0.0, end_id=end, fill_id=1)
    for row, prompt in enumerate(PROMPTS):
        written = whole.tokens[row, len(prompt) : len(prompt) + 9].tolist()
        until = written.index(end) + 1 if end in written else 9
        n = len(prompt) + until
        assert found.lengths[row] == n
        assert found.tokens[row, :n].tolist() == [*prompt, *written[:until]]
        assert (found.tokens[row, n:] == 1).all()
    assert found.tokens.shape[1] == int(found.lengths.max())
    calls: list[int] = []
    step = models.LanguageModel.step
    monkeypatch.setattr(
        models.LanguageModel, "step", lambda *given: calls.append(1) or step(*given)
    )
    alone = models.generate(model, PROMPTS[:1], new_tokens=9, temperature=0.0, end_id=end)
    assert len(calls) == alone.lengths.item() - len(PROMPTS[0]) - 1  # none after the end


def test_an_end_token_in_a_prompt_ends_nothing() -> None:
    model = model_of()
    found = models.generate(model, [[5, 6, 7], [5]], new_tokens=2, temperature=0.0, end_id=6)
    assert found.lengths[0] >= 4
    assert found.tokens[0, :3].tolist() == [5, 6, 7]


def test_text_may_fill_the_model_and_no_more() -> None:
    model = model_of()
    assert models.generate(model, [[5] * 15, [4]], new_tokens=5).tokens.shape == (2, 20)
    assert models.generate(model, [[5] * 19], new_tokens=1).lengths.tolist() == [20]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"new_tokens": 16}, ValueError, r"new_tokens = 16 must be at most length = 20 .* got 21"),
        ({"new_tokens": 0}, ValueError, "new_tokens must be at least 1, got 0"),
        ({"temperature": -0.1}, ValueError, "temperature must be at least 0, got -0.1"),
        ({"temperature": math.nan}, ValueError, "temperature must be finite, got nan"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1, got 0"),
        ({"top_k": 2.0}, TypeError, "top_k must be an integer, got 2.0"),
        ({"top_p": 0.0}, ValueError, "top_p must be finite and greater than 0, got 0.0"),
        ({"top_p": 1.1}, ValueError, r"top_p must be in \(0, 1\], got 1.1"),
        ({"end_id": V}, ValueError, rf"end_id must be in \[0, {V}\), got {V}"),
        ({"fill_id": -1}, ValueError, "fill_id must be at least 0, got -1"),
        ({"prompts": []}, ValueError, "prompts must hold at least one, got none"),
        ({"prompts": [[1], []]}, ValueError, r"prompts\[1\] must hold at least one id, got none"),
        ({"prompts": [[1], [V]]}, ValueError, rf"prompts\[1\] must be in \[0, {V}\), got {V}"),
        ({"prompts": [[1.5]]}, TypeError, r"prompts\[0\] must be integers, got torch.float32"),
        ({"prompts": "ab"}, TypeError, r"prompts must be a tensor \(B, N\) or rows .* got 'ab'"),
        ({"prompts": b"ab"}, TypeError, "prompts must be a tensor .* or rows of ids, got b'ab'"),
        ({"prompts": 3}, TypeError, "prompts must be a tensor .* or rows of ids, got 3"),
        ({"prompts": torch.tensor(3)}, TypeError, "prompts must be .* rows of ids, got tensor"),
        ({"prompts": {"a": 1}}, TypeError, "prompts must be a tensor .* or rows of ids, got {"),
        ({"prompts": [[1], "ab"]}, TypeError, r"prompts\[1\] must be integers, got 'ab'"),
        ({"prompts": [["a"]]}, TypeError, r"prompts\[0\] must be integers, got \['a'\]"),
        ({"prompts": [None]}, TypeError, r"prompts\[0\] must be integers, got None"),
        ({"prompts": [1, 2]}, ValueError, r"prompts\[0\] must be a row of ids, got 1"),
        ({"prompts": [[1] * 21]}, ValueError, r"prompts\[0\] must be at most length = 20 long"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"prompts": PROMPTS, "new_tokens": 3, **change}
    with pytest.raises(error, match=message):
        models.generate(model_of(), given.pop("prompts"), **given)


def test_a_model_that_has_diverged_writes_nothing() -> None:
    model = model_of("softmax")
    with torch.no_grad():
        model.softmax.clusters.weight.fill_(math.nan)
    for temperature in (0.0, 1.0):
        with pytest.raises(ValueError, match="model must give probabilities, got NaN"):
            models.generate(model, PROMPTS, new_tokens=2, temperature=temperature)
