"""Fourier attention on a GPU: tensors in, tensors out, over the kernels of ``csrc``.

The library is an argument of every call, so that the same sources compiled for a CPU run through
the same code.
"""

import ctypes
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Rows, Saved
from fourierkernels.ops.cuda.build import build, variant_for
from fourierkernels.ops.cuda.layout import (
    REALS,
    columns_size,
    heads_at_once,
    mask_gradient,
    pack,
    packed_shape,
    padded_rows,
    padded_width,
    parts_of,
    splits_of,
    starts_of,
)
from fourierkernels.ops.cuda.library import (
    Library,
    Problem,
    check_devices,
    explained,
    warn_of_doubles,
)
from fourierkernels.ops.dropout import threshold

_RESULTS = ("output", "significand", "exponent")


@cache
def library_for(dtype: torch.dtype, width: int, arch: str) -> Library:
    """Return the library for a precision and a number of features, built on first use."""
    variant = variant_for(REALS[dtype], width)
    return Library.load(str(build(variant, arch)), variant.size)


def find_library(query: Tensor, value: Tensor) -> Library:
    """Return the library for tensors on a GPU; warn once if it is slow in their precision."""
    major, minor = torch.cuda.get_device_capability(query.device)
    warn_of_doubles(query.dtype, (major, minor))
    width = max(query.shape[-1], value.shape[-1])
    size = variant_for(REALS[query.dtype], width).size  # few keys for the cache
    return library_for(query.dtype, size, f"sm_{major}{minor}")


def forward(library: Library, inputs: Inputs, options: Options) -> Rows:
    """Return the fields of `Rows`.

    Raises
    ------
    ValueError
        If the tensors are on several devices.
    torch.OutOfMemoryError
        With shapes and bytes.
    """
    query, value = inputs.query, inputs.value
    check_devices(inputs)
    shapes = _shapes_of_rows(inputs, options)
    with explained(inputs, **shapes), _device_guard(query.device):
        rows, inputs = _new_rows(query, shapes), _contiguous(inputs)
        if query.numel() == 0 or value.numel() == 0:
            rows.output.zero_()
            rows.significand.fill_(torch.inf)
            rows.exponent.zero_()
            return rows
        packed, _ = pack(library, inputs)
        problem = _problem(packed, inputs, options)
        _point(problem, {name: getattr(rows, name) for name in _RESULTS})
        library.call("fk_forward", problem, query.device)
        if options.return_weights:
            _point(problem, {"weights": rows.weights})
            library.call("fk_weights", problem, query.device)
    return rows


def _shapes_of_rows(inputs: Inputs, options: Options) -> dict[str, tuple[int, ...]]:
    query, key, value = inputs[:3]
    rows = query.shape[:3]
    return {
        "output": (*rows, value.shape[3]),
        "significand": rows,
        "exponent": rows,
        "weights": (*rows, key.shape[2] if options.return_weights else 0),
        "packed": packed_shape(query, key, value),
    }


def _new_rows(query: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> Rows:
    return Rows(
        query.new_empty(shapes["output"]),
        query.new_empty(shapes["significand"]),
        query.new_empty(shapes["exponent"], dtype=torch.int32),
        query.new_zeros(shapes["weights"]),  # the kernel passes over what is masked
    )


def backward(
    library: Library, cotangents: Cotangents, inputs: Inputs, saved: Saved, options: Options
) -> Gradients:
    """Return the gradients of query, key, value, radius and, if asked for, of an additive mask.

    Raises
    ------
    ValueError
        If the tensors are on several devices.
    torch.OutOfMemoryError
        With shapes and bytes.
    """
    query, key, value, radius, mask, _ = inputs
    check_devices(inputs, **cotangents._asdict(), **saved._asdict())
    wanted = mask if options.mask_grad else None
    with explained(inputs, **_shapes_of_gradients(inputs, wanted)), _device_guard(query.device):
        if query.numel() == 0 or value.numel() == 0:
            dq, dk, dv, dr = (torch.zeros_like(leaf) for leaf in (query, key, value, radius))
            dmask = query.new_zeros((0,) if wanted is None else wanted.shape)
            return Gradients(dq, dk, dv, dr, dmask)
        dq, dk, dv = (query.new_empty(leaf.shape) for leaf in (query, key, value))
        inputs = _contiguous(inputs)
        grad = cotangents.output.contiguous()
        packed, packed_grad = pack(library, inputs, grad)  # anew: seven times the queries
        arrays = _arrays(cotangents, saved) | {"plain_grad": grad, "grad": packed_grad}
        problem = _problem(packed, inputs, options)
        _point(problem, arrays | {"query_grad": dq, "key_grad": dk, "value_grad": dv})
        dmask = _run(library, problem, query, wanted)
        return Gradients(dq, dk, dv, _radius_gradient(inputs, packed, dq, dk), dmask)


def _shapes_of_gradients(inputs: Inputs, mask: Tensor | None) -> dict[str, tuple[int, ...]]:
    query, _, value = inputs[:3]
    shapes = {name: tuple(getattr(inputs, name).shape) for name in ("query", "key", "value")}
    shapes["packed"] = packed_shape(query, inputs.key, value)
    shapes["grad"] = (*query.shape[:2], columns_size(query.shape[2], value))
    sums = _shape_of_sums(query, inputs.key)
    shapes["query_sums"] = (min(query.shape[0] * query.shape[1], heads_at_once(sums)), *sums)
    return shapes if mask is None else shapes | {"mask": tuple(mask.shape)}


def _shape_of_sums(query: Tensor, key: Tensor) -> tuple[int, ...]:
    splits = splits_of(padded_rows(key.shape[2], query), query)
    return splits, padded_width(query), padded_rows(query.shape[2], query)


def _contiguous(inputs: Inputs) -> Inputs:
    """Return the inputs as their addresses are read; masks are read through their strides."""
    query, key, value, radius = (leaf.contiguous() for leaf in inputs[:4])
    return inputs._replace(query=query, key=key, value=value, radius=radius)


def _arrays(cotangents: Cotangents, saved: Saved) -> dict[str, Tensor]:
    """Return what the backward pass reads beside inputs and output; the caller keeps it alive."""
    arrays = {
        "delta": cotangents.delta.contiguous(),
        "significand": saved.significand.contiguous(),
        "exponent": saved.exponent.contiguous(),
    }
    if cotangents.weights is not None:
        arrays["weights_grad"] = cotangents.weights.contiguous()
    return arrays


def _run(library: Library, problem: Problem, query: Tensor, mask: Tensor | None) -> Tensor:
    """Fill in the gradients and return that of the mask, empty if it is None."""
    if mask is None:
        _run_heads(library, problem, query, 0, problem.head_count)
        return query.new_zeros((0,))

    def run(first: int, count: int, buffer: Tensor) -> None:
        _point(problem, {"bias_grad": buffer})
        _run_heads(library, problem, query, first, count)

    return mask_gradient(mask, (*query.shape[:3], problem.keys), run)


def _run_heads(library: Library, problem: Problem, query: Tensor, first: int, count: int) -> None:
    """Fill in the gradients of some heads, a few at a time: each needs sums of its queries."""
    bias_grad, size = problem.bias_grad, query.element_size() * problem.queries * problem.keys
    shape = (problem.splits, problem.padded_features, problem.padded_queries)
    most = heads_at_once(shape)
    for at in range(0, count, most):
        problem.first_head, problem.head_count = first + at, min(most, count - at)
        sums = query.new_zeros((problem.head_count, *shape))
        _point(problem, {"query_sums": sums})
        problem.bias_grad = bias_grad and bias_grad + at * size
        library.call("fk_gradients", problem, query.device)


def _radius_gradient(inputs: Inputs, packed: Tensor, dq: Tensor, dk: Tensor) -> Tensor:
    """Return dR, ``(H, D)``, by homogeneity: R² dR = Σ u dq + Σ v dk with u = R q and v = R k.

    The packed rows have no offset in common, and zeros for numbers that are not finite.
    """
    query, key, _ = parts_of(packed, inputs)
    total = _sum_of_products(query, dq) + _sum_of_products(key, dk)
    return (total / inputs.radius.double().square()).to(inputs.radius.dtype)


def _sum_of_products(part: Tensor, gradient: Tensor) -> Tensor:
    rows, width = gradient.shape[2:]
    scaled = part[:, :, : 3 * width : 3, :rows]  # (B, H, D, rows)
    return (scaled.mT * gradient).sum(dim=(0, 2), dtype=torch.float64)


def _problem(packed: Tensor, inputs: Inputs, options: Options) -> Problem:
    query, key, value, radius, mask, seed = inputs
    batch, heads, queries, features = query.shape
    of_query, of_key, of_value = starts_of(packed, inputs)
    problem = Problem(
        query=of_query,
        key=of_key,
        value=of_value,
        packed_stride=packed.shape[-1],
        plain_value=value.data_ptr(),
        radius=radius.data_ptr(),
        head_count=batch * heads,
        heads=heads,
        queries=queries,
        keys=key.shape[2],
        features=features,
        columns=value.shape[3],
        padded_queries=padded_rows(queries, query),
        padded_keys=padded_rows(key.shape[2], query),
        padded_features=padded_width(query),
        padded_columns=padded_width(value),
        power=options.power,
        causal=options.causal,
        eps=options.eps,
        keep_scale=1.0,
    )
    problem.splits = splits_of(problem.padded_keys, query)
    problem.grad_stride = (problem.padded_columns + 1) * problem.padded_queries
    if options.dropout_p:
        if seed is None:
            raise ValueError("seed must be given with dropout_p > 0, got None")
        problem.seed = seed.data_ptr()
        problem.threshold = threshold(options.dropout_p)
        problem.keep_scale = 1.0 / (1.0 - options.dropout_p)
    if mask is not None:
        _point_to_mask(problem, mask)
    return problem


def _point_to_mask(problem: Problem, mask: Tensor) -> None:
    setattr(problem, "attend" if mask.dtype is torch.bool else "bias", mask.data_ptr())
    sizes = zip(mask.shape, mask.stride(), strict=True)
    strides = [0 if size == 1 else stride for size, stride in sizes]
    problem.mask_stride = (ctypes.c_longlong * 4)(*strides)


def _point(problem: Problem, arrays: Mapping[str, Tensor]) -> None:
    for name, tensor in arrays.items():
        setattr(problem, name, tensor.data_ptr())


def _device_guard(device: torch.device) -> AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
