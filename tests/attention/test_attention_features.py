"""Random features: distribution of the draws, the exact limit, causality, honesty outside it."""

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from plain_attention import draw, plain_fourier, plain_weights, relative_error
from tolerances import MONTE_CARLO_SIGMAS, TOLERANCE
from torch import Tensor

import fourierkernels as fk
from fourierkernels.attention import (
    FeatureState,
    PhaseSpreadWarning,
    fourier_attention,
    fourier_features,
    linear_fourier_attention,
    linear_fourier_step,
    phase_spread,
)
from fourierkernels.attention.feature_sums import WeightSums, feature_sums, ratio, weight_sums
from fourierkernels.attention.features import KINDS, feature_map, uniform_sum_quantile
from fourierkernels.attention.linear import linear_fourier_state
from fourierkernels.mixing import create_mixer

FAST = TOLERANCE["float64"]["fast"]
POWERS = (1, 2, 3, 4, 6, 12)
B, H, N, D, DV = 2, 2, 45, 6, 3
RADIUS = 0.2  # a phase spread of 0.8


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the arrays are small
    yield
    torch.set_num_threads(before)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draws_of(dim: int, power: int) -> Tensor:
    return fourier_features(dim, 256, power=power, generator=generator())


def inputs(
    *, n: int = N, m: int = N, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    sizes = ((n, D, scale), (m, D, scale), (m, DV, 1.0))
    return tuple(  # type: ignore[return-value]
        draw(B, H, rows, columns, seed=i, scale=size, dtype=dtype).detach()
        for i, (rows, columns, size) in enumerate(sizes)
    )


def unit_normal(dim: int, *, n: int = 512, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    source = generator(seed)
    return tuple(  # type: ignore[return-value]
        torch.randn(1, n, columns, dtype=torch.float64, generator=source)
        for columns in (dim, dim, 8)
    )


# --- the draws -------------------------------------------------------------------------------


def irwin_hall(at: Fraction, power: int) -> Fraction:
    """F(s) of the sum of l uniforms on (-1, 1), by the alternating sum in exact arithmetic."""
    terms = (
        (-1) ** k * math.comb(power, k) * max(Fraction(0), at + power - 2 * k) ** power
        for k in range(power + 1)
    )
    return Fraction(sum(terms)) / (2**power * math.factorial(power))


@pytest.mark.parametrize("power", POWERS)
def test_quantiles_invert_the_exact_distribution(power: int) -> None:
    probability = np.concatenate([[1e-30, 1e-9], np.linspace(0.01, 0.99, 50), [1 - 1e-9]])
    at = uniform_sum_quantile(probability, power)
    exact = [float(irwin_hall(Fraction(float(s)), power)) for s in at]
    lower = slice(0, -1) if power > 1 else slice(1, -1)  # for l = 1 a double near -1 is too coarse
    assert np.abs(np.array(exact) / probability - 1)[1:].max() < 1e-6
    assert np.abs(np.array(exact) - probability)[lower].max() < 4e-15


@pytest.mark.parametrize("power", POWERS)
def test_quantiles_end_at_the_support_and_are_odd(power: int) -> None:
    probability = np.linspace(0.0, 1.0, 65)
    at = uniform_sum_quantile(probability, power)
    assert (at[0], at[-1]) == (-power, power)
    np.testing.assert_allclose(at, -at[::-1], atol=1e-15)
    assert (np.diff(at) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [1, 2, 4])
def test_mean_cosine_of_the_draws_is_the_kernel(kind: str, power: int) -> None:
    """Unbiased for every kind, also along one axis, where a rotation of iid draws would not be."""
    dim, m, draws = 5, 12, 1_000
    scale = 4.5 / math.sqrt(power)
    at = scale * torch.tensor(
        [[1.0, 0, 0, 0, 0], [0.45] * 5, [0.6, -0.8, 0, 0, 0]], dtype=torch.float64
    )
    source = generator(3)
    means = torch.stack(
        [
            (fourier_features(dim, m, power=power, kind=kind, generator=source) @ at.T)
            .cos()
            .mean(0)
            for _ in range(draws)
        ]
    )
    exact = (torch.sinc(at / math.pi) ** power).prod(-1)
    gap = (means.mean(0) - exact).abs() / (means.std(0) / math.sqrt(draws))
    assert (gap < MONTE_CARLO_SIGMAS).all()


def test_rotated_draws_of_the_sum_would_be_biased() -> None:
    """Orthogonal directions with the norms of independent draws: the construction left out."""
    dim, power, draws = 5, 1, 60_000
    source = generator(3)
    normal = torch.randn(draws, dim, dtype=torch.float64, generator=source)
    norms = fourier_features(dim, draws, power=power, kind="iid", generator=source).norm(dim=1)
    rotated = normal * (norms / normal.norm(dim=1))[:, None]
    cosine = (4.5 * rotated[:, 0]).cos()
    gap = (cosine.mean() - math.sin(4.5) / 4.5).abs() / (cosine.std() / math.sqrt(draws))
    assert gap > 10 * MONTE_CARLO_SIGMAS


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_has_the_variance_of_the_sum_and_stays_in_its_support(kind: str) -> None:
    draws = fourier_features(7, 20_000, power=4, kind=kind, generator=generator(1))
    assert draws.shape == (20_000, 7)
    assert draws.dtype is torch.float64
    assert (draws.abs() < 4).all()
    assert (draws.var(dim=0) - 4 / 3).abs().max() < 0.06  # 4 of its errors, √(2/20000) · 4/3


def test_orthogonal_rows_are_orthogonal_to_what_the_quantiles_bend() -> None:
    """Before the quantiles exactly; after, far closer than independent draws are."""
    cosines = {}
    for kind in ("orthogonal", "iid"):
        block = fourier_features(16, 16, power=4, kind=kind, generator=generator(2))
        unit = block / block.norm(dim=1, keepdim=True)
        cosines[kind] = (unit @ unit.T - torch.eye(16)).abs().max()
    assert cosines["orthogonal"] < 0.1 * cosines["iid"]


def test_draws_are_those_of_the_generator() -> None:
    for kind in KINDS:
        one, same, other = (
            fourier_features(3, 8, kind=kind, generator=generator(seed)) for seed in (1, 1, 2)
        )
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
        torch.manual_seed(4)
        first = fourier_features(3, 8, kind=kind)
        torch.manual_seed(4)
        assert torch.equal(fourier_features(3, 8, kind=kind), first)


# --- the limit of infinitely many features ---------------------------------------------------


def gauss_rule(power: int, nodes: int = 40) -> tuple[Tensor, Tensor]:
    """Frequencies and probabilities of the B-spline density: Gauss-Legendre between its knots."""
    kernel = fk.FourierKernel(power)
    x, weight = np.polynomial.legendre.leggauss(nodes)
    centres = np.arange(1 - power, power, 2.0)
    at = (centres[:, None] + x).ravel()
    density = kernel.transform(at) * kernel.constant / (2 * math.pi)
    return torch.from_numpy(at[:, None]), torch.from_numpy(np.tile(weight, power) * density)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("power", [2, 4, 6])
def test_with_gauss_nodes_for_draws_attention_is_exact(power: int, is_causal: bool) -> None:
    query, key = (draw(1, 30, 1, seed=i, scale=2.0).detach() for i in range(2))
    value = draw(1, 30, 3, seed=2).detach()
    frequencies, probability = gauss_rule(power)
    share = (probability * len(probability)).sqrt().repeat(2)
    maps = [share * feature_map(1.5 * x, frequencies) for x in (query, key)]
    numerator, total = feature_sums(*maps, value, chunk=7 if is_causal else None)
    sums = weight_sums(maps[0], total).value
    weights = plain_weights(query, key, 1.5, power)
    weights = weights.tril() if is_causal else weights
    torch.testing.assert_close(sums, weights.sum(-1, keepdim=True), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(numerator, weights @ value, rtol=1e-10, atol=1e-12)
    expected = fourier_attention(query, key, value, 1.5, power=power, is_causal=is_causal)
    torch.testing.assert_close(numerator / sums, expected, rtol=1e-8, atol=1e-8)


# --- error of the estimate -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "m", "reached"),
    [
        ("orthogonal", 256, 1.5e-2),
        ("orthogonal", 1024, 7.5e-3),
        ("sobol", 1024, 6.0e-3),
        ("iid", 256, 5.0e-2),
        ("iid", 1024, 2.5e-2),
    ],
)
def test_error_at_a_phase_spread_of_eight_tenths(kind: str, m: int, reached: float) -> None:
    """D = 16, R = 2, σ = 1/16: the median of three draws."""
    query, key, value = unit_normal(16)
    exact = fourier_attention(query / 16, key / 16, value, 2.0)
    options = {"features": m, "kind": kind}
    errors = [
        relative_error(
            linear_fourier_attention(
                query / 16, key / 16, value, 2.0, generator=generator(seed), **options
            ),
            exact,
        )
        for seed in range(3)
    ]
    assert sorted(errors)[1] < reached


def test_error_of_independent_draws_halves_with_four_times_as_many() -> None:
    query, key, value = unit_normal(8, n=128)
    query, key = query / 8, key / 8
    exact = fourier_attention(query, key, value, 1.5)

    def error(m: int) -> float:
        outputs = torch.stack(
            [
                linear_fourier_attention(
                    query, key, value, 1.5, features=m, kind="iid", generator=generator(seed)
                )
                for seed in range(12)
            ]
        )
        return (outputs - exact).square().mean().sqrt().item()

    assert error(64) / error(1024) == pytest.approx(4.0, rel=0.25)


def test_standard_error_of_independent_draws_is_their_spread() -> None:
    query, key, _ = inputs(scale=0.5)
    query, key = RADIUS * query, RADIUS * key
    exact = plain_weights(query, key, 1.0, 4).sum(-1, keepdim=True)
    root_mean_square = {}
    for kind in KINDS:
        scores = []
        for seed in range(30):
            frequencies = fourier_features(D, 128, kind=kind, generator=generator(seed))
            maps = [feature_map(x, frequencies) for x in (query, key)]
            sums = weight_sums(maps[0], maps[1].sum(-2, keepdim=True))
            scores.append((sums.value - exact) / sums.standard_error)
        root_mean_square[kind] = torch.stack(scores).square().mean().sqrt().item()
    assert root_mean_square["iid"] == pytest.approx(1.0, abs=0.15)
    assert root_mean_square["orthogonal"] < 1.0
    assert root_mean_square["sobol"] < 1.0


# --- one pass, chunks, steps -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_causal_output_is_attention_over_the_prefix(dtype: torch.dtype) -> None:
    query, key, value = inputs(dtype=dtype)
    options = {"frequencies": fourier_features(D, 64, generator=generator())}
    causal = linear_fourier_attention(query, key, value, RADIUS, is_causal=True, **options)
    tolerance = 20 * TOLERANCE[str(dtype).removeprefix("torch.")]["fast"]
    for t in (0, 1, 30, N - 1):
        seen = slice(None, t + 1)
        prefix = linear_fourier_attention(
            query[..., t : t + 1, :], key[..., seen, :], value[..., seen, :], RADIUS, **options
        )
        assert relative_error(causal[..., t : t + 1, :], prefix) < tolerance


@pytest.mark.parametrize(("n", "m"), [(45, 45), (45, 20), (20, 45)])
def test_chunks_do_not_matter(n: int, m: int) -> None:
    tensors, draws = inputs(n=n, m=m), fourier_features(D, 64, generator=generator())
    outputs = [
        linear_fourier_attention(*tensors, RADIUS, frequencies=draws, is_causal=True, chunk=chunk)
        for chunk in (1, 7, 16, 45, 1000)
    ]
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0], rtol=1e-11, atol=1e-11)


def test_steps_equal_one_causal_pass_in_a_state_of_fixed_size() -> None:
    query, key, value = inputs()
    draws, state, outputs, sizes = fourier_features(D, 64, generator=generator()), None, [], set()
    for t in range(N):
        token = (x[..., t : t + 1, :] for x in (query, key, value))
        output, state = linear_fourier_step(*token, RADIUS, state, frequencies=draws)
        outputs.append(output)
        sizes.add(tuple(part.shape for part in state))
    whole = linear_fourier_attention(query, key, value, RADIUS, frequencies=draws, is_causal=True)
    torch.testing.assert_close(torch.cat(outputs, dim=-2), whole, rtol=1e-11, atol=1e-11)
    assert len(sizes) == 1
    assert isinstance(state, FeatureState)


def test_no_causal_output_depends_on_a_later_token_to_the_last_bit() -> None:
    query, key, value = (x.requires_grad_() for x in inputs())
    draws = fourier_features(D, 64, generator=generator())
    options = {"frequencies": draws, "is_causal": True, "chunk": 8}
    output = linear_fourier_attention(query, key, value, RADIUS, **options)
    for t in (0, 7, 8, 20):
        gradients = torch.autograd.grad(output[..., t, :].sum(), (key, value), retain_graph=True)
        for gradient in gradients:
            assert torch.count_nonzero(gradient[..., t + 1 :, :]) == 0
        assert torch.count_nonzero(gradients[1][..., : t + 1, :]) > 0
    changed = [x.detach().clone() for x in (query, key, value)]
    for x in changed:
        x[..., 21:, :] += 0.3
    later = linear_fourier_attention(*changed, RADIUS, **options)
    assert torch.equal(later[..., :21, :], output[..., :21, :])
    assert not torch.equal(later[..., 21:, :], output[..., 21:, :])


@pytest.mark.parametrize("is_causal", [False, True])
def test_padded_keys_do_not_count_and_a_query_without_keys_gets_zero(is_causal: bool) -> None:
    query, key, value = inputs()
    padding = torch.zeros(B, N, dtype=torch.bool)
    padding[0, :5] = padding[0, 30:] = padding[1] = True
    options = {"frequencies": fourier_features(D, 64, generator=generator())}
    options["is_causal"] = is_causal
    leaves = [x.requires_grad_() for x in (query, key, value)]
    output = linear_fourier_attention(*leaves, RADIUS, key_padding_mask=padding, **options)
    cut = (x[0, :, 5:30] for x in (query, key, value))
    expected = linear_fourier_attention(*cut, RADIUS, **options)
    torch.testing.assert_close(output[0, :, 5:30], expected, rtol=1e-11, atol=1e-11)
    assert torch.count_nonzero(output[1]) == 0
    assert torch.count_nonzero(output[0, :, :5]) == (0 if is_causal else output[0, :, :5].numel())
    gradients = torch.autograd.grad(output.sin().sum(), leaves)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert torch.count_nonzero(gradients[1][padding[:, None].expand(B, H, N)]) == 0


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_common_offset_does_not_matter_even_in_single_precision(is_causal: bool) -> None:
    query, key, value = inputs(dtype=torch.float32)
    query, key = ((256 * x).round() / 256 for x in (query, key))  # so that moving them is exact
    options = {
        "frequencies": fourier_features(D, 64, generator=generator()),
        "is_causal": is_causal,
    }
    expected = linear_fourier_attention(
        query.double(), key.double(), value.double(), RADIUS, **options
    )
    output = linear_fourier_attention(query + 8192, key + 8192, value, RADIUS, **options)
    assert relative_error(output, expected) < 4 * TOLERANCE["float32"]["fast"]


def test_a_radius_per_feature_and_head_scales_the_inputs() -> None:
    query, key, value = inputs()
    radius = torch.rand(H, D, dtype=torch.float64, generator=generator()) * 0.15 + 0.1
    options = {"frequencies": fourier_features(D, 32, generator=generator())}
    scaled = (radius[:, None] * x for x in (query, key))
    expected = linear_fourier_attention(*scaled, value, 1.0, **options)
    output = linear_fourier_attention(query, key, value, radius, **options)
    torch.testing.assert_close(output, expected, rtol=FAST, atol=FAST)
    per_head = linear_fourier_attention(query, key, value, radius[:, :1], **options)
    for head in range(H):
        alone = linear_fourier_attention(
            query[:, head], key[:, head], value[:, head], radius[head, 0], **options
        )
        torch.testing.assert_close(per_head[:, head], alone, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_are_those_of_finite_differences(is_causal: bool) -> None:
    leaves = [draw(1, 5, columns, seed=i, scale=0.5) for i, columns in enumerate((2, 2, 2))]
    radius = torch.tensor([0.6, 0.9], dtype=torch.float64, requires_grad=True)
    draws = fourier_features(2, 16, generator=generator())

    def attend(*tensors: Tensor) -> Tensor:
        return linear_fourier_attention(*tensors, frequencies=draws, is_causal=is_causal, chunk=2)

    assert torch.autograd.gradcheck(attend, (*leaves, radius))


@pytest.mark.parametrize("is_causal", [False, True])
def test_compiled_function_has_one_graph_and_the_same_values(is_causal: bool) -> None:
    tensors, draws = inputs(), fourier_features(D, 32, generator=generator())

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return linear_fourier_attention(
            query, key, value, RADIUS, frequencies=draws, is_causal=is_causal
        )

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*tensors), attend(*tensors), rtol=FAST, atol=FAST)


def test_half_precision_is_computed_in_single() -> None:
    tensors = [x.bfloat16() for x in inputs(dtype=torch.float32)]
    options = {"frequencies": fourier_features(D, 32, generator=generator())}
    output = linear_fourier_attention(*tensors, RADIUS, **options)
    wide = linear_fourier_attention(*(x.float() for x in tensors), RADIUS, **options)
    assert output.dtype is torch.bfloat16
    assert torch.equal(output, wide.bfloat16())


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_lower_the_precision_of_sums(dtype: torch.dtype, is_causal: bool) -> None:
    """In half precision, a sum of 300 values of 1,000 is infinite."""
    query, key, value = inputs(n=300, m=300, dtype=torch.float32)
    tensors, frequencies = (query, key, 1e3 + value), fourier_features(D, 32, generator=generator())
    options = {"frequencies": frequencies}
    expected = linear_fourier_attention(*tensors, RADIUS, is_causal=is_causal, **options)
    state = linear_fourier_state(*tensors[1:], RADIUS, **options)
    last = tuple(x[..., -1:, :] for x in tensors)
    step = linear_fourier_step(*last, RADIUS, state, **options)
    with torch.autocast("cpu", dtype=dtype):
        found = linear_fourier_attention(*tensors, RADIUS, is_causal=is_causal, **options)
        found_state = linear_fourier_state(*tensors[1:], RADIUS, **options)
        found_step = linear_fourier_step(*last, RADIUS, state, **options)
    assert torch.equal(found, expected)
    assert all(map(torch.equal, found_state, state))
    assert torch.equal(found_step[0], step[0])


# --- outside the regime ----------------------------------------------------------------------


def test_phase_spread_is_the_root_mean_square_phase_over_pairs_and_draws() -> None:
    query, key, _ = inputs(n=11)
    radius = torch.tensor([0.3, 0.4, 0.5, 0.6, 0.7, 0.8], dtype=torch.float64)
    padding = torch.zeros(B, N, dtype=torch.bool)
    padding[:, 40:] = True
    pairs = (radius * (query[..., :, None, :] - key[..., None, :40, :])).square().sum(-1)
    expected = (2.0 * pairs.mean(dim=(-2, -1))).sqrt()  # l / 3 = 2
    found = phase_spread(query, key, radius, power=6, key_padding_mask=padding)
    torch.testing.assert_close(found, expected, rtol=FAST, atol=FAST)


def test_phase_spread_of_the_formula() -> None:
    """a = Rσ√(2lD/3) for normal queries and keys; the mean weight is about exp(-a²/2)."""
    query, key, _ = unit_normal(16, n=2048)
    found = phase_spread(query / 16, key / 16, 2.0).item()
    assert found == pytest.approx(2.0 / 16 * math.sqrt(2 * 4 * 16 / 3), rel=0.02)
    weight = plain_weights(query[:, :500] / 16, key[:, :500] / 16, 2.0, 4).mean()
    assert weight == pytest.approx(math.exp(-(found**2) / 2), rel=0.02)


@pytest.mark.parametrize(("spread", "warned"), [(1.4, False), (1.6, True)])
def test_warning_starts_where_features_stop_being_useful(spread: float, warned: bool) -> None:
    query, key, value = inputs()
    radius = spread / phase_spread(query, key, 1.0).max().item()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        linear_fourier_attention(query, key, value, radius, features=4096, generator=generator())
    assert [w.category for w in caught] == ([PhaseSpreadWarning] if warned else [])
    if warned:
        assert "a = 1.60" in str(caught[0].message)


def test_sums_lost_in_noise_are_nan_and_counted_and_the_rest_is_not() -> None:
    query, key, value = unit_normal(16, n=256)
    leaves = [x.requires_grad_() for x in (query / 4, key / 4, value)]
    with pytest.warns(PhaseSpreadWarning, match=r"a = 3\.\d+.*; (\d+) of 256 .* NaN") as caught:
        output = linear_fourier_attention(*leaves, 2.0, generator=generator())
    lost = output.isnan()
    assert torch.equal(lost.all(-1), lost.any(-1))
    count = int(lost.all(-1).sum())
    assert 0 < count < 256
    assert f"{count} of 256" in str(caught[0].message)
    gradients = torch.autograd.grad(output.nansum(), leaves)
    assert all(gradient.isfinite().all() for gradient in gradients)
    kept = fourier_features(16, 256, generator=generator())
    maps = [feature_map(2.0 * (x - key.mean(-2, keepdim=True) / 4), kept) for x in leaves[:2]]
    sums = weight_sums(maps[0], maps[1].sum(-2, keepdim=True))
    assert torch.equal(lost[..., :1], sums.value <= sums.standard_error)


@pytest.mark.parametrize("power", [3, 4])
def test_bounded_outputs_are_the_numerators_over_the_error_where_sums_are_lost(power: int) -> None:
    query, key, value = unit_normal(16, n=256)
    leaves = [x.requires_grad_() for x in (query / 4, key / 4, value)]
    options = {"power": power, "allow_signed": True, "frequencies": draws_of(16, power)}
    with pytest.warns(PhaseSpreadWarning, match="outputs there are NaN"):
        plain = linear_fourier_attention(*leaves, 2.0, **options)
    with pytest.warns(PhaseSpreadWarning, match="outputs there are divided by that error"):
        bounded = linear_fourier_attention(*leaves, 2.0, faint="bounded", **options)
    lost = plain.isnan()
    assert 0 < lost.sum() < lost.numel()
    assert torch.equal(bounded[~lost], plain[~lost])
    kept = options["frequencies"]
    maps = [feature_map(2.0 * (x - key.mean(-2, keepdim=True) / 4), kept) for x in leaves[:2]]
    numerator, total = feature_sums(*maps, value, chunk=None)
    sums = weight_sums(maps[0], total)
    sign = sums.value.sign() if power % 2 else 1.0
    expected = (numerator / (sign * sums.standard_error)).expand_as(bounded)
    torch.testing.assert_close(bounded[lost], expected[lost], rtol=1e-9, atol=1e-12)
    gradients = torch.autograd.grad(bounded.square().sum(), leaves)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(("spread", "least", "most"), [(2.0, 0.0, 0.005), (3.0, 0.05, 0.2)])
def test_sums_are_lost_where_phases_are_wide(spread: float, least: float, most: float) -> None:
    """What the option `faint` is said to cost, for D = 16 and m = 256."""
    query, key, value = unit_normal(16)
    radius = spread / phase_spread(query, key, 1.0).item()
    with pytest.warns(PhaseSpreadWarning):
        output = linear_fourier_attention(
            query, key, value, radius, frequencies=draws_of(16, 4), faint="nan"
        )
    assert least <= output.isnan().double().mean().item() <= most


def test_bounded_outputs_do_not_jump_where_the_sum_leaves_its_error() -> None:
    """The quotient on either side of the threshold is the same, for a sum that is its error."""
    error, numerator = torch.tensor([[2.0]]), torch.tensor([[3.0]])
    empty = torch.zeros(1, 1, dtype=torch.bool)
    found = [
        ratio(numerator, WeightSums(value, error), empty, signed=False, faint="bounded")[0].item()
        for value in (error * (1 - 1e-6), error * (1 + 1e-6))
    ]
    assert found == pytest.approx([1.5, 1.5], rel=1e-5)
    still = ratio(numerator, WeightSums(-error, 0 * error), empty, signed=False, faint="bounded")
    assert still[0].isfinite().all()


def test_steps_bound_what_one_causal_pass_bounds() -> None:
    query, key, value = inputs(scale=6.0)
    draws, state, outputs = fourier_features(D, 64, generator=generator()), None, []
    options = {"frequencies": draws, "faint": "bounded"}
    with pytest.warns(PhaseSpreadWarning, match="divided by that error"):
        whole = linear_fourier_attention(query, key, value, 1.0, is_causal=True, **options)
    for t in range(N):
        token = (x[..., t : t + 1, :] for x in (query, key, value))
        with warnings.catch_warnings(action="ignore"):
            output, state = linear_fourier_step(*token, 1.0, state, **options)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=-2), whole, rtol=1e-9, atol=1e-9)


def test_signed_sums_are_lost_on_both_sides_of_zero_only_within_their_error() -> None:
    query, key, value = (
        draw(400, 1, scale=2.0).detach(),
        torch.zeros(1, 1).double(),
        torch.ones(1, 1).double(),
    )
    draws = fourier_features(1, 2048, power=1, kind="iid", generator=generator())
    with pytest.warns(PhaseSpreadWarning):
        output = linear_fourier_attention(
            query, key, value, 3.0, power=1, frequencies=draws, allow_signed=True
        )
    exact = plain_weights(query, key, 3.0, 1)[..., 0]
    sure = exact.abs() > 6 / math.sqrt(2048)
    assert (exact[sure] < 0).any()
    torch.testing.assert_close(output[sure], torch.ones(int(sure.sum()), 1).double())
    lost = output[:, 0].isnan()
    assert 0 < lost.sum() < 400
    assert (exact[lost].abs() < 4 / math.sqrt(2048)).all()


def test_one_feature_has_no_standard_error_and_so_no_answer() -> None:
    with pytest.warns(PhaseSpreadWarning, match="180 of 180 estimated"):
        output = linear_fourier_attention(*inputs(), RADIUS, features=1, generator=generator())
    assert output.isnan().all()


def test_a_step_says_what_it_lost() -> None:
    token = torch.zeros(1, 1, 1)
    draws = torch.tensor([[1.0], [-1.0]])
    _, state = linear_fourier_step(token, token, token, 1.0, frequencies=draws)
    with pytest.warns(PhaseSpreadWarning, match="1 of 1 estimated"):
        output, _ = linear_fourier_step(
            token + math.pi,
            token + math.pi,
            token,
            1.0,
            state._replace(total=2.0 * state.total),
            frequencies=draws,
        )
    assert output.isnan().all()


# --- in low dimension ------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2])
def test_the_estimator_is_exact_where_features_are_not_needed(dim: int) -> None:
    query, key, value = (x[0] for x in unit_normal(dim, n=200))
    estimator = fk.NadarayaWatson("fourier4", radius=2.0, method="bandlimited")
    exact = torch.from_numpy(estimator.fit(key.numpy(), value.numpy()).predict(query.numpy()))
    assert relative_error(exact, plain_fourier(query, key, value, 2.0)) < 1e-8


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "halton"}, ValueError, "kind must be one of orthogonal, sobol, iid, got 'halton"),
        ({"faint": "zero"}, ValueError, "faint must be one of nan, bounded, got 'zero'"),
        ({"features": 0}, ValueError, "features must be at least 1, got 0"),
        ({"features": 2.5}, TypeError, "features must be an integer, got 2.5"),
        ({"power": 3}, ValueError, "power must be even unless allow_signed=True"),
        ({"radius": -1.0}, ValueError, "radius must be positive and finite, got -1.0"),
        ({"is_causal": True, "chunk": 0}, ValueError, "chunk must be at least 1, got 0"),
        ({"frequencies": torch.ones(4, 2)}, ValueError, r"must have shape \(features, 6\), got"),
        ({"frequencies": torch.ones(0, 6)}, ValueError, r"frequencies must have shape"),
        ({"key_padding_mask": torch.ones(B, N)}, TypeError, "key_padding_mask must be a boolean"),
        ({"key_padding_mask": torch.ones(N) > 0}, ValueError, r"must have shape \(2, 45\), got"),
    ],
)
def test_bad_input_is_refused(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        linear_fourier_attention(*inputs(), **{"radius": RADIUS, **options})  # type: ignore[arg-type]


def test_a_step_of_several_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one token, .* got shapes \(2, 2, 45, 6\)"):
        linear_fourier_step(*inputs(), RADIUS, frequencies=torch.ones(4, D))


def test_a_kind_of_draws_from_outside_is_one_of_every_function_and_mixer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def twice(dim: int, features: int, power: int, generator: torch.Generator | None) -> Tensor:
        half = fourier_features(dim, features // 2, power=power, kind="iid", generator=generator)
        return torch.cat([half, half])

    monkeypatch.setitem(KINDS, "twice", twice)
    draws = fourier_features(3, 8, kind="twice", generator=torch.Generator().manual_seed(0))
    assert torch.equal(draws[:4], draws[4:])
    x = torch.randn(1, 2, 5, 3, generator=torch.Generator().manual_seed(0))
    assert linear_fourier_attention(x, x, x, 0.3, kind="twice", features=64).shape == x.shape
    mixer = create_mixer("linear_fourier", dim=6, heads=2, kind="twice", features=8)
    assert torch.equal(mixer.frequencies[:4], mixer.frequencies[4:])
