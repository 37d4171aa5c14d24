"""Values that are read at places: whether these were computed, rounded or chosen by scores."""

from dataclasses import replace

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.facts import CONSTANT, LEARNT, READ, Fact, Origin
from fourierkernels.checkpoints.recorders.flow import is_whole, tensors_in
from fourierkernels.checkpoints.recorders.layers import embed, mark_used
from fourierkernels.checkpoints.recorders.one_by_one import OneByOne
from fourierkernels.checkpoints.recorders.operations import SAMPLED, Step
from fourierkernels.checkpoints.recorders.places import (
    are_apart,
    are_sampled,
    mask_of,
    moves_features,
)


class Gathering(OneByOne):
    """Takes in operations that choose places, and those that read at places or move them."""

    def _order(self, step: Step) -> None:
        """Know what is ordered; places are no weights."""
        self.follow(step)
        chosen = self._are_ranked(step)
        for result in step.results:
            if not result.is_floating_point():
                fact = replace(self.flow.of(result), origins=frozenset(), rounded=False)
                self.flow.set(result, replace(fact, chosen=chosen))

    def _are_ranked(self, step: Step) -> bool:
        """Tell whether each query of several ranks keys by a score; places of points are given."""
        at, fact = 1 + (step.name == "topk"), self.flow.of(step.args[0])
        dim = step.args[at] if at < len(step.args) else step.given.get("dim", -1)
        scores = any(origin.scores and origin.places for origin in fact.origins | fact.told)
        return scores and not fact.given and not self.pools(step.result, dim, fact)

    def _gather(self, step: Step) -> None:
        """Know values that are chosen by the best of scores; places that are chosen are none."""
        values, *places = tensors_in((*step.args, *step.given.values()))
        facts = [(place, self.flow.of(place).origins) for place in places]
        by = next((place for place, origins in facts if any(x.scores for x in origins)), None)
        fact = self.flow.of(values)
        known = fact.level == READ and not fact.origins and not is_whole(values)
        if by is None or not known:
            if fact.level == LEARNT:
                mark_used(self.flow.of(place) for place in places)
            self._move(step)
            if known and any(self.flow.of(place).chosen for place in places):
                self.flow.set(step.result, replace(self.flow.of(step.result), chosen=True))
            if known and self._are_computed(step.name in SAMPLED, places):
                self._sample(step)
        else:
            self.meet(step.where, step.result, values, by, weights=by)

    def _are_computed(self, between: bool, places: list[Tensor]) -> bool:
        """Tell whether values are read at, or `between`, places that were computed as numbers."""
        facts = [self.flow.of(place) for place in places]
        if between:
            return facts[0].level != CONSTANT and not facts[0].counts
        return any(fact.rounded and not fact.counts for fact in facts)

    def _sample(self, step: Step, *, differs: bool = False) -> None:
        """Know values that were read at such places: what they are multiplied with are weights."""
        shape = tuple(step.result.shape)
        origin = Origin(step.where, shape, places=False, state=True, differs=differs)
        self.origins.append(origin)
        fact = self.flow.of(step.result)
        self.flow.set(step.result, replace(fact, origins=frozenset([origin])))

    def _round(self, step: Step) -> None:
        """Know computed numbers that were made whole: they may be places."""
        self.follow(step)
        # searchsorted is given the borders first, the others what they round.
        fact, read = self.flow.of(step.result), step.args[step.name == "searchsorted"]
        if not isinstance(read, Tensor) or is_whole(read) or not is_whole(step.result):
            return
        rounded = self.flow.is_computed(read) and read.dtype is not torch.bool
        self.flow.set(step.result, replace(fact, rounded=rounded))

    def _floor(self, step: Step) -> None:
        self.follow(step)
        self.flow.set(step.result, replace(self.flow.of(step.result), rounded=True))

    def _share(self, step: Step) -> None:
        self.follow(step)
        fact = replace(self.flow.of(step.result), share=True, rounded=False)
        self.flow.set(step.result, fact)

    def _remain(self, step: Step) -> None:
        """Know what is left of quotients: of those by 1 it is what rounding leaves."""
        divisor = step.args[1]
        by_one = not isinstance(divisor, Tensor) and divisor == 1
        (self._share if by_one else self.follow)(step)

    def _subtract(self, step: Step) -> None:
        """Know differences: of places and the same, rounded, they are shares of neighbours."""
        read = [operand for operand in tensors_in(step.args) if self.flow.is_computed(operand)]
        if len(read) == 2 and self.flow.of(read[0]).rounded != self.flow.of(read[1]).rounded:
            self._share(step)
            return
        facts = [self.flow.of(operand) for operand in read]
        self.follow(step)
        if len(read) == 2 and all(map(are_sampled, facts)):
            apart = facts[0].origins != facts[1].origins or are_apart(self.flow, *read)
            self._sample(step, differs=apart)
        self.add_difference(step, read, facts)

    def add_difference(self, step: Step, parts: list[Tensor], facts: list[Fact]) -> None:
        """Know values at computed places to which a weighed difference of such is added."""
        if len(facts) != 2 or not all(map(are_sampled, facts)):
            return
        if any(fact.weighs and any(origin.differs for origin in fact.origins) for fact in facts):
            self.meet(step.where, step.result, *parts, weights=parts[0])

    def _blend(self, step: Step) -> None:
        """Know values read at computed places, of which two are weighed by what was computed."""
        parts = list(tensors_in(step.args))
        facts = [self.flow.of(part) for part in parts]
        self.follow(step)
        sampled = all(fact.origins and all(x.sampled for x in fact.origins) for fact in facts[:2])
        if len(parts) == 3 and sampled:
            self.weigh(parts[1:], step.result, facts=facts[1:])
            if self.flow.of(step.result).weighs:
                self.meet(step.where, step.result, step.result, weights=step.result)

    def _move(self, step: Step) -> None:
        """Know that places were moved; chosen matrices of the network are still its own."""
        read, *chosen = tensors_in((*step.args, *step.given.values()))
        fact = self.flow.of(read)
        self.follow(step)
        leaf = fact.leaf and read.ndim > 2
        table = fact.level == LEARNT
        numbers = (read, *(index for index in chosen if table or index.is_floating_point()))
        paired = any(self.flow.of(tensor).paired for tensor in numbers)
        moved = fact.moved
        if fact.level == READ and not moves_features(step, read, fact):
            moved = mask_of(read, chosen) or object()
        new = replace(self.flow.of(step.result), leaf=leaf, moved=moved, paired=paired)
        self.flow.set(step.result, new)

    def _embed(self, step: Step) -> None:
        """Know what is looked up: in a table of the network, or among what it has computed."""
        if self.flow.is_computed(step.args[0]):
            self._gather(step)
        else:
            embed(self.flow, step)

    def _bag(self, step: Step) -> None:
        """Know sums of what is looked up, with weights perhaps."""
        values, places = step.args[:2]
        # The seventh argument of embedding_bag: per_sample_weights.
        weights = [
            argument
            for argument in step.args[6:7]
            if argument is not None and self.flow.is_computed(argument)
        ]
        by = next((weight for weight in weights if self.flow.of(weight).origins), None)
        if by is None and not self.flow.is_computed(values):
            embed(self.flow, step)
        elif weights or self.flow.of(places).chosen or self._are_computed(False, [places]):
            self.meet(step.where, step.result, *weights, values, weights=by)
        else:
            self._move(step)
