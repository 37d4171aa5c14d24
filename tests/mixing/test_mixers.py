"""Token mixers: one contract over the registry, costs against counts, causality, decoding."""

import math
import warnings

import pytest
import torch
from tiny_models import doubles
from tolerances import TOLERANCE
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fourierkernels.mixing import (
    MIXERS,
    DFTMixer,
    FourierMixer,
    GaussianMixer,
    PaddingIgnoredWarning,
    Size,
    SoftmaxMixer,
    TokenMixer,
    cost_table,
    create_mixer,
    fourier_mixing,
    mixer_names,
    mixing_matrices,
)
from fourierkernels.mixing.baselines import NoMixer, walsh_hadamard
from fourierkernels.mixing.causal import CAUSAL_METHODS
from fourierkernels.mixing.parametrised import ParametrisedDFTMixer

N, E, H = 70, 8, 2  # more than two triangles of the causal DFT
FORMS = [(name, causal) for causal in (False, True) for name in mixer_names(causal=causal)]
DECODERS = mixer_names(causal=True)
FIXED = [
    name
    for name in mixer_names(causal=False)
    if not create_mixer(name, dim=E, length=N, heads=H).masks_padding
]


def trained(name: str, *, causal: bool = False, **options: object) -> TokenMixer:
    """A mixer in float64 whose parameters are no longer where they started."""
    torch.manual_seed(7)
    mixer = create_mixer(name, dim=E, length=N, heads=H, causal=causal, **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return mixer


@pytest.mark.parametrize(("name", "causal"), FORMS)
def test_a_mixer_is_its_matrix_between_values_and_combination(name: str, causal: bool) -> None:
    mixer, x = trained(name, causal=causal), doubles(3, N, E)
    matrix = mixer.mixing_matrix(x)
    assert matrix.shape == (3, H if MIXERS[name].has_bias else 1, N, N)
    expected = mixer.combine(matrix @ mixer.values(x))
    torch.testing.assert_close(mixer(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", DECODERS)
def test_no_output_depends_on_a_later_token_to_the_last_bit(name: str) -> None:
    mixer, x = trained(name, causal=True), doubles(1, N, E).requires_grad_()
    y = mixer(x)
    for t in (0, 31, 32, 40, 63, 64, N - 2):  # inside and at the edges of the triangles
        (gradient,) = torch.autograd.grad(y[:, t].sum(), x, retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[:, t]) > 0
    changed = x.detach().clone()
    changed[:, 41:] += 1.0
    assert torch.equal(mixer(changed)[:, :41], y[:, :41])
    assert torch.count_nonzero(mixer.mixing_matrix(x).triu(1)) == 0


NEAR = ("none", "hard_gaussian")  # these reach no token or the nearest ones


@pytest.mark.parametrize("name", [name for name in mixer_names(causal=False) if name not in NEAR])
def test_an_encoder_mixes_later_tokens_into_earlier_ones(name: str) -> None:
    mixer, x = trained(name), doubles(1, N, E).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[:, 0].sum(), x)
    assert (gradient.abs().amax(dim=-1) > 0).all()


@pytest.mark.parametrize("name", DECODERS)
def test_steps_equal_one_pass(name: str) -> None:
    mixer, x = trained(name, causal=True), doubles(2, N, E)
    state, steps = None, []
    for t in range(N):
        y, state = mixer.step(x[:, t : t + 1], state)
        steps.append(y)
    torch.testing.assert_close(torch.cat(steps, dim=1), mixer(x), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=f"at most length = {N} tokens, got {N + 1}"):
        mixer.step(x[:, :1], state)


@pytest.mark.parametrize("name", DECODERS)
def test_a_longer_sequence_leaves_earlier_outputs_alone(name: str) -> None:
    mixer, x = trained(name, causal=True), doubles(2, N, E)
    torch.testing.assert_close(mixer(x[:, :45]), mixer(x)[:, :45], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", [name for name, row in MIXERS.items() if row.reads_memory])
def test_padded_keys_do_not_count(name: str, causal: bool) -> None:
    """Nor do they get a gradient, however large they are, where the phases of features allow it."""
    mixer, x = trained(name, causal=causal), doubles(2, N, E)
    padding = torch.zeros(2, N, dtype=torch.bool)
    padding[1, 50:] = True
    if name != "linear_fourier":
        x[1, 50:] = 1e3
    y = mixer(x.requires_grad_(), padding=padding)
    torch.testing.assert_close(y[1, :50], mixer(x[1:, :50])[0], rtol=1e-12, atol=1e-12)
    assert torch.count_nonzero(mixer.mixing_matrix(x, padding=padding)[1, :, :, 50:]) == 0
    (gradient,) = torch.autograd.grad(y[1, :50].square().sum(), x)
    assert gradient.isfinite().all()
    assert torch.count_nonzero(gradient[1, 50:]) == 0


@pytest.mark.parametrize("name", FIXED)
def test_padding_is_warned_of_or_set_to_zero(name: str) -> None:
    x, padding = doubles(1, N, E), torch.zeros(1, N, dtype=torch.bool)
    mixer = trained(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixer(x, padding=padding)  # nothing is padded: nothing to warn of
    padding[:, 50:] = True
    with pytest.warns(PaddingIgnoredWarning, match="zero_padding=True"):
        assert torch.equal(mixer(x, padding=padding), mixer(x))
    masked, other = trained(name, zero_padding=True), x.clone()
    other[:, 50:] = 9.0
    assert torch.equal(masked(x, padding=padding), masked(other, padding=padding))
    expected = masked.combine(masked.mixing_matrix(x, padding=padding) @ masked.values(x))
    torch.testing.assert_close(masked(x, padding=padding), expected, rtol=1e-12, atol=1e-12)


# --- costs -----------------------------------------------------------------------------------


def _fft_points(shape: torch.Size, dims: list[int], *_: object, **__: object) -> int:
    return 2 * shape.numel() * round(sum(math.log2(shape[d]) for d in dims))


def _elements(a: object, b: object, *_: object, **__: object) -> int:
    shapes = [s for s in (a, b) if isinstance(s, torch.Size)]
    return 2 * torch.broadcast_shapes(*shapes).numel()


def counted(mixer: TokenMixer, x: torch.Tensor) -> float:
    """Multiply-adds that run: products of matrices, FFTs; of the parametrised DFT its diagonal."""
    aten, mapping = torch.ops.aten, {}
    for op in (aten._fft_c2c, aten._fft_r2c):
        mapping[op] = _fft_points
    if isinstance(mixer, ParametrisedDFTMixer):
        mapping[aten.mul] = _elements
    counter = FlopCounterMode(display=False, custom_mapping=mapping)
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # the fused one is not counted
        mixer(x)
    return counter.get_total_flops() / 2


COUNTED = ["softmax", "gaussian", "linear_fourier", "hard_gaussian", "linear", "random"]


@pytest.mark.parametrize("name", [*COUNTED, "fnet", "dft", "none"])
def test_operations_are_those_that_run(name: str) -> None:
    length, dim = 64, 32
    mixer = create_mixer(name, dim=dim, length=length, heads=4)
    x = torch.randn(1, length, dim)
    stated = MIXERS[name].operations(Size(length, dim))
    run = counted(mixer, x)
    # The Gaussian's extra feature adds one product per pair and head.
    extra = 4 * length**2 if name == "gaussian" else 0
    assert run == stated + extra


def test_operations_of_fourier_attention_are_two_values_per_pair_and_feature() -> None:
    """N²E kernel factors, each a sine, and N²E multiply-adds with the values."""
    assert MIXERS["fourier"].operations(Size(64, 32)) == MIXERS["softmax"].operations(Size(64, 32))


def test_operations_of_the_parametrised_dft_are_two_ffts_and_a_product() -> None:
    length, dim = 64, 32
    mixer = create_mixer("parametrised", dim=dim, length=length)
    run = counted(mixer, torch.randn(1, length, dim))
    overhead = 2 * length + length * dim  # the diagonal itself, and the scale
    assert 0 <= run - MIXERS["parametrised"].operations(Size(length, dim)) <= overhead


@pytest.mark.parametrize("length", [32, 64, 256])
def test_operations_of_the_causal_dft_are_those_that_run(length: int) -> None:
    dim = 16
    mixer = create_mixer("causal_dft", dim=dim, length=length, causal=True)
    run = counted(mixer, torch.randn(1, length, dim))
    levels = length.bit_length() - 6
    products = dim * (2 * length + levels * length)  # elementwise, which the counter leaves out
    assert run == MIXERS["causal_dft"].operations(Size(length, dim)) - products


def test_operations_of_the_hadamard_transform_are_its_butterflies() -> None:
    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        additions = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            if func in {torch.ops.aten.add.Tensor, torch.ops.aten.sub.Tensor}:
                self.additions += out.numel()
            return out

    with Counting() as mode:
        create_mixer("hadamard", dim=16)(torch.randn(1, 40, 16))
    assert mode.additions == MIXERS["hadamard"].operations(Size(40, 16))


@pytest.mark.parametrize(("name", "causal"), FORMS)
def test_parameters_are_those_of_the_layer(name: str, causal: bool) -> None:
    options = {"bias": False} if MIXERS[name].has_bias else {}
    mixer = create_mixer(name, dim=E, length=N, heads=H, causal=causal, **options)
    stated = MIXERS[name].parameters(Size(N, E))
    assert sum(p.numel() for p in mixer.parameters()) == stated


def test_published_parameters_of_a_mixing_layer() -> None:
    """Lee-Thorp et al. (2021), Table 1: 2.36 and 0.85 million, and none, at N = 512, E = 768."""
    table = {row.name: round(row.parameters / 1e6, 2) for row in cost_table(dim=768, length=512)}
    expected = {"softmax": 2.36, "linear": 0.85, "fnet": 0.0, "random": 0.0, "none": 0.0}
    assert expected.items() <= table.items()


# --- each mixer against its definition -------------------------------------------------------


@pytest.mark.parametrize("norm", ["backward", "ortho"])
def test_matrix_form_of_the_dft_equals_the_fft(norm: str) -> None:
    x = doubles(2, 9, 6)
    fast, slow = (fourier_mixing(x, norm=norm, method=method) for method in ("fft", "matrix"))
    torch.testing.assert_close(slow, fast, rtol=1e-12, atol=1e-12)
    layers = [
        DFTMixer(6, norm=norm, method=m, length=9).double() for m in ("fft", "matrix", "auto")
    ]
    for layer in layers:
        torch.testing.assert_close(layer(x), fast, rtol=1e-12, atol=1e-12)
    kept = DFTMixer(6, norm=norm, method="matrix", length=9)
    torch.testing.assert_close(kept(x.float()), fast.float(), rtol=1e-5, atol=1e-5)
    assert not kept.state_dict()


@pytest.mark.parametrize("method", CAUSAL_METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_causal_layers_agree_by_every_method(method: str, dtype: torch.dtype) -> None:
    x = doubles(2, 45, E).to(dtype)
    layer = create_mixer("causal_dft", dim=E, length=N, causal=True, method=method).to(dtype)
    expected = create_mixer("causal_dft", dim=E, length=N, causal=True)(x.double())
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]["fast"]
    assert (layer(x) - expected).abs().max() < tolerance * expected.abs().max()
    assert not layer.state_dict()


def test_unitary_dft_keeps_the_energy_of_the_complex_transform() -> None:
    mixer = create_mixer("dft", dim=E)
    x = doubles(1, N, E)
    mixed = mixer.mix(mixer.values(x))
    torch.testing.assert_close(mixed.abs().square().sum(), x.square().sum())


@pytest.mark.parametrize("causal", [False, True])
def test_parametrised_dft_starts_as_the_plain_one(causal: bool) -> None:
    mixer = create_mixer("parametrised", dim=E, length=N, causal=causal).double()
    plain = create_mixer("causal_dft" if causal else "dft", dim=E, length=N, causal=causal)
    for n in (N, 45):
        x = doubles(1, n, E)
        torch.testing.assert_close(mixer(x), plain(x), rtol=1e-12, atol=1e-12)


def test_a_gain_acts_on_its_frequency_at_any_length() -> None:
    mixer = ParametrisedDFTMixer(1, length=64).double()
    with torch.no_grad():
        mixer.gain.zero_()[8] = 1.0  # keeps frequency 1/8 alone
    for n in (64, 32, 16):
        wave = torch.cos(2 * math.pi * torch.arange(n, dtype=torch.float64) / 8)
        kept = mixer.mix(mixer.values(wave[None, :, None]))[0, 0, :, 0].abs()
        assert kept[n // 8] > 1.0
        assert kept.sum() - kept[n // 8] < 1e-12


def test_phase_turns_a_frequency() -> None:
    mixer = ParametrisedDFTMixer(2, length=8).double()
    x = doubles(1, 8, 2)
    before = mixer.mix(mixer.values(x))
    with torch.no_grad():
        mixer.phase[3] = math.pi / 2
    after = mixer.mix(mixer.values(x))
    torch.testing.assert_close(after[..., 3, :], 1j * before[..., 3, :])
    torch.testing.assert_close(after[..., :3, :], before[..., :3, :])


def test_walsh_hadamard_is_the_sylvester_matrix() -> None:
    block = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    sylvester = torch.kron(block, torch.kron(block, block))
    assert torch.equal(walsh_hadamard(torch.eye(8)), sylvester)
    assert torch.equal(walsh_hadamard(torch.eye(5)), sylvester[:5, :5])


def test_linear_and_random_mixing_are_two_products_of_matrices() -> None:
    mixer, x = trained("linear"), doubles(1, 20, E)
    expected = mixer.tokens[:20, :20] @ x @ mixer.features
    torch.testing.assert_close(mixer(x), expected, rtol=1e-12, atol=1e-12)
    constant = create_mixer("random", dim=E, length=N)
    assert list(constant.parameters()) == []
    assert set(constant.state_dict()) == {"tokens", "features"}  # it must be saved all the same


@pytest.mark.parametrize(("name", "stds"), [("linear", (0.02, 0.02)), ("random", (0.05, 0.1))])
def test_dense_matrices_start_with_the_spread_of_the_authors_code(
    name: str, stds: tuple[float, float]
) -> None:
    """f_net/layers.py: normal(0.02) for LinearTransform, lecun_normal for RandomTransform."""
    torch.manual_seed(0)
    state = create_mixer(name, dim=100, length=400).state_dict()
    for part, std in zip(("tokens", "features"), stds, strict=True):
        assert state[part].std().item() == pytest.approx(std, rel=0.03)
    farthest = (state["tokens"].abs().max() / state["tokens"].std()).item()
    assert (farthest < 2.4) == (name == "random")  # two deviations, before they are cut off
    own = create_mixer(name, dim=100, length=400, std=0.3).state_dict()
    assert own["features"].std().item() == pytest.approx(0.3, rel=0.03)


def test_random_mixing_keeps_the_size_of_what_it_mixes() -> None:
    torch.manual_seed(0)
    x = doubles(4, 64, 96)
    y = create_mixer("random", dim=96, length=64).double()(x)
    assert y.std().item() == pytest.approx(x.std().item(), rel=0.1)


def test_gaussian_attention_is_softmax_for_keys_of_one_norm() -> None:
    torch.manual_seed(0)
    softmax, gaussian = SoftmaxMixer(2, heads=1, bias=False), GaussianMixer(2, heads=1, bias=False)
    gaussian.load_state_dict(softmax.state_dict())
    for mixer in (softmax, gaussian):
        mixer.double().key_projection.weight.data = torch.eye(2, dtype=torch.float64)
    angle = doubles(1, 9)
    x = torch.stack([angle.cos(), angle.sin()], dim=-1)  # keys on the unit circle
    torch.testing.assert_close(softmax(x), gaussian(x))


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_softmax_attention_takes_another_scale(scale: float) -> None:
    torch.manual_seed(0)
    mixer = SoftmaxMixer(E, heads=H, scale=scale).double()
    x = doubles(2, 9, E)
    query, key = mixer.queries(x), mixer.memory(x)[0]
    expected = torch.softmax(scale * query @ key.mT, dim=-1)
    torch.testing.assert_close(mixer.mixing_matrix(x), expected)
    torch.testing.assert_close(mixer(x), mixer.join_heads(expected @ mixer.memory(x)[1]))
    with pytest.raises(ValueError, match="scale must be finite and greater than 0, got 0"):
        SoftmaxMixer(E, heads=H, scale=0.0)


@pytest.mark.parametrize("name", ["fourier", "linear_fourier"])
@pytest.mark.parametrize("shape", ["scalar", "head", "feature", "head_feature"])
def test_a_radius_of_any_shape_is_trained_or_fixed(name: str, shape: str) -> None:
    for learn in (True, False):
        mixer = create_mixer(
            name, dim=E, heads=H, radius=0.3, radius_shape=shape, learn_radius=learn
        )
        assert ("log_radius" in dict(mixer.named_parameters())) == learn
        assert "log_radius" in mixer.state_dict()  # it is saved in any case
        mixer(torch.randn(1, 5, E)).square().sum().backward()
        assert (mixer.log_radius.grad is not None) == learn
        torch.testing.assert_close(mixer.radius, torch.full_like(mixer.radius, 0.3))


def test_fourier_radius_is_trained_and_stays_positive() -> None:
    mixer = FourierMixer(E, heads=H, radius=1.5, radius_shape="feature")
    assert mixer.radius.shape == (E // H,)
    mixer(torch.randn(1, 6, E)).square().sum().backward()
    assert mixer.log_radius.grad is not None
    assert (mixer.log_radius.grad != 0).all()
    with torch.no_grad():
        mixer.log_radius -= 50
    assert (mixer.radius > 0).all()


@pytest.mark.parametrize("name", FIXED)
def test_half_precision_is_mixed_in_float32(name: str) -> None:
    mixer = create_mixer(name, dim=E, length=N)
    x = torch.randn(1, N, E).bfloat16()
    y = mixer(x)
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, mixer(x.float()).bfloat16())


@pytest.mark.parametrize(("name", "causal"), FORMS)
def test_shapes_are_told_without_data(name: str, causal: bool) -> None:
    """On the meta device, where tools plan the memory of a model."""
    mixer = create_mixer(name, dim=E, length=N, heads=H, causal=causal).to("meta")
    assert mixer(torch.empty(3, N, E, device="meta")).shape == (3, N, E)


def test_matrices_of_a_model_come_by_name_in_order() -> None:
    model = nn.Sequential(*(create_mixer(name, dim=E, length=5) for name in ("fnet", "softmax")))
    matrices = mixing_matrices(model, torch.randn(2, 5, E))
    assert {name: matrix.shape for name, matrix in matrices.items()} == {
        "0": (2, 1, 5, 5),
        "1": (2, 1, 5, 5),
    }
    assert matrices["0"].is_complex()
    assert not any(module._forward_pre_hooks for module in model.modules())


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: create_mixer("wave", dim=4), ValueError, "mixer must be one of softmax, .*'wave'"),
        (
            lambda: create_mixer("fnet", dim=4, causal=True),
            ValueError,
            "mixer must be causal, .* one of softmax, .*causal_dft, got 'fnet'",
        ),
        (lambda: create_mixer("causal_dft", dim=4, length=8), ValueError, "mix all tokens"),
        (lambda: create_mixer("softmax", dim=4, heads=3), ValueError, "heads must divide dim = 4"),
        (lambda: create_mixer("linear", dim=4), TypeError, "length must be an integer, got None"),
        (
            lambda: create_mixer("linear", dim=4, length=8)(torch.ones(1, 9, 4)),
            ValueError,
            "at most length = 8 tokens, got 9",
        ),
        (lambda: create_mixer("dft", dim=4)(torch.ones(1, 9, 3)), ValueError, "x must have shape"),
        (lambda: create_mixer("dft", dim=4).step(torch.ones(1, 1, 4)), ValueError, "causal mixer"),
        (
            lambda: NoMixer(4, causal=True).step(torch.ones(1, 2, 4)),
            ValueError,
            "x must be one token",
        ),
        (
            lambda: create_mixer("dft", dim=4)(torch.ones(1, 2, 4), padding=torch.ones(1, 2)),
            TypeError,
            "padding must be boolean",
        ),
        (
            lambda: create_mixer("dft", dim=4)(doubles(1, 2, 4), padding=torch.ones(1, 3) > 0),
            ValueError,
            "padding must have shape",
        ),
        (lambda: create_mixer("softmax", dim=4, dropout=1.0), ValueError, "dropout must be"),
    ],
)
def test_bad_input_is_refused(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("name", [name for name in DECODERS if name in FIXED or name == "none"])
def test_steps_of_fixed_mixers_are_exact_under_autocast_as_their_passes_are(name: str) -> None:
    torch.manual_seed(0)
    mixer, x = create_mixer(name, dim=E, length=N, causal=True), torch.randn(2, 9, E)
    expected, state = mixer(x), None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        passed = mixer(x)
        first, after = mixer.prefill(x[:, :5])
        read, stepped = [first], []
        for t in range(9):
            y, state = mixer.step(x[:, t : t + 1], state)
            stepped.append(y)
            if t >= 5:
                y, after = mixer.step(x[:, t : t + 1], after)
                read.append(y)
    for found in (passed, torch.cat(stepped, dim=1), torch.cat(read, dim=1)):
        torch.testing.assert_close(found, expected)
