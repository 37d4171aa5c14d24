"""The problems that are checked: what is drawn, which options, compared with float64.

A row is one problem. Each adds one difference to the plain one, or goes to one more library.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

BATCH, HEADS = 2, 3

Mask = Callable[[int, int, torch.Generator], Tensor | None]
SEED = 2022


def _boolean(n: int, m: int, generator: torch.Generator) -> Tensor:
    attend = torch.rand(BATCH, HEADS, n, m, generator=generator) > 0.4
    attend[..., n // 2, :] = False  # a query without any key
    return attend


def _padding(n: int, m: int, generator: torch.Generator) -> Tensor:
    lengths = torch.randint(1, m + 1, (BATCH, 1, 1, 1), generator=generator)
    return torch.arange(m) < lengths


def _additive(n: int, m: int, generator: torch.Generator) -> Tensor:
    return torch.randn(1, HEADS, n, m, generator=generator, dtype=torch.float64)


def _minus_infinity(n: int, m: int, generator: torch.Generator) -> Tensor:
    return _additive(n, m, generator).masked_fill(~_boolean(n, m, generator)[:1], -math.inf)


def _per_key(n: int, m: int, generator: torch.Generator) -> Tensor:
    return torch.randn(BATCH, 1, 1, m, generator=generator, dtype=torch.float64)


def _blocks(n: int, m: int, generator: torch.Generator) -> Tensor:
    """Return blocks of 64 along the diagonal: every other tile is hidden as a whole."""
    return (torch.arange(n)[:, None] // 64 == torch.arange(m) // 64)[None, None]


MASKS: dict[str, Mask] = {
    "none": lambda n, m, generator: None,
    "boolean": _boolean,
    "padding": _padding,
    "additive": _additive,
    "minus infinity": _minus_infinity,
    "per key": _per_key,
    "blocks": _blocks,
}


@dataclass(frozen=True)
class Case:
    """One problem.

    Attributes
    ----------
    spread : float
        Scale of queries and keys; at 1 the logarithms of the weights of a row differ by about 2,
        whatever the number of features and the power.
    mask : str
        A key of :data:`MASKS`.
    weights : bool
        Ask for the weights too, and differentiate through them.
    mask_gradient : bool
        Differentiate with respect to the mask too.
    quick : bool
        Part of the short run.
    """

    group: str
    name: str
    dtype: str = "float32"
    queries: int = 70
    keys: int = 90
    features: int = 16
    columns: int = 16
    power: int = 4
    eps: float = 0.0
    causal: bool = False
    mask: str = "none"
    dropout: float = 0.0
    weights: bool = False
    mask_gradient: bool = False
    spread: float = 1.0
    quick: bool = False


def draw(case: Case) -> dict[str, Tensor]:
    """Return the tensors of a problem in float64, rounded to its dtype.

    Returns
    -------
    dict of str to Tensor
        query ``(B, H, N, D)``, key ``(B, H, M, D)``, value ``(B, H, M, C)``, radius ``(H, D)``,
        output ``(B, H, N, C)`` and weights ``(B, H, N, M)`` (cotangents), and mask, if any.
    """
    generator = torch.Generator().manual_seed(SEED)
    n, m, dim, columns = case.queries, case.keys, case.features, case.columns
    scale = case.spread * math.sqrt(6.0 / (case.power * dim))  # l/6 Σ_d x_d² is 2 on average

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    tensors = {
        "query": scale * normal(BATCH, HEADS, n, dim),
        "key": scale * normal(BATCH, HEADS, m, dim),
        "value": normal(BATCH, HEADS, m, columns),
        "radius": (0.1 * normal(HEADS, dim)).exp(),
        "output": normal(BATCH, HEADS, n, columns),
        "weights": normal(BATCH, HEADS, n, m),
    }
    mask = MASKS[case.mask](n, m, generator)
    if mask is not None:
        tensors["mask"] = mask
    dtype = getattr(torch, case.dtype)
    return {
        name: tensor if tensor.dtype is torch.bool else tensor.to(dtype).double()
        for name, tensor in tensors.items()
    }


# ---- the rows -----------------------------------------------------------------------------------

_PLAIN = Case("", "")
_SINGLE_DOUBLE = ("float32", "float64")
_WIDTHS = (
    *((1, 1), (5, 3), (16, 16), (17, 2), (32, 32), (40, 64), (64, 64), (100, 33)),
    *((128, 128), (80, 16), (7, 200), (200, 256), (256, 256)),
)
_ONE_EACH = ((5, 3), (17, 2), (40, 64), (100, 33), (7, 200))  # a width for each size of library
_LENGTHS = ((1, 1), (1, 300), (64, 64), (65, 127), (197, 197), (256, 33), (33, 256))
_POWERS = (1, 2, 3, 6, 8, 20, 40)
_DROPPED: dict[str, object] = {"dropout": 0.3}
_EVERYTHING: dict[str, object] = {"dropout": 0.2, "weights": True, "mask_gradient": True}


def _libraries() -> list[Case]:
    """Every precision and width, with and without the causal mask."""
    return [
        replace(
            _PLAIN,
            group="libraries",
            name=f"D = {dim}, C = {columns}" + ", causal" * causal,
            dtype=dtype,
            features=dim,
            columns=columns,
            causal=causal,
            quick=(dim, columns) in _ONE_EACH and not causal,
        )
        for dtype, (dim, columns), causal in product(_SINGLE_DOUBLE, _WIDTHS, (False, True))
    ]


def _lengths() -> list[Case]:
    return [
        replace(
            _PLAIN,
            group="lengths",
            name=f"N = {n}, M = {m}" + ", causal" * causal,
            dtype=dtype,
            queries=n,
            keys=m,
            causal=causal,
            quick=(n, dtype) == (65, "float32"),
        )
        for dtype, (n, m), causal in product(_SINGLE_DOUBLE, _LENGTHS, (False, True))
    ]


def _powers() -> list[Case]:
    powers = [
        replace(_PLAIN, group="powers", name=f"l = {power}", dtype=dtype, power=power, features=4)
        for dtype, power in product(_SINGLE_DOUBLE, _POWERS)
    ]
    added = [
        replace(_PLAIN, group="eps", name=f"eps = {eps:g}", dtype=dtype, eps=eps, quick=eps > 1e-3)
        for dtype, eps in product(_SINGLE_DOUBLE, (1e-6, 1e-2))
    ]
    peaked = [
        replace(_PLAIN, group="peaked", name=f"D = {dim}", dtype=dtype, features=dim, spread=spread)
        for dtype, (dim, spread) in product(_SINGLE_DOUBLE, ((16, 3.0), (64, 6.0), (128, 6.0)))
    ]
    return powers + added + peaked


def _masks() -> list[Case]:
    plain = replace(_PLAIN, group="masks", queries=150, keys=200)
    return [
        replace(plain, name=mask, dtype=dtype, mask=mask, quick=mask in ("boolean", "blocks"))
        for dtype, mask in product(_SINGLE_DOUBLE, MASKS)
        if mask != "none"
    ]


def _options() -> list[Case]:
    """Dropout, weights and gradients of masks, alone and together."""
    rows: dict[str, dict[str, object]] = {
        "dropout": _DROPPED,
        "dropout, causal": {**_DROPPED, "causal": True},
        "dropout, boolean": {**_DROPPED, "mask": "boolean"},
        "dropout, eps": {**_DROPPED, "eps": 1e-2},
        "weights": {"weights": True},
        "weights, boolean": {"weights": True, "mask": "boolean"},
        "gradient of an additive mask": {"mask_gradient": True, "mask": "additive"},
        "gradient of a mask per key": {"mask_gradient": True, "mask": "per key"},
        "gradient of minus infinity": {"mask_gradient": True, "mask": "minus infinity"},
        "all of them": {**_EVERYTHING, "mask": "additive"},
        "all of them, D = 64": {**_EVERYTHING, "mask": "per key", "features": 64, "columns": 64},
    }
    return [
        replace(
            _PLAIN,
            group="options",
            name=name,
            dtype=dtype,
            quick=(name, dtype) == ("all of them", "float32"),
            **options,  # type: ignore[arg-type]
        )
        for dtype, (name, options) in product(_SINGLE_DOUBLE, rows.items())
    ]


def _half() -> list[Case]:
    rows: dict[str, dict[str, object]] = {
        "plain": {},
        "causal": {"causal": True},
        "additive": {"mask": "additive", "mask_gradient": True},
        "D = 64": {"features": 64, "columns": 64},
    }
    return [
        replace(
            _PLAIN,
            group="half precision",
            name=name,
            dtype=dtype,
            quick=name == "plain",
            **options,  # type: ignore[arg-type]
        )
        for dtype, (name, options) in product(("bfloat16", "float16"), rows.items())
    ]


CASES: list[Case] = [
    *_libraries(),
    *_lengths(),
    *_powers(),
    *_masks(),
    *_options(),
    *_half(),
]
