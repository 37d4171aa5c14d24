"""What computes attention on a card: ours, the same formula by others, and softmax as the price.

A contender takes query, key and value ``(B, H, N, D)`` in float32, and whether later keys are
hidden; the radius is 2 and the power 4, as in the models of the paper.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.card import Card

_LANES = 4 * 32
RADIUS, POWER = 2.0, 4
Run = Callable[[Tensor, Tensor, Tensor, bool], Tensor]
_FLOAT = 4


@dataclass(frozen=True)
class Shape:
    """Self-attention of a batch; values have as many columns as keys have features."""

    name: str
    batch: int
    heads: int
    n: int
    dim: int
    causal: bool = False

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that it sees."""
        seen = self.n * (self.n + 1) // 2 if self.causal else self.n**2
        return self.batch * self.heads * seen

    @property
    def tensor_bytes(self) -> int:
        """Bytes of one of query, key and value in float32."""
        return 4 * self.batch * self.heads * self.n * self.dim


_LONG_HEADS = 8
_LENGTHS = tuple(2**exponent for exponent in range(10, 17))  # 1k to 64k
_DIMS = (16, 32, 64, 128, 256)

_ROWS = (
    Shape("language model, small", 96, 8, 256, 16),
    Shape("language model, medium", 56, 8, 384, 32),
    Shape("DeiT-tiny", 256, 3, 197, 64),
    *(
        Shape(f"N = {n // 1024}k, D = {dim}", 1, _LONG_HEADS, n, dim)
        for n, dim in product(_LENGTHS, _DIMS)
    ),
)
# In the order of a run: what models use, then from short to long.
SHAPES: dict[str, Shape] = {row.name: row for row in _ROWS}
QUICK = (Shape("quick", 1, 2, 64, 16),)


def both_ways(shape: Shape) -> tuple[Shape, Shape]:
    """Return the problem without and with the causal mask."""
    return replace(shape, causal=False), replace(shape, causal=True)


@dataclass(frozen=True)
class Slots:
    """Issue slots for each pair, for one feature and for one column of the values."""

    feature: float
    column: float


SLOTS = {
    "forward": Slots(feature=9.89, column=1.42),
    "backward": Slots(feature=7.0 + 19.4, column=1.25 + 1.42),
}


def floor_ms(shape: Shape, direction: str, card: Card) -> float:
    """Return the floor in milliseconds for float32, NaN where no clock is known.

    Examples
    --------
    >>> from fourierkernels.cli.card.contenders import SHAPES
    >>> h200 = Card("", "sm_90", 132, 0, 0, 1.755, "", "", "", "", "")
    >>> small = SHAPES["language model, small"]
    >>> [round(floor_ms(small, direction, h200), 2) for direction in SLOTS]
    [0.31, 0.79]
    """
    rate = _LANES * card.multiprocessors * card.clock * 1e6  # lanes in a millisecond
    slots = SLOTS[direction]
    each = slots.feature * shape.dim + slots.column * shape.dim
    return shape.pairs * each / rate if rate > 0 else math.nan


@dataclass(frozen=True)
class Contender:
    """A way to compute attention.

    Attributes
    ----------
    run : callable
        From query, key, value and causal to the output.
    exact : bool
        Whether it computes our formula, so that its error can be measured.
    pace : float
        Its time over the floor of our kernels, roughly, to tell whether there is time for it.
    stored : callable
        Bytes that it stores beside its inputs, from shape and direction; 0 if O(N).
    package : str
        What has to be installed for it.
    prepare : callable
        Called before each measurement.
    devices : tuple of str
    causal : bool
        Whether it can hide later keys.
    """

    run: Run
    pace: float
    exact: bool = False
    stored: Callable[[Shape, str], int] = lambda shape, direction: 0
    package: str = "torch"
    prepare: Callable[[], None] = lambda: None
    devices: tuple[str, ...] = ("cpu", "cuda")
    causal: bool = True


def _fused(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return fourier_attention(query, key, value, RADIUS, power=POWER, is_causal=causal)


def _reference(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return fourier_attention(
        query, key, value, RADIUS, power=POWER, is_causal=causal, implementation="reference"
    )


_compiled: Run = torch.compile(_reference, fullgraph=True)  # traced at its first call


def _softmax(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return scaled_dot_product_attention(query, key, value, is_causal=causal)


def _flash(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return _softmax(query.bfloat16(), key.bfloat16(), value.bfloat16(), causal)


def _keops(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    from pykeops.torch import LazyTensor  # type: ignore[import-not-found]

    rows = LazyTensor(RADIUS * query[..., :, None, :])
    columns = LazyTensor(RADIUS * key[..., None, :, :])
    scores = (POWER * (rows - columns).sinxdivx().abs().log()).sum(-1)
    values = LazyTensor(value[..., None, :, :].contiguous())
    found: Tensor = scores.sumsoftmaxweight(values, dim=query.ndim - 1)
    return found


class _Product(torch.autograd.Function):
    """The extension published with the paper: ∏_d sinc, (N, M, B, H), of q, k as (N, B, H, D)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, radius: Tensor) -> Tensor:
        import fourier_layer_cuda  # type: ignore[import-not-found]

        result: Tensor = fourier_layer_cuda.forward(query, key, radius)
        ctx.save_for_backward(query, key, radius, result)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        import fourier_layer_cuda

        saved = ctx.saved_tensors
        return tuple(fourier_layer_cuda.backward(gradients[0].contiguous(), *saved))


def _published(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    # One radius per feature: with the single one of the publication it reads beyond its end.
    radius = torch.full((query.shape[-1],), RADIUS, device=query.device)
    sides = [side.permute(2, 0, 1, 3).contiguous() for side in (query, key)]
    products: Tensor = _Product.apply(*sides, radius)  # type: ignore[no-untyped-call]
    weights = products**POWER
    if causal:
        later = torch.ones(weights.shape[:2], dtype=torch.bool, device=query.device).triu(1)
        weights = weights.masked_fill(later[..., None, None], 0.0)
    weights = weights / (weights.sum(dim=1, keepdim=True) + 1e-6)
    return torch.einsum("nmbh,bhmc->bhnc", weights, value)


def _pairs(shape: Shape, direction: str, *, forward: int, backward: int) -> int:
    """Return the bytes of so many arrays of all pairs."""
    arrays = {"forward": forward, "backward": backward}[direction]
    return arrays * _FLOAT * shape.batch * shape.heads * shape.n**2


def _pairs_and_features(shape: Shape, direction: str, *, forward: int, backward: int) -> int:
    return shape.dim * _pairs(shape, direction, forward=forward, backward=backward)


def _stored_by_compiled(shape: Shape, direction: str) -> int:
    if direction == "forward":
        return _pairs(shape, direction, forward=3, backward=0)
    return _pairs_and_features(shape, direction, forward=0, backward=2)


CONTENDERS: dict[str, Contender] = {
    "ours": Contender(_fused, pace=2.0, exact=True),
    # Differences, x, sinc of it and its logarithm; backward the slope and its parts too.
    "reference, eager": Contender(
        _reference,
        pace=20.0,
        exact=True,
        stored=partial(_pairs_and_features, forward=4, backward=8),
    ),
    # The sum over features is fused into what makes its terms; backward saves x all the same.
    "reference, torch.compile": Contender(
        _compiled,
        pace=10.0,
        exact=True,
        stored=_stored_by_compiled,
        prepare=torch.compiler.reset,  # few recompilations are allowed for one function
    ),
    "KeOps": Contender(_keops, pace=10.0, exact=True, package="pykeops", causal=False),
    "softmax, float32": Contender(_softmax, pace=0.5),
    "softmax, bfloat16 (flash)": Contender(_flash, pace=0.1, devices=("cuda",)),
    "published extension": Contender(
        _published,
        pace=50.0,
        stored=partial(_pairs, forward=6, backward=8),
        package="fourier_layer_cuda",
        devices=("cuda",),
    ),
}


def installed(device: str) -> tuple[list[str], list[str]]:
    """Return the names of the contenders that run on a kind of device, and why others do not."""
    able, missing = [], []
    for name, row in CONTENDERS.items():
        if device not in row.devices:
            continue
        if find_spec(row.package) is None:
            missing.append(f"{name} ({row.package} is not installed)")
        else:
            able.append(name)
    return able, missing
