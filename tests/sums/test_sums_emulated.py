"""The sums of the estimators on a GPU, with emulated CUDA kernels in its place, and on a CPU."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from tolerances import TOLERANCE

pytest.importorskip("torch")

import torch
from host_kernels import host_library, needs_compiler
from torch import Tensor

from fourierkernels import FourierKernel, GaussianKernel, KernelDensity, NadarayaWatson
from fourierkernels.estimators import UndefinedWarning
from fourierkernels.ops.arguments import Inputs, Options, Rows
from fourierkernels.ops.cuda import attention as cuda
from fourierkernels.ops.cuda.build import variant_for
from fourierkernels.sums import PreparedSum
from fourierkernels.sums.on_device import TorchSum
from fourierkernels.sums.reference import ReferenceSum

FAST = TOLERANCE["float64"]["fast"]
KERNELS: dict[str, Any] = {
    "gaussian": GaussianKernel(),
    **{f"fourier{power}": FourierKernel(power) for power in (1, 2, 3, 4, 6, 9)},
}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine that seems to have a card; the powers that its kernels were asked for."""
    powers: list[int] = []

    def attend(*arguments: Any) -> Rows:
        tensors, (power, causal, eps, dropout, weights) = arguments[:6], arguments[6:]
        size = variant_for("double", max(tensors[0].shape[-1], tensors[2].shape[-1])).size
        powers.append(power)
        options = Options(power, causal, eps, dropout, weights)
        return cuda.forward(host_library(torch.float64, size), Inputs(*tensors), options)

    def moved(self: TorchSum, array: NDArray[np.float64]) -> Tensor:
        assert self._device.type == "cuda"
        return torch.as_tensor(array, dtype=torch.float64)

    monkeypatch.setattr("fourierkernels.sums.samples.check_device", lambda device: device)
    monkeypatch.setattr("fourierkernels.sums.on_device.attend", attend)
    monkeypatch.setattr(TorchSum, "_moved", moved)
    return powers


class Operator(NamedTuple):
    """The operator of attention: options of sums by it, powers that a card was asked for."""

    options: dict[str, str]
    powers: list[int] | None = None


@pytest.fixture(params=["cpu", pytest.param("card", marks=needs_compiler)])
def operator(request: pytest.FixtureRequest) -> Operator:
    if request.param == "cpu":
        return Operator({"method": "torch"})
    return Operator({"device": "cuda"}, request.getfixturevalue("card"))


def data(dim: int, n: int = 90, m: int = 40, seed: int = 0) -> tuple[NDArray[np.float64], ...]:
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.5, 2, n))
    return rng.normal(size=(n, dim)), rng.normal(size=(m, dim)), weights, rng.normal(size=(n, 2))


@needs_compiler
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_are_those_of_the_reference_within_the_stated_errors(
    card: list[int], kernel: str, dim: int
) -> None:
    points, at, weights, responses = data(dim)
    used = weights > 0
    arguments = (points[used], weights[used], responses[used])
    facts: dict[str, Any] = {"kernel": KERNELS[kernel], "radius": np.full(dim, 3.0)}
    parts = ("value",) * dim
    ours = TorchSum(*arguments, **facts, device="cuda").at(at, parts)
    exact = ReferenceSum(*arguments, **facts).at(at, parts)
    shift = ours.exponent - exact.exponent
    gap = np.abs(np.ldexp(ours.denominator, shift) - exact.denominator)
    assert (gap <= np.ldexp(ours.error, shift) + exact.error).all()
    largest = np.abs(responses).max()
    gap = np.abs(np.ldexp(ours.numerator, shift[:, None]) - exact.numerator)
    assert (gap <= largest * (np.ldexp(ours.error, shift) + exact.error)[:, None]).all()
    assert len(card) == (kernel != "gaussian")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.filterwarnings("ignore:sample_weight counts copies of rows")
@pytest.mark.parametrize(
    ("dim", "n", "weighting"), [(1, 90, "importance"), (3, 90, "importance"), (4, 300, "frequency")]
)
def test_density_and_regression_answer_as_by_the_direct_sums(
    operator: Operator, kernel: str, dim: int, n: int, weighting: str
) -> None:
    points, at, weights, responses = data(dim, n)
    answers = []
    for options in (operator.options, {"method": "direct"}):
        facts: dict[str, Any] = {"kernel": kernel, "radius": 1.5, "weighting": weighting}
        facts |= options
        density = KernelDensity(**facts).fit(points, sample_weight=weights)
        regression = NadarayaWatson(**facts).fit(points, responses, sample_weight=weights)
        assert density.plan_.method == options.get("method", "torch")
        answers.append(
            (
                density.density(at),
                density.leave_one_out(),
                regression.predict(at),
                regression.leave_one_out(),
            )
        )
    for ours, direct in zip(*answers, strict=True):
        scale = np.nanmax(np.abs(direct))
        np.testing.assert_allclose(ours, direct, rtol=1e-9, atol=1e-11 * scale)
    if operator.powers is not None:
        assert bool(operator.powers) == (kernel != "gaussian")


@needs_compiler
def test_many_columns_and_features_take_the_larger_libraries(card: list[int]) -> None:
    rng = np.random.default_rng(3)
    points, at, responses = (rng.normal(size=s) for s in ((50, 20), (7, 20), (50, 40)))
    facts: dict[str, Any] = {"kernel": "fourier4", "radius": 0.5}
    ours, direct = (
        NadarayaWatson(**facts, **options).fit(points, responses).predict(at)
        for options in ({"device": "cuda"}, {"method": "direct"})
    )
    np.testing.assert_allclose(ours, direct, rtol=1e-9, atol=1e-11)
    assert card


def test_a_sum_of_zeros_of_the_sine_is_undefined(operator: Operator) -> None:
    points, at = np.zeros((1, 1)), np.array([[np.pi], [3.0]])
    model = NadarayaWatson("fourier2", radius=1.0, **operator.options).fit(points, [2.0])
    with pytest.warns(UndefinedWarning, match="1 of 2 queries"):
        predicted = model.predict(at)
    np.testing.assert_array_equal(predicted, [np.nan, 2.0])
    assert operator.powers in (None, [2])


@needs_compiler
@pytest.mark.parametrize("kernel", ["gaussian", "fourier2", "fourier4"])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e9, 1e10, 1e13])
def test_far_queries_answer_as_by_the_direct_sums(card: list[int], kernel: str, far: float) -> None:
    at = [[far], [-far], [0.5]]
    facts: dict[str, Any] = {"kernel": kernel, "radius": 1.0, "responses": [3.0, 5.0]}
    ours, direct = (
        PreparedSum([[0.0], [1.0]], **facts, **options).at(at)
        for options in ({"device": "cuda"}, {"method": "direct"})
    )
    shift = ours.exponent - direct.exponent
    gap = np.abs(np.ldexp(ours.denominator, shift) - direct.denominator)
    assert np.isfinite(ours.error).all()
    assert (gap <= np.ldexp(ours.error, shift) + direct.error).all()
    np.testing.assert_allclose(ours.totals()[2], direct.totals()[2], rtol=FAST)


def test_exponents_of_distant_gaussians_do_not_wrap_around() -> None:
    facts: dict[str, Any] = {"kernel": GaussianKernel(), "radius": np.ones(1)}
    arguments = np.zeros((1, 1)), np.ones(1), np.zeros((1, 0))
    sums = TorchSum(*arguments, **facts).at(np.array([[1e9], [1e10], [1e14]]), ("value",))
    assert (np.diff(sums.exponent) <= 0).all()
    assert sums.exponent[-1] == -(2**62)
    assert (sums.error >= sums.denominator).all()  # no digit is known, and it says so


def test_slopes_are_refused(operator: Operator) -> None:
    model = KernelDensity("fourier4", radius=1.0, **operator.options).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="'torch' has no compiled slopes"):
        model.derivative([[0.5]])


@needs_compiler
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_inputs_that_are_not_finite_are_refused(card: list[int], bad: float) -> None:
    with pytest.raises(ValueError, match=r"finite|NaN|infinity"):
        KernelDensity("fourier4", radius=1.0, device="cuda").fit([[0.0], [bad]])
    model = NadarayaWatson("fourier4", radius=1.0, device="cuda")
    with pytest.raises(ValueError, match=r"finite|NaN|infinity"):
        model.fit([[0.0], [1.0]], [1.0, bad])
    with pytest.raises(ValueError, match=r"finite|NaN|infinity"):
        model.fit([[0.0], [1.0]], [1.0, 2.0]).predict([[bad]])
    assert card == []


@needs_compiler
def test_kernels_without_a_compiled_form_are_refused(card: list[int]) -> None:
    facts: dict[str, Any] = {"radius": 1.0, "device": "cuda"}
    with pytest.raises(ValueError, match="'torch' has powers up to 512"):
        PreparedSum([[0.0]], kernel=FourierKernel(514), **facts).at([[0.5]])


@needs_compiler
@pytest.mark.parametrize(("dim", "columns"), [(300, 1), (1, 300)])
def test_widths_beyond_the_libraries_are_refused(card: list[int], dim: int, columns: int) -> None:
    prepared = PreparedSum(
        np.zeros((2, dim)),
        kernel="fourier4",
        radius=1.0,
        responses=np.zeros((2, columns)),
        device="cuda",
    )
    message = "points and responses must have at most 256 columns on device 'cuda', got 300"
    with pytest.raises(ValueError, match=message):
        prepared.at(np.zeros((1, dim)))
    assert card == []
