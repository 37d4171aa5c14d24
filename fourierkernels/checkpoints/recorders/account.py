"""The account of a pass: every product of weights with values must be one of the recorded calls.

Operations are watched at torch's dispatcher, below all functions and modules, where scripted,
vectorised and fused attention meet. Attention is a product of two computed tensors (or weights over
positions) that meets values in another product; its result has to be the outputs of a call. What is
not, is named.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.departures import departure
from fourierkernels.checkpoints.recorders.flow import (
    CONSTANT,
    READ,
    Fact,
    Origin,
    contracts,
    is_feature,
    is_layer,
    place_of,
    tensors_in,
)
from fourierkernels.checkpoints.recorders.layers import convolve, embed, join, layer
from fourierkernels.checkpoints.recorders.operations import (
    ADDED,
    DIFFERENCES,
    DISTANCES,
    DIVIDED,
    GATHERED,
    JOINED,
    LAYERS,
    NORMS,
    ORDERED,
    PARTS,
    PRODUCTS,
    RANKED,
    REDUCED,
    RUNNING,
    SOFTMAX,
    SUMS,
    TIMES,
    VIEWS,
    Step,
    is_fused,
    written,
)
from fourierkernels.checkpoints.recorders.replay import settle


class Account(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the tensors of a pass from products of computed tensors to where they meet values.

    Parameters
    ----------
    recorded : RecordedCalls
        Nothing is followed while its `unseen` lasts: a recorder computes.
    where : callable
        Returns the name of the module that is being run; None outside of the model.
    found : callable
        Is given what the recorders above do not see: the name of an operation, its arguments and
        what came out.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        recorded: RecordedCalls,
        where: Callable[[], str | None],
        found: Callable[[str, Sequence[Any], dict[str, Any], Tensor], None],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorded, self.where, self.found = recorded, where, found
        self.flow = recorded.flow
        self.origins: list[Origin] = []
        self.leading: Sequence[int] = ()  # the first dimensions of the input: texts, tokens
        self.handlers: dict[str, Callable[[Step], None]] = {
            "einsum": self._einsum,
            "embedding": partial(embed, self.flow),
            **dict.fromkeys(PRODUCTS, self._product),
            **dict.fromkeys(SOFTMAX, self._softmax),
            **dict.fromkeys(SUMS | REDUCED, self._sum),
            **dict.fromkeys(RUNNING, self._add_up),
            **dict.fromkeys(LAYERS, self._convolve),
            **dict.fromkeys(JOINED, partial(join, self.flow)),
            **dict.fromkeys(ORDERED, self._order),
            **dict.fromkeys(GATHERED, self._gather),
            **dict.fromkeys(DISTANCES, self._distance),
            **dict.fromkeys(ADDED, self._add),
        }

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), given: Any = None
    ) -> Any:
        given = given or {}
        where = self.where()
        if self.recorded.unseen.depth or where is None:
            return function(*args, **given)
        if isinstance(function, HigherOrderOperator):
            return self._higher(function, args, given, where)
        name = function.overloadpacket.__name__
        if name in VIEWS:
            return function(*args, **given)
        if name in PARTS and (parts := self._in_parts(function, args, given)) is not NotImplemented:
            return parts
        for k in written(function):
            if k < len(args):
                self._save(args[k])
        result = function(*args, **given)
        self._depart(where, function, args, given, result)
        named = zip((one.name for one in function._schema.arguments), args, strict=False)
        self.take(name, args, {**dict(named), **given} if is_fused(name) else given, result, where)
        return result

    def _depart(self, where: str, function: Any, args: Any, given: Any, result: Any) -> None:
        """Name an operation that cannot be followed, unless it is a recorder's."""
        reason = departure(function, args, given, result, self.flow)
        if reason is not None and not self.recorded.suspension.depth:
            self.recorded.unread.setdefault(where, reason)

    def _in_parts(self, function: Any, args: Any, given: Any) -> Any:
        with self:
            return function.decompose(*args, **given)

    def _higher(self, function: Any, args: Any, given: Any, where: str) -> Any:
        result = function(*args, **given)
        if str(function) == "flex_attention":
            self._meet(where, result[0], *args[:3])
        return result

    def _save(self, tensor: Any) -> None:
        """Keep the numbers of recorded tensors whose memory is about to be overwritten."""
        for one in tensors_in([tensor]):
            self.recorded.keep(place_of(one))

    def take(self, name: str, args: Any, given: Any, result: Any, where: str) -> None:
        """Take in an operation by name, with its arguments and what came out."""
        results = [one for one in tensors_in([result]) if not one.is_meta]
        if not results:
            return
        take = self._fused if is_fused(name) else self.handlers.get(name, self._follow)
        take(Step(name, args, given, results, where))

    def _einsum(self, step: Step) -> None:
        operands = step.args[1]
        computed = [one for one in operands if self.flow.is_computed(one)]
        weights = next((one for one in operands if self.flow.of(one).origins), None)
        if contracts(*step.args[:2]):
            self._multiply(step, *operands)
        elif len(operands) > 2 and (len(computed) > 2 or weights is not None):
            self._meet(step.where, step.result, *operands, weights=weights)
        else:
            self._follow(step)
            if len(operands) == 2:
                self._weigh(operands, step.result)

    def _fused(self, step: Step) -> None:
        if "scaled_dot_product" in step.name:  # others have other layouts
            self.found("fused", step.args, step.given, step.result)
        self._meet(step.where, step.result, *step.args[:3])

    def _product(self, step: Step) -> None:
        first = PRODUCTS[step.name]
        self._multiply(step, *step.args[first : first + 2])
        if first:  # with a summand
            fact = self.flow.of(step.result)
            origins = fact.origins | self.flow.of(step.args[0]).origins
            self.flow.set(step.result, replace(fact, origins=origins))

    def _multiply(self, step: Step, left: Tensor, right: Tensor) -> None:
        result, where = step.result, step.where
        self.flow.mark_read((left, right))
        one, other = self.flow.of(left), self.flow.of(right)
        if is_layer(one, other, right):
            if other.leaf and right.ndim == 2:
                weight = right.mT if step.name == "linear" else right
                self.found("layer", (left, weight), {}, result)
            layer(self.flow, left, right, result, by_right=other.leaf or one.level > other.level)
            return
        for meeting in one.meetings | other.meetings:
            meeting.pools = False  # what was pooled meets queries
        self.found("product", (left, right), {}, result)
        if bool(one.origins) != bool(other.origins):
            first = bool(one.origins)
            self._meet(where, result, left, right, weights=left if first else right)
            return
        if one.origins:
            self._meet_either(step, left, right)
            return
        places = not is_feature(right, -1, other)
        self._pair(where, result, left, right, places=places)

    def _pair(self, where: str, result: Tensor, *sides: Tensor, places: bool = True) -> None:
        """Know a product of two computed tensors, which may be scores."""
        one, other = (self.flow.of(side) for side in sides)
        fact = Fact(max(one.level, other.level), one.sequence)
        if result.ndim > 1 and result.shape[-1] > 1:
            origin = Origin(where, tuple(result.shape), sides, places=places)
            fact = replace(fact, origins=frozenset([origin]))
        self.flow.set(result, fact)

    def _meet_either(self, step: Step, left: Tensor, right: Tensor) -> None:
        """Know a product of products: weights of weights, weights and values, or perhaps scores."""
        one, other = self.flow.of(left), self.flow.of(right)
        origins = one.origins | other.origins
        normal = [any(origin.normal for origin in fact.origins) for fact in (one, other)]
        if all(normal):
            level = max(one.level, other.level)
            self.flow.set(step.result, Fact(level, one.sequence, origins=origins))
            return
        for origin in origins:
            origin.met = True
        self._meet(step.where, step.result, left, right, weights=right if normal[1] else left)
        if not any(normal):
            self.flow.set(step.result, replace(self.flow.of(step.result), origins=origins))

    def _distance(self, step: Step) -> None:
        """Know distances of two computed tensors, which may be scores."""
        sides = step.args[:2]
        self._follow(step)
        if all(map(self.flow.is_computed, sides)):
            self._pair(step.where, step.result, *sides)

    def _add(self, step: Step) -> None:
        """Know weights times values that are added up key by key."""
        parts = list(tensors_in(step.args))
        facts = [self.flow.of(one) for one in parts]
        self._follow(step)
        if len(parts) == 3:  # addcmul
            self._weigh(parts[1:], step.result)
            facts = [facts[0], self.flow.of(step.result)]
        weighing = [one.origins for one in facts if one.weighs]
        if len(weighing) == 2 and weighing[0] & weighing[1]:
            weights = next(one for one in parts if self.flow.of(one).origins)
            self._meet(step.where, step.result, *parts, weights=weights)

    def _softmax(self, step: Step) -> None:
        args, result, where = step.args, step.result, step.where
        self.found("softmax", args, {}, result)
        dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
        self.flow.follow([args[0]], [result])
        self._normal(dim, result, where)

    def _normal(self, dim: int, result: Tensor, where: str) -> None:
        """Know weights, unless what they are of is no place: experts, taps, features."""
        fact = self.flow.of(result)
        if result.ndim == 0 or result.shape[dim] < 2 or fact.level == CONSTANT or fact.leaf:
            return
        sides = next((one.sides for one in fact.origins if one.sides), ())
        for meeting in fact.meetings if sides else ():
            meeting.scores = True
        n, m = result.shape[-2:] if result.ndim > 1 else (1, 0)
        square = n == m in self.leading  # places, perhaps, whose weights a layer has made
        if not sides and (fact.origins or is_feature(result, dim, fact)) and not square:
            return
        pools = not sides and self._pools(result, dim, fact)
        origin = Origin(where, tuple(result.shape), sides, normal=True, pools=pools)
        self.origins.append(origin)
        self.flow.set(result, replace(fact, origins=fact.origins | {origin}, total_of=None))

    def _pools(self, tensor: Tensor, dim: int, fact: Fact) -> bool:
        """Tell whether weights have one row for a text and a head."""
        dims = [k for k in range(tensor.ndim) if k != dim % tensor.ndim]
        rows = [tensor.shape[k] for k in dims if not is_feature(tensor, k, fact)]
        return math.prod(rows) <= max(1, *self.leading[:1])

    def _meet(
        self, where: str, result: Tensor, *operands: Tensor, weights: Tensor | None = None
    ) -> None:
        origins = frozenset[Origin]() if weights is None else self.flow.of(weights).origins
        for origin in origins:
            origin.met = True
        pools = bool(origins) and all(one.pools for one in origins)
        others = [one for one in operands if one is not weights]
        first = operands if weights is None else (weights, *others)
        self.flow.meet(where, result, first, pools=pools)

    def _convolve(self, step: Step) -> None:
        """Know a convolution or a norm; the filters may be weights."""
        read, filters = step.args[:2]
        if "conv" in step.name and self.flow.of(filters).origins:
            self.flow.mark_read((read,))
            self._meet(step.where, step.result, read, filters, weights=filters)
        else:
            convolve(self.flow, step)

    def _sum(self, step: Step) -> None:
        name, args, results = step.name, step.args, step.results
        operand = next(tensors_in(args), None)
        if operand is None:
            return
        fact = self.flow.of(operand)
        if name in SUMS and fact.weighs and fact.origins:
            self._meet(step.where, results[0], operand, weights=operand)
            return
        if name in SUMS | NORMS and fact.pairs and not fact.origins:
            self._pair(step.where, results[0], *fact.pairs)
            return
        total = (place_of(operand), args[1]) if name in SUMS and len(args) > 1 else None
        for one in results:
            new = Fact(fact.level, fact.sequence, total_of=total, meetings=fact.meetings)
            self.flow.set(one, new)

    def _add_up(self, step: Step) -> None:
        """Know sums up to each place: of keys times values they are what queries read."""
        self._follow(step)
        fact = self.flow.of(step.result)
        if fact.pairs and not fact.origins:
            origin = Origin(step.where, tuple(step.result.shape), fact.pairs, state=True)
            self.flow.set(step.result, replace(fact, origins=frozenset([origin]), pairs=()))

    def _follow(self, step: Step) -> None:
        name, results = step.name, step.results
        operands = list(tensors_in((*step.args, *step.given.values())))
        if name in RANKED:
            for meeting in self.flow.of(operands[0]).meetings:
                meeting.ranked = True
        dim = self._divided(operands) if name in DIVIDED and len(operands) > 1 else None
        if dim is None:
            self.flow.use(operands)
        if name.endswith("_") and operands:
            self._write(operands)
        self.flow.follow(operands, results)
        if name in TIMES | DIFFERENCES and len(operands) == 2 and results[0].numel() > 1:
            self._weigh(operands, results[0], times=name in TIMES)
        if dim is not None:
            self._normal(dim, results[0], step.where)

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
                self.flow.set(one, replace(self.flow.of(one), origins=frozenset()))

    def _gather(self, step: Step) -> None:
        """Know values that are chosen by the best of scores."""
        values, *places = tensors_in((*step.args, *step.given.values()))
        facts = [(one, self.flow.of(one).origins) for one in places]
        by = next((one for one, origins in facts if any(x.sides for x in origins)), None)
        if by is None or not self.flow.is_computed(values) or self.flow.of(values).origins:
            self._follow(step)
        else:
            self._meet(step.where, step.result, values, by, weights=by)

    def _weigh(self, operands: list[Tensor], result: Tensor, *, times: bool = True) -> None:
        """Know weights times values number by number, before they are added up."""
        facts = [self.flow.of(one) for one in operands]
        broadcast = max(one.numel() for one in operands) < result.numel()
        if broadcast and all(self.flow.is_computed(one) for one in operands):
            self.flow.set(result, replace(self.flow.of(result), pairs=tuple(operands)))
        tainted = [k for k in (0, 1) if facts[k].origins]
        if not times or len(tainted) != 1 or facts[1 - tainted[0]].level == CONSTANT:
            return
        state = any(one.state for one in facts[tainted[0]].origins)
        if state or operands[tainted[0]].numel() < result.numel():
            self.flow.set(result, replace(self.flow.of(result), weighs=True))

    def _write(self, operands: list[Tensor]) -> None:
        """Know what is written to: token ids that are moved are another sequence."""
        fact = self.flow.merged(operands)
        target = operands[0]
        if not target.is_floating_point() and len(operands) > 1 and fact.level == READ:
            fact = replace(fact, sequence=("written", place_of(target)))
        features = self.flow.of(target).features
        self.flow.set(target, replace(fact, features=features))

    def finish(self, *, replayed: bool) -> None:
        """Name what met values and is no recorded call, and weights that met none."""
        settle(self.recorded, self.flow.meetings, self.origins, replayed=replayed)
        self.handlers.clear()  # which refer to this account, and it to the tensors of the pass
