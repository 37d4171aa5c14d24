"""torch.func: derivatives of every mode, per-sample gradients, and dropout under vmap."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor
from torch.autograd import gradcheck
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from fourierkernels.attention import FourierAttention, fourier_attention
from fourierkernels.attention.fourier import IMPLEMENTATIONS

GRADIENT = TOLERANCE["float64"]["gradient"]
SIZE, H, N, M, D, C = 3, 2, 4, 5, 3, 2
query, key, value = (
    draw(SIZE, H, n, d, seed=i).detach() for i, (n, d) in enumerate([(N, D), (M, D), (M, C)])
)
radius = torch.tensor([0.8, 1.0, 1.2], dtype=torch.float64)
MASK = draw(N, M, seed=9).detach()
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True, "eps": 1e-2, "power": 2},
    "mask": {"attn_mask": MASK},
    "dropout": {"dropout_p": 0.3},
    "weights": {"return_weights": True},
    "dropout and weights": {"dropout_p": 0.3, "return_weights": True, "attn_mask": MASK > -0.5},
}
Loss = Callable[..., Tensor]


def loss(implementation: str, options: dict[str, Any], *leaves: Tensor) -> Tensor:
    """The same seed at each call, where there is one."""
    if options.get("dropout_p"):
        torch.manual_seed(3)
    found = fourier_attention(*leaves, implementation=implementation, **options)
    return sum(part.sin().sum() for part in (found if isinstance(found, tuple) else (found,)))


def by_autograd(function: Loss, *leaves: Tensor) -> tuple[Tensor, ...]:
    tracked = [leaf.clone().requires_grad_() for leaf in leaves]
    return torch.autograd.grad(function(*tracked), tracked)


def check(found: Any, expected: Any) -> None:
    for actual, exact in zip(found, expected, strict=True):
        assert exact.abs().max() > 0
        assert relative_error(actual, exact) < GRADIENT


ALL = (0, 1, 2, 3)
TRANSFORMS: dict[str, Callable[[Loss], Any]] = {
    "grad": lambda f: grad(f, ALL)(query, key, value, radius),
    "vjp": lambda f: vjp(f, query, key, value, radius)[1](torch.ones((), dtype=torch.float64)),
    "jacrev": lambda f: jacrev(f, ALL)(query, key, value, radius),
    "jacfwd": lambda f: jacfwd(f, ALL, randomness="same")(query, key, value, radius),
}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_first_derivatives_are_those_of_autograd(
    name: str, options: str, implementation: str
) -> None:
    function = partial(loss, implementation, OPTIONS[options])
    expected = by_autograd(function, query, key, value, radius)
    if name == "jacfwd" and "dropout_p" in OPTIONS[options]:
        # torch allows no seed to be set under vmap; that it is one draw for all, vmap's test shows.
        with pytest.raises(RuntimeError, match="randomness"):
            jacfwd(function, ALL)(query, key, value, radius)
        return
    check(TRANSFORMS[name](function), expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", OPTIONS)
def test_forward_mode_is_the_product_with_the_gradient(options: str, implementation: str) -> None:
    leaves = (query, key, value, radius)
    function = partial(loss, implementation, OPTIONS[options])
    tangents = tuple(draw(*leaf.shape, seed=20 + i).detach() for i, leaf in enumerate(leaves))
    expected = sum(
        (a * b).sum() for a, b in zip(by_autograd(function, *leaves), tangents, strict=True)
    )
    check([jvp(function, leaves, tangents)[1]], [expected])
    with dual_level():
        pairs = zip(leaves, tangents, strict=True)
        dual = function(*(make_dual(leaf, tangent) for leaf, tangent in pairs))
        check([unpack_dual(dual).tangent], [expected])


def test_forward_mode_passes_gradcheck() -> None:
    leaves = [leaf[0].clone().requires_grad_() for leaf in (query, key, value)]
    assert gradcheck(
        lambda *x: fourier_attention(*x[:3], 1.1, attn_mask=x[3], return_weights=True, eps=1e-2),
        (*leaves, MASK.clone().requires_grad_()),
        check_forward_ad=True,
        check_batched_grad=True,
    )


PLACE, WAY = torch.tensor([0.4, 0.3], dtype=torch.float64), torch.tensor([1.0, -0.5]).double()


def of_two_numbers(implementation: str, options: dict[str, Any], numbers: Tensor) -> Tensor:
    """A loss whose leaves, the mask among them, all depend on two numbers."""
    x, y = numbers
    leaves = query[0, :, :2] + x * key[0, :, :2], key[0] * y.exp(), value[0] + (x * y).sin()
    mask = {} if "is_causal" in options else {"attn_mask": x * MASK[:2]}
    return loss(implementation, options | mask, *leaves, radius * y.exp())


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", ["plain", "causal", "weights"])
def test_every_nesting_of_modes_is_right_to_third_order(options: str, implementation: str) -> None:
    """Reverse mode, which differences confirm, is the measure of forward mode."""
    function = partial(of_two_numbers, implementation, OPTIONS[options])
    twice = jacrev(jacrev(partial(of_two_numbers, "reference", OPTIONS[options])))
    step = 1e-5 * torch.eye(2, dtype=torch.float64)
    differences = torch.stack([twice(PLACE + h) - twice(PLACE - h) for h in step], dim=-1) / 2e-5
    exact = jacrev(twice)(PLACE)
    assert relative_error(exact, differences) < 1e-7  # 1e-10 of truncation, 1e-16 / 1e-5 rounding
    for modes in product((jacfwd, jacrev), repeat=3):
        second = modes[1](modes[0](function))
        assert relative_error(second(PLACE), twice(PLACE)) < GRADIENT
        assert relative_error(modes[2](second)(PLACE), exact) < GRADIENT


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_pushed_forward_of_a_pushed_forward_or_of_a_pull_back(implementation: str) -> None:
    function = partial(of_two_numbers, implementation, {})

    def once(x: Tensor) -> Tensor:
        return jvp(function, (x,), (WAY,))[1]

    second = jacrev(jacrev(function))(PLACE)
    check([jvp(once, (PLACE,), (WAY,))[1]], [WAY @ second @ WAY])
    pull = vjp(partial(fourier_attention, key=key, value=value, radius=1.0), query)[1]
    along, moved = (draw(SIZE, H, N, C, seed=i).detach() for i in (30, 31))
    check(jvp(pull, (along,), (moved,))[1], pull(moved))
    nested = jvp(lambda u: jvp(pull, (u,), (u,))[1][0], (along,), (moved,))[1]
    check([nested], pull(moved))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_cotangent_keeps_its_tangent_without_a_transform(implementation: str) -> None:
    tracked = query.clone().requires_grad_()
    output = fourier_attention(tracked, key, value, radius, implementation=implementation)
    along, moved = (draw(SIZE, H, N, C, seed=i).detach() for i in (30, 31))
    exact = torch.autograd.grad(output, tracked, moved, retain_graph=True)
    with dual_level():
        (pulled,) = torch.autograd.grad(output, tracked, make_dual(along, moved))
        check([unpack_dual(pulled).tangent], exact)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", ["plain", "causal", "mask", "weights"])
def test_hessians_are_those_of_autograd(options: str, implementation: str) -> None:
    function = partial(loss, implementation, OPTIONS[options])
    leaves = tuple(leaf[0] for leaf in (query, key, value))
    for place, leaf in enumerate((*leaves, radius)):
        others = [*leaves, radius]

        def of_one(x: Tensor, place: int = place, others: list[Tensor] = others) -> Tensor:
            return function(*others[:place], x, *others[place + 1 :])

        exact = torch.autograd.functional.hessian(of_one, leaf)
        if (options, place) != ("weights", 2):  # weights do not depend on values; the output does
            assert exact.abs().max() > 0
        assert relative_error(hessian(of_one)(leaf), exact) < GRADIENT
        assert relative_error(jacrev(jacrev(of_one))(leaf), exact) < GRADIENT


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_derivatives_of_a_mask(implementation: str) -> None:
    def function(mask: Tensor) -> Tensor:
        return loss(implementation, {"attn_mask": mask}, query, key, value, radius)

    exact = torch.autograd.functional.hessian(function, MASK)
    check([grad(function)(MASK)], by_autograd(function, MASK))
    check([hessian(function)(MASK)], [exact])


@pytest.mark.parametrize("shape", [(M,), (H, 1, M), (1, N, M), (H, N, M)])
@pytest.mark.parametrize("mapped", [False, True])
def test_each_sample_has_its_own_gradient_of_the_mask(shape: tuple[int, ...], mapped: bool) -> None:
    mask = draw(*((SIZE, *shape) if mapped else shape), seed=9).detach()

    def function(mask: Tensor, *leaves: Tensor) -> Tensor:
        return loss("fused", {"attn_mask": mask}, *leaves)

    dims = (0 if mapped else None, 0, 0, 0, None)
    found = vmap(grad(function, (0, 1, 4)), in_dims=dims)(mask, query, key, value, radius)
    for i in range(SIZE):
        each = (mask[i] if mapped else mask, query[i], key[i], value[i], radius)
        expected = by_autograd(function, *each)
        check([part[i] for part in found], [expected[place] for place in (0, 1, 4)])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", ["plain", "causal", "mask", "weights"])
def test_per_sample_gradients_are_those_of_a_loop(options: str, implementation: str) -> None:
    function = partial(loss, implementation, OPTIONS[options])
    found = vmap(grad(function, ALL), in_dims=(0, 0, 0, None))(query, key, value, radius)
    for i in range(SIZE):
        expected = by_autograd(function, query[i], key[i], value[i], radius)
        check([part[i] for part in found], expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"need_weights": True}])
def test_per_sample_gradients_of_a_layer_are_those_of_a_loop(
    options: dict[str, Any], implementation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(IMPLEMENTATIONS, "fused", IMPLEMENTATIONS[implementation])
    torch.manual_seed(0)
    layer = FourierAttention(6, 2, radius=1.0, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    batch = draw(4, 5, 6, seed=1).detach()

    def function(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        found = functional_call(layer, parameters, (x[None],), options)
        parts = found if isinstance(found, tuple) else (found,)
        return sum(part.sin().sum() for part in parts)

    found = vmap(grad(function), in_dims=(None, 0))(parameters, batch)
    for i, x in enumerate(batch):
        layer.zero_grad()
        function(dict(layer.named_parameters()), x).backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad.abs().max() > 0
            torch.testing.assert_close(found[name][i], parameter.grad, rtol=1e-9, atol=1e-12)


# ---- dropout under vmap -------------------------------------------------------------------------


def dropped(*leaves: Tensor, implementation: str = "fused") -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = fourier_attention(
        *leaves, dropout_p=0.5, return_weights=True, implementation=implementation
    )
    return found


def mapped(run: Callable[..., Any], randomness: str, *leaves: Tensor) -> Any:
    dims = (0, 0, 0, None)
    return vmap(run, in_dims=dims, randomness=randomness)(*leaves, radius)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_same_randomness_drops_the_same_pairs_of_each_sample(implementation: str) -> None:
    run = partial(dropped, implementation=implementation)
    torch.manual_seed(4)
    output, weights = mapped(run, "same", query, key, value)
    for i in range(SIZE):
        torch.manual_seed(4)
        expected = run(query[i], key[i], value[i], radius)
        check((output[i], weights[i]), expected)
        assert torch.equal(weights[i] == 0, weights[0] == 0)
    assert (weights == 0).any()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_different_randomness_is_another_draw_for_each_sample(implementation: str) -> None:
    run = partial(dropped, implementation=implementation)
    same = [leaf[:1].expand(SIZE, -1, -1, -1) for leaf in (query, key, value)]
    _, weights = mapped(run, "different", *same)
    kept = weights != 0
    for i in range(1, SIZE):
        assert not torch.equal(kept[i], kept[0])
    torch.testing.assert_close(  # each is dropout of the same weights
        weights[kept],
        (2 * fourier_attention(*same, radius, return_weights=True)[1])[kept],
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_seed_under_vmap_without_randomness_is_refused(implementation: str) -> None:
    with pytest.raises(RuntimeError, match="randomness"):
        mapped(partial(dropped, implementation=implementation), "error", query, key, value)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_gradients_of_samples_are_drawn_as_their_outputs(randomness: str) -> None:
    """The gradient of the value is Wᵀ dO, so it shows which weights were kept."""

    def total(value: Tensor, *leaves: Tensor) -> tuple[Tensor, Tensor]:
        output, weights = dropped(*leaves[:2], value, leaves[2])
        return output.sum(), weights

    found, weights = vmap(
        grad(total, has_aux=True), in_dims=(0, 0, 0, None), randomness=randomness
    )(value, query, key, radius)
    check([found], [weights.sum(dim=-2).unsqueeze(-1).expand_as(found)])


def test_the_jacobian_of_one_draw_repeats_the_draw() -> None:
    """jacrev maps the backward pass only: its entries must be of the draw that the forward made."""
    torch.manual_seed(5)
    jacobian = jacrev(lambda v: dropped(query[0], key[0], v, radius)[0])(value[0])
    torch.manual_seed(5)
    _, weights = dropped(query[0], key[0], value[0], radius)
    expected = torch.einsum("hij,hg,cd->hicgjd", weights, torch.eye(H), torch.eye(C).double())
    check([jacobian], [expected])
