"""From a checkpoint and texts to a summary; measured numbers of published checkpoints."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import profiles
import pytest
import torch
from tiny_checkpoints import MINILM, RXNMAPPER, needs_minilm, needs_rxnmapper
from tolerances import TOLERANCE

from fourierkernels.checkpoints import load_checkpoint, read_texts
from fourierkernels.diagnostics import METRICS, head_distances, head_samples, summarise_maps
from fourierkernels.diagnostics.outputs import token_distance
from fourierkernels.report import head_report

Tiny = Callable[[str], Path]
DATA = Path(__file__).parents[2] / "notebooks" / "data"
TEXTS = ["a b c d e", "f g", "h i j a b c", "d", "e f g h"]
ROUNDING = TOLERANCE["float32"]["fast"]
CONTROLLED = ["unrelated keys", "all keys unrelated", "positions only"]


@pytest.mark.parametrize(
    "metric", [name for name, row in METRICS.items() if row.any_length and row.of == "maps"]
)
@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_summary_equals_numpy_over_maps_of_one_text_at_a_time(
    kind: str, metric: str, tiny: Tiny
) -> None:
    summary = profiles.distances(
        tiny(kind), TEXTS, metric=metric, tokens="whitespace", batch_size=3
    )
    checkpoint = load_checkpoint(tiny(kind))
    ids = [[2, *(ord(word) - 93 for word in text.split()), 3] for text in TEXTS]
    alone = [next(head_samples(checkpoint, [row])).maps for row in ids]
    expected = np.array([head_distances(maps, metric=metric) for maps in alone])
    np.testing.assert_allclose(summary.distances, expected.mean(axis=0), rtol=0, atol=ROUNDING)
    above = np.triu_indices(4, k=1)
    pairs = expected[:, :, above[0], above[1]]
    std = pairs.std(axis=(0, 2), ddof=1)
    np.testing.assert_allclose(summary.std_pairs_texts, std, rtol=0, atol=ROUNDING)
    assert (summary.n_min, summary.n_median, summary.n_max) == (3, 6, 8)


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_batch_size_does_not_change_the_summary(batch_size: int, tiny: Tiny) -> None:
    one = profiles.distances(tiny("bert"), TEXTS, tokens="whitespace", batch_size=batch_size)
    reference = profiles.distances(tiny("bert"), TEXTS, tokens="whitespace", batch_size=5)
    np.testing.assert_allclose(one.distances, reference.distances, rtol=0, atol=ROUNDING)


def test_texts_longer_than_the_checkpoint_are_cut(tiny: Tiny) -> None:
    summary = profiles.distances(tiny("bert"), ["a b " * 32], tokens="whitespace")
    assert (summary.n_min, summary.n_max) == (6, 32)  # 64 words, 30 a window beside two specials
    assert (summary.n_windows, summary.n_texts) == (3, 1)


def test_context_gives_one_length_and_raw_distances_need_it(tiny: Tiny) -> None:
    options = {"metric": "frobenius", "tokens": "whitespace"}
    with pytest.raises(ValueError, match="--context N"):
        profiles.distances(tiny("bert"), TEXTS, **options)
    summary = profiles.distances(tiny("bert"), TEXTS, context=8, **options)
    assert (summary.n_min, summary.n_max, summary.n_windows) == (8, 8, 3)  # 18 words, 6 a window


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        (33, ValueError, "context must be at most 32, .* got 33"),
        (2, ValueError, "context must exceed the 2 special tokens, got 2"),
        (8.0, TypeError, "context must be an integer, got 8.0"),
        (30, ValueError, "fill at least one window of tokens, got 18 tokens of 5 texts"),
    ],
)
def test_bad_context_is_refused(
    context: int, error: type[Exception], message: str, tiny: Tiny
) -> None:
    with pytest.raises(error, match=message):
        profiles.distances(tiny("bert"), TEXTS, tokens="whitespace", context=context)


def test_ids_need_no_tokenizer_and_get_no_special_tokens(tiny: Tiny) -> None:
    summary = profiles.distances(tiny("gpt2"), ["1 2 3", "4 5"], tokens="ids")
    assert (summary.n_min, summary.n_max, summary.unknown) == (2, 3, 0)


def test_progress_ends_at_the_number_of_texts(tiny: Tiny) -> None:
    seen: list[float] = []
    profiles.distances(tiny("bert"), TEXTS, tokens="whitespace", progress=seen.append)
    assert len(seen) == len(TEXTS)
    assert seen == sorted(seen)
    assert seen[-1] == len(TEXTS)


def test_mostly_unknown_tokens_are_refused_and_some_warned_of(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="67% of 3 tokens unknown; try another tokenizer"):
        profiles.distances(tiny("bert"), ["a z z"], tokens="whitespace")
    with pytest.warns(UserWarning, match="33% of the tokens are unknown"):
        summary = profiles.distances(tiny("bert"), ["a b z"], tokens="whitespace")
    assert summary.unknown == pytest.approx(1 / 3)


def test_empty_lists_measure_nothing_and_a_null_needs_a_metric(tiny: Tiny) -> None:
    found = profiles.profile(tiny("bert"), TEXTS, tokens="whitespace", metrics=[], statistics=[])
    assert (found.distances, found.statistics, found.null) == ({}, {}, None)
    with pytest.raises(ValueError, match="permutations need a metric, got 3"):
        profiles.profile(tiny("bert"), TEXTS, tokens="whitespace", metrics=[], permutations=3)


def test_one_head_leaves_no_distance(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match=r"at least 2 heads .* got 1"):
        profiles.distances(tiny("one_head"), TEXTS, tokens="whitespace")


def test_weights_that_are_not_numbers_are_refused(own: Tiny) -> None:
    checkpoint = load_checkpoint(own("bert"))
    with torch.no_grad():
        checkpoint.model.encoder.layer[1].attention.self.query.weight[0] = torch.nan
    with pytest.raises(ValueError, match=r"maps must be finite, got nan at index \(1, "):
        profiles.distances(checkpoint, TEXTS, tokens="whitespace")


def test_no_texts_are_refused(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="at least one window of tokens, got 0 tokens of 0 texts"):
        profiles.distances(tiny("bert"), [], tokens="whitespace")


def test_networks_are_compared_on_texts_that_can_be_read_twice(tiny: Tiny) -> None:
    options = {"tokens": "whitespace", "statistics": "none"}
    both = head_report(tiny("bert"), TEXTS, **options).summaries()
    assert list(both) == ["trained", *CONTROLLED, "random"]
    assert both["trained"].layer_average > 2 * both["random"].layer_average
    alone = head_report(tiny("bert"), TEXTS, baseline=False, **options).summaries()
    assert list(alone) == ["trained", *CONTROLLED]
    bare = head_report(tiny("bert"), TEXTS, baseline=False, controls="none", **options)
    assert list(bare.summaries()) == ["trained"]
    with pytest.raises(TypeError, match="inputs must be readable twice"):
        head_report(tiny("bert"), iter(TEXTS), **options)


# Published checkpoints. The numbers are those of a first measurement on other English sentences
# (200 of 11 to 73 tokens), with transformers 5.23 and torch 2.13: this is a check of definitions.


@needs_minilm
def test_minilm_distances_on_sentences_reproduce_the_first_measurement() -> None:
    summary = profiles.distances(MINILM, read_texts("sentences"))
    assert summary.distances.shape == (6, 12, 12)
    assert summary.layer_average == pytest.approx(0.426, abs=0.02)
    assert summary.layer_average_std("pairs-texts") == pytest.approx(0.151, abs=0.02)
    assert summary.layer_average_std("pairs") == pytest.approx(0.134, abs=0.02)
    assert summary.layer_average_std("texts") == pytest.approx(0.027, abs=0.01)
    assert summary.std_layers == pytest.approx(0.077, abs=0.02)
    layers = [0.41, 0.53, 0.49, 0.40, 0.41, 0.31]
    np.testing.assert_allclose(summary.mean, layers, atol=0.04)
    nearest_and_farthest = summary.distances[0, 7, 11], summary.distances[0, 2, 9]
    np.testing.assert_allclose(nearest_and_farthest, (0.14, 1.02), atol=0.05)


@needs_minilm
@pytest.mark.parametrize(
    ("metric", "trained", "noise"),
    [("frobenius_per_sqrt_n", 0.426, 0.035), ("jensen_shannon", 0.190, 0.004)],
)
def test_trained_minilm_stands_far_above_random_weights(
    metric: str, trained: float, noise: float
) -> None:
    texts = list(read_texts("sentences"))[:20]
    both = head_report(MINILM, texts, metrics=metric, statistics="none").summaries()
    assert both["trained"].layer_average == pytest.approx(trained, rel=0.1)
    assert both["random"].layer_average == pytest.approx(noise, rel=0.2)
    assert both["trained"].layer_average > 5 * both["random"].layer_average


@needs_minilm
@pytest.mark.parametrize(("context", "mean"), [(32, 2.37), (64, 3.25), (128, 4.39), (256, 5.73)])
def test_raw_distance_grows_with_the_length_as_measured(context: int, mean: float) -> None:
    texts = read_texts("sentences")
    summary = profiles.distances(MINILM, texts, metric="frobenius", context=context, batch_size=4)
    assert summary.n_min == summary.n_max == context
    assert summary.layer_average == pytest.approx(mean, rel=0.05)


@needs_rxnmapper
def test_rxnmapper_distances_on_reactions_reproduce_the_first_measurement() -> None:
    options = {"tokens": "smiles", "statistics": "none"}
    both = head_report(RXNMAPPER, DATA / "reactions.txt", **options).summaries()
    assert both["trained"].distances.shape == (12, 8, 8)
    assert both["trained"].unknown == 0
    assert both["trained"].layer_average == pytest.approx(0.69, abs=0.05)  # there one reaction
    assert both["trained"].layer_average > 5 * both["random"].layer_average


@needs_rxnmapper
def test_rxnmapper_through_the_wrong_tokenizer_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"--tokens words or .* or smiles .*: AlbertTokenizer finds no tokens"
    ):
        profiles.distances(RXNMAPPER, read_texts(DATA / "reactions.txt"))


# Of the first measurement, too: 1 - CKA by layer, and what is after the output projection.


@needs_minilm
@pytest.mark.parametrize(
    ("metric", "layers", "tolerance"),
    [
        ("cka", [0.767, 0.705, 0.683, 0.557, 0.563, 0.706], 0.05),
        ("projected_cosine", [1.01] * 6, 0.03),
    ],
)
def test_minilm_outputs_reproduce_the_first_measurement(
    metric: str, layers: list[float], tolerance: float
) -> None:
    texts = list(read_texts("sentences"))[:20]
    summary = profiles.distances(MINILM, texts, metric=metric)
    np.testing.assert_allclose(summary.mean, layers, atol=tolerance)


@needs_minilm
def test_minilm_projected_outputs_with_their_means_reproduce_the_first_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = replace(METRICS["projected_distance"], function=token_distance)
    monkeypatch.setitem(METRICS, row.name, row)
    texts = list(read_texts("sentences"))[:20]
    found = profiles.distances(MINILM, texts, metric=row.name).mean
    np.testing.assert_allclose(found, [1.50, 1.69, 1.73, 1.96, 2.16, 2.24], atol=0.25)


@needs_minilm
def test_counting_padded_queries_would_inflate_the_distance(tiny: Tiny) -> None:
    # The trap that the capture avoids: padded query rows are full softmax rows.
    checkpoint = load_checkpoint(MINILM)
    mask = torch.tensor([[1] * 6 + [0] * 18])
    ids = torch.tensor([[101, 2023, 2003, 1037, 2460, 102, *[0] * 18]])
    output = checkpoint.model(input_ids=ids, attention_mask=mask, output_attentions=True)
    padded = np.stack([layer[0].numpy() for layer in output.attentions])
    cut = next(head_samples(checkpoint, [ids[0, :6].tolist()])).maps
    naive, right = (summarise_maps([m], metric="frobenius").layer_average for m in (padded, cut))
    assert naive > 1.2 * right
    np.testing.assert_allclose(padded[:, :, :6, :6], cut, atol=ROUNDING)
