"""Inputs too long for whole maps: measured in slabs to the same numbers, or refused at once."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.diagnostics import HeadProfile, head_samples, profile_heads
from fourierkernels.diagnostics.networks import layers, samples
from fourierkernels.diagnostics.networks.layers import Footprint, check_whole_maps, footprint
from fourierkernels.report import head_report

Tiny = Callable[[str], Path]
TEXTS = ["a b c d e f g", "h i j", "c c d a e"]
METRICS = ["frobenius_per_sqrt_n", "jensen_shannon", "projected_distance", "cka"]
ITEM = [3, 4, 5, 6, 7, 8, 9, 10, 11]


@pytest.fixture
def maps_in_slabs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take every text for a long one, read in slabs of a few rows; their sizes."""
    monkeypatch.setattr(samples, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(samples, "COMPUTED_SLAB", 50)
    monkeypatch.setattr(layers, "COMPUTED_SLAB", 70)
    sizes: list[int] = []
    run = samples._calls

    def watched(checkpoint: Any, items: list[Any], slab: int) -> Any:
        sizes.append(slab)
        return run(checkpoint, items, slab)

    monkeypatch.setattr(samples, "_calls", watched)
    return sizes


def profiled(path: Path, **options: Any) -> HeadProfile:
    checkpoint = load_checkpoint(path)
    random = load_checkpoint(path, random_weights=True)
    given: dict[str, Any] = {"metrics": METRICS, "tokens": "whitespace", "examples": 2}
    given |= {"controls": ["rows", "entropy"], "random": random, "permutations": 3}
    return profile_heads(checkpoint, TEXTS, **given, **options)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_profile_in_slabs_is_that_of_whole_maps(
    kind: str, tiny: Tiny, request: pytest.FixtureRequest
) -> None:
    whole = profiled(tiny(kind))
    sizes = request.getfixturevalue("maps_in_slabs")
    found = profiled(tiny(kind))
    assert len(sizes) >= 2 * len(TEXTS)
    assert 0 < min(sizes) <= max(sizes) <= 4
    near: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6}  # float32, in products of other sizes
    for name in METRICS:
        one, other = found.distances[name], whole.distances[name]
        np.testing.assert_allclose(one.distances, other.distances, **near)
        np.testing.assert_allclose(one.texts, other.texts, **near)
    assert found.statistics.keys() == whole.statistics.keys()
    for name, statistic in found.statistics.items():
        np.testing.assert_allclose(statistic.mean, whole.statistics[name].mean, **near)
    assert found.controls.keys() == whole.controls.keys() == {"rows", "entropy"}
    for name, by_metric in found.controls.items():
        for metric, control in by_metric.items():
            expected = whole.controls[name][metric].distances
            np.testing.assert_allclose(control.distances, expected, rtol=1e-3, atol=1e-5)
    assert found.null is not None
    assert whole.null is not None
    np.testing.assert_allclose(found.null.observed, whole.null.observed, **near)
    for one, other in zip(found.examples, whole.examples, strict=True):
        np.testing.assert_allclose(one.maps, other.maps, atol=1e-3)


def test_positions_that_a_model_makes_whole_are_not_read_in_slabs(
    tiny: Tiny, maps_in_slabs: list[int]
) -> None:
    """T5 adds a bias of all tokens to its scores in a function that is not the interface's."""
    checkpoint = load_checkpoint(tiny("t5"))
    found = footprint(checkpoint, ITEM)
    (sample,) = head_samples(checkpoint, [ITEM])
    assert sample.maps.sum(axis=-1) == pytest.approx(1.0)
    assert found.in_slabs == (maps_in_slabs[-1] > 0)
    assert found.masks + found.whole >= 4


@pytest.mark.parametrize(("kind", "masks"), [("bert", 0), ("gpt2", 1)])
def test_footprint_counts_what_a_short_run_shows(kind: str, masks: int, tiny: Tiny) -> None:
    found = footprint(load_checkpoint(tiny(kind)), ITEM)
    assert (found.in_slabs, found.whole, found.masks, found.heads) == (True, 0, masks, 4)
    assert (found.features, found.widest) == (3 * 4 * 16, 16)


def test_memory_grows_with_the_tokens_and_not_with_their_square_where_maps_are_not_held() -> None:
    slabs = Footprint(0, 0, 0, features=192, widest=16, heads=4, in_slabs=True)
    held = Footprint(12, 4, 0, features=192, widest=16, heads=4, in_slabs=False)
    for found, power in ((slabs, 1.0), (held, 2.0)):
        growth = math.log10(found.bytes(10**7, 10**7) / found.bytes(10**6, 10**6))
        assert growth == pytest.approx(power, abs=0.1)
    assert held.bytes(1000, 1000) > 4 * 12 * 1000**2


def test_text_that_does_not_fit_is_refused_before_any_is_run(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, maps_in_slabs: list[int]
) -> None:
    checkpoint = load_checkpoint(tiny("gpt2"))
    free = footprint(checkpoint, ITEM).bytes(8, 8)
    monkeypatch.setattr(layers, "available_memory", lambda: free)
    message = (
        r"inputs must fit into memory, got one of 9 tokens, which needs about [\d.]+ kB because "
        r"the model makes a mask of all tokens, of [\d.]+ kB that may be used: cut it into windows "
        r"of at most 8 \(--max-tokens\)"
    )
    with pytest.raises(ValueError, match=message):
        next(head_samples(checkpoint, [[3, 4], ITEM]))
    assert not maps_in_slabs
    assert len(list(head_samples(checkpoint, [[3, 4], ITEM[:8]]))) == 2


def test_importance_holds_maps_and_refuses_what_does_not_fit(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = load_checkpoint(tiny("bert"))
    check_whole_maps(checkpoint, [ITEM])  # short texts are not looked at
    monkeypatch.setattr(layers, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(layers, "available_memory", lambda: 1e3)
    with pytest.raises(ValueError, match="because the model computes 12 whole maps of attention"):
        check_whole_maps(checkpoint, [[3], ITEM])


def test_kept_maps_that_do_not_fit_are_left_out(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "available_memory", lambda: 1e3)
    checkpoint = load_checkpoint(tiny("bert"))
    found = profile_heads(checkpoint, TEXTS, tokens="whitespace", permutations=2)
    assert found.null is None
    assert found.distances
    (reason,) = found.left_out
    assert reason.startswith("permutations: maps must fit into memory to be kept whole, got 2.4 kB")


def test_max_tokens_cuts_texts_into_windows(tiny: Tiny, tmp_path: Path) -> None:
    report = head_report(
        tiny("bert"), TEXTS, tokens="whitespace", max_tokens=5, importance="mean_masking"
    )
    summary = next(iter(report.summaries().values()))
    assert (summary.n_max, summary.n_windows, summary.n_texts) == (5, 6, 3)
    with pytest.raises(ValueError, match="max_tokens must be at least 1, got 0"):
        head_report(tiny("bert"), TEXTS, tokens="whitespace", max_tokens=0)


def test_batches_are_estimated_and_read_in_slabs_as_texts_are(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 16, batch_first=True)
    model = nn.Sequential(nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2)).eval()
    ids = torch.arange(2 * 40).reshape(2, 40) % 20
    options: dict[str, Any] = {"baseline": False, "permutations": 2, "examples": 2}
    whole = head_report(model, ids, **options)
    sizes = request.getfixturevalue("maps_in_slabs")
    found = head_report(model, ids, **options)
    assert 0 < min(sizes) <= max(sizes) <= 4
    one, other = (report.summaries()["trained"].distances for report in (found, whole))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    run = len(sizes)
    monkeypatch.setattr(layers, "available_memory", lambda: 1e4)
    with pytest.raises(ValueError, match=r"inputs must fit into memory, got one of 40 tokens"):
        head_report(model, ids, **options)
    assert len(sizes) == run
