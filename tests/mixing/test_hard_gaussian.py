"""Hard-coded Gaussian attention: its weights, its centres, its count."""

import pytest
import torch
from tiny_models import doubles

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


def test_a_memory_is_read_with_normal_densities_around_the_place_of_the_ratio() -> None:
    """Token by token and head by head, from the definition; padding of the memory is left out."""
    mixer = HardGaussianMixer(6, heads=3, centres=(-1, 0, 1), sigma=0.8, ratio=0.7).double()
    x, other = doubles(2, 9, 6), doubles(2, 5, 6, seed=1)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    values = mixer.value_projection(other)
    expected = torch.empty_like(x)
    for sentence, seen in enumerate((5, 3)):
        for i in range(9):
            heads = []
            for head, centre in enumerate((-1, 0, 1)):
                normal = torch.distributions.Normal(0.7 * i + centre, 0.8)
                log_w = normal.log_prob(torch.arange(seen, dtype=torch.float64))
                w = (log_w - log_w.max()).exp()
                own = values[sentence, :seen, 2 * head : 2 * head + 2]
                heads.append((w / w.sum()) @ own)
            expected[sentence, i] = mixer.output_projection(torch.cat(heads))
    memory = mixer.memory(other)
    torch.testing.assert_close(mixer.read(x, memory, padding=padding), expected)
    for i in range(9):
        step = mixer.read(x[:, i : i + 1], memory, padding=padding, first=i)
        torch.testing.assert_close(step[:, 0], expected[:, i])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_places_beyond_256_are_told_apart_in_half_precision(dtype: torch.dtype) -> None:
    mixer = create_mixer("hard_gaussian", dim=2, heads=2, centres=[0])
    weights = mixer.mixing_matrix(torch.zeros(1, 700, 2, dtype=dtype))[0, 0]
    assert weights.argmax(dim=-1).tolist() == list(range(700))
    assert weights.isfinite().all()


def test_a_ratio_must_be_positive() -> None:
    with pytest.raises(ValueError, match="ratio must be finite and greater than 0, got 0"):
        HardGaussianMixer(8, heads=2, ratio=0)


def test_padding_that_comes_first_sees_nothing_and_changes_nothing() -> None:
    """Its outputs are those of no value at all, and its gradient is zero."""
    mixer = HardGaussianMixer(6, heads=2, causal=True).double()
    x = doubles(2, 5, 6).requires_grad_()
    padding = torch.tensor([[True, True, False, False, False], [False] * 5])
    weights = mixer.mixing_matrix(x, padding=padding)
    assert torch.equal(weights[0, :, :2], torch.zeros(2, 2, 5, dtype=torch.float64))
    found = mixer(x, padding=padding)
    torch.testing.assert_close(found[0, 0], mixer.output_projection.bias)
    found[~padding].square().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad[0, :2], torch.zeros(2, 6, dtype=torch.float64))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())
    plain = mixer(x[1:], padding=padding[1:])
    torch.testing.assert_close(found[1:], plain)
