"""Whether numbers that come together are of one place: features that mix there are no attention."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.einsum import summed, terms_of
from fourierkernels.checkpoints.recorders.facts import Fact, is_feature, strides
from fourierkernels.checkpoints.recorders.flow import Flow, place_of
from fourierkernels.checkpoints.recorders.operations import NORMS, Step

_PADDED = {"pad", "constant_pad_nd"}
# The argument that names the dimensions of what is moved.
_ALONG = {"gather": 1, "index_select": 1, "flip": 1, "roll": 2, **dict.fromkeys(_PADDED, 1)}


def mixes_features(flow: Flow, left: Tensor, right: Tensor) -> bool:
    """Tell whether a product of matrices has one matrix of features for each place.

    So it is where a token's streams are mixed by weights of its own: nothing is read elsewhere.
    """
    left_fact, right_fact = flow.of(left), flow.of(right)
    if left_fact.moved or right_fact.moved or min(left.ndim, right.ndim, *left.shape[-2:]) < 2:
        return False
    kept = is_feature(left, -2, left_fact) and is_feature(right, -1, right_fact)
    if not kept or not (is_feature(left, -1, left_fact) or is_feature(right, -2, right_fact)):
        return False
    return flow.has_all(left[..., 0, 0], left_fact) and flow.has_all(right[..., 0, 0], right_fact)


def joined_features(
    flow: Flow, operands: Sequence[Tensor], result: Tensor
) -> tuple[tuple[int, int], ...]:
    """Return the features of a product number by number, if each meets others of its own place.

    Nothing is returned if places meet others, or if some are left out of the operands, as they are
    of a state that is made token by token.
    """
    features = list[tuple[int, int]]()
    for operand in operands:
        fact = flow.of(operand)
        if fact.moved or not flow.has_all(operand, fact):
            return ()
        for k in (k for k in range(-operand.ndim, 0) if operand.shape[k] > 1):
            if is_feature(operand, k, fact):
                features += strides(result, k)
            elif any(k < -other.ndim or other.shape[k] == 1 for other in operands):
                return ()
    return tuple(features)


def are_apart(flow: Flow, left: Tensor, right: Tensor) -> bool:
    """Tell whether two views of one layout begin at different places, as slices do."""
    if left.storage_offset() == right.storage_offset() or left.stride() != right.stride():
        return False
    features = [flow.of(part).features for part in (left, right)]
    return all(features) and _start(left, features[0]) != _start(right, features[1])


def _start(tensor: Tensor, features: Sequence[tuple[int, int]]) -> int:
    """Return where a tensor begins in its memory, but for the features that are left out."""
    start = tensor.storage_offset()
    return int(start - sum(start % high // low * low for low, high in set(features)))


def meets_several(left: Tensor, right: Tensor, result: Tensor) -> bool:
    """Tell whether each number of two tensors meets several of the other.

    Copies that were spread are one number, and windows that overlap have numbers in common.
    """
    if max(left.numel(), right.numel()) < result.numel():
        return True
    if left.is_contiguous() and right.is_contiguous():
        return False
    sizes = [_own_sizes(part, result) for part in (left, right)]
    if not all(sizes):
        return False
    total = math.prod(map(max, *sizes))
    counts = [math.prod(size) for size in sizes]
    return bool(counts[0] - _slides(left, right) < total > counts[1] - _slides(right, left))


def _own_sizes(tensor: Tensor, result: Tensor) -> list[int]:
    """Return a tensor's shape without copies that were spread; none if it meets no like shape."""
    if tensor.ndim != result.ndim or any(
        size not in (1, whole) for size, whole in zip(tensor.shape, result.shape, strict=True)
    ):
        return []
    return [size if step else 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)]


def _slides(tensor: Tensor, other: Tensor) -> bool:
    """Tell whether windows of a tensor overlap, all of which meet one number of another."""
    steps, sizes = tensor.stride(), tensor.shape
    dims = [k for k, size in enumerate(sizes) if size > 1 and steps[k]]
    over = [(k, j) for k, j in permutations(dims, 2) if steps[j] <= steps[k] < steps[j] * sizes[j]]
    return any((other.shape[k] == 1) != (other.shape[j] == 1) for k, j in over)


def are_chosen(fact: Fact) -> bool:
    """Tell whether values lie where the best of scores are: their mean is what a query reads."""
    return fact.chosen and bool(fact.features)


def are_sampled(fact: Fact) -> bool:
    """Tell whether values were read at computed places, and not among features."""
    return (
        bool(fact.moved) and bool(fact.origins) and all(origin.sampled for origin in fact.origins)
    )


def adds_features(step: Step, operand: Tensor, fact: Fact) -> bool:
    """Tell whether a sum or a norm is one over features alone."""
    given = step.args[1 + (step.name in NORMS) :]  # a norm has its order before the dimensions
    return _are_features(given[0] if given else None, operand, fact)


def moves_features(step: Step, operand: Tensor, fact: Fact) -> bool:
    """Tell whether an operation that moves or chooses numbers does so among features alone."""
    at = _ALONG.get(step.name)
    given = step.args[at] if at is not None and at < len(step.args) else None
    if at is not None and step.name in _PADDED and given is not None:
        given = [-1 - k // 2 for k, more in enumerate(given) if more]
    return _are_features(given, operand, fact)


def mask_of(operand: Tensor, chosen: Sequence[Tensor]) -> int | None:
    """Return the mask by which places were chosen: two tensors have the same ones by one mask."""
    masks = [place_of(mask) for mask in chosen if mask.dtype is torch.bool]
    return masks[0] if len(masks) == len(chosen) == 1 and 0 not in operand.stride() else None


def feature_dims(flow: Flow, like: Tensor, parts: Sequence[Tensor]) -> list[int] | None:
    """Return which dimensions of `like` but the last two hold what a layer has put out.

    Those are heads; others hold places. A tensor tells by its strides, if its last dimension is
    known to be one of features; nothing where it was spread.

    Returns
    -------
    list of int or None
        None if tensors disagree, or if nothing is known of a dimension.
    """
    facts = [(part, flow.of(part)) for part in parts if part.ndim == like.ndim]
    known = [(part, fact) for part, fact in facts if is_feature(part, -1, fact)]
    heads = []
    for k in (k for k in range(like.ndim - 2) if like.shape[k] > 1):
        telling = [pair for pair in known if pair[0].shape[k] > 1 and pair[0].stride(k)]
        told = {is_feature(part, k, fact) for part, fact in telling}
        if len(told) != 1:
            return None
        if told.pop():
            heads.append(k)
    return heads


def _are_features(dims: Any, operand: Tensor, fact: Fact) -> bool:
    dims = [dims] if isinstance(dims, int) else dims or ()
    return bool(dims) and all(is_feature(operand, dim, fact) for dim in dims)


def added_up(step: Step, left: Tensor, right: Tensor) -> tuple[set[int], set[int]]:
    """Return the dimensions, from the end, over which a product of two adds up."""
    if step.name != "einsum":
        return {-1}, {-min(2, right.ndim)}
    both, terms = summed(step.args[0]), terms_of(step.args[0])
    first, second = ({k - len(x) for k, name in enumerate(x) if name in both} for x in terms[:2])
    return first, second
