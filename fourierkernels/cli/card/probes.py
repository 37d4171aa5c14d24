"""What holds of every call, whatever its numbers: where it runs, how often, beside what.

One NaN or infinity shows in what it touches, and in nothing else. A masked key does not count: what
is in it is seen by no query that is masked from it.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.cases import BATCH, HEADS, SEED, Case, draw
from fourierkernels.cli.card.compared import (
    BOUNDS,
    LEAVES,
    PLAIN,
    Attend,
    Measure,
    NotHere,
    inputs_on,
    relative_error,
    results,
)
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.ops.dropout import draw_seed, keep_mask

_BATCH, _HEAD, _ROW, _KEY, _FEATURE = 1, 2, 5, 77, 3  # where it is put
_OF_KEYS = 2  # place of the gradient of the key among the results; that of the value follows
_SHAPE = replace(PLAIN, causal=False, keys=150)
_TIMES = 5  # that each of two threads calls
_ONE_BIT = 0.0  # results must be the same, to the bit


@dataclass(frozen=True)
class _Poison:
    """An input with one bad entry, and the masks it is tried with."""

    name: str
    value: float
    masks: tuple[str, ...]


_POISONS = (
    _Poison("query", float("nan"), ("none", "boolean", "additive")),
    _Poison("key", float("nan"), ("none", "boolean", "additive")),
    _Poison("mask", float("nan"), ("additive",)),
    _Poison("mask", float("inf"), ("additive",)),
)


def not_finite(device: torch.device) -> list[Measure]:
    """Count, for each bad entry, the entries of results that wrongly show it or do not."""
    return [
        Measure(
            f"{poison.value} in {poison.name}, mask {mask}: entries wrongly finite or not",
            float(_wrong(device, poison, replace(_SHAPE, mask=mask))),
            0.0,
        )
        for poison in _POISONS
        for mask in poison.masks
    ]


def _wrong(device: torch.device, poison: _Poison, case: Case) -> int:
    inputs = dict(zip((*LEAVES, "output"), inputs_on(device, case), strict=True))
    mask = draw(case).get("mask")
    mask = None if mask is None else mask.expand(BATCH, HEADS, -1, -1).clone()
    visible = torch.ones(BATCH, HEADS, case.queries, case.keys, dtype=torch.bool)
    if mask is not None and mask.dtype is torch.bool:
        mask[_BATCH, _HEAD, _ROW, _KEY] = True
        visible = mask.clone()
    touched = _put(poison, inputs, mask, visible)
    found = results(
        list(inputs.values()),
        _without_reading(device),
        is_causal=False,
        attn_mask=_moved(mask, inputs["query"]),
    )
    wrong = [
        ~torch.isfinite(one.cpu()) != where
        for one, where in zip(found, _expected(touched, visible), strict=True)
    ]
    if math.isinf(poison.value):  # beside an infinite weight the others may be 0 or not a number
        seen = _expected(touched, visible)[_OF_KEYS]
        wrong[_OF_KEYS] &= ~seen
        wrong[_OF_KEYS + 1] &= ~seen
    return sum(int(entries.sum()) for entries in wrong)


def _put(
    poison: _Poison, inputs: dict[str, Tensor], mask: Tensor | None, visible: Tensor
) -> Tensor:
    """Put in the bad entry; return the queries that it touches, ``(B, H, N)``."""
    touched = torch.zeros(visible.shape[:3], dtype=torch.bool)
    touched[_BATCH, _HEAD, _ROW] = True
    with torch.no_grad():
        if poison.name == "mask" and mask is not None:
            mask[_BATCH, _HEAD, _ROW, _KEY] = poison.value
        elif poison.name == "key":
            inputs["key"][_BATCH, _HEAD, _KEY, _FEATURE] = poison.value
            touched[_BATCH, _HEAD] = visible[_BATCH, _HEAD, :, _KEY]
        else:
            inputs["query"][_BATCH, _HEAD, _ROW, _FEATURE] = poison.value
    return touched


def _expected(touched: Tensor, visible: Tensor) -> list[Tensor]:
    """Return where output, dq, dk, dv and dR are not finite.

    G_ij of a touched query is not a number at any key that it sees, and goes into their gradients.
    """
    seen = (touched[..., None] & visible).any(dim=2)  # (B, H, M)
    rows, keys = touched[..., None], seen[..., None]
    return [rows, rows, keys, keys, touched.any(dim=2).any(dim=0)[:, None]]


def _moved(mask: Tensor | None, query: Tensor) -> Tensor | None:
    if mask is None or mask.dtype is torch.bool:
        return None if mask is None else mask.to(query.device)
    return mask.to(query.device, query.dtype)


def _without_reading(device: torch.device) -> Attend:
    """Return the function that does not look at the values of its arguments.

    On a CPU it refuses what is not finite, since values cost nothing to read there. Mapped by vmap
    they have none, so that the operator gets them.
    """
    return fourier_attention if device.type == "cuda" else _mapped


def _mapped(*leaves: Tensor, attn_mask: Tensor | None, **options: Any) -> Tensor:
    *batched, radius = leaves

    def one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        found: Tensor = fourier_attention(query, key, value, radius, attn_mask=mask, **options)
        return found

    masks = [] if attn_mask is None else [attn_mask]
    result: Tensor = torch.vmap(one)(*batched, *masks)
    return result


@dataclass(frozen=True)
class Probe:
    """A claim on calls: `run` takes a device and returns what it measured.

    It raises :class:`fourierkernels.cli.card.compared.NotHere` where the claim has no meaning.
    """

    name: str
    run: Callable[[torch.device], list[Measure]]
    quick: bool = True


def _differing(name: str, found: Sequence[Tensor], expected: Sequence[Tensor]) -> Measure:
    """Count the entries that are not the same to the bit."""
    count = sum(int((a != b).sum()) for a, b in zip(found, expected, strict=True))
    return Measure(f"{name}: entries that differ", float(count), _ONE_BIT)


def _close(name: str, found: Sequence[Tensor], expected: Sequence[Tensor]) -> list[Measure]:
    """Compare where sums may be taken in another order."""
    bounds = BOUNDS[PLAIN.dtype]
    return [
        Measure(
            f"{name}, {quantity}",
            relative_error(one, other.double().cpu()),
            bounds["value" if quantity == "output" else "gradient"],
        )
        for quantity, one, other in zip(("output", *LEAVES), found, expected, strict=True)
    ]


def _card(device: torch.device, what: str) -> None:
    if device.type != "cuda":
        raise NotHere(f"{what} is of a card")


# ---- the same again ------------------------------------------------------------------------------


def _repeated(device: torch.device) -> list[Measure]:
    def run(**options: Any) -> list[Tensor]:
        torch.manual_seed(SEED)
        return results(inputs_on(device), **options)

    rows = [_differing("two calls", run(), run())]
    dropped = [run(dropout_p=0.3) for _ in range(2)]
    return [*rows, _differing("two calls with dropout, one seed", *dropped)]


def _drawn_anew(device: torch.device) -> list[Measure]:
    inputs = inputs_on(device)
    torch.manual_seed(SEED)
    first, second = (results(inputs, dropout_p=0.3)[0] for _ in range(2))
    same = float((first == second).double().mean())
    return [Measure("share of outputs that a second draw leaves", same, 0.05)]


def _drawn_by_philox(device: torch.device) -> list[Measure]:
    """Compare the weights that are kept with the reference's draw on the CPU, for one seed."""
    query, key, value, radius, _ = (tensor.detach() for tensor in inputs_on(device))
    torch.manual_seed(SEED)
    seed = draw_seed(device).cpu()
    torch.manual_seed(SEED)
    _, weights = fourier_attention(query, key, value, radius, dropout_p=0.3, return_weights=True)
    batch, heads, queries, keys = weights.shape
    expected = keep_mask(seed, (batch * heads, queries, keys), 0.3).reshape(weights.shape)
    wrong = int((weights.cpu().ne(0) != expected).sum())
    return [Measure("weights that are wrongly kept or dropped", float(wrong), _ONE_BIT)]


def _stream(device: torch.device) -> list[Measure]:
    _card(device, "a stream")
    inputs = inputs_on(device)
    expected = results(inputs)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        found = results(inputs)
    stream.synchronize()
    return [_differing("another stream", found, expected)]


def _graph(device: torch.device) -> list[Measure]:
    """Capture forward and backward, then replay them on other numbers."""
    _card(device, "a CUDA graph")
    static, others = inputs_on(device), inputs_on(device, seed=1)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        results(static)  # builds and loads the library, which no capture may contain
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = results(static)
    with torch.no_grad():
        for tensor, other in zip(static, others, strict=True):
            tensor.copy_(other)
    graph.replay()
    torch.cuda.synchronize(device)
    return [_differing("replayed on other inputs", found, results(others))]


def _threads(device: torch.device) -> list[Measure]:
    """Two threads call forward and backward at once."""
    problems = [inputs_on(device, seed=seed) for seed in range(2)]
    expected = [results(inputs) for inputs in problems]
    found: dict[int, list[list[Tensor]]] = {0: [], 1: []}
    start = threading.Barrier(2)

    def work(index: int) -> None:
        start.wait()
        found[index] += [results(problems[index]) for _ in range(_TIMES)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if [len(runs) for runs in found.values()] != [_TIMES, _TIMES]:
        raise RuntimeError("a thread ended early; its error is above")
    return [
        _differing(f"thread {index}, call {call}", run, expected[index])
        for index, runs in found.items()
        for call, run in enumerate(runs, 1)
    ]


# ---- other ways to call --------------------------------------------------------------------------


def _autocast(device: torch.device) -> list[Measure]:
    def inside(*arguments: Any, **options: Any) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            found: Tensor = fourier_attention(*arguments, **options)
            return found

    inputs = inputs_on(device)
    return [_differing("under autocast", results(inputs, inside), results(inputs))]


def _layouts(device: torch.device) -> list[Measure]:
    """Heads split off by a view, as layers do it, and a value that is expanded over heads."""
    inputs = inputs_on(device)
    expected = results(inputs)
    viewed = [
        tensor.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        if tensor.ndim == 4
        else tensor
        for tensor in inputs
    ]
    return _close("strided", results(viewed), expected)


def _causal(query: Tensor, key: Tensor, value: Tensor, radius: Tensor) -> Tensor:
    return fourier_attention(query, key, value, radius, is_causal=True)


def _compiled(device: torch.device, *, backend: str) -> list[Measure]:
    torch._dynamo.reset()
    compiled = torch.compile(_causal, backend=backend, fullgraph=True, dynamic=True)
    measures = []
    for n in (130, 70):
        inputs = inputs_on(device, replace(PLAIN, queries=n, keys=n))
        found = results(inputs, lambda *leaves, is_causal: compiled(*leaves))
        measures += _close(f"N = {n}", found, results(inputs))
    torch._dynamo.reset()
    return measures


# ---- the sums of the estimators ------------------------------------------------------------------


def _sums(device: torch.device) -> list[Measure]:
    """Density and regression on the device beside the slow reference on the CPU."""
    measures = []
    for kernel in ("fourier2", "fourier4", "gaussian"):
        exact = _estimates(kernel, "cpu", "reference")
        for name, values in _estimates(kernel, str(device), "auto").items():
            error = float(np.abs(values - exact[name]).max() / np.abs(exact[name]).max())
            measures.append(Measure(f"{kernel}, {name}", error, BOUNDS["float64"]["value"]))
    return measures


def _estimates(kernel: str, device: str, method: str) -> dict[str, FloatArray]:
    try:  # the operator is checked all the same on a machine that lacks what estimators need
        from fourierkernels.estimators.density import KernelDensity
        from fourierkernels.estimators.regression import NadarayaWatson
    except ModuleNotFoundError as error:
        raise NotHere(f"the estimators need {error.name}") from error
    rng = np.random.default_rng(SEED)
    points, at = rng.normal(size=(400, 2)), rng.normal(size=(60, 2))
    density = KernelDensity(kernel, radius=1.5, device=device, method=method).fit(points)
    curve = NadarayaWatson(kernel, radius=1.5, device=device, method=method)
    curve.fit(points, np.sin(points[:, 0]))
    return {"density": density.density(at), "regression": curve.predict(at)}


PROBES: list[Probe] = [
    Probe("two equal calls", _repeated),
    Probe("dropout draws anew", _drawn_anew),
    Probe("dropout draws by Philox", _drawn_by_philox),
    Probe("another stream", _stream),
    Probe("CUDA graph", _graph),
    Probe("two autograd threads", _threads),
    Probe("autocast", _autocast),
    Probe("strided inputs", _layouts),
    Probe("torch.compile, aot_eager", partial(_compiled, backend="aot_eager"), quick=False),
    Probe("torch.compile, inductor", partial(_compiled, backend="inductor"), quick=False),
    Probe("what is not finite", not_finite),
    Probe("sums of the estimators", _sums),
]
