"""What becomes of weights and scores number by number: products, quotients, what is written."""

from dataclasses import replace

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.facts import CONSTANT, READ, Fact
from fourierkernels.checkpoints.recorders.flow import place_of, tensors_in
from fourierkernels.checkpoints.recorders.operations import (
    ADDED,
    COMPARED,
    DIFFERENCES,
    DIVIDED,
    RANKED,
    TIMES,
    Step,
)
from fourierkernels.checkpoints.recorders.places import are_apart, joined_features, meets_several
from fourierkernels.checkpoints.recorders.weighing import Weighing


class OneByOne(Weighing):
    """Takes in operations number by number."""

    def follow(self, step: Step) -> None:
        """Know what comes out number by number, as weights if numbers are divided by their sum."""
        name, results = step.name, step.results
        operands = list(tensors_in((*step.args, *step.given.values())))
        if name in RANKED:
            for meeting in self.flow.of(operands[0]).meetings:
                meeting.ranked = True
        dim = self._divided(operands) if name in DIVIDED and len(operands) > 1 else None
        if dim is None and not self._shifts(step, operands):
            self.flow.use(operands)
        facts = [self.flow.of(operand) for operand in operands]
        if name.endswith("_") and operands:
            self._write(operands)
        self.flow.follow(operands, results)
        if len(operands) == 2 and results[0].numel() > 1:
            self.weigh(operands, results[0], name, facts)
        if dim is not None:
            self.normal(dim, results[0], step.where)

    def _shifts(self, step: Step, operands: list[Tensor]) -> bool:
        """Tell whether scores are shifted by fewer numbers, as by the norms of their vectors."""
        whole = [operand for operand in operands if operand.numel() == step.result.numel()]
        if step.name.rstrip("_") not in ADDED | DIFFERENCES or len(whole) != 1:
            return False
        return bool(self.flow.of(whole[0]).origins)

    def _divided(self, operands: list[Tensor]) -> int | None:
        """Return the dimension over which numbers are divided by their own sum, if they are."""
        total = self.flow.of(operands[1]).total_of
        if total is None or total[0] != place_of(operands[0]):
            return None
        return total[1] if isinstance(total[1], int) else next(iter(total[1] or ()), None)

    def weigh(
        self,
        operands: list[Tensor],
        result: Tensor,
        name: str = "mul",
        facts: list[Fact] | None = None,
    ) -> None:
        """Know weights times values number by number, before they are added up.

        What was known of the operands is given where one of them may have been written to.
        """
        facts, times = facts or [self.flow.of(operand) for operand in operands], name in TIMES
        if all(fact.level == READ for fact in facts) and self._is_paired(operands, result, name):
            self._pair_up(operands, result)
            if not times and result.dtype is not torch.bool:  # distances may be scores
                self.flow.set(result, replace(self.flow.of(result), counts=False))
        tainted = [k for k in (0, 1) if facts[k].origins]
        if not times or len(tainted) != 1 or facts[1 - tainted[0]].level == CONSTANT:
            return
        weights = facts[1 - tainted[0]]
        sampled = all(origin.sampled for origin in facts[tainted[0]].origins)
        if sampled and (weights.leaf or weights.counts or weights.share):
            return  # a scale, a mask, or neighbours that are interpolated
        state = any(origin.state for origin in facts[tainted[0]].origins)
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

        Whole numbers do where they are compared: their sums are places. So do their products, if
        they are the input's own: rows of one expert times rows of one place are where a token goes.
        """
        given = all(self.flow.of(operand).given for operand in operands)
        told = result.dtype is torch.bool or name in (COMPARED | TIMES if given else COMPARED)
        if not (told or all(map(Tensor.is_floating_point, operands))):
            return False
        left, right = operands
        if name in TIMES and left.shape == right.shape:
            moved = self.flow.of(left).moved != self.flow.of(right).moved
            if moved or are_apart(self.flow, left, right):
                return True
        return meets_several(left, right, result)

    def _write(self, operands: list[Tensor]) -> None:
        """Know what is written to: token ids that are moved are another sequence."""
        fact = self.flow.merged(operands)
        target = operands[0]
        if not target.is_floating_point() and len(operands) > 1 and fact.level == READ:
            fact = replace(fact, sequence=("written", place_of(target)))
        features = self.flow.of(target).features
        self.flow.set(target, replace(fact, features=features))
