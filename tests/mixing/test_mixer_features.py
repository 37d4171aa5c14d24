"""Attention by features as mixers: what the contract of all mixers does not cover."""

import math
from typing import Any

import pytest
import torch
from tiny_models import doubles

from fourierkernels.attention import PhaseSpreadWarning, phase_spread
from fourierkernels.mixing import FourierMixer, LinearFourierMixer, create_mixer

E, H, N = 8, 2, 20


def test_with_many_features_it_is_the_fourier_mixer() -> None:
    torch.manual_seed(0)
    exact = FourierMixer(E, heads=H, radius=0.3).double()
    linear = LinearFourierMixer(E, heads=H, radius=0.3, features=2**14, kind="sobol").double()
    linear.load_state_dict({**linear.state_dict(), **exact.state_dict()})
    x, memory = doubles(2, N, E), doubles(2, 7, E, seed=1)
    torch.testing.assert_close(linear(x), exact(x), rtol=0, atol=1e-3)
    torch.testing.assert_close(linear.mixing_matrix(x), exact.mixing_matrix(x), rtol=0, atol=1e-3)
    read = [mixer.read(x, mixer.memory(memory)) for mixer in (linear, exact)]
    torch.testing.assert_close(*read, rtol=0, atol=1e-3)


def test_radius_at_the_start_is_a_phase_spread_of_one_half_for_unit_variance() -> None:
    mixer = LinearFourierMixer(32, heads=2, power=6)
    query, key = doubles(2, 1, 4000, 16)
    spread = phase_spread(query, key, mixer.radius.item(), power=6).item()
    assert spread == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("name", ["linear_fourier", "performer"])
def test_state_does_not_grow_with_the_tokens(name: str) -> None:
    mixer = create_mixer(name, dim=E, heads=H, features=16, causal=True)
    state, sizes = None, set()
    for _ in range(4):
        _, state = mixer.step(torch.randn(3, 1, E), state)
        sizes.add(tuple(part.shape for part in state))
        assert all(part.shape[0] == 3 for part in state)  # the batch first: beams are reordered
    assert len(sizes) == 1


@pytest.mark.parametrize("causal", [False, True])
def test_no_spread_of_the_phases_makes_an_output_or_a_gradient_nan(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = create_mixer("linear_fourier", dim=E, heads=H, causal=causal, radius=4.0).double()
    x = (3.0 * doubles(2, N, E)).requires_grad_()
    with pytest.warns(PhaseSpreadWarning, match="outputs there are divided by that error"):
        y = mixer(x)
    y.square().sum().backward()
    gradients = (x.grad, *(p.grad for p in mixer.parameters()))
    assert all(part is not None and part.isfinite().all() for part in (y, *gradients))
    honest = create_mixer("linear_fourier", dim=E, heads=H, causal=causal, faint="nan").double()
    honest.load_state_dict(mixer.state_dict())
    with pytest.warns(PhaseSpreadWarning, match="outputs there are NaN"):
        assert honest(x).isnan().any()


def test_draws_are_saved_and_radius_is_trained() -> None:
    mixer = LinearFourierMixer(E, heads=H, features=16)
    assert mixer.state_dict()["frequencies"].shape == (16, E // H)
    mixer(torch.randn(1, 6, E)).square().sum().backward()
    assert mixer.log_radius.grad is not None
    assert math.isfinite(mixer.log_radius.grad)
    assert mixer.log_radius.grad != 0


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("linear_fourier", {"dropout": 0.1}, ValueError, r"dropout must be 0 .* got 0\.1"),
        ("linear_fourier", {"power": 3}, ValueError, r"power must be even unless .* got 3"),
        ("linear_fourier", {"faint": "zero"}, ValueError, "faint must be one of nan, bounded, got"),
        ("performer", {"dropout": 0.1}, ValueError, r"dropout must be 0 .* got 0\.1"),
        ("performer", {"kind": "sobol"}, ValueError, "kind must be one of orthogonal, iid, got 's"),
        ("performer", {"features": 0}, ValueError, "features must be at least 1, got 0"),
        ("performer", {"redraw": -1}, ValueError, "redraw must be at least 0, got -1"),
        ("performer", {"eps": -1.0}, ValueError, r"eps must be finite and at least 0, got -1\.0"),
        ("performer", {"power": 4}, TypeError, "option of mixer performer must .* got 'power'"),
    ],
)
def test_bad_options_are_refused(
    name: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        create_mixer(name, dim=E, heads=H, **options)
