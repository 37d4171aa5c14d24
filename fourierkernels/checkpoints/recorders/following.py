"""One operation after another: sums, distances, and what takes in which operation."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor

from fourierkernels.checkpoints.recorders.einsum import contracts, terms_of
from fourierkernels.checkpoints.recorders.facts import LEARNT, Asked, Fact, strides
from fourierkernels.checkpoints.recorders.flow import Flow, is_whole, place_of, tensors_in
from fourierkernels.checkpoints.recorders.gathering import Gathering
from fourierkernels.checkpoints.recorders.layers import is_asked, join, repeat
from fourierkernels.checkpoints.recorders.operations import (
    ACTIVE,
    ADDED,
    BAGS,
    BLENDED,
    CAST,
    DIFFERENCES,
    DISTANCES,
    FLOORED,
    GATHERED,
    JOINED,
    LAYERS,
    MOVED,
    NORMS,
    ORDERED,
    PRODUCTS,
    REDUCED,
    REMAINDERS,
    REPEATED,
    RUNNING,
    SCATTERED,
    SOFTMAX,
    SUMS,
    TOLD,
    Step,
    is_fused,
)
from fourierkernels.checkpoints.recorders.places import adds_features, are_chosen
from fourierkernels.checkpoints.recorders.weighing import Found


class Following(Gathering):
    """Takes in one operation after another."""

    def __init__(self, flow: Flow, found: Found) -> None:
        super().__init__(flow, found)
        self.handlers: dict[str, Callable[[Step], None]] = {
            "einsum": self._einsum,
            "embedding": self._embed,
            "frac": self._share,
            **dict.fromkeys(REMAINDERS, self._remain),
            **dict.fromkeys(DIFFERENCES, self._subtract),
            **dict.fromkeys(FLOORED, self._floor),
            **dict.fromkeys(ACTIVE | {f"{name}_" for name in ACTIVE}, self._activate),
            **dict.fromkeys(BAGS, self._bag),
            **dict.fromkeys(BLENDED, self._blend),
            **dict.fromkeys(CAST, self._round),
            **dict.fromkeys(PRODUCTS, self.product),
            **dict.fromkeys(SOFTMAX, self.softmax),
            **dict.fromkeys(SUMS | REDUCED, self._sum),
            **dict.fromkeys(RUNNING, self._add_up),
            **dict.fromkeys(LAYERS, self.convolve),
            **dict.fromkeys(REPEATED, partial(repeat, self.flow)),
            **dict.fromkeys(JOINED, partial(join, self.flow)),
            **dict.fromkeys(ORDERED, self._order),
            **dict.fromkeys(GATHERED, self._gather),
            **dict.fromkeys(SCATTERED, self._scatter),
            **dict.fromkeys(MOVED, self._move),
            **dict.fromkeys(DISTANCES, self._distance),
            **dict.fromkeys(ADDED, self._add),
        }

    def take(self, step: Step) -> None:
        """Take in an operation that was run."""
        handler = self.fused if is_fused(step.name) else self.handlers.get(step.name, self.follow)
        handler(step)

    def _einsum(self, step: Step) -> None:
        operands = step.args[1]
        computed = [operand for operand in operands if self.flow.is_computed(operand)]
        weights = next((operand for operand in operands if self.flow.of(operand).origins), None)
        if contracts(*step.args[:2]):
            self.multiply(step, *operands)
            self._put_out(step, *operands)
        elif len(operands) > 2 and (len(computed) > 2 or weights is not None):
            self.meet(step.where, step.result, *operands, weights=weights)
        else:
            self.follow(step)
            if len(operands) == 2:
                self.weigh(operands, step.result)

    def _put_out(self, step: Step, left: Tensor, right: Tensor) -> None:
        """Know all dimensions that a layer puts out, whose weights have heads of their own."""
        learnt = [self.flow.of(operand).level == LEARNT for operand in (left, right)]
        fact, (*terms, made) = self.flow.of(step.result), terms_of(step.args[0])
        if fact.features and sum(learnt) == 1 and "." not in made:
            weights, read = terms if learnt[0] else terms[::-1]
            dims = [k for k, name in enumerate(made) if name in weights and name not in read]
            features = tuple(bounds for k in dims for bounds in strides(step.result, k))
            self.flow.set(step.result, replace(fact, features=features))

    def _distance(self, step: Step) -> None:
        """Know distances of two computed tensors, which may be scores."""
        self.follow(step)
        if all(map(self.flow.is_computed, step.args[:2])):
            self.pair(step.where, step.result, self.flow.of(step.result))

    def _add(self, step: Step) -> None:
        """Know weights times values that are added up key by key."""
        parts = list(tensors_in(step.args))
        facts = [self.flow.of(part) for part in parts]
        self.follow(step)
        if len(parts) == 2 and is_asked(self.flow, parts, step.result):
            self.flow.set(step.result, replace(self.flow.of(step.result), asked=Asked.ADDED))
        if len(parts) == 3:  # addcmul
            self.weigh(parts[1:], step.result)
            facts = [facts[0], self.flow.of(step.result)]
        if any(fact.multiplied and not fact.paired for fact in facts):
            self.flow.set(step.result, replace(self.flow.of(step.result), paired=False))
        self.add_difference(step, parts[:2], facts)
        if len(parts) == 2 and all(map(are_chosen, facts)):
            self.meet(step.where, step.result, *parts)  # one of the chosen after another
        weighing = [fact.origins for fact in facts if fact.weighs]
        if len(weighing) == 2 and all(
            any(origin.scores or origin.sampled for origin in x) for x in weighing
        ):
            weights = next(part for part in parts if self.flow.of(part).origins)
            self.meet(step.where, step.result, *parts, weights=weights)

    def _sum(self, step: Step) -> None:
        name, args, results = step.name, step.args, step.results
        operand = next(tensors_in(args), None)
        if operand is None:
            return
        if name in {"max", "min"} and len(args) > 1 and isinstance(args[1], Tensor):
            self.follow(step)  # the larger of two, number by number
            return
        fact = self.flow.of(operand)
        if name in SUMS and fact.weighs and fact.origins:
            self.meet(step.where, results[0], operand, weights=operand)
            return
        if name in SUMS and are_chosen(fact) and not adds_features(step, operand, fact):
            self.meet(step.where, results[0], operand)
            return
        total = (name in SUMS and place_of(operand), args[1]) if len(args) > 1 else None
        told = fact.origins | fact.told
        new = Fact(fact.level, fact.sequence, total_of=total, told=told, meetings=fact.meetings)
        scored = fact.asked == Asked.ACTIVE and name in SUMS and adds_features(step, operand, fact)
        asked = Asked.SCORED if scored else Asked.NOT
        new = replace(new, rounded=fact.rounded, counts=fact.counts, given=fact.given, asked=asked)
        spread = fact.paired and not (fact.inside and adds_features(step, operand, fact))
        numbers = operand.is_floating_point()
        few = results[0].numel() <= math.prod(self.flow.leading)
        counted = few and (fact.counts or not numbers)  # one number of a place: how many are equal
        joins = SUMS | NORMS | TOLD
        if (
            name in joins
            and spread
            and not counted
            and all(origin.sampled for origin in fact.origins)
        ):
            if numbers:
                self.pair(step.where, results[0], replace(new, moved=fact.moved))
                return
            new = replace(new, paired=fact.given, moved=fact.moved)  # ids that are equal, as told
        for result in results:  # places of the largest are chosen by all
            self.flow.set(
                result, replace(new, origins=told, told=frozenset()) if is_whole(result) else new
            )

    def _add_up(self, step: Step) -> None:
        """Know sums up to each place: of keys times values they are what queries read."""
        self.follow(step)
        fact = self.flow.of(step.result)
        if fact.paired and not fact.origins:
            self.pair(step.where, step.result, fact, state=True)
        elif fact.weighs and fact.origins:
            self.meet(step.where, step.result, step.result, weights=step.result)

    def _activate(self, step: Step) -> None:
        self.follow(step)
        fact = self.flow.of(step.result)
        if fact.asked == Asked.ADDED:
            self.flow.set(step.result, replace(fact, asked=Asked.ACTIVE))

    def _scatter(self, step: Step) -> None:
        """Know what is added up by place, as over the edges of a graph."""
        operands = list(tensors_in((*step.args, *step.given.values())))
        facts = [(operand, self.flow.of(operand)) for operand in operands]
        weighed = next((operand for operand, fact in facts if fact.weighs and fact.origins), None)
        self.follow(step)
        if weighed is not None:
            self.meet(step.where, step.result, weighed, weights=weighed)
        elif len(step.args) > 1 and isinstance(step.args[1], int):
            total = (place_of(operands[-1]), step.args[1])
            self.flow.set(step.result, replace(self.flow.of(step.result), total_of=total))
