"""Random problems through the emulated kernels of every library, within a bound of rounding.

The bound is derived in ``support/attention_problems.py`` and has no free constant.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from attention_problems import AttentionProblem, Results, exact
from host_kernels import REALS, host_library, needs_compiler
from torch import Tensor

from fourierkernels.ops.arguments import Inputs, Options, Saved
from fourierkernels.ops.cuda.attention import backward, forward
from fourierkernels.ops.cuda.build import SIZES

pytestmark = needs_compiler
IN_SUITE = 30  # the first ones: three of each library
CASES = int(os.environ.get("FK_FUZZ_CASES", "90"))  # 300 after a change of the kernels: 20 minutes
LIBRARIES = [(dtype, size) for size in SIZES for dtype in REALS]
PAIRS = 3_000_000  # at most, times features
# What a bound may be at most, relative and absolute, or it would let errors pass.
LOOSEST = {torch.float32: (0.1, 1e-24), torch.float64: (1e-8, 1e-290)}


@dataclass(frozen=True)
class Draw:
    """The numbers that make up a case."""

    case: int
    size: int
    dtype: torch.dtype
    shape: tuple[int, int, int, int, int, int]  # B, H, N, M, D, C
    mask: str
    options: Options
    scale: float
    radius: float
    offset: float


def draw(case: int) -> Draw:
    """Draw a case; the libraries take turns."""
    rng = np.random.default_rng([2026, case])
    dtype, size = LIBRARIES[case % len(LIBRARIES)]
    smaller = size // 2 if size > SIZES[0] else 0
    wide = int(rng.integers(smaller + 1, size + 1))  # features or columns need this library
    narrow = int(rng.integers(1, size + 1))
    dim, columns = (wide, narrow) if rng.random() < 0.5 else (narrow, wide)
    heads = tuple(int(each) for each in rng.integers(1, 3, 2))
    most = max(1, int(np.sqrt(PAIRS / (heads[0] * heads[1] * dim))))
    n, m = (_length(rng, min(most, 200), dtype) for _ in range(2))
    power = int(rng.choice([1, 2, 3, 4, 4, 4, 6, 7, 16, 17, 40]))
    options = Options(
        power,
        causal=bool(rng.random() < 0.3),
        eps=float(rng.choice([0, 0, 1e-6, 1e-2])),
        dropout_p=float(rng.choice([0.0, 0.0, 0.1, 0.7])),
        return_weights=bool(rng.random() < 0.3),
    )
    mask = str(rng.choice(list(MASKS)))
    options = options._replace(mask_grad=mask in ADDITIVE and bool(rng.random() < 0.7))
    # An odd power is summed where it has no zeros: beyond them its totals may cancel. Angles of
    # hundreds leave no digit of a product of hundreds of factors in single precision.
    lost = power * dim > 256 and dtype is torch.float32
    scales = [0.01, 0.3, 1.0, 1.0, 1.0, 5.0, 5.0 if lost else 50.0]
    spread = 0.3 if power % 2 else float(rng.choice(scales))
    return Draw(
        case,
        size,
        dtype,
        (*heads, n, m, dim, columns),
        mask,
        options,
        spread,
        float(rng.choice([0.3, 1.0, 3.0])) if power % 2 == 0 else 1.0,
        float(rng.choice([0.0, 0.0, 10.0, -1e4])),
    )


def _length(rng: np.random.Generator, most: int, dtype: torch.dtype) -> int:
    tile = 256 // dtype.itemsize
    return min(most, int(rng.choice([1, tile - 1, tile, tile + 1, *rng.integers(1, 200, 4)])))


# ---- masks, from a generator and (B, H, N, M) --------------------------------------------------

Mask = Callable[[torch.Generator, tuple[int, ...]], Tensor | None]


def _uniform(g: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=g, dtype=torch.float64)


def _minus_infinity(g: torch.Generator, s: tuple[int, ...]) -> Tensor:
    bias = 3 * _uniform(g, 1, s[1], s[2], s[3]) - 1
    return bias.masked_fill(_uniform(g, 1, 1, s[2], s[3]) < 0.4, -torch.inf)


def _hidden_tiles(g: torch.Generator, s: tuple[int, ...]) -> Tensor:
    """Blocks of 32 queries by 32 keys, most of them hidden altogether."""
    blocks = _uniform(g, s[0], 1, -(-s[2] // 32), -(-s[3] // 32)) < 0.3
    return blocks.repeat_interleave(32, 2).repeat_interleave(32, 3)[:, :, : s[2], : s[3]]


MASKS: dict[str, Mask] = {
    "none": lambda g, s: None,
    "boolean": lambda g, s: _uniform(g, s[0], s[1], s[2], s[3]) < 0.6,
    "padding": lambda g, s: torch.arange(s[3]) < (s[3] * _uniform(g, s[0], 1, 1, 1)).ceil(),
    "hidden queries": lambda g, s: _uniform(g, 1, s[1], s[2], 1) < 0.6,
    "additive": lambda g, s: 4 * _uniform(g, s[0], 1, s[2], s[3]) - 2,
    "additive per key": lambda g, s: 40 * _uniform(g, 1, s[1], 1, s[3]) - 20,
    "minus infinity": _minus_infinity,
    "additive for all": lambda g, s: 2 * _uniform(g, s[0], s[1], 1, 1),
    "hidden tiles": _hidden_tiles,
    "strided": lambda g, s: (_uniform(g, s[3], s[2], 2 * s[1]) < 0.6).permute(2, 1, 0)[None, ::2],
}


ADDITIVE = [name for name in MASKS if name.startswith(("additive", "minus"))]


def problem(case: Draw) -> AttentionProblem:
    batch, heads, n, m, dim, columns = case.shape
    g = torch.Generator().manual_seed(case.case)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g, dtype=torch.float64)

    spread = case.scale / case.radius
    sides = [spread * normal(batch, heads, rows, dim) + case.offset for rows in (n, m)]
    radius = case.radius * torch.exp(0.1 * normal(heads, dim))
    mask = MASKS[case.mask](g, (batch, heads, n, m))
    if mask is not None and mask.is_floating_point():
        mask = mask.to(case.dtype)
    value, grad = normal(batch, heads, m, columns), normal(batch, heads, n, columns)
    query, key, value, radius, grad = (
        each.to(case.dtype) for each in (*sides, value, radius, grad)
    )
    seed = torch.tensor([case.case - 2**62]) if case.options.dropout_p else None
    inputs = Inputs(query, key, value, radius, mask, seed)
    asked = case.options.return_weights
    weights_grad = normal(batch, heads, n, m).to(case.dtype) if asked else None
    return AttentionProblem(inputs, case.options, grad, weights_grad)


def run(case: Draw, given: AttentionProblem) -> Results:
    library = host_library(case.dtype, case.size)
    library.handle.fk_set_order((1, -1, case.case)[case.case % 3])
    rows = forward(library, given.inputs, given.options)
    saved = Saved(rows.significand, rows.exponent)
    cotangents = given.cotangents(rows.output, rows.weights)
    gradients = backward(library, cotangents, given.inputs, saved, given.options)
    library.handle.fk_set_order(1)
    return Results(rows.output, rows.weights, *gradients)


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """Deterministic torch fills new memory with NaN: what a kernel does not write, shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def check(number: int) -> None:
    case = draw(number)
    given = problem(case)
    results, bounds = exact(given)
    found = run(case, given)
    for result, bound in ((results.output, bounds.output), (results.value, bounds.value)):
        least = LOOSEST[case.dtype][1] * result.numel()
        assert bound.norm() <= LOOSEST[case.dtype][0] * result.norm() + least, case
    for name, result, bound, actual in zip(Results._fields, results, bounds, found, strict=True):
        if name == "weights" and not case.options.return_weights:
            assert actual.shape[-1] == 0
            continue
        if name == "mask" and not case.options.mask_grad:
            assert actual.numel() == 0
            continue
        assert actual.shape == result.shape, (name, case)
        beyond = ~((actual - result).abs() <= bound)
        assert not beyond.any(), (name, int(beyond.sum()), case)


@pytest.mark.parametrize("number", range(IN_SUITE))
def test_random_problems_are_within_rounding_of_the_reference(number: int) -> None:
    check(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(IN_SUITE, CASES))
def test_more_random_problems_are_within_rounding_of_the_reference(number: int) -> None:
    check(number)
