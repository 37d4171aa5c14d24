"""Fourier mixing: matrix forms, the mask, one fixed length, bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import doubles
from tolerances import TOLERANCE

from fourierkernels.mixing import CausalDFTMixer, DFTMixer, causal_dft, fourier_mixing
from fourierkernels.mixing.causal import CAUSAL_METHODS, causal_dft_matrix


def dft_matrix(n: int) -> torch.Tensor:
    m = torch.arange(n, dtype=torch.float64)
    return torch.exp(-2j * math.pi * torch.outer(m, m) / n)


@pytest.mark.parametrize("norm", ["backward", "ortho"])
def test_fourier_mixing_is_the_matrix_product(norm: str) -> None:
    x = doubles(2, 7, 12)
    scale = math.sqrt(7 * 12) if norm == "ortho" else 1.0
    expected = (dft_matrix(7) @ x.to(torch.complex128) @ dft_matrix(12)).real / scale
    torch.testing.assert_close(fourier_mixing(x, norm=norm), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 140), more=st.integers(0, 50), method=st.sampled_from(CAUSAL_METHODS))
def test_causal_dft_is_the_masked_matrix(n: int, more: int, method: str) -> None:
    x = doubles(2, n, 3)
    expected = causal_dft_matrix(n, length=n + more) @ x.to(torch.complex128)
    gap = (causal_dft(x, length=n + more, method=method) - expected).abs().max()
    assert gap <= TOLERANCE["float64"]["exact"] * expected.abs().max()


@pytest.mark.parametrize("method", ["chirp", "halving"])
def test_convolutions_agree_to_rounding_at_a_long_length(method: str) -> None:
    """About 7e-16, because phases are reduced before the exponential."""
    n = 2048
    x = doubles(n, 4)
    expected = causal_dft_matrix(n, length=n) @ x.to(torch.complex128)
    found = causal_dft(x, length=n, method=method)
    gap = torch.linalg.norm(found - expected) / torch.linalg.norm(expected)
    assert gap < 1.5e-15


def test_masked_matrix_is_the_dft_matrix_below_the_diagonal() -> None:
    torch.testing.assert_close(causal_dft_matrix(9, length=9), dft_matrix(9).tril())


def test_later_tokens_do_not_change_earlier_outputs() -> None:
    x = doubles(20, 3)
    changed = x.clone()
    changed[12:] += 1.0
    first, second = causal_dft(x, length=32), causal_dft(changed, length=32)
    torch.testing.assert_close(first[:12], second[:12], rtol=0, atol=1e-13)
    assert (first[12:] - second[12:]).abs().min() > 1e-3


@pytest.mark.parametrize("n", [33, 64, 100])
def test_halving_keeps_later_tokens_out_to_the_last_bit(n: int) -> None:
    """One convolution keeps them out up to rounding only."""
    x = doubles(n, 3).requires_grad_()
    sums = causal_dft(x, length=n, method="halving").real.sum(dim=-1)
    for t in range(n - 1):
        (gradient,) = torch.autograd.grad(sums[t], x, retain_graph=True)
        assert torch.count_nonzero(gradient[t + 1 :]) == 0
    leak = torch.autograd.grad(causal_dft(x, length=n)[n // 2].real.sum(), x)[0][n // 2 + 1 :]
    assert 0 < leak.abs().max() < 1e-13


def test_a_fixed_length_agrees_with_step_by_step_decoding() -> None:
    x = doubles(10, 2)
    whole = causal_dft(x, length=64)
    for n in range(1, 11):
        torch.testing.assert_close(causal_dft(x[:n], length=64), whole[:n], rtol=0, atol=1e-13)
    assert (causal_dft(x[:5], length=5) - causal_dft(x, length=10)[:5]).abs().max() > 0.1


def test_float32_is_kept_and_close() -> None:
    x = doubles(300, 4)
    single = causal_dft(x.float(), length=512)
    assert single.dtype == torch.complex64
    expected = causal_dft(x, length=512)
    gap = (single - expected).abs().max() / expected.abs().max()
    assert gap < TOLERANCE["float32"]["fast"]


def test_gradients_are_those_of_the_linear_map() -> None:
    x = doubles(6, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: torch.view_as_real(causal_dft(x, length=8)), x)
    assert torch.autograd.gradcheck(fourier_mixing, x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: causal_dft(doubles(5, 2), length=4), ValueError, "length must be at least the 5"),
        (lambda: causal_dft(doubles(5, 2), length=5.0), TypeError, "length must be an integer"),
        (lambda: causal_dft(doubles(5), length=5), ValueError, r"x must be \(\.\.\., N, E\)"),
        (lambda: fourier_mixing(doubles(0, 2)), ValueError, "not empty"),
        (
            lambda: fourier_mixing(torch.ones(2, 2, dtype=torch.int64)),
            TypeError,
            "x must be one of",
        ),
        (
            lambda: causal_dft(torch.full((2, 2), math.nan), length=2),
            ValueError,
            "x must be finite",
        ),
        (lambda: fourier_mixing([[1.0]]), TypeError, "x must be a tensor, got list"),
        (lambda: fourier_mixing(doubles(2, 2), norm="half"), ValueError, "norm must be one of"),
        (lambda: fourier_mixing(doubles(2, 2), method="sft"), ValueError, "method must be one of"),
        (
            lambda: causal_dft(doubles(2, 2), length=2, method="fft"),
            ValueError,
            "method must be one of halving",
        ),
    ],
)
def test_bad_input_is_refused(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


def test_real_parts_of_both_transforms_leave_out_the_sines() -> None:
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    n, k = torch.arange(6.0), torch.arange(5.0)
    tokens, features = (
        torch.cos(2 * torch.pi * i[:, None] * i / len(i)).double() for i in (n.double(), k.double())
    )
    mixer = DFTMixer(5, real_part="each")
    torch.testing.assert_close(mixer(x), tokens @ x @ features, rtol=0, atol=1e-12)
    by_matrix = DFTMixer(5, real_part="each", method="matrix", length=6)
    torch.testing.assert_close(by_matrix(x), mixer(x))
    assert not torch.allclose(DFTMixer(5)(x), mixer(x))
    with pytest.raises(ValueError, match="real_part must be one of last, each, got 'first'"):
        DFTMixer(5, real_part="first")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_a_kept_matrix_is_the_same_after_its_mixer_was_in_another_precision(
    causal: bool, dtype: torch.dtype
) -> None:
    kind = CausalDFTMixer if causal else DFTMixer
    mixer, x = kind(6, length=9, method="matrix"), doubles(2, 9, 6).float()
    expected = mixer(x)
    assert mixer._table is not None
    assert torch.equal(mixer.to(dtype).float()(x), expected)
