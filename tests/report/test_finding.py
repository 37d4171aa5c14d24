"""The sentence a report starts with claims what its intervals bear out, and no more."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from fourierkernels.diagnostics import HeadProfile, HeadSummary, summarise_maps
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.summary import HeadAccumulator
from fourierkernels.report.content import ReportContent
from fourierkernels.report.finding import head_finding, outstanding_layer


def summary(distances: list[float], *, texts: int = 20, noise: float = 0.0) -> HeadSummary:
    """Two heads whose maps of two tokens are that far apart, layer by layer."""
    rng, accumulator = np.random.default_rng(0), HeadAccumulator()
    for _ in range(texts):
        moved = np.array(distances) + noise * rng.uniform(-1, 1, len(distances))
        first = np.tile([1.0, 0.0], (len(distances), 2, 1))
        steps = moved[:, None, None] / np.sqrt(2) * np.array([1.0, -1.0])
        accumulator.add(np.stack([first, first - steps], axis=1))
    return accumulator.summary()


def report(**summaries: HeadSummary) -> ReportContent:
    """Of networks, and under controls of the first."""
    controls = {
        name: {DEFAULT_METRIC: summaries.pop(name)}
        for name in ("rows", "position", "entropy")
        if name in summaries
    }
    profiles = {
        name: HeadProfile({DEFAULT_METRIC: one}, controls=controls if name == "trained" else {})
        for name, one in summaries.items()
    }
    return ReportContent("a checkpoint", profiles)


def test_summary_of_this_file_has_the_distances_asked_for() -> None:
    assert summary([0.1, 0.4]).mean == pytest.approx([0.1, 0.4])


@pytest.mark.parametrize(
    ("control", "claim"),
    [
        (0.2, "are farther apart than heads with the same weights on unrelated keys: they share"),
        (0.5, "The heads share 36.0% (95% interval 36.0% to 36.0%): by so much their mean squared"),
        (0.5, "is below that of heads with the same weights on unrelated keys (distance 0.400 ag"),
    ],
)
def test_first_sentence_compares_with_unrelated_keys(control: float, claim: str) -> None:
    found = head_finding(
        report(trained=summary([0.4]), random=summary([0.1]), rows=summary([control]))
    )
    assert len(found.sentences) == 1  # a single layer cannot stand out
    assert claim in found.sentences[0]


def test_no_difference_is_claimed_where_the_interval_holds_zero() -> None:
    own, other = summary([0.4], noise=0.1), summary([0.4], noise=0.1)
    moved = replace(other, texts=other.texts[::-1] - 0.001)
    (sentence,) = head_finding(report(trained=own, random=moved)).sentences
    assert "not seen to be nearer to each other or farther apart than" in sentence
    assert " heads with random weights" in sentence


def test_layer_stands_out_by_what_its_heads_share() -> None:
    """By distance it would be the second layer, by what is shared it is the third."""
    own, chance = summary([0.2, 0.4, 0.3]), summary([0.4, 0.8, 0.3])
    assert head_finding(report(trained=own)).layer == 1
    found = head_finding(report(trained=own, rows=chance))
    assert found.layer == 2
    assert found.sentences[-1] == (
        "Layer 3 stands out: its heads share 0.0%, in the other layers 75.0%."
    )


def test_what_is_shared_beyond_positions_has_a_sentence_of_its_own() -> None:
    own = summary([0.4], noise=0.01)
    found = head_finding(report(trained=own, rows=summary([0.8]), position=own))
    assert "The heads share 7" in found.sentences[0]
    assert "Beyond positions, they are no" in found.sentences[1]
    assert "they share 0.0%" in found.sentences[1]


@pytest.mark.parametrize(
    ("control", "claim"),
    [
        (
            0.5,
            "nearer to each other than random heads with rows of equal entropy: 0.400 against 0.5",
        ),
        (0.2, "farther apart than random heads with rows of equal entropy: 0.400 against 0.200"),
    ],
)
def test_heads_are_not_said_to_share_what_random_heads_do_not(control: float, claim: str) -> None:
    found = head_finding(report(trained=summary([0.4]), entropy=summary([control])))
    assert claim in found.sentences[0]
    assert "share" not in " ".join(found.sentences)


def test_digits_are_those_of_the_distances() -> None:
    """A small difference, known well, made the distances longer: 0.0389723 against 0.0390607."""
    (sentence,) = head_finding(
        report(trained=summary([0.0389723]), random=summary([0.0390607]))
    ).sentences
    assert "0.0390 against 0.0391" in sentence
    assert "interval of the difference -0.000088 to -0.000088" in sentence


def test_least_layer_stands_out_if_it_is_farther_from_the_rest() -> None:
    found = head_finding(report(trained=summary([0.5, 0.1, 0.45, 0.44])))
    assert found.layer == 1
    assert found.sentences[-1] == (
        "Layer 2 stands out: its heads are nearest to each other, 0.100, "
        "in the other layers 0.440 to 0.500."
    )


@pytest.mark.parametrize("rounding", [-1e-7, 0.0, 1e-7])
@pytest.mark.parametrize("values", [[0.2, 0.4, 0.3], [0.4, 0.2, 0.3]])
def test_of_two_layers_that_stand_out_alike_the_larger_is_named(
    values: list[float], rounding: float
) -> None:
    moved = np.array(values) + rounding * np.array([1.0, -1.0, 1.0])
    assert outstanding_layer(np.tile(moved, (50, 1))) == int(np.argmax(values))


@pytest.mark.parametrize("rounding", [1e-16, 1e-7])
def test_rounding_makes_no_layer_stand_out(rounding: float) -> None:
    values = np.array([0.3, 0.3 + rounding])
    assert outstanding_layer(np.tile(values, (50, 1))) is None
    own = summary([0.3])
    other = replace(own, texts=own.texts * (1 + rounding))
    (sentence,) = head_finding(report(trained=own, random=other)).sentences
    assert "not seen to be nearer" in sentence


@pytest.mark.parametrize("same", [[0.4, 0.4, 0.1, 0.1], [0.3, 0.3]])
def test_layers_that_share_an_end_do_not_stand_out(same: list[float]) -> None:
    found = head_finding(report(trained=summary(same, noise=0.05)))
    assert found.layer is None
    assert "No layer stands out" in found.sentences[-1]


@pytest.mark.parametrize("texts", [1, 2])
def test_one_or_two_texts_have_no_interval_and_make_no_layer_stand_out(texts: int) -> None:
    found = head_finding(
        report(trained=summary([0.1, 0.4], texts=texts), random=summary([0.2] * 2, texts=texts))
    )
    assert found.layer is None
    assert "not seen to be nearer" in found.sentences[0]
    assert "fewer than 3 inputs: no interval" in found.sentences[0]
    assert "no layer is said to stand out" in found.sentences[-1]


def test_other_network_is_named_without_its_folder() -> None:
    one = report(trained=summary([0.4]), other=summary([0.1]))
    found = head_finding(replace(one, against="/home/someone/models/other"))
    assert "farther apart than those of other: 0.400 against 0.100" in found.sentences[-1]
    assert "someone" not in " ".join(found.sentences)


def test_without_distances_the_finding_says_so() -> None:
    assert head_finding(ReportContent("x")).sentences == (
        "No distances between heads were measured.",
    )


def test_random_layers_seldom_stand_out() -> None:
    """Of equal layers one stands out in one draw of twenty at most, whatever their number."""
    rng = np.random.default_rng(0)
    for texts, layers in ((2, 2), (3, 2), (3, 12), (12, 6)):
        drawn = rng.normal(size=(400, texts, layers))
        claimed = sum(outstanding_layer(one) is not None for one in drawn)
        assert claimed <= binom(400, 0.05).ppf(1 - 1e-4)


def test_maps_of_equal_heads_have_no_share_and_the_distance_decides() -> None:
    flat = summarise_maps([np.full((2, 2, 3, 3), 1 / 3)] * 3)
    found = head_finding(report(trained=summary([0.1, 0.4], texts=3), rows=flat))
    assert found.layer == 1
    assert "%," not in found.sentences[-1]
