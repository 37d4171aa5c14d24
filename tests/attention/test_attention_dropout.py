"""Dropout of Fourier attention: its seed, its statistics, and what repeats it."""

import math
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import MONTE_CARLO_SIGMAS, TOLERANCE
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fourierkernels.attention import FourierAttention, fourier_attention
from fourierkernels.attention.fourier import IMPLEMENTATIONS

FAST = TOLERANCE["float64"]["fast"]
B, H, N, M, D, C = 3, 4, 40, 50, 3, 2
P = 0.3


def sides(*lead: int) -> tuple[Tensor, Tensor, Tensor]:
    lead = lead or (B, H)
    return draw(*lead, N, D), draw(*lead, M, D, seed=1), draw(*lead, M, C, seed=2)


def kept(*leaves: Tensor, p: float = P, **options: Any) -> Tensor:
    """Which pairs one call keeps."""
    _, weights = fourier_attention(*leaves, 0.5, dropout_p=p, return_weights=True, **options)
    return weights.detach() != 0


@pytest.mark.parametrize("lead", [(), (H,), (B, H), (2, B, H)])
@pytest.mark.parametrize("options", [{}, {"is_causal": True, "eps": 1e-3, "power": 6}])
def test_a_seed_drops_the_same_pairs_by_either_implementation(
    lead: tuple[int, ...], options: dict[str, Any]
) -> None:
    leaves = (draw(*lead, N, D), draw(*lead, M, D, seed=1), draw(*lead, M, C, seed=2))
    found = []
    for name in IMPLEMENTATIONS:
        torch.manual_seed(5)
        call = {"dropout_p": P, "return_weights": True, "implementation": name, **options}
        output, weights = fourier_attention(*leaves, 0.5, **call)
        loss = output.sin().sum() + weights.sin().sum()
        found.append((output, weights, *torch.autograd.grad(loss, leaves)))
        torch.manual_seed(5)
        alone = fourier_attention(*leaves, 0.5, **(call | {"return_weights": False}))
        assert relative_error(alone, output) < FAST
    assert torch.equal(found[0][1] == 0, found[1][1] == 0)
    for actual, expected in zip(*found, strict=True):
        assert relative_error(actual, expected) < TOLERANCE["float64"]["gradient"]


@pytest.mark.parametrize("p", [0.05, 0.3, 0.8])
def test_the_share_that_is_kept_is_that_of_the_probability(p: float) -> None:
    """Of all pairs, and of each item, head, query and key."""
    torch.manual_seed(1)
    share = kept(*sides(), p=p).double()
    for dims in ((0, 1, 2, 3), (1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)):
        means = share.mean(dim=dims)
        error = math.sqrt(p * (1 - p) * means.numel() / share.numel())
        assert ((means - (1 - p)).abs() <= MONTE_CARLO_SIGMAS * error).all()


def correlation(first: Tensor, second: Tensor) -> float:
    """In standard errors of independent draws."""
    first, second = (part.double().flatten() - (1 - P) for part in (first, second))
    return abs(float((first * second).mean())) / (P * (1 - P)) * math.sqrt(first.numel())


def test_items_heads_queries_and_keys_are_dropped_independently() -> None:
    torch.manual_seed(2)
    share = kept(*sides())
    for dim in range(4):
        for step in (1, 2):
            n = share.shape[dim] - step
            pair = share.narrow(dim, 0, n), share.narrow(dim, step, n)
            assert correlation(*pair) <= MONTE_CARLO_SIGMAS, (dim, step)


def test_successive_calls_draw_anew_and_a_seed_draws_again() -> None:
    torch.manual_seed(3)
    first, second = kept(*sides()), kept(*sides())
    assert correlation(first, second) <= MONTE_CARLO_SIGMAS
    torch.manual_seed(3)
    assert torch.equal(kept(*sides()), first)
    torch.manual_seed(4)
    assert correlation(kept(*sides()), first) <= MONTE_CARLO_SIGMAS


def test_the_mean_over_seeds_is_attention_without_dropout() -> None:
    """A z-test at each output, of calls with seeds of their own."""
    draws = 400
    leaves = [leaf[0, 0, :6].detach() for leaf in sides()]
    exact, weights = fourier_attention(*leaves, 0.5, return_weights=True)
    total = torch.zeros_like(exact)
    for seed in range(draws):
        torch.manual_seed(seed)
        total += fourier_attention(*leaves, 0.5, dropout_p=P)
    error = (P / (1 - P) * (weights**2 @ leaves[2] ** 2) / draws).sqrt()
    z = (total / draws - exact) / error
    assert (z.abs() <= MONTE_CARLO_SIGMAS).all()
    assert z.abs().max() > 0.1  # it is a mean of draws, not the exact value


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_activations_repeat_the_draw(reentrant: bool) -> None:
    """Checkpointing restores torch's generator before it runs the forward pass again."""
    torch.manual_seed(0)
    layer, x = FourierAttention(6, 2, dropout=0.4, dtype=torch.float64), draw(2, 7, 6)
    leaves, gradients = (x, *layer.parameters()), []
    for recompute in (False, True):
        torch.manual_seed(7)
        output = checkpoint(layer, x, use_reentrant=reentrant) if recompute else layer(x)
        output.sin().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
        for leaf in leaves:
            leaf.grad = None
    for actual, expected in zip(*gradients, strict=True):
        assert torch.equal(actual, expected)


def test_without_dropout_the_generator_is_left_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    fourier_attention(*sides(), 0.5)
    assert torch.equal(torch.get_rng_state(), before)
