"""Kernel sums by the operator of attention: the path of a GPU, here on a CPU."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tolerances import TOLERANCE

pytest.importorskip("torch")

import torch

from fourierkernels import FourierKernel, GaussianKernel, KernelDensity, NadarayaWatson
from fourierkernels.sums import PreparedSum
from fourierkernels.sums.on_device import TorchSum
from fourierkernels.sums.reference import ReferenceSum

FAST = TOLERANCE["float64"]["fast"]
KERNELS = {
    "gaussian": GaussianKernel(),
    **{f"fourier{power}": FourierKernel(power) for power in (1, 2, 3, 4)},
}
NO_CUDA = not torch.cuda.is_available()


def data(dim: int, n: int = 300, seed: int = 0) -> tuple[NDArray[np.float64], ...]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, dim)),
        rng.normal(size=(40, dim)),
        rng.uniform(0.5, 2, n),
        rng.normal(size=(n, 2)),
    )


def both(kernel: str, dim: int, radius: float, **options: Any) -> tuple[Any, Any]:
    points, at, weights, responses = data(dim)
    arguments = (points, weights, responses)
    facts: dict[str, Any] = {"kernel": KERNELS[kernel], "radius": np.full(dim, radius)}
    parts = ("value",) * dim
    return (
        TorchSum(*arguments, **facts, **options).at(at, parts),
        ReferenceSum(*arguments, **facts).at(at, parts),
    )


@pytest.mark.parametrize("dim", [1, 3, 16, 128])
@pytest.mark.parametrize("kernel", ["gaussian", "fourier2", "fourier4"])
def test_sums_and_ratios_are_those_of_the_reference_without_underflow(
    kernel: str, dim: int
) -> None:
    ours, reference = both(kernel, dim, 2.0)
    tolerance = FAST * max(1, dim / 4)  # logarithms of hundreds in the reference
    shift = ours.exponent - reference.exponent
    np.testing.assert_allclose(
        np.ldexp(ours.denominator, shift), reference.denominator, rtol=tolerance
    )
    np.testing.assert_allclose(
        np.ldexp(ours.numerator, shift[:, None]),
        reference.numerator,
        rtol=tolerance,
        atol=tolerance * np.abs(reference.numerator).max(),
    )
    if dim == 128 and kernel == "fourier4":
        assert (reference.exponent < -300).all()


@pytest.mark.parametrize("kernel", ["fourier1", "fourier3"])
def test_signed_sums_are_within_their_error_of_the_reference(kernel: str) -> None:
    ours, reference = both(kernel, 2, 4.0)
    shift = ours.exponent - reference.exponent
    gap = np.abs(np.ldexp(ours.denominator, shift) - reference.denominator)
    assert (gap <= np.ldexp(ours.error, shift) + reference.error).all()
    assert (np.ldexp(ours.error, ours.exponent) < 1e-10).all()


def test_log_densities_do_not_underflow() -> None:
    points, at, _, _ = data(128)
    ours, direct = (
        KernelDensity("fourier4", radius=2.0, method=method).fit(points).score_samples(at)
        for method in ("torch", "direct")
    )
    assert (ours < -300).all()
    np.testing.assert_allclose(ours, direct, rtol=FAST)


def test_far_queries_of_a_gaussian_see_their_nearest_sample() -> None:
    model = NadarayaWatson("gaussian", radius=1.0, method="torch")
    predicted = model.fit([[0.0], [1.0]], [3.0, 5.0]).predict([[1e4], [-1e4]])
    np.testing.assert_allclose(predicted, [5.0, 3.0], rtol=FAST)


def test_gaussian_blocks_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = both("gaussian", 3, 1.5)[0]
    monkeypatch.setattr("fourierkernels.sums.on_device._BLOCK", 2000)
    blocks = both("gaussian", 3, 1.5)[0]
    np.testing.assert_allclose(blocks.denominator, whole.denominator, rtol=FAST)
    np.testing.assert_array_equal(blocks.exponent, whole.exponent)


@pytest.mark.skipif(not NO_CUDA, reason="there is a CUDA device")
@pytest.mark.parametrize("estimator", [KernelDensity, NadarayaWatson])
def test_a_machine_without_cuda_says_so(estimator: Any) -> None:
    model = estimator(device="cuda")  # set as it is: nothing is checked before fit
    assert model.get_params()["device"] == "cuda"
    message = "device must be 'cpu' on this machine: torch sees no CUDA device, got 'cuda'"
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0]], [1.0, 2.0])


@pytest.mark.skipif(NO_CUDA, reason="no CUDA device")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_cuda_device_answers_as_the_cpu(kernel: str) -> None:
    points, at, _, responses = data(4)
    cpu, cuda = (
        NadarayaWatson(kernel, radius=1.5, device=device).fit(points, responses).predict(at)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(cuda, cpu, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("device", ["tpu", "cuda:x", None])
def test_other_devices_are_refused(device: Any) -> None:
    with pytest.raises(ValueError, match=f"device must be 'cpu', .* got {device!r}"):
        PreparedSum([[0.0]], kernel="gaussian", radius=1.0, device=device)


def test_a_method_of_the_cpu_is_refused_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.sums.samples.check_device", lambda device: device)
    facts: dict[str, Any] = {"kernel": "fourier4", "radius": 1.0, "device": "cuda"}
    with pytest.raises(ValueError, match=r"method must be 'auto' or 'torch' .* got 'direct'"):
        PreparedSum([[0.0]], method="direct", **facts).plan(np.zeros((1, 1)))
    assert PreparedSum([[0.0]], **facts).plan(np.zeros((1, 1))).method == "torch"


def test_the_cpu_never_chooses_the_path_of_a_device() -> None:
    prepared = PreparedSum(np.zeros((300, 20)), kernel="fourier4", radius=1.0)
    assert prepared.plan(np.zeros((10**4, 20))).method == "direct"
