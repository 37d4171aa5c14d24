"""What is known of what layers put out: linear ones, convolutions, norms, tables, and joins."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor

from fourierkernels.checkpoints.recorders.facts import (
    CONSTANT,
    LEARNT,
    READ,
    Asked,
    Fact,
    Origin,
    Sequences,
    is_feature,
    sequences,
    strides,
)
from fourierkernels.checkpoints.recorders.flow import Flow, tensors_in
from fourierkernels.checkpoints.recorders.operations import Step

# What a layer makes of a query that was joined to places, or added to them.
_AFTER_LAYER = {Asked.JOINED: Asked.ADDED, Asked.ACTIVE: Asked.SCORED}


def layer(flow: Flow, left: Tensor, right: Tensor, result: Tensor, *, by_right: bool) -> None:
    """Know what a layer with weights of its own puts out; mixed heads are still weights."""
    read = left if by_right else right
    over = -1 if by_right or read.ndim == 1 else -2
    mixed = read.shape[over]
    fact, other = flow.of(read), flow.of(right if by_right else left)
    kept = outliving(fact, result, mixed)
    sequence = fact.sequence if fact.level >= other.level else other.sequence
    dim, vector = (-1, right.ndim == 1) if by_right else (-2, result.ndim == 1)
    features = () if vector else strides(result, dim)
    level = max(fact.level, other.level)
    paired = fact.paired and not fact.moved
    inside = fact.inside and is_feature(read, over, fact)
    new = Fact(level, sequence, origins=kept, features=features, paired=paired, inside=inside)
    copied = is_spread(flow, read)
    asked = Asked.COPIED if copied else _AFTER_LAYER.get(fact.asked, Asked.NOT)
    flow.set(result, replace(new, asked=asked))


def convolve(flow: Flow, step: Step) -> None:
    """Know what a convolution or a norm puts out."""
    read, result = step.args[0], step.result
    flow.mark_read((read,))
    flow.follow([read], [result])
    fact = flow.of(result)
    mixed = read.shape[1] if "conv" in step.name else None
    for origin in (fact.origins | fact.told) if mixed else ():
        if not origin.normal and read.ndim > 3 and read.shape[-2:] != origin.shape[-2:]:
            origin.places = False  # an image: a mask, and no scores of queries by keys
    kept = outliving(fact, result, mixed)
    level = max(fact.level, LEARNT) if fact.level else CONSTANT
    features = strides(result, 1) if "conv" in step.name and result.ndim > 2 else fact.features
    asked = _AFTER_LAYER.get(fact.asked, Asked.NOT) if mixed else fact.asked
    flow.set(result, Fact(level, fact.sequence, origins=kept, features=features, asked=asked))


def is_spread(flow: Flow, tensor: Tensor) -> bool:
    """Tell whether a tensor holds copies of a vector."""
    return 0 in tensor.stride() or flow.of(tensor).asked == Asked.COPIED


def asks(flow: Flow, tensor: Tensor) -> bool:
    """Tell whether a tensor may be a query: neither a mask nor a mean or an extreme of places."""
    fact = flow.of(tensor)
    return fact.level == READ and not fact.counts and (not fact.total_of or bool(fact.features))


def is_asked(flow: Flow, parts: list[Tensor], result: Tensor) -> bool:
    """Tell whether one of two computed tensors is added at several places of the other."""
    vector, places = sorted(parts, key=lambda part: (not is_spread(flow, part), part.numel()))
    fact = flow.of(places)
    if not asks(flow, vector) or fact.level != READ or places.shape != result.shape:
        return False
    steps = enumerate(vector.expand(result.shape).stride())
    spread = [k for k, step in steps if not step and result.shape[k] > 1]
    repeated = flow.of(vector).asked == Asked.COPIED != fact.asked
    return repeated or any(not is_feature(places, k, fact) for k in spread)


def repeat(flow: Flow, step: Step) -> None:
    """Know copies of a vector, which may ask for each place."""
    read, result = step.args[0], step.result
    flow.follow([read], [result])
    fact, fewer = flow.of(result), read.numel() < result.numel()
    grown = fewer and (1 in read.shape or read.ndim < result.ndim)
    if fact.asked == Asked.NOT and (grown or is_spread(flow, read)):
        flow.set(result, replace(fact, asked=Asked.COPIED))


def outliving(fact: Fact, result: Tensor, mixed: int | None) -> frozenset[Origin]:
    """Return the origins that go through a layer; the others are used by it."""
    kept = frozenset(origin for origin in fact.origins if origin.outlives(result, mixed))
    for origin in (fact.origins | fact.told) - kept:
        origin.used = True
    return kept


def mark_used(facts: Iterable[Fact]) -> None:
    """Know that what is looked up was chosen by scores."""
    for origin in frozenset[Origin]().union(*(fact.origins for fact in facts)):
        origin.used = True


def embed(flow: Flow, step: Step) -> None:
    """Know what is looked up in a table: of the sequence of its ids, if these were read."""
    table, ids = (flow.of(argument) for argument in step.args[:2])
    mark_used([ids])
    sequence = ids.sequence if ids.level == READ else table.sequence
    features, level = strides(step.result, -1), max(ids.level, LEARNT)
    flow.set(step.result, Fact(level, sequence, features=features, paired=ids.paired))


def join(flow: Flow, step: Step) -> None:
    """Know several tensors in one: of their sequences, if these are several."""
    parts = list(tensors_in(step.args))
    if step.name == "stack":  # so that features lie where they do in the result
        parts = [part.unsqueeze(next(iter(step.args[1:]), 0)) for part in parts]
    flow.follow(parts, [step.result])
    fact, joined = flow.of(step.result), dict[Any, None]()
    for part in parts:
        joined.update(dict.fromkeys(sequences(flow.of(part).sequence)))
    whole = next(iter(joined)) if len(joined) == 1 else Sequences(tuple(joined))
    spread = [part for part in parts if flow.is_computed(part) and 0 in part.stride()]
    paired = fact.paired or len(spread) > 1
    inside = fact.inside and len(spread) < 2
    fact = replace(fact, sequence=whole, paired=paired, inside=inside)
    copies = [is_spread(flow, part) for part in parts if asks(flow, part)]
    asked = len(copies) > 1 and any(copies) and not all(copies) and step.name != "stack"
    flow.set(step.result, replace(fact, asked=Asked.JOINED) if asked else fact)
