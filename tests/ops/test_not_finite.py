"""What is not finite shows in all outputs and gradients that it touches, and in nothing else.

One contract over every implementation: a row of `IMPLEMENTATIONS` takes inputs and options and
returns output and weights, which have derivatives. The public functions refuse such inputs where
they may read them, on a CPU and outside of transforms; where they may not, this is how a diverged
run shows.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from plain_attention import draw
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.derivatives import attend_by_reference
from fourierkernels.ops.operator import attend

B, H, N, M, D, C = 2, 2, 5, 6, 3, 2
PAIRS = (B, H, N, M)


def by_operator(inputs: Inputs, options: Options) -> tuple[Tensor, Tensor]:
    output, _, _, weights = attend(*inputs, *options[:5])
    return output, weights


Implementation = Callable[[Inputs, Options], tuple[Tensor, Tensor]]
IMPLEMENTATIONS: dict[str, Implementation] = {
    "reference": attend_by_reference,
    "operator": by_operator,
}
DTYPES = {"reference": (torch.float64,), "operator": (torch.float32, torch.float64)}
BAD = (math.nan, math.inf, -math.inf)

BOOLEAN = draw(*PAIRS, seed=5).detach() > -0.3
BOOLEAN[0, 0, 1] = False  # a query without keys
BOOLEAN[..., 3] = False  # a key that nobody sees
MASKS: dict[str, Tensor | None] = {
    "none": None,
    "boolean": BOOLEAN,
    "padding": BOOLEAN[:, :1, 2:3],
    "additive": draw(*PAIRS, seed=6).detach().masked_fill(~BOOLEAN, -math.inf),
}
OPTIONS = {
    "full": Options(4, False, 0.0, return_weights=True),
    "causal": Options(4, True, 0.0),
    "eps": Options(2, False, 1e-3, return_weights=True),
    "odd": Options(3, True, 1e-2, return_weights=True),
}
# The tensor, where it is spoilt, and so which pairs are touched if they are seen.
PLACES: dict[str, tuple[str, tuple[int, ...]]] = {
    "query": ("query", (1, 0, 2, 1)),
    "query without keys": ("query", (0, 0, 1, 0)),
    "key": ("key", (0, 1, 2, 2)),
    "first key": ("key", (1, 1, 0, 1)),  # from which a common offset is taken
    "key that nobody sees": ("key", (0, 1, 3, 0)),
    "value": ("value", (1, 1, 1, 0)),
    "value that nobody sees": ("value", (1, 1, 3, 1)),
    "radius": ("radius", (1, 2)),
}
HIDDEN_BY = {
    "query without keys": ("boolean", "additive"),
    "key that nobody sees": ("boolean", "padding", "additive"),
    "value that nobody sees": ("boolean", "padding", "additive"),
}


class Outcome(NamedTuple):
    """Results and gradients of a loss that is linear in the results."""

    output: Tensor
    weights: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
    mask: Tensor


def clean(mask: str, dtype: torch.dtype) -> Inputs:
    shapes = [(B, H, N, D), (B, H, M, D), (B, H, M, C)]
    query, key, value = (draw(*s, seed=i, scale=0.5).detach() for i, s in enumerate(shapes))
    tensors = (query, key, value, (0.2 * draw(H, D, seed=3).detach()).exp())
    given = MASKS[mask]
    if given is not None and given.dtype is not torch.bool:
        given = given.to(dtype)
    return Inputs(*(tensor.to(dtype) for tensor in tensors), given)


def run(implementation: str, inputs: Inputs, options: Options) -> Outcome:
    leaves = [
        None if x is None or not x.is_floating_point() else x.clone().requires_grad_()
        for x in inputs[:5]
    ]
    mask = inputs.mask if leaves[4] is None else leaves[4]
    output, weights = IMPLEMENTATIONS[implementation](Inputs(*leaves[:4], mask), options)
    loss = (output * draw(*output.shape, seed=8, dtype=output.dtype).detach()).sum()
    if options.return_weights:
        loss = loss + (weights * draw(*PAIRS, seed=9, dtype=output.dtype).detach()).sum()
    else:
        weights = weights.new_zeros(0)
    tracked = [leaf for leaf in leaves if leaf is not None]
    gradients = [*torch.autograd.grad(loss, tracked), torch.zeros(0)][:5]
    return Outcome(output.detach(), weights.detach(), *gradients)


def seen_pairs(mask: Tensor | None, options: Options) -> Tensor:
    seen = torch.ones(PAIRS, dtype=torch.bool)
    if mask is not None:
        seen &= mask if mask.dtype is torch.bool else mask != -math.inf
    return seen.tril() if options.causal else seen


def touched(name: str, place: tuple[int, ...], inputs: Inputs, options: Options) -> Outcome:
    """Return where results and gradients must not be finite, by who sees whom."""
    seen = seen_pairs(inputs.mask, options)
    hit = torch.zeros(PAIRS, dtype=torch.bool)
    if name == "query":
        hit[place[:3]] = True
    elif name == "radius":
        hit[:, place[0]] = True
    elif name == "mask":
        spoilt = torch.zeros(inputs.mask.shape, dtype=torch.bool)
        spoilt[place] = True
        hit |= spoilt
    else:
        hit[(*place[:2], slice(None), place[2])] = True
    rows = (hit & seen).any(-1)  # every weight of such a row is divided by their sum
    pairs = rows[..., None] & seen
    output = rows[..., None].expand(B, H, N, C)
    values = pairs.any(-2)[..., None].expand(B, H, M, C)
    if name == "value":  # not in the weights, and in one feature
        output = output & (torch.arange(C) == place[3])
        values = torch.zeros_like(values)
    weights = torch.zeros_like(pairs) if name == "value" else pairs
    mask = torch.zeros(0, dtype=torch.bool)
    if inputs.mask is not None and inputs.mask.is_floating_point():
        mask = pairs.float().sum_to_size(inputs.mask.shape) > 0
    return Outcome(
        output,
        weights if options.return_weights else torch.zeros(0, dtype=torch.bool),
        rows[..., None].expand(B, H, N, D),
        pairs.any(-2)[..., None].expand(B, H, M, D),
        values,
        rows.any(-1).any(0)[:, None].expand(H, D),
        mask,
    )


def check(
    implementation: str, name: str, place: tuple[int, ...], bad: float, inputs: Inputs, case: str
) -> Outcome:
    """Compare a spoilt run with what must be touched and, elsewhere, with a clean run."""
    options = OPTIONS[case]
    spoilt = getattr(inputs, name).clone()
    spoilt[place] = bad
    found = run(implementation, inputs._replace(**{name: spoilt}), options)
    expected = run(implementation, inputs, options)
    where = touched(name, place, inputs._replace(**{name: spoilt}), options)
    # The gradient of a spoilt value is no function of it, and nobody's concern.
    for outcome in (found, expected):
        if name == "value":
            outcome.value[place] = 0.0
    tolerance = TOLERANCE[str(inputs.query.dtype).removeprefix("torch.")]["gradient"]
    for part in Outcome._fields:
        actual, hit = getattr(found, part), getattr(where, part)
        assert not actual[hit].isfinite().any(), f"{part} hides it"
        torch.testing.assert_close(
            actual[~hit],
            getattr(expected, part)[~hit],
            rtol=tolerance,
            atol=tolerance,
            msg=lambda text, part=part: f"{part} is touched elsewhere: {text}",
        )
    return where


ROWS = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]


@pytest.mark.parametrize(("implementation", "dtype"), ROWS)
@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("where", PLACES)
def test_it_shows_where_it_is_seen_and_nowhere_else(
    where: str, mask: str, case: str, implementation: str, dtype: torch.dtype
) -> None:
    (name, place), inputs = PLACES[where], clean(mask, dtype)
    for bad in BAD:
        hit = check(implementation, name, place, bad, inputs, case)
        assert hit.query.any() != (mask in HIDDEN_BY.get(where, ()))


@pytest.mark.parametrize(("implementation", "dtype"), ROWS)
@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("shape", [PAIRS, (1, H, N, 1), (B, 1, 1, M), (1, 1, N, M)], ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_entry_of_an_additive_mask_shows_in_its_queries(
    bad: float, shape: tuple[int, ...], case: str, implementation: str, dtype: torch.dtype
) -> None:
    """+inf too: it outweighs every key, and the mean of what it outweighs is inf/inf."""
    inputs = clean("none", dtype)._replace(mask=draw(*shape, seed=7, dtype=dtype).detach())
    place = tuple(min(index, size - 1) for index, size in zip((1, 0, 3, 2), shape, strict=True))
    assert check(implementation, "mask", place, bad, inputs, case).query.any()
