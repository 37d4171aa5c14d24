"""What becomes of weights and scores number by number: sums, places that are moved or chosen."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.einsum import contracts, terms_of
from fourierkernels.checkpoints.recorders.flow import (
    CONSTANT,
    LEARNT,
    READ,
    Fact,
    Flow,
    Origin,
    is_whole,
    place_of,
    strides,
    tensors_in,
)
from fourierkernels.checkpoints.recorders.layers import embed, is_asked, join, mark_used, repeat
from fourierkernels.checkpoints.recorders.operations import (
    ACTIVE,
    ADDED,
    BAGS,
    BLENDED,
    CAST,
    COMPARED,
    DIFFERENCES,
    DISTANCES,
    DIVIDED,
    FLOORED,
    GATHERED,
    JOINED,
    LAYERS,
    MOVED,
    NORMS,
    ORDERED,
    PRODUCTS,
    RANKED,
    REDUCED,
    REPEATED,
    RUNNING,
    SAMPLED,
    SCATTERED,
    SOFTMAX,
    SUMS,
    TIMES,
    Step,
    is_fused,
)
from fourierkernels.checkpoints.recorders.places import (
    adds_features,
    are_apart,
    joined_features,
    mask_of,
    meets_several,
    moves_features,
)
from fourierkernels.checkpoints.recorders.weighing import Found, Weighing


class Following(Weighing):
    """Takes in one operation after another."""

    def __init__(self, flow: Flow, found: Found) -> None:
        super().__init__(flow, found)
        self.handlers: dict[str, Callable[[Step], None]] = {
            "einsum": self._einsum,
            "embedding": self._embed,
            "frac": self._share,
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
        handler = self.fused if is_fused(step.name) else self.handlers.get(step.name, self._follow)
        handler(step)

    def _einsum(self, step: Step) -> None:
        operands = step.args[1]
        computed = [one for one in operands if self.flow.is_computed(one)]
        weights = next((one for one in operands if self.flow.of(one).origins), None)
        if contracts(*step.args[:2]):
            self.multiply(step, *operands)
            self._put_out(step, *operands)
        elif len(operands) > 2 and (len(computed) > 2 or weights is not None):
            self.meet(step.where, step.result, *operands, weights=weights)
        else:
            self._follow(step)
            if len(operands) == 2:
                self._weigh(operands, step.result)

    def _put_out(self, step: Step, left: Tensor, right: Tensor) -> None:
        """Know all dimensions that a layer puts out, whose weights have heads of their own."""
        learnt = [self.flow.of(one).level == LEARNT for one in (left, right)]
        fact, (*terms, made) = self.flow.of(step.result), terms_of(step.args[0])
        if fact.features and sum(learnt) == 1 and "." not in made:
            weights, read = terms if learnt[0] else terms[::-1]
            own = [k for k, name in enumerate(made) if name in weights and name not in read]
            features = tuple(one for k in own for one in strides(step.result, k))
            self.flow.set(step.result, replace(fact, features=features))

    def _distance(self, step: Step) -> None:
        """Know distances of two computed tensors, which may be scores."""
        self._follow(step)
        if all(map(self.flow.is_computed, step.args[:2])):
            self.pair(step.where, step.result, self.flow.of(step.result))

    def _add(self, step: Step) -> None:
        """Know weights times values that are added up key by key."""
        parts = list(tensors_in(step.args))
        facts = [self.flow.of(one) for one in parts]
        self._follow(step)
        if len(parts) == 2 and is_asked(self.flow, parts, step.result):
            self.flow.set(step.result, replace(self.flow.of(step.result), asked=2))
        if len(parts) == 3:  # addcmul
            self._weigh(parts[1:], step.result)
            facts = [facts[0], self.flow.of(step.result)]
        if any(one.multiplied and not one.paired for one in facts):
            self.flow.set(step.result, replace(self.flow.of(step.result), paired=False))
        weighing = [one.origins for one in facts if one.weighs]
        if len(weighing) == 2 and all(
            any(one.scores or one.sampled for one in x) for x in weighing
        ):
            weights = next(one for one in parts if self.flow.of(one).origins)
            self.meet(step.where, step.result, *parts, weights=weights)

    def _sum(self, step: Step) -> None:
        name, args, results = step.name, step.args, step.results
        operand = next(tensors_in(args), None)
        if operand is None:
            return
        if name in {"max", "min"} and len(args) > 1 and isinstance(args[1], Tensor):
            self._follow(step)  # the larger of two, number by number
            return
        fact = self.flow.of(operand)
        if name in SUMS and fact.weighs and fact.origins:
            self.meet(step.where, results[0], operand, weights=operand)
            return
        total = (name in SUMS and place_of(operand), args[1]) if len(args) > 1 else None
        told = fact.origins | fact.told
        new = Fact(fact.level, fact.sequence, total_of=total, told=told, meetings=fact.meetings)
        asked = 4 * (fact.asked == 3 and name in SUMS and adds_features(step, operand, fact))
        new = replace(new, rounded=fact.rounded, counts=fact.counts, asked=asked)
        spread = fact.paired and not (fact.inside and adds_features(step, operand, fact))
        counted = fact.counts and results[0].numel() <= math.prod(self.flow.leading)
        numbers = operand.is_floating_point() and not counted  # pairs of ids that are equal are
        if name in SUMS | NORMS and spread and numbers and all(one.sampled for one in fact.origins):
            self.pair(step.where, results[0], replace(new, moved=fact.moved))
            return
        for one in results:  # places of the largest are chosen by all
            self.flow.set(
                one, replace(new, origins=told, told=frozenset()) if is_whole(one) else new
            )

    def _add_up(self, step: Step) -> None:
        """Know sums up to each place: of keys times values they are what queries read."""
        self._follow(step)
        fact = self.flow.of(step.result)
        if fact.paired and not fact.origins:
            self.pair(step.where, step.result, fact, state=True)
        elif fact.weighs and fact.origins:
            self.meet(step.where, step.result, step.result, weights=step.result)

    def _blend(self, step: Step) -> None:
        """Know values read at computed places, of which two are weighed by what was computed."""
        parts = list(tensors_in(step.args))
        facts = [self.flow.of(one) for one in parts]
        self._follow(step)
        sampled = all(one.origins and all(x.sampled for x in one.origins) for one in facts[:2])
        if len(parts) == 3 and sampled:
            self._weigh(parts[1:], step.result, facts=facts[1:])
            if self.flow.of(step.result).weighs:
                self.meet(step.where, step.result, step.result, weights=step.result)

    def _follow(self, step: Step) -> None:
        name, results = step.name, step.results
        operands = list(tensors_in((*step.args, *step.given.values())))
        if name in RANKED:
            for meeting in self.flow.of(operands[0]).meetings:
                meeting.ranked = True
        dim = self._divided(operands) if name in DIVIDED and len(operands) > 1 else None
        if dim is None:
            self.flow.use(operands)
        facts = [self.flow.of(one) for one in operands]
        if name.endswith("_") and operands:
            self._write(operands)
        self.flow.follow(operands, results)
        if len(operands) == 2 and results[0].numel() > 1:
            self._weigh(operands, results[0], name, facts)
        if dim is not None:
            self.normal(dim, results[0], step.where)

    def _divided(self, operands: list[Tensor]) -> int | None:
        """Return the dimension over which numbers are divided by their own sum, if they are."""
        total = self.flow.of(operands[1]).total_of
        if total is None or total[0] != place_of(operands[0]):
            return None
        return total[1] if isinstance(total[1], int) else next(iter(total[1] or ()), None)

    def _order(self, step: Step) -> None:
        """Know what is ordered; places are no weights."""
        self._follow(step)
        for one in step.results:
            if not one.is_floating_point():
                self.flow.set(one, replace(self.flow.of(one), origins=frozenset(), rounded=False))

    def _gather(self, step: Step) -> None:
        """Know values that are chosen by the best of scores; places that are chosen are none."""
        values, *places = tensors_in((*step.args, *step.given.values()))
        facts = [(one, self.flow.of(one).origins) for one in places]
        by = next((one for one, origins in facts if any(x.scores for x in origins)), None)
        fact = self.flow.of(values)
        known = fact.level == READ and not fact.origins and not is_whole(values)
        if by is None or not known:
            if fact.level == LEARNT:
                mark_used(self.flow.of(one) for one in places)
            self._move(step)
            if known and self._are_computed(step.name in SAMPLED, places):
                self._sample(step)
        else:
            self.meet(step.where, step.result, values, by, weights=by)

    def _are_computed(self, between: bool, places: list[Tensor]) -> bool:
        """Tell whether values are read at, or `between`, places that were computed as numbers."""
        facts = [self.flow.of(one) for one in places]
        if between:
            return facts[0].level != CONSTANT and not facts[0].counts
        return any(one.rounded and not one.counts for one in facts)

    def _round(self, step: Step) -> None:
        """Know computed numbers that were made whole: they may be places."""
        self._follow(step)
        fact, read = self.flow.of(step.result), step.args[step.name == "searchsorted"]
        if not isinstance(read, Tensor) or is_whole(read) or not is_whole(step.result):
            return
        rounded = self.flow.is_computed(read) and read.dtype is not torch.bool
        self.flow.set(step.result, replace(fact, rounded=rounded))

    def _floor(self, step: Step) -> None:
        self._follow(step)
        self.flow.set(step.result, replace(self.flow.of(step.result), rounded=True))

    def _share(self, step: Step) -> None:
        self._follow(step)
        fact = replace(self.flow.of(step.result), share=True, rounded=False)
        self.flow.set(step.result, fact)

    def _subtract(self, step: Step) -> None:
        """Know differences: of places and the same, rounded, they are shares of neighbours."""
        read = [one for one in tensors_in(step.args) if self.flow.is_computed(one)]
        if len(read) == 2 and self.flow.of(read[0]).rounded != self.flow.of(read[1]).rounded:
            self._share(step)
        else:
            self._follow(step)

    def _activate(self, step: Step) -> None:
        self._follow(step)
        fact = self.flow.of(step.result)
        if fact.asked == 2:
            self.flow.set(step.result, replace(fact, asked=3))

    def _sample(self, step: Step) -> None:
        """Know values that were read at such places: what they are multiplied with are weights."""
        origin = Origin(step.where, tuple(step.result.shape), places=False, state=True)
        self.origins.append(origin)
        fact = self.flow.of(step.result)
        self.flow.set(step.result, replace(fact, origins=frozenset([origin])))

    def _move(self, step: Step) -> None:
        """Know that places were moved; chosen matrices of the network are still its own."""
        read, *chosen = tensors_in((*step.args, *step.given.values()))
        fact = self.flow.of(read)
        self._follow(step)
        own = fact.leaf and read.ndim > 2
        table = fact.level == LEARNT
        numbers = (read, *(one for one in chosen if table or one.is_floating_point()))
        paired = any(self.flow.of(one).paired for one in numbers)
        moved = fact.moved
        if fact.level == READ and not moves_features(step, read, fact):
            moved = mask_of(read, chosen) or object()
        new = replace(self.flow.of(step.result), leaf=own, moved=moved, paired=paired)
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
        weights = [one for one in step.args[6:7] if one is not None and self.flow.is_computed(one)]
        by = next((one for one in weights if self.flow.of(one).origins), None)
        if by is None and not self.flow.is_computed(values):
            embed(self.flow, step)
        elif weights or self._are_computed(False, [places]):
            self.meet(step.where, step.result, *weights, values, weights=by)
        else:
            self._move(step)

    def _scatter(self, step: Step) -> None:
        """Know what is added up by place, as over the edges of a graph."""
        operands = list(tensors_in((*step.args, *step.given.values())))
        facts = [(one, self.flow.of(one)) for one in operands]
        weighed = next((one for one, fact in facts if fact.weighs and fact.origins), None)
        self._follow(step)
        if weighed is not None:
            self.meet(step.where, step.result, weighed, weights=weighed)
        elif len(step.args) > 1 and isinstance(step.args[1], int):
            total = (place_of(operands[-1]), step.args[1])
            self.flow.set(step.result, replace(self.flow.of(step.result), total_of=total))

    def _weigh(
        self,
        operands: list[Tensor],
        result: Tensor,
        name: str = "mul",
        facts: list[Fact] | None = None,
    ) -> None:
        """Know weights times values number by number, before they are added up.

        What was known of the operands is given where one of them may have been written to.
        """
        facts, times = facts or [self.flow.of(one) for one in operands], name in TIMES
        if all(fact.level == READ for fact in facts) and self._is_paired(operands, result, name):
            self._pair_up(operands, result)
            if not times and result.dtype is not torch.bool:  # distances may be scores
                self.flow.set(result, replace(self.flow.of(result), counts=False))
        tainted = [k for k in (0, 1) if facts[k].origins]
        if not times or len(tainted) != 1 or facts[1 - tainted[0]].level == CONSTANT:
            return
        weights = facts[1 - tainted[0]]
        sampled = all(one.sampled for one in facts[tainted[0]].origins)
        if sampled and (weights.leaf or weights.counts or weights.share):
            return  # a scale, a mask, or neighbours that are interpolated
        state = any(one.state for one in facts[tainted[0]].origins)
        if state or operands[tainted[0]].numel() < result.numel():
            self.flow.set(result, replace(self.flow.of(result), weighs=True))

    def _pair_up(self, operands: list[Tensor], result: Tensor) -> None:
        """Know that numbers meet several others, perhaps those of one place alone."""
        fact, features = self.flow.of(result), joined_features(self.flow, operands, result)
        inside = bool(features) and (fact.inside or not fact.paired)
        features = features or fact.features
        moved = object() if are_apart(self.flow, *operands) else fact.moved
        new = replace(fact, paired=True, inside=inside, features=features, moved=moved)
        self.flow.set(result, new)

    def _is_paired(self, operands: list[Tensor], result: Tensor, name: str) -> bool:
        """Tell whether each number of one meets several of another, or those of other places.

        Whole numbers do where they are compared.
        """
        told = result.dtype is torch.bool and not any(one.dtype is torch.bool for one in operands)
        if not (told or name in COMPARED or all(map(Tensor.is_floating_point, operands))):
            return False
        one, other = operands
        if name in TIMES and one.shape == other.shape:
            moved = self.flow.of(one).moved != self.flow.of(other).moved
            if moved or are_apart(self.flow, one, other):
                return True
        return meets_several(one, other, result)

    def _write(self, operands: list[Tensor]) -> None:
        """Know what is written to: token ids that are moved are another sequence."""
        fact = self.flow.merged(operands)
        target = operands[0]
        if not target.is_floating_point() and len(operands) > 1 and fact.level == READ:
            fact = replace(fact, sequence=("written", place_of(target)))
        features = self.flow.of(target).features
        self.flow.set(target, replace(fact, features=features))
