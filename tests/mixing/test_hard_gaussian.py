"""Hard-coded Gaussian attention: its weights, its centres, its count."""

import pytest
import torch

from fourierkernels.mixing import create_mixer
from fourierkernels.mixing.hard_gaussian import HardGaussianMixer


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_normal_densities_over_what_is_seen(causal: bool) -> None:
    mixer = HardGaussianMixer(8, heads=4, causal=causal, sigma=1.5).double()
    found = mixer.mixing_matrix(torch.zeros(1, 6, 8, dtype=torch.float64))[0]
    centres = (-1, 0) if causal else (-1, 1)
    place = torch.arange(6, dtype=torch.float64)
    for head in range(4):
        for i in range(6):
            normal = torch.distributions.Normal(float(i + centres[head % 2]), 1.5)
            density = normal.log_prob(place).exp()
            if causal:
                density[i + 1 :] = 0.0
            torch.testing.assert_close(found[head, i], density / density.sum())


def test_a_head_attends_most_to_its_centre() -> None:
    mixer = create_mixer("hard_gaussian", dim=6, heads=3, centres=[-2, 0, 1])
    weights = mixer.mixing_matrix(torch.zeros(1, 9, 6))[0]
    assert weights[:, 4].argmax(dim=-1).tolist() == [2, 4, 5]


def test_a_layer_has_half_the_parameters_of_attention() -> None:
    hard, soft = (
        sum(p.numel() for p in create_mixer(name, dim=8, heads=2).parameters())
        for name in ("hard_gaussian", "softmax")
    )
    assert 2 * hard == soft


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="heads must divide dim = 8, got 3"):
        HardGaussianMixer(8, heads=3)
    with pytest.raises(ValueError, match="sigma must be finite and greater than 0, got 0"):
        HardGaussianMixer(8, heads=2, sigma=0)
    with pytest.raises(ValueError, match="centres must hold at least one place"):
        HardGaussianMixer(8, heads=2, centres=())
    with pytest.raises(TypeError, match="centres must be an integer, got 'x'"):
        HardGaussianMixer(8, heads=2, centres=("x",))  # type: ignore[arg-type]
