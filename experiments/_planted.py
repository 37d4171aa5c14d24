"""Correlation that is planted: which kernel finds the features that a response depends on.

The response is a sum of a fast wave of one hidden coordinate u_1 and a slow one of another, u_2;
what is seen is x = A u. A is the identity ("aligned"), a rotation ("rotated"), or Σ^{1/2} of one
common correlation ("correlated"), so that a matrix of radii can undo it and a radius per feature
cannot. The Gaussian with the same matrix has it times √(l/3), with which it agrees with sinc^l to
second order; it does not change when the matrix is turned from the left, as products do.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from fourierkernels.attention import fourier_attention, gaussian_attention
from fourierkernels.attention.kernel import KernelOptions
from fourierkernels.estimators import NadarayaWatson
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.studies.engine.power import reach_of, smallest_gain, variance_of

POWER = 4
CORRELATION = 0.7
SAME = (POWER / 3) ** 0.5  # of a Gaussian and sinc^l: e^{-x²/2} at this times R
NOISE = 0.3
FAST, SLOW = 3.0, 0.75  # radians per unit of u_1 and u_2
DATA = ("aligned", "rotated", "correlated")
SCALES = np.geomspace(0.7, 12.0, 8)
ANGLES = np.linspace(0.0, np.pi / 2, 6, endpoint=False)  # with either order of a and b
KINDS = ("scalar", "feature", "matrix")  # of radii
PROJECTION, PROJECTIONS = "projection", "two projections"
DOT_PRODUCT = "dot product"
REFERENCE = "product, matrix"
Errors = dict[str, float]  # by contender, over the variance of the response
Row = dict[str, float | int | str]


def mixing(data: str, dim: int) -> FloatArray:
    """Return A, ``(dim, dim)``: what turns hidden coordinates into the features that are seen."""
    if data == "aligned":
        return np.eye(dim)
    # Of neighbours by 45 degrees, and then of the next ones: no feature is a coordinate.
    turn = np.eye(dim)
    half = np.sqrt(0.5)
    for first in range(dim - 1):
        plane = np.eye(dim)
        plane[first : first + 2, first : first + 2] = [[half, -half], [half, half]]
        turn = plane @ turn
    if data == "rotated":
        return turn
    values, vectors = np.linalg.eigh(CORRELATION + (1 - CORRELATION) * np.eye(dim))
    root: FloatArray = vectors * np.sqrt(values) @ vectors.T
    return root


# ---- regression: matrices by leave-one-out ------------------------------------------------------


def turned(angle: float) -> FloatArray:
    """Return a rotation of the plane."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def candidates(kind: str) -> Iterator[FloatArray]:
    """Yield radii to choose among: c I, diag(a, b) in either order, or any of these turned."""
    if kind == "scalar":
        yield from (scale * np.eye(2) for scale in SCALES)
        return
    angles = ANGLES if kind == "matrix" else (0.0,)
    for a, b, angle in product(SCALES, SCALES, angles):
        yield np.diag([a, b]) @ turned(angle)


def leave_one_out(kernel: str, matrix: FloatArray, x: FloatArray, y: FloatArray) -> float:
    """Return the mean squared error at each sample without it."""
    u = (x[:, None] - x[None]) @ matrix.T
    if kernel == "gaussian":
        weights = np.exp(-0.5 * np.square(u).sum(axis=-1))
    else:
        weights = np.sinc(u / np.pi).prod(axis=-1) ** POWER
    np.fill_diagonal(weights, 0.0)
    total = weights.sum(axis=1)
    found = np.divide(weights @ y, total, out=np.full(len(y), y.mean()), where=total > 1e-300)
    return float(np.square(found - y).mean())


def waves(u: FloatArray) -> FloatArray:
    """Return the response without noise, of hidden coordinates ``(n, dim)``."""
    return np.asarray(np.sin(FAST * u[:, 0]) + np.sin(SLOW * u[:, 1]))


def regression_errors(data: str, seed: int, *, n: int = 150) -> Errors:
    """Return test errors of one sample of the plane, each kernel with its best radii of a kind."""
    rng, a = np.random.default_rng([seed, DATA.index(data)]), mixing(data, 2)
    hidden, tests = rng.normal(size=(n, 2)), rng.normal(size=(2_000, 2))
    x, truth = hidden @ a.T, waves(tests)
    y = waves(hidden) + NOISE * rng.normal(size=n)

    def error(kernel: str, matrix: FloatArray) -> float:
        fitted = NadarayaWatson(kernel=kernel, radius=matrix, method="direct").fit(x, y)
        found = fitted.predict(tests @ a.T)
        found = np.where(np.isfinite(found), found, y.mean())
        return float(np.square(found - truth).mean() / truth.var())

    errors, best = {}, {}
    for kernel, kind in product((f"fourier{POWER}", "gaussian"), KINDS):
        radii = list(candidates(kind))
        scores = [leave_one_out(kernel, radius, x, y) for radius in radii]
        best[kernel, kind] = radii[int(np.argmin(scores))]
        errors[f"{_KERNELS[kernel]}, {kind}"] = error(kernel, best[kernel, kind])
    matrix = best[f"fourier{POWER}", "matrix"]
    errors["gaussian, the product's matrix"] = error("gaussian", SAME * matrix)
    errors["product, its matrix turned by 45°"] = error(
        f"fourier{POWER}", turned(np.pi / 4) @ matrix
    )
    return errors


_KERNELS = {f"fourier{POWER}": "product", "gaussian": "gaussian"}


# ---- attention: radii by gradient descent -------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How much attention is trained on.

    Attributes
    ----------
    dim, keys, queries : int
        Features, and tokens of a context with and without their values.
    contexts, updates : int
        Contexts of an update, and updates.
    """

    dim: int = 4
    keys: int = 64
    queries: int = 16
    contexts: int = 16
    updates: int = 150


class Layer(nn.Module):
    """One head of attention on the features themselves, with a trained radius.

    Projections before it could learn the matrix: there are none but in the controls that have one,
    for queries and keys alike, or two as heads of transformers do.
    """

    def __init__(self, kernel: str, kind: str, dim: int) -> None:
        super().__init__()
        shape = kind if kind in KINDS else "scalar"
        self.kernel = kernel
        self.options = KernelOptions(
            radius=1.0,
            power=POWER,
            radius_shape=shape,  # type: ignore[arg-type]
            learn_radius=True,
        )
        self.options.add_radius(self, 1, dim)
        self.of_queries: nn.Module = nn.Identity()
        self.of_keys: nn.Module = self.of_queries
        if kind == PROJECTION:
            self.of_queries = self.of_keys = _unchanging(dim)
        elif kind == PROJECTIONS:
            self.of_queries, self.of_keys = _unchanging(dim, bias=True), _unchanging(dim, bias=True)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the estimates at the queries, ``(B, 1, N, 1)``."""
        query, key = self.of_queries(query), self.of_keys(key)
        return attend(self.kernel, query, key, value, self.options.radius_of(self))


def _unchanging(dim: int, *, bias: bool = False) -> nn.Linear:
    """Return a projection that changes nothing until it is trained."""
    layer = nn.Linear(dim, dim, bias=bias)
    nn.init.eye_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def attend(kernel: str, query: Tensor, key: Tensor, value: Tensor, radius: Tensor) -> Tensor:
    """Return attention with a radius, one per feature or a matrix ``(1, D, D)``."""
    if kernel == "product":
        return fourier_attention(query, key, value, radius, power=POWER)
    query, key = (x @ radius[0].mT if radius.ndim == 3 else x * radius for x in (query, key))
    if kernel == DOT_PRODUCT:
        return nn.functional.scaled_dot_product_attention(query, key, value, scale=1.0)
    return gaussian_attention(query, key, value, sigma=1.0)


def draw_contexts(
    data: str, size: Size, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return queries, keys, noisy values of the keys, and what is right at the queries.

    Each context has waves of its own phases; which coordinates matter is common to all.
    """
    a = torch.tensor(mixing(data, size.dim), dtype=torch.float32)
    tokens = size.keys + size.queries
    hidden = torch.randn(size.contexts, 1, tokens, size.dim, generator=generator)
    phases = 2 * torch.pi * torch.rand(size.contexts, 1, 1, 2, generator=generator)
    speeds = torch.tensor([FAST, SLOW])
    truth = torch.sin(speeds * hidden[..., :2] + phases).sum(dim=-1, keepdim=True)
    noise = NOISE * torch.randn(truth.shape, generator=generator)
    x = hidden @ a.mT
    n = size.keys
    return x[..., n:, :], x[..., :n, :], (truth + noise)[..., :n, :], truth[..., n:, :]


def trained(kernel: str, kind: str, data: str, seed: int, size: Size) -> Layer:
    """Return a layer after its updates."""
    generator = torch.Generator().manual_seed(1000 * seed + DATA.index(data))
    layer = Layer(kernel, kind, size.dim)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(size.updates):
        *inputs, truth = draw_contexts(data, size, generator)
        optimiser.zero_grad()
        (layer(*inputs) - truth).square().mean().backward()
        optimiser.step()
    return layer


def attention_errors(data: str, seed: int, size: Size) -> Errors:
    """Return test errors of layers that were trained on the same contexts."""
    tests = Size(size.dim, size.keys, size.queries, 500)
    generator = torch.Generator().manual_seed(10**6 + seed)
    *inputs, truth = draw_contexts(data, tests, generator)

    def error(layer: Callable[..., Tensor]) -> float:
        with torch.no_grad():
            return float((layer(*inputs) - truth).square().mean() / truth.var())

    contenders = [
        *product(("product", "gaussian", DOT_PRODUCT), KINDS),
        ("product", PROJECTION),
        (DOT_PRODUCT, PROJECTIONS),
    ]
    layers = {own: trained(*own, data, seed, size) for own in contenders}
    errors = {f"{kernel}, {kind}": error(layer) for (kernel, kind), layer in layers.items()}
    learnt = layers["product", "matrix"]
    matrix = learnt.options.radius_of(learnt).detach()  # (1, D, D)
    turn = torch.tensor(mixing("rotated", size.dim), dtype=torch.float32)

    def with_matrix(kernel: str, radius: Tensor) -> float:
        return error(lambda *x: attend(kernel, *x, radius))

    errors["gaussian, the product's matrix"] = with_matrix("gaussian", SAME * matrix)
    errors["product, its matrix turned by 45°"] = with_matrix("product", turn @ matrix)
    return errors


# ---- tables -------------------------------------------------------------------------------------


def run_rows(part: str, data: str, seed: int, errors: Errors) -> list[Row]:
    """Return one row per contender of a seed."""
    same = {"part": part, "data": data, "seed": seed}
    return [same | {"contender": name, "error": error} for name, error in errors.items()]


def summary_rows(runs: list[Row]) -> list[Row]:
    """Return the mean errors, and by how much they are above that of the product with a matrix."""
    by_case: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for run in runs:
        case = by_case.setdefault((str(run["part"]), str(run["data"])), {})
        case.setdefault(str(run["contender"]), {})[int(run["seed"])] = float(run["error"])
    return [
        {"part": part, "data": data, "contender": name} | _against(own, case)
        for (part, data), case in by_case.items()
        for name, own in case.items()
    ]


def _against(own: Mapping[int, float], case: Mapping[str, Mapping[int, float]]) -> Row:
    """Return a mean error, its difference with an interval, and the least that would show."""
    other, seeds, comparisons = case[REFERENCE], len(own), len(case) - 1
    difference = float(np.mean([own[seed] - other[seed] for seed in own]))
    deviation = variance_of(own, other) ** 0.5
    reach = reach_of(deviation / seeds**0.5, 0.0, seeds, comparisons)
    return {
        "seeds": seeds,
        "error": float(np.mean(list(own.values()))),
        "difference": difference,
        "low": difference - reach,
        "high": difference + reach,
        "smallest": smallest_gain(deviation, seeds, comparisons=comparisons),
    }
