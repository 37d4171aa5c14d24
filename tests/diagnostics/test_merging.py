"""What several processes have taken in adds up to what one takes in."""

import warnings
from typing import Any

import numpy as np
import pytest

from fourierkernels.diagnostics.moments import RunningMoments
from fourierkernels.diagnostics.networks.measures import Statistics
from fourierkernels.diagnostics.networks.passes import Examples, Modules
from fourierkernels.diagnostics.resampling import NullAccumulator
from fourierkernels.diagnostics.statistic_summary import StatisticAccumulator
from fourierkernels.diagnostics.summary import HeadAccumulator


def maps_of(rng: np.random.Generator, n: int) -> np.ndarray:
    weights = rng.random((2, 3, n, n)) ** 4
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("sizes", [(1, 1), (0, 5), (70, 3, 40), (33, 0, 32, 31)])
def test_moments_do_not_depend_on_who_took_in_what(sizes: tuple[int, ...]) -> None:
    values = 1e6 + np.random.default_rng(0).normal(size=(sum(sizes), 2, 3))
    parts, numbers = [], iter(range(len(values)))
    for size in sizes:
        parts.append(RunningMoments())
        for number in [next(numbers) for _ in range(size)]:
            parts[-1].add(values[number])
    merged = parts[0]
    for found in parts[1:]:
        merged.merge(found.state())
    assert merged.count == len(values)
    np.testing.assert_allclose(merged.mean, values.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(merged.std(), values.std(axis=0, ddof=1), rtol=1e-8)


def test_accumulators_add_up_in_any_split() -> None:
    rng = np.random.default_rng(1)
    texts = [maps_of(rng, 2 + number % 3) for number in range(9)]
    makers: list[Any] = [HeadAccumulator, lambda: NullAccumulator(permutations=4)]
    for make in makers:
        whole, merged = make(), make()
        for number, one in enumerate(texts):
            whole.add(one, number=number)
        for place in range(4):
            part = make()
            for number in range(place, len(texts), 4):
                part.add(texts[number], number=number)
            merged.merge(part.state())
        merged.merge(make().state())  # nothing taken in
        wanted = vars(whole.summary())
        for name, value in vars(merged.summary()).items():
            if not isinstance(value, str):
                np.testing.assert_allclose(value, wanted[name], rtol=1e-12, atol=1e-14)


def test_shares_that_do_not_fit_each_other_are_refused() -> None:
    rng = np.random.default_rng(2)
    one, other = (HeadAccumulator(metric="frobenius") for _ in range(2))
    one.add(maps_of(rng, 3))
    other.add(maps_of(rng, 4))
    with pytest.raises(ValueError, match="texts must have one length for metric frobenius"):
        one.merge(other.state())
    fewer = HeadAccumulator()
    fewer.add(maps_of(rng, 3)[:1])
    both = HeadAccumulator()
    both.add(maps_of(rng, 3))
    with pytest.raises(ValueError, match="same layers and heads"):
        both.merge(fewer.state())


def test_statistics_that_one_share_leaves_out_are_left_out_with_a_warning() -> None:
    taken = StatisticAccumulator(["entropy"])
    taken.add({"entropy": np.ones((1, 2))})
    whole = {"names": ["entropy"], "left_out": "", "without": [], "taken": taken.state()}
    none = StatisticAccumulator(["entropy"]).state()
    short = {**whole, "left_out": "rows sum to less than one", "taken": none}
    merged = Statistics("maps")
    merged.merge(Statistics("maps").state())  # a share without any input
    merged.merge(whole)
    assert merged.summary()["entropy"].mean.tolist() == [[1.0, 1.0]]
    with pytest.warns(UserWarning, match="statistics are left out"):
        merged.merge(short)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged.merge(whole)  # said once
    assert merged.summary() == {}


def test_examples_are_kept_as_far_as_there_is_room_the_shortest_first() -> None:
    def found(index: int, n: int) -> list[Any]:
        return [index, str(index), ("a",) * n, ("a",) * n, np.full((1, 1, n, n), 1 / n)]

    kept = Examples(count=3, most=6)
    kept.merge({"found": [found(0, 2), found(2, 1)]})
    assert [one.label for one in kept.summary()] == ["0", "2"]
    kept.merge({"found": [found(1, 1)]})
    assert [one.label for one in kept.summary()] == ["0", "1", "2"]
    kept.merge({"found": [found(3, 2)]})
    assert [one.label for one in kept.summary()] == ["0", "1", "2"]


def test_modules_are_those_of_a_share_with_inputs() -> None:
    modules = Modules(("a", "b"), "attention seen in c")
    modules.merge(Modules().state())
    assert (modules.layers, modules.unread) == (("a", "b"), "attention seen in c")
    nothing = Modules()
    nothing.merge(modules.state())
    assert (nothing.layers, nothing.unread) == (("a", "b"), "attention seen in c")
