"""Linear-time Fourier attention as a mixer: what the contract of all mixers does not cover."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fourierkernels.attention import PhaseSpreadWarning, phase_spread
from fourierkernels.mixing import MIXERS, FourierMixer, LinearFourierMixer, Size, create_mixer

E, H, N = 8, 2, 20


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("causal", [False, True])
def test_padded_keys_do_not_count(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = create_mixer("linear_fourier", dim=E, heads=H, causal=causal).double()
    x, padding = tokens(2, N, E), torch.zeros(2, N, dtype=torch.bool)
    padding[1, 12:] = True
    y = mixer(x, padding=padding)
    torch.testing.assert_close(y[1, :12], mixer(x[1:, :12])[0], rtol=1e-12, atol=1e-12)
    assert torch.count_nonzero(mixer.mixing_matrix(x, padding=padding)[1, :, :, 12:]) == 0


def test_with_many_features_it_is_the_fourier_mixer() -> None:
    torch.manual_seed(0)
    exact = FourierMixer(E, heads=H, radius=0.3).double()
    linear = LinearFourierMixer(E, heads=H, radius=0.3, features=2**14, kind="sobol").double()
    linear.load_state_dict({**linear.state_dict(), **exact.state_dict()})
    x, memory = tokens(2, N, E), tokens(2, 7, E, seed=1)
    torch.testing.assert_close(linear(x), exact(x), rtol=0, atol=1e-3)
    torch.testing.assert_close(linear.mixing_matrix(x), exact.mixing_matrix(x), rtol=0, atol=1e-3)
    read = [mixer.read(x, mixer.memory(memory)) for mixer in (linear, exact)]
    torch.testing.assert_close(*read, rtol=0, atol=1e-3)


def test_radius_at_the_start_is_a_phase_spread_of_one_half_for_unit_variance() -> None:
    mixer = LinearFourierMixer(32, heads=2, power=6)
    query, key = tokens(2, 1, 4000, 16)
    spread = phase_spread(query, key, mixer.radius.item(), power=6).item()
    assert spread == pytest.approx(0.5, rel=0.02)


def test_state_does_not_grow_with_the_tokens() -> None:
    mixer = LinearFourierMixer(E, heads=H, features=16, causal=True)
    state, sizes = None, set()
    for _ in range(4):
        _, state = mixer.step(torch.randn(3, 1, E), state)
        sizes.add(tuple(part.shape for part in state))
        assert all(part.shape[0] == 3 for part in state)  # the batch first: beams are reordered
    assert len(sizes) == 1


def test_operations_are_those_that_run() -> None:
    length, dim = 64, 32
    mixer = create_mixer("linear_fourier", dim=dim, length=length, heads=4)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        mixer(torch.randn(1, length, dim))
    assert counter.get_total_flops() / 2 == MIXERS["linear_fourier"].operations(Size(length, dim))


@pytest.mark.parametrize("causal", [False, True])
def test_no_spread_of_the_phases_makes_an_output_or_a_gradient_nan(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = create_mixer("linear_fourier", dim=E, heads=H, causal=causal, radius=4.0).double()
    x = (3.0 * tokens(2, N, E)).requires_grad_()
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


def test_dropout_of_weights_that_are_never_formed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"dropout must be 0 .* got 0\.1"):
        LinearFourierMixer(E, heads=H, dropout=0.1)


def test_power_is_checked_when_the_mixer_is_built() -> None:
    with pytest.raises(ValueError, match=r"power must be even unless .* got 3"):
        LinearFourierMixer(E, heads=H, power=3)
    with pytest.raises(ValueError, match="faint must be one of nan, bounded, got 'zero'"):
        LinearFourierMixer(E, heads=H, faint="zero")
