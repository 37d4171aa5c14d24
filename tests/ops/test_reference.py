"""The weight functions and their normalisation, against the formulas written plainly."""

import math

import numpy as np
import pytest
import torch
from plain_attention import draw, plain_fourier, plain_weights, relative_error
from scipy.special import zeta
from tolerances import TOLERANCE

from fourierkernels.attention import fourier_attention, gaussian_attention, softmax_attention
from fourierkernels.ops.nadaraya_watson import normalise
from fourierkernels.ops.reference import Scores, log_abs_sinc, log_sinc_slope
from fourierkernels.ops.shapes import LOG_SINC_SLOPE

EXACT = TOLERANCE["float64"]["exact"]
FAST = TOLERANCE["float64"]["fast"]


def test_slope_series_is_that_of_the_cotangent() -> None:
    """Cot x - 1/x = -2 Σ_k ζ(2k) x^(2k-1) / π^(2k), Euler's form of the coefficients."""
    order = 2.0 * np.arange(1, len(LOG_SINC_SLOPE) + 1)
    np.testing.assert_allclose(LOG_SINC_SLOPE, 2 * zeta(order) / math.pi**order, rtol=EXACT)


def test_slope_agrees_on_both_sides_of_the_switch_to_the_series() -> None:
    below, above = log_sinc_slope(torch.tensor([0.5 - 1e-15, 0.5], dtype=torch.float64))
    torch.testing.assert_close(below, above, rtol=EXACT, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_slope_is_finite_at_zero_and_at_the_zeros_of_the_sine(dtype: torch.dtype) -> None:
    x = math.pi * torch.arange(-50, 51, dtype=dtype)
    assert torch.isfinite(log_sinc_slope(x)).all()
    assert log_sinc_slope(torch.zeros(1, dtype=dtype)) == 0


def test_float32_slope_keeps_its_digits_near_zero_where_torch_loses_them() -> None:
    x = torch.linspace(1e-4, 1e-3, 100, requires_grad=True)
    truth = log_sinc_slope(x.detach().double())
    (ours,) = torch.autograd.grad(log_abs_sinc(x).sum(), x)
    (torchs,) = torch.autograd.grad(torch.sinc(x / math.pi).log().sum(), x)
    assert relative_error(ours, truth) < TOLERANCE["float32"]["exact"]
    assert relative_error(torchs, truth) > 0.1


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("power", [2, 4, 6])
def test_agrees_with_the_statistical_formula_in_low_dimension(dim: int, power: int) -> None:
    rng = np.random.default_rng(dim)
    queries, keys, values = (rng.normal(size=shape) for shape in [(5, dim), (20, dim), (20, 2)])
    u = 1.7 * (queries[:, None] - keys)
    kernel = np.prod(np.sinc(u / np.pi) ** power, axis=-1)
    expected = kernel @ values / kernel.sum(axis=1, keepdims=True)
    actual = fourier_attention(*map(torch.tensor, (queries, keys, values)), 1.7, power=power)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=FAST, atol=FAST)


@pytest.mark.parametrize("power", [2, 4, 6])
@pytest.mark.parametrize("shape", [(), (8,), (3, 1), (1, 8), (3, 8)])
def test_log_domain_equals_the_plain_product_for_every_shape_of_radius(
    power: int, shape: tuple[int, ...]
) -> None:
    query, key, value = draw(2, 3, 5, 8), draw(2, 3, 7, 8, seed=1), draw(2, 3, 7, 4, seed=2)
    radius = draw(*shape, seed=3, scale=0.2).detach().exp()
    full = radius.expand(3, 8)[:, None, None, :]
    actual = fourier_attention(query, key, value, radius, power=power)
    assert relative_error(actual, plain_fourier(query, key, value, full, power)) < FAST


@pytest.mark.parametrize("power", [1, 3, 5])
def test_odd_powers_keep_the_signs_of_the_plain_product(power: int) -> None:
    query, key, value = draw(2, 5, 3), draw(2, 9, 3, seed=1), draw(2, 9, 2, seed=2)
    weights = plain_weights(query, key, 2.0, power)
    assert (weights < 0).any()
    actual = fourier_attention(query, key, value, 2.0, power=power, allow_signed=True)
    assert relative_error(actual, plain_fourier(query, key, value, 2.0, power)) < FAST


def test_signed_weights_with_a_negative_sum_are_divided_by_it() -> None:
    scores = Scores(torch.zeros(1, 3), torch.tensor([[-1.0, -1.0, 1.0]]))
    assert torch.equal(normalise(scores), torch.tensor([[1.0, 1.0, -1.0]]))


def test_equal_keys_share_the_weight() -> None:
    query, key = draw(1, 4, 6), draw(1, 1, 6, seed=1).expand(1, 5, 6)
    _, weights = fourier_attention(query, key, key, 2.0, return_weights=True)
    torch.testing.assert_close(weights, torch.full_like(weights, 0.2), rtol=EXACT, atol=0)


class TestHighDimension:
    """Unit-normal queries and keys, R = 2, l = 4, D = 128, float32."""

    query = draw(1, 2, 64, 128, dtype=torch.float32).detach()
    key = draw(1, 2, 64, 128, seed=1, dtype=torch.float32).detach()

    def test_the_unnormalised_product_underflows(self) -> None:
        assert (plain_weights(self.query, self.key, 2.0, 4) == 0).all()
        exact = plain_weights(self.query.double(), self.key.double(), 2.0, 4)
        assert -260 < float(exact.log10().median()) < -230  # measured: -243

    def test_rows_sum_to_one_all_the_same(self) -> None:
        _, weights = fourier_attention(self.query, self.key, self.key, 2.0, return_weights=True)
        exact = TOLERANCE["float32"]["exact"]
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 64), rtol=exact, atol=0)

    def test_float32_weights_err_by_the_rounding_of_their_logarithm(self) -> None:
        query, key = self.query, self.key
        _, weights = fourier_attention(query, key, key, 2.0, return_weights=True)
        query, key = query.double(), key.double()
        _, truth = fourier_attention(query, key, key, 2.0, return_weights=True)
        rounding = torch.finfo(torch.float32).eps * 600  # |log w| is 560 in the median
        assert relative_error(weights, truth) < rounding

    def test_gradients_are_finite_and_not_zero(self) -> None:
        query, key = self.query.clone().requires_grad_(), self.key.clone().requires_grad_()
        radius = torch.tensor(2.0, requires_grad=True)
        fourier_attention(query, key, key, radius).square().sum().backward()
        for leaf in (query, key, radius):
            assert torch.isfinite(leaf.grad).all()
            assert leaf.grad.abs().max() > 0

    def test_eps_of_the_public_implementation_makes_every_output_zero(self) -> None:
        assert (fourier_attention(self.query, self.key, self.key, 2.0, eps=1e-6) == 0).all()


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_eps_reproduces_the_formula_of_the_public_implementation(scale: float) -> None:
    query, key = draw(2, 6, 16, scale=scale), draw(2, 9, 16, seed=1, scale=scale)
    value = draw(2, 9, 3, seed=2)
    actual = fourier_attention(query, key, value, 2.0, eps=1e-6)
    assert relative_error(actual, plain_fourier(query, key, value, 2.0, eps=1e-6)) < FAST


def test_eps_changes_the_answer_where_weights_are_small() -> None:
    query, key = draw(1, 32, 16), draw(1, 32, 16, seed=1)
    paper = fourier_attention(query, key, key, 2.0)
    public = fourier_attention(query, key, key, 2.0, eps=1e-6)
    assert relative_error(public, paper) > 0.9


@pytest.mark.parametrize("log_weight", [-1e4, -300.0, 0.0, 300.0])
def test_eps_never_overflows_whatever_the_size_of_the_weights(log_weight: float) -> None:
    weights = normalise(Scores(torch.full((1, 2), log_weight)), eps=1e-6)
    expected = 1 / (2 + math.exp(min(math.log(1e-6) - log_weight, 700)))
    torch.testing.assert_close(weights, torch.full((1, 2), expected))


def test_gaussian_attention_equals_softmax_for_keys_of_equal_norm() -> None:
    query, key, value = draw(2, 5, 16), draw(2, 7, 16, seed=1), draw(2, 7, 4, seed=2)
    key = 3 * torch.nn.functional.normalize(key, dim=-1)
    error = relative_error(
        gaussian_attention(query, key, value), softmax_attention(query, key, value)
    )
    assert error < FAST


def test_query_norms_cancel_so_gaussian_attention_is_softmax_corrected_for_key_norms() -> None:
    query, key, value = draw(2, 5, 16), draw(2, 7, 16, seed=1), draw(2, 7, 4, seed=2)
    correction = -key.square().sum(-1)[:, None, :] / (2 * math.sqrt(16))
    corrected = softmax_attention(query, key, value, attn_mask=correction)
    assert relative_error(gaussian_attention(query, key, value), corrected) < FAST
    assert relative_error(softmax_attention(query, key, value), corrected) > 0.05


def test_gaussian_width_is_sigma() -> None:
    query, key = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([[0.0], [3.0]]).double()
    _, weights = gaussian_attention(query, key, key, sigma=1.5, return_weights=True)
    odds = torch.tensor(math.exp(-(3**2) / (2 * 1.5**2)), dtype=torch.float64)
    torch.testing.assert_close(weights[0, 1] / weights[0, 0], odds)


def test_rows_of_zero_weight_are_zero_with_zero_gradient() -> None:
    log_abs = torch.tensor([[-math.inf, -math.inf], [0.0, -math.inf]], requires_grad=True)
    weights = normalise(Scores(log_abs))
    assert torch.equal(weights, torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    weights.square().sum().backward()
    assert torch.equal(log_abs.grad, torch.zeros(2, 2))
