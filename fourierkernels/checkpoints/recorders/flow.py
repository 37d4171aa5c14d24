"""What each tensor of a pass was made of: of which sequence, and of which products and weights.

Facts belong to storages, so that views, transposes and reshapes of one array share them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_map

from fourierkernels.checkpoints.recorders.facts import (
    CONSTANT,
    LEARNT,
    READ,
    Fact,
    is_feature,
    places_in,
    sequences,
    strides,
)
from fourierkernels.checkpoints.recorders.meetings import Meeting, fingerprint

_NOTHING = Fact()


def place_of(tensor: Tensor) -> int:
    """Return what identifies the memory of a tensor while it lives; 0 for one that has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a subclass, or a tensor of another library
        return 0


def tensors_in(parts: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among arguments or results, those in lists too."""
    for part in parts:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, list | tuple):
            yield from tensors_in(part)


def apart(inputs: Any) -> Any:
    """Return inputs with a memory of its own for each that is not another one itself."""
    layouts: dict[int, tuple[Any, ...]] = {}

    def alone(part: Any) -> Any:
        if not isinstance(part, Tensor) or not (place := place_of(part)):
            return part
        what = (part.data_ptr(), part.shape, part.stride())
        return part if layouts.setdefault(place, what) == what else part.clone()

    return tree_map(alone, inputs)


@dataclass
class Flow:
    """The facts of all tensors of a pass.

    A weak reference to each memory keeps another one from getting its name.

    Attributes
    ----------
    leading : sequence of int
        The first dimensions of the input: texts, tokens.
    """

    facts: dict[int, Fact] = field(default_factory=dict)
    held: dict[int, StorageWeakRef] = field(default_factory=dict)
    counted: int = 0
    meetings: list[Meeting] = field(default_factory=list)
    leading: Sequence[int] = ()

    def begin(self, model: nn.Module) -> None:
        """Know the parameters of a model."""
        for number, parameter in enumerate(model.parameters()):
            self.set(parameter, Fact(LEARNT, ("parameter", number), leaf=True))

    def read(self, inputs: Iterable[Tensor]) -> None:
        """Know the inputs of the model, unless they come from another part of it."""
        for tensor in inputs:
            if self.of(tensor).level == READ:
                continue
            self.counted += 1
            fact = Fact(READ, ("input", self.counted), counts=is_whole(tensor), given=True)
            self.set(tensor, fact)

    def of(self, tensor: Tensor) -> Fact:
        """Return what is known of a tensor."""
        return self.facts.get(place_of(tensor), _NOTHING)

    def is_computed(self, tensor: Tensor) -> bool:
        """Tell whether the numbers of a tensor follow from the input."""
        return self.of(tensor).level == READ

    def has_all(self, tensor: Tensor, fact: Fact) -> bool:
        """Tell whether a tensor has numbers of each token; not if no features are known."""
        return places_in(tensor, fact) == math.prod(self.leading)

    def set(self, tensor: Tensor, fact: Fact) -> None:
        """Store what is known of a tensor."""
        place = place_of(tensor)
        if place and place not in self.held:
            storage = tensor.untyped_storage()
            self.held[place] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        if place:
            self.facts[place] = fact

    def merged(self, operands: Sequence[Tensor]) -> Fact:
        """Return the fact of numbers computed one by one: of the largest operand that was read.

        What chose the places of an index is no part of the numbers that lie there. What speaks for
        attention holds if one operand has it (`any`), what excuses numbers from it if all do.
        """
        if len(operands) < 2:
            return self._alone(operands[0]) if operands else _NOTHING
        known = [(operand.numel(), self._alone(operand)) for operand in operands]
        most = max(known, key=lambda pair: (pair[1].level, pair[0]))[1]
        facts = [fact for _, fact in known]
        kept = [
            pair for pair, operand in zip(known, operands, strict=True) if not is_whole(operand)
        ]
        kept = kept or known
        largest = max(kept, key=lambda pair: (pair[0], pair[1].inside, bool(pair[1].features)))[1]
        data = max(
            (size for size, fact in kept if fact.level == READ and not fact.counts), default=0
        )
        paired = [fact for size, fact in kept if fact.paired and not (fact.counts and size <= data)]
        numbers = [fact for _, fact in kept]
        moved = {fact.moved for fact in numbers if fact.moved}
        read = [fact for fact in facts if fact.level == READ]
        return Fact(
            level=most.level,
            sequence=most.sequence,
            origins=frozenset().union(*(fact.origins for fact in numbers)),
            features=largest.features,
            weighs=any(fact.weighs for fact in facts),
            paired=bool(paired),
            inside=bool(paired) and all(fact.inside for fact in paired),
            moved=next(iter(moved)) if len(moved) == 1 else object() if moved else None,
            told=frozenset().union(*(fact.told for fact in numbers)),
            total_of=next((fact.total_of for fact in facts if fact.total_of), None),
            meetings=frozenset().union(*(fact.meetings for fact in facts)),
            rounded=any(fact.rounded for fact in facts),
            counts=all(fact.counts or fact.level == CONSTANT for fact in facts),
            given=all(fact.given or fact.level == CONSTANT for fact in numbers),
            chosen=any(fact.chosen for fact in numbers),
            share=bool(read) and all(fact.share for fact in read),
            asked=max(fact.asked for fact in facts),
        )

    def _alone(self, tensor: Tensor) -> Fact:
        """Return the fact of numbers computed from one tensor: its pairs may now meet others."""
        fact = self.of(tensor)
        inside = fact.inside and self.has_all(tensor, fact)
        return replace(fact, leaf=False, inside=inside) if fact.leaf or fact.inside else fact

    def follow(self, operands: list[Tensor], results: Iterable[Tensor]) -> None:
        """Take in an operation number by number, or one that moves numbers."""
        places = {place_of(operand) for operand in operands}
        new = [result for result in results if place_of(result) not in places]
        if not new:
            return
        fact = self.merged(operands)
        if len(operands) == 1 and self.of(operands[0]).leaf:
            fact = replace(fact, leaf=True)
        numbers = [operand for operand in operands if not is_whole(operand)] or operands
        largest = max(numbers, key=Tensor.numel, default=None)
        for result in new:
            self.set(result, fact if largest is None else _carried(fact, largest, result))

    def use(self, operands: Iterable[Tensor]) -> None:
        """Know that weights come together with other computed numbers, which are no mask."""
        numbers = [self.of(operand) for operand in operands if operand.is_floating_point()]
        known = [
            fact.origins | fact.told for fact in numbers if fact.level == READ and not fact.counts
        ]
        for origins in known:
            if any(origins.isdisjoint(others) for others in known):
                for origin in origins:
                    origin.used = True

    def meet(
        self,
        where: str,
        result: Tensor,
        operands: Sequence[Tensor],
        *,
        pools: bool = False,
        paired: bool = False,
    ) -> None:
        """Know what came out where weights met values, in the module `where`.

        Parameters
        ----------
        operands : sequence of Tensor
            First the weights, or the queries that they follow from.
        pools : bool
            Whether there is no query.
        paired : bool
            Whether the weights are pairs of numbers that were not added up.
        """
        meeting = Meeting(where, fingerprint(result), pools, paired)
        self.meetings.append(meeting)
        level = max(self.of(operand).level for operand in operands)
        sequence = self.of(operands[0]).sequence
        self.mark_read(operands)
        self.set(result, Fact(level, sequence, meetings=frozenset([meeting])))

    def mark_read(self, operands: Iterable[Tensor]) -> None:
        """Know that a layer, or a product, reads what came out where weights met values."""
        for operand in operands:
            for meeting in self.of(operand).meetings:
                meeting.read = True

    def differ(self, query: Tensor, key: Tensor) -> bool | None:
        """Tell whether keys are those of another sequence than queries; None if not known."""
        of_query, of_key = (sequences(self.of(tensor).sequence) for tensor in (query, key))
        return set(of_query).isdisjoint(of_key) if of_query and of_key else None


def _carried(fact: Fact, operand: Tensor, result: Tensor) -> Fact:
    """Return a fact with features where they lie in the result."""
    if not fact.features or operand.stride() == result.stride():
        return fact
    sizes = zip(operand.shape[::-1], result.shape[::-1], strict=False)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], sizes))
    last = operand.ndim if operand.ndim == result.ndim else alike  # dimensions in common
    common = [k for k in range(-last, 0) if operand.shape[k] > 1]
    dims = [k for k in common if is_feature(operand, k, fact)]
    return replace(fact, features=tuple(bounds for k in dims for bounds in strides(result, k)))


def is_plain(tensor: Tensor) -> bool:
    """Tell whether a tensor is one array: not nested, not sparse, not many as in torch.vmap."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def is_whole(tensor: Tensor) -> bool:
    """Tell whether a tensor holds whole numbers, as an index does."""
    return not (tensor.dtype is torch.bool or tensor.is_floating_point() or tensor.is_complex())
