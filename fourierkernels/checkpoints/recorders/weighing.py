"""Where weights over positions are made in a pass, and where they meet values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from fourierkernels.checkpoints.recorders.facts import (
    CONSTANT,
    Asked,
    Fact,
    Origin,
    is_feature,
    is_layer,
    places_in,
    strides,
)
from fourierkernels.checkpoints.recorders.flow import Flow
from fourierkernels.checkpoints.recorders.layers import convolve, layer
from fourierkernels.checkpoints.recorders.operations import PRODUCTS, Step
from fourierkernels.checkpoints.recorders.places import added_up, mixes_features

Found = Callable[[str, Sequence[Any], dict[str, Any], Tensor], None]


class Weighing:
    """Knows products of computed tensors, softmaxes, and products of weights with values.

    Parameters
    ----------
    flow : Flow
    found : callable
        Is given what the recorders above do not see: the name of an operation, its arguments and
        what came out.

    Attributes
    ----------
    origins : list of Origin
        Of all weights and scores, in order.
    """

    def __init__(self, flow: Flow, found: Found) -> None:
        self.flow, self.found = flow, found
        self.origins: list[Origin] = []

    def fused(self, step: Step) -> None:
        """Know attention in one operation."""
        if "scaled_dot_product" in step.name:  # others have other layouts
            self.found("fused", step.args, step.given, step.result)
        self.meet(step.where, step.result, *step.args[:3])

    def product(self, step: Step) -> None:
        """Know a product of matrices, to which a summand may be added."""
        first = PRODUCTS[step.name]
        self.multiply(step, *step.args[first : first + 2])
        if first:  # with a summand
            fact = self.flow.of(step.result)
            origins = fact.origins | self.flow.of(step.args[0]).origins
            self.flow.set(step.result, replace(fact, origins=origins))

    def multiply(self, step: Step, left: Tensor, right: Tensor) -> None:
        """Know a product: of a layer, of queries and keys, or of weights and values."""
        result = step.result
        self.flow.mark_read((left, right))
        left_fact, right_fact = self.flow.of(left), self.flow.of(right)
        if is_layer(left_fact, right_fact, right):
            if right_fact.leaf and right.ndim == 2:
                self.found("layer", (left, right, step.name == "linear"), {}, result)
            by_right = right_fact.leaf or left_fact.level > right_fact.level
            layer(self.flow, left, right, result, by_right=by_right)
            return
        known = [(part, self.flow.of(part)) for part in (left, right)]
        for part, dims in zip((left, right), added_up(step, left, right), strict=True):
            self._compare(part, dims)
        self._meet_or_pair(step, left, right)
        for part, fact in known:  # compared in this product, they may be read in another
            self.flow.set(part, fact)

    def _compare(self, part: Tensor, dims: set[int]) -> None:
        """Forget that values were read at computed places where their features are compared."""
        fact = self.flow.of(part)
        if any(is_feature(part, dim, fact) for dim in dims):
            kept = frozenset(origin for origin in fact.origins if not origin.sampled)
            self.flow.set(part, replace(fact, origins=kept))

    def _meet_or_pair(self, step: Step, left: Tensor, right: Tensor) -> None:
        result, where = step.result, step.where
        left_fact, right_fact = self.flow.of(left), self.flow.of(right)
        self.flow.use((left, right))
        for meeting in left_fact.meetings | right_fact.meetings:
            meeting.pools = False  # what was pooled meets queries
        self.found("product", (left, right), {}, result)
        normal = any(origin.normal for origin in left_fact.origins | right_fact.origins)
        if step.name != "einsum" and not normal and mixes_features(self.flow, left, right):
            features = (*strides(result, -2), *strides(result, -1))
            fact = Fact(
                max(left_fact.level, right_fact.level), left_fact.sequence, features=features
            )
            self.pair(where, result, fact, places=False)
        elif left_fact.origins and right_fact.origins:
            self.meet_either(step, left, right)
        elif left_fact.origins or right_fact.origins:
            self.meet(where, result, left, right, weights=left if left_fact.origins else right)
        elif left_fact.paired != right_fact.paired:
            self.meet(where, result, left, right, weights=left if left_fact.paired else right)
        else:
            level = max(left_fact.level, right_fact.level)
            given = left_fact.given and right_fact.given
            fact = Fact(level, left_fact.sequence, given=given)
            self.pair(where, result, fact, places=not is_feature(right, -1, right_fact))

    def pair(
        self, where: str, result: Tensor, fact: Fact, *, places: bool = True, state: bool = False
    ) -> None:
        """Know a product of two computed tensors, which may be scores; one number is none."""
        if result.ndim < 2 or result.shape[-1] > 1 or fact.moved:
            shape = tuple(result.shape)
            origin = Origin(where, shape, scores=True, places=places, state=state)
            self.origins.append(origin)
            fact = replace(fact, origins=frozenset([origin]))
        self.flow.set(result, replace(fact, paired=False))

    def meet_either(self, step: Step, left: Tensor, right: Tensor) -> None:
        """Know a product of products: weights of weights, weights and values, or perhaps scores."""
        left_fact, right_fact = self.flow.of(left), self.flow.of(right)
        origins = left_fact.origins | right_fact.origins
        normal = [any(origin.normal for origin in fact.origins) for fact in (left_fact, right_fact)]
        if all(normal):
            level = max(left_fact.level, right_fact.level)
            self.flow.set(step.result, Fact(level, left_fact.sequence, origins=origins))
            return
        for origin in origins:
            origin.met = True
        self.meet(step.where, step.result, left, right, weights=right if normal[1] else left)
        if not any(normal):
            self.flow.set(step.result, replace(self.flow.of(step.result), origins=origins))

    def softmax(self, step: Step) -> None:
        """Know a softmax."""
        args, result, where = step.args, step.result, step.where
        self.found("softmax", args, {}, result)
        dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
        self.flow.follow([args[0]], [result])
        self.normal(dim, result, where)

    def normal(self, dim: int, result: Tensor, where: str) -> None:
        """Know weights, unless what they are of is no place: experts, taps, features."""
        fact = self.flow.of(result)
        given = fact.level == CONSTANT or fact.leaf or (fact.counts and not fact.paired)
        if result.ndim == 0 or result.shape[dim] < 2 or given:
            return
        scores = any(origin.scores for origin in fact.origins)
        for meeting in fact.meetings if scores else ():
            meeting.scores = True
        n, m = result.shape[-2:] if result.ndim > 1 else (1, 0)
        square = n == m in self.flow.leading  # places, perhaps, whose weights a layer has made
        if square and is_feature(result, -2, fact):  # not if each place has a matrix of its own
            square = places_in(result, fact) < math.prod(self.flow.leading)
        if not scores and (fact.origins or is_feature(result, dim, fact)) and not square:
            return
        pools = not (scores or fact.asked == Asked.SCORED) and self.pools(result, dim, fact)
        origin = Origin(where, tuple(result.shape), scores, normal=True, pools=pools)
        self.origins.append(origin)
        self.flow.set(result, replace(fact, origins=fact.origins | {origin}, total_of=None))

    def pools(self, tensor: Tensor, dim: int, fact: Fact) -> bool:
        """Tell whether weights have one row for a text and a head.

        Where features have rows of their own there may be twice as many texts as are read: those
        of guidance, without what the network is conditioned on.
        """
        dims = [k for k in range(tensor.ndim) if k != dim % tensor.ndim and tensor.shape[k] > 1]
        rows = [k for k in dims if not is_feature(tensor, k, fact)]
        texts = max(1, *self.flow.leading[:1]) * (1 + (rows == [0] != dims and not fact.paired))
        return math.prod(tensor.shape[k] for k in rows) <= texts

    def meet(
        self, where: str, result: Tensor, *operands: Tensor, weights: Tensor | None = None
    ) -> None:
        """Know what came out where weights, if such are known, met other operands."""
        origins = frozenset[Origin]() if weights is None else self.flow.of(weights).origins
        for origin in origins:
            origin.met = True
        pools = bool(origins) and all(origin.pools for origin in origins)
        others = [operand for operand in operands if operand is not weights]
        first = operands if weights is None else (weights, *others)
        paired = weights is not None and not origins
        self.flow.meet(where, result, first, pools=pools, paired=paired)

    def convolve(self, step: Step) -> None:
        """Know a convolution or a norm; the filters may be weights."""
        read, filters = step.args[:2]
        if "conv" in step.name and self.flow.of(filters).origins:
            self.flow.mark_read((read,))
            self.meet(step.where, step.result, read, filters, weights=filters)
        else:
            convolve(self.flow, step)
