"""The study of kernels and rules: peers' bandwidths as defined, errors and intervals as stated."""

import math
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from scipy.optimize import brentq
from study_modules import read_rows, study_module

from fourierkernels import KernelDensity
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.theory import optimum
from fourierkernels.theory.densities import as_density


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("kernel_rules", threads=False) as module:
        yield module


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    with study_module("_peer_bandwidths", threads=False) as module:
        yield module


def samples() -> list[FloatArray]:
    rng = np.random.default_rng(3)
    two = np.append(0.2 * rng.normal(size=100), rng.normal(size=80) + 3.0)
    return [rng.normal(size=60), two, rng.exponential(size=200)]


@pytest.mark.parametrize("x", samples())
def test_sheather_jones_is_the_root_with_sums_over_pairs(peers: ModuleType, x: FloatArray) -> None:
    n = len(x)
    low, high = np.quantile(x, (0.25, 0.75))
    scale = min(x.std(ddof=1), (high - low) / 1.349)

    def mean(h: float, derivative: list[float]) -> float:
        z = ((x[:, None] - x) / h) ** 2
        total = float((np.exp(-z / 2) * np.polyval(derivative, z)).sum())
        order = 2 * len(derivative) - 2
        return total / (n * (n - 1) * h ** (order + 1) * math.sqrt(2 * math.pi))

    fourth, sixth = [1.0, -6.0, 3.0], [1.0, -15.0, 45.0, -15.0]
    pilots = mean(1.24 * scale * n ** (-1 / 7), fourth), mean(1.23 * scale * n ** (-1 / 9), sixth)
    factor = 1.357 * (pilots[0] / -pilots[1]) ** (1 / 7)
    top = 1.144 * scale * n**-0.2

    def excess(h: float) -> float:
        curvature = mean(factor * h ** (5 / 7), fourth)
        return float((2 * math.sqrt(math.pi) * n * curvature) ** -0.2 - h)

    root = brentq(excess, 0.1 * top, top, xtol=1e-13)
    assert peers.sheather_jones(x) == pytest.approx(root, rel=1e-9)


def test_defaults_of_peers_are_their_formulas(peers: ModuleType) -> None:
    """Of 0, 1, ..., 31: standard deviation √88 and quartiles 7.75 and 23.25."""
    x, factor = np.arange(32.0), 0.5  # 32^(-1/5)
    found = {peer.name: peer.function(x) for peer in peers.PEERS if peer.name != "R SJ"}
    assert found == pytest.approx(
        {
            "R nrd0": 0.9 * math.sqrt(88) * factor,
            "R nrd": 1.06 * math.sqrt(88) * factor,
            "statsmodels normal_reference": (4 / 3) ** 0.2 * math.sqrt(88) * factor,
            "h = 1": 1.0,
        }
    )
    narrow = np.append(x, [1e6])
    quartiles = np.subtract(*np.quantile(narrow, (0.75, 0.25)))
    nrd0 = {peer.name: peer.function for peer in peers.PEERS}["R nrd0"]
    assert nrd0(narrow) == pytest.approx(0.9 * quartiles / 1.34 * 33**-0.2)


def test_errors_are_the_exact_ones_less_those_of_the_best_radius(study: ModuleType) -> None:
    found = study.studied("mw6", 100, 2, ("fourier4",))
    density, best = as_density("mw6"), optimum("mw6", "fourier4", n=100)
    assert found.least["fourier4"] == pytest.approx(best.mise.total / density.roughness)
    for sample in range(2):
        seed = [study.SEED, study.DENSITIES.index("mw6"), 100, sample]
        X = density.sample(100, np.random.default_rng(seed))[:, None]
        chosen = KernelDensity("fourier4", radius="plugin").fit(X)
        least = KernelDensity("fourier4", radius=best.radius).fit(X)
        excess = (chosen.ise("mw6") - least.ise("mw6")) / density.roughness
        assert found.excess["fourier4", "plugin"][sample] == pytest.approx(excess, rel=1e-8)
        ratio = chosen.radius_[0] / best.radius
        assert found.radii["fourier4", "plugin"][sample] == pytest.approx(ratio)


def made(study: ModuleType, excess: dict[tuple[str, str], list[float]]) -> object:
    blank = {choice: np.zeros(len(values)) for choice, values in excess.items()}
    arrays = {choice: np.array(values) for choice, values in excess.items()}
    least = {"fourier4": 2.0, "gaussian": 1.0}
    return study.Study("made", 10, least, arrays, blank, blank)


def test_paired_choices_have_a_certain_quotient(study: ModuleType) -> None:
    """One choice has twice the error of the other on every sample, however these differ."""
    one, two = ("gaussian", "a"), ("fourier4", "b")
    found = made(study, {one: [0.0, 1.0, 2.0], two: [0.0, 2.0, 4.0]})
    middle, low, high, told = study.quotient([found], two, one, 1)
    assert (middle, low, high, told) == pytest.approx((2.0, 2.0, 2.0, 1.0))
    middle, low, high, told = study.quotient([found], two, None, 1)
    assert middle == pytest.approx(4.0)
    half = study.student(2) * (2.0 / math.sqrt(3)) / 4.0
    assert (low, high) == pytest.approx((4.0 * math.exp(-half), 4.0 * math.exp(half)))


def test_a_rule_that_refused_a_sample_is_not_compared(study: ModuleType) -> None:
    own = {study.DEFAULT: [0.1, 0.2], study.PEER: [0.1, 0.3]}
    found = made(study, own | {("gaussian", "lscv"): [0.1, math.nan]})
    assert [row.rule for row in study.overall([found])] == [study.DEFAULT[1], study.PEER[1]]
    refused = [row for row in study.rows_of(found) if row.rule == "lscv"]
    assert [row.refused for row in refused] == [1]
    assert math.isnan(refused[0].ratio)


def test_committed_tables_have_every_density_size_and_choice(study: ModuleType) -> None:
    rows = read_rows("kernel_rules")
    for name in study.DENSITIES:
        sizes = {int(row["n"]) for row in rows if row["density"] == name}
        assert sizes == set(study.FEW if name == study.LONG_TAILS else study.SAMPLES)
    oracles = [row for row in rows if row["rule"] == "oracle"]
    assert {row["kernel"] for row in oracles} == set(study.ORACLES)
    assert all(float(row["ratio"]) >= 1.0 for row in oracles)
    choices = {(kernel, rule) for kernel in study.KERNELS for rule in study.rules_of(kernel)}
    assert choices == {(row["kernel"], row["rule"]) for row in rows if row["rule"] != "oracle"}
