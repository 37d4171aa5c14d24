"""The Performer's attention: unbiased, converging, linear, causal, padded, differentiable."""

import math

import pytest
import torch
from tiny_models import doubles
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from fourierkernels.attention.positive_features import (
    exponents,
    gaussian_features,
    key_features,
    performer_attention,
    performer_state,
    performer_step,
)
from fourierkernels.mixing import MIXERS, PerformerMixer, Size, SoftmaxMixer, create_mixer

E, H, N = 8, 2, 70
KINDS = ("orthogonal", "iid")


def draws(dim: int, m: int, kind: str = "orthogonal", seed: int = 0) -> torch.Tensor:
    own = torch.Generator().manual_seed(1000 + seed)  # not the numbers of any tokens
    return gaussian_features(dim, m, kind=kind, generator=own)


def exact(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1) @ value


@pytest.mark.parametrize("kind", KINDS)
def test_mean_of_the_kernel_over_draws_is_the_exponential(kind: str) -> None:
    query, key = 0.4 * doubles(5, 4), 0.4 * doubles(5, 4, seed=1)
    frequencies = draws(4, 400 * 16, kind)  # rows are orthogonal in blocks of four
    maps = [exponents(x, frequencies).exp().unflatten(-1, (400, 16)) for x in (query, key)]
    found = torch.einsum("qsm,ksm->sqk", *maps) / 16
    error = found.std(dim=0) / math.sqrt(len(found))
    distance = (found.mean(dim=0) - (query @ key.mT / 2).exp()) / error
    assert distance.abs().max() < 4.5  # of 25 normal numbers
    assert (error < 0.1 * found.mean(dim=0)).all()


def test_orthogonal_draws_estimate_the_kernel_better_than_independent_ones() -> None:
    """[choromanski2021rethinking]_ theorem 2, for a query that is its key, |q'| = 1/2."""
    query = torch.nn.functional.normalize(doubles(40, 8), dim=-1) * 8**0.25 / 2
    errors = {}
    for kind in KINDS:
        own = exponents(query, draws(8, 2000 * 8, kind)).unflatten(-1, (2000, 8))
        found = (2 * own).exp().mean(dim=-1)
        errors[kind] = (found - math.exp(0.25)).square().mean().item()
    assert errors["orthogonal"] < 0.97 * errors["iid"]


@pytest.mark.parametrize("kind", KINDS)
def test_error_falls_as_the_root_of_the_features(kind: str) -> None:
    """For queries and keys of this size; the variance of a weight grows as exp(|q' + k'|²)."""
    query, key, value = (size * doubles(1, 30, 8, seed=s) for s, size in enumerate((0.3, 0.3, 1.0)))
    counts = (32, 128, 512, 2048)
    errors = []
    for m in counts:
        found = [
            performer_attention(query, key, value, frequencies=draws(8, m, kind, seed), eps=0.0)
            for seed in range(20)
        ]
        gaps = torch.stack(found) - exact(query, key, value)
        errors.append(gaps.square().mean().sqrt().item())
    logs = torch.tensor([[math.log(m), math.log(e)] for m, e in zip(counts, errors, strict=True)])
    x, y = (logs - logs.mean(dim=0)).unbind(dim=1)
    assert float(x @ y / (x @ x)) == pytest.approx(-0.5, abs=0.1)
    assert errors[-1] < 0.05


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_lower_the_precision_of_sums(dtype: torch.dtype, is_causal: bool) -> None:
    """In half precision, a sum of 300 values of 1,000 is infinite."""
    query, key, value = (doubles(1, 300, 8, seed=seed).float() for seed in range(3))
    tensors, frequencies = (query, key, 1e3 + value), draws(8, 32)
    last = tuple(x[:, -1:] for x in tensors)
    expected = performer_attention(*tensors, frequencies=frequencies, is_causal=is_causal)
    state = performer_state(*tensors[1:], frequencies=frequencies)
    step = performer_step(*last, state, frequencies=frequencies)
    with torch.autocast("cpu", dtype=dtype):
        found = performer_attention(*tensors, frequencies=frequencies, is_causal=is_causal)
        found_state = performer_state(*tensors[1:], frequencies=frequencies)
        found_step = performer_step(*last, state, frequencies=frequencies)
    assert torch.equal(found, expected)
    assert all(map(torch.equal, found_state, state))
    assert torch.equal(found_step[0], step[0])


def test_with_many_features_it_is_softmax_attention() -> None:
    torch.manual_seed(0)
    softmax = SoftmaxMixer(E, heads=H).double()
    mixer = PerformerMixer(E, heads=H, features=2**14).double()
    mixer.load_state_dict({**mixer.state_dict(), **softmax.state_dict()})
    x, memory = doubles(2, 20, E), doubles(2, 7, E, seed=1)
    pairs = (
        (mixer(x), softmax(x)),
        (mixer.mixing_matrix(x), softmax.mixing_matrix(x)),
        tuple(own.read(x, own.memory(memory)) for own in (mixer, softmax)),
    )
    for ours, theirs in pairs:
        assert (ours - theirs).norm() < 0.05 * theirs.norm()


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_positive_and_sum_to_one(causal: bool) -> None:
    mixer = create_mixer("performer", dim=E, heads=H, causal=causal, features=16).double()
    weights = mixer.mixing_matrix(3 * doubles(2, N, E))
    assert (weights.tril() >= 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, H, N, dtype=torch.float64))


def test_a_query_without_any_key_gets_zero() -> None:
    query, key, value = (doubles(2, 1, 5, 4, seed=s) for s in range(3))
    padding = torch.tensor([[False] * 5, [True] * 5])
    key.requires_grad_()
    found = performer_attention(
        query, key, value, frequencies=draws(4, 8), key_padding_mask=padding
    )
    assert torch.count_nonzero(found[1]) == 0
    assert torch.count_nonzero(found[0]) > 0
    found.sum().backward()
    assert key.grad is not None
    assert key.grad.isfinite().all()


def test_a_beginning_of_any_length_has_the_same_causal_outputs() -> None:
    query, key, value = (doubles(1, N, 4, seed=s) for s in range(3))
    options = {"frequencies": draws(4, 16), "is_causal": True, "chunk": 8}
    whole = performer_attention(query, key, value, **options)
    for n in range(1, N + 1):
        part = performer_attention(query[:, :n], key[:, :n], value[:, :n], **options)
        torch.testing.assert_close(part, whole[:, :n], rtol=1e-12, atol=1e-12)
    last = performer_attention(query[:, -1:], key, value, frequencies=options["frequencies"])
    torch.testing.assert_close(whole[:, -1:], last, rtol=1e-4, atol=1e-4)  # but for eps


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_are_the_derivatives(is_causal: bool) -> None:
    inputs = [doubles(1, 6, 3, seed=s).requires_grad_() for s in range(3)]
    own = draws(3, 5)

    def outputs(*given: torch.Tensor) -> torch.Tensor:
        return performer_attention(*given, frequencies=own, is_causal=is_causal, chunk=4, eps=0.0)

    assert torch.autograd.gradcheck(outputs, inputs)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 300.0])
def test_outputs_and_gradients_are_finite_in_float32(size: float, is_causal: bool) -> None:
    query, key, value = (doubles(1, N, 64, seed=s).float() for s in range(3))
    key = (size * key).requires_grad_()
    found = performer_attention(
        size * query, key, value, frequencies=draws(64, 128), is_causal=is_causal
    )
    found.square().sum().backward()
    assert found.isfinite().all()
    assert key.grad is not None
    assert key.grad.isfinite().all()
    assert found.amin() >= value.amin() - 1e-4
    assert found.amax() <= value.amax() + 1e-4


def test_causal_features_cannot_overflow_even_at_a_frequency_itself() -> None:
    frequencies = draws(256, 64).float()
    key = frequencies * 256**0.25  # where the exponent is largest, |w|²/2
    assert (exponents(key, frequencies).amax() > 88).all()  # exp of that is no float32
    assert key_features(key, frequencies, 0.0, is_causal=True).isfinite().all()


def test_memory_and_operations_grow_linearly_with_the_tokens() -> None:
    mixer = create_mixer("performer", dim=32, heads=4)

    def counted(length: int) -> tuple[float, int]:
        largest = 0

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal largest
            largest = max(largest, tensor.numel())
            return tensor

        x = torch.randn(1, length, 32)
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with FlopCounterMode(display=False) as counter, hooks:
            mixer(x)
        return counter.get_total_flops() / 2, largest

    (few, small), (many, large) = counted(512), counted(2048)
    assert few == MIXERS["performer"].operations(Size(512, 32))
    assert (many / few, large / small) == (4.0, 4.0)


def test_draws_are_saved_and_drawn_anew_only_when_asked_for() -> None:
    torch.manual_seed(0)
    fixed, renewed = (PerformerMixer(E, heads=H, features=16, redraw=r) for r in (0, 2))
    assert fixed.state_dict()["frequencies"].shape == (16, E // H)
    seen = {"fixed": [], "renewed": []}
    for _ in range(4):
        for name, mixer in (("fixed", fixed), ("renewed", renewed)):
            mixer(torch.randn(1, 5, E)).sum().backward()
            seen[name].append(mixer.frequencies.clone())
    assert all(torch.equal(own, seen["fixed"][0]) for own in seen["fixed"])
    same = [torch.equal(a, b) for a, b in zip(seen["renewed"], seen["renewed"][1:], strict=False)]
    assert same == [True, False, True]
    state = renewed.eval().frequencies.clone()
    for _ in range(3):
        renewed(torch.randn(1, 5, E))
    assert torch.equal(renewed.frequencies, state)
    assert int(renewed.state_dict()["passes"]) == 4  # a resumed run goes on counting


def test_a_layer_that_is_used_twice_may_draw_in_between() -> None:
    mixer = PerformerMixer(E, heads=H, features=16, redraw=1)
    mixer(mixer(torch.randn(1, 5, E))).square().sum().backward()
    assert mixer.query_projection.weight.grad is not None


def test_frequencies_of_another_width_are_refused() -> None:
    x = torch.zeros(1, 3, 4)
    with pytest.raises(ValueError, match=r"frequencies must have shape \(features, 4\), got"):
        performer_attention(x, x, x, frequencies=torch.zeros(8, 3))


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("redraw", [1, 2, 3])
def test_passes_that_are_computed_again_would_see_other_features(
    redraw: int, reentrant: bool
) -> None:
    torch.manual_seed(0)
    x = doubles(1, 5, E).requires_grad_()
    mixer = PerformerMixer(E, heads=H, features=16, redraw=redraw).double()
    output = checkpoint(mixer, x, use_reentrant=reentrant).sin().sum()
    with pytest.raises(RuntimeError, match=f"redraw must be 0 .* got {redraw}"):
        output.backward()
    assert int(mixer.passes) == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_gradient_is_the_same_if_its_pass_is_computed_again(reentrant: bool) -> None:
    torch.manual_seed(0)
    mixer, x = PerformerMixer(E, heads=H, features=16).double(), doubles(1, 5, E).requires_grad_()
    gradients = []
    for output in (mixer(x), checkpoint(mixer, x, use_reentrant=reentrant)):
        mixer.zero_grad()
        output.sin().sum().backward()
        gradients.append(mixer.query_projection.weight.grad)
    torch.testing.assert_close(*gradients)
