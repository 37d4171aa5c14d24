"""What is known of a tensor: of which sequence it is, and of which products and weights."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from torch import Tensor

from fourierkernels.checkpoints.recorders.meetings import Meeting

CONSTANT, LEARNT, READ = range(3)  # what numbers follow from; the input comes before parameters


class Asked(IntEnum):
    """How far numbers have come on the way to scores of places, by a query that these share."""

    COPIED = -1  # copies of a vector
    NOT = 0
    JOINED = 1  # a computed vector was joined to several places,
    ADDED = 2  # or was added to them, or a layer has read the former;
    ACTIVE = 3  # an activation followed,
    SCORED = 4  # and a layer or a sum over features


@dataclass(eq=False)
class Origin:
    """A product of two computed tensors, or weights over positions.

    Attributes
    ----------
    where : str
        Name of the module.
    shape : tuple of int
        Its own: what mixes the last two dimensions, of positions or features, ends it.
    scores : bool
        Whether it is, or follows from, a product of two computed tensors.
    normal : bool
        Whether it was normalised: a softmax.
    pools : bool
        Whether there is one row of weights for a text and a head: no query.
    places : bool
        Whether its columns are no features, as far as these are known: scores or weights.
    state : bool
        Whether what it is multiplied with are weights of it: a sum, up to each place, of products
        of features, as linear attention's, or values that were read at computed places.
    differs : bool
        Whether such values were taken from those at other places: what such a difference is
        multiplied with weighs both, once either of them is added.
    used : bool
        Whether other computed numbers or a layer came to it, or to what was added up of it: not if
        it is what the model puts out, or what tokens are chosen by.
    met : bool
        Whether it has met values.
    """

    where: str
    shape: tuple[int, ...]
    scores: bool = False
    normal: bool = False
    pools: bool = False
    places: bool = True
    state: bool = False
    differs: bool = False
    used: bool = False
    met: bool = False

    @property
    def sampled(self) -> bool:
        """Whether it is values that were read at computed places, and no scores."""
        return self.state and not self.scores

    def outlives(self, result: Tensor, mixed: int | None) -> bool:
        """Tell whether it goes through a layer: scores or weights whose heads are mixed or scaled.

        Parameters
        ----------
        result : Tensor
            What the layer puts out.
        mixed : int or None
            How many numbers the layer adds up; None for a norm.
        """
        if not self.places or math.prod(self.shape) != result.numel():
            return False
        heads = math.prod(self.shape[:-2])
        return mixed is None or (mixed not in self.shape[-2:] and heads % mixed == 0)


@dataclass(frozen=True, eq=False)
class Fact:
    """What is known of a tensor.

    Attributes
    ----------
    level : int
        CONSTANT, LEARNT or READ.
    sequence : hashable
        Which tensor its rows are those of.
    leaf : bool
        Whether it is a parameter itself.
    origins : frozenset of Origin
        The products and weights that it consists of, before they meet values.
    features : tuple of (int, int)
        Strides from one and below another belong to what a layer puts out, and not to positions.
    weighs : bool
        Whether weights and values were multiplied in it number by number.
    paired : bool
        Whether each number of one computed tensor came together with several of another, or with
        one that was moved.
    inside : bool
        Whether all such pairs are of features of one place, as an outer product of two is.
    moved : hashable
        What has moved or chosen places, so that a place meets others; None if nothing has, and a
        new object, which equals no other, where no mark is known that others may share.
    told : frozenset of Origin
        The products and weights that these numbers are sums, means or extremes of.
    total_of : hashable
        The tensor whose numbers were added up in it, and along which dimensions.
    meetings : frozenset of Meeting
        What came out where weights met values, before a layer reads it.
    rounded : bool
        Whether they are whole numbers that were made of others: places between places.
    counts : bool
        Whether they follow from whole numbers of the input alone, as sizes and places do, and from
        no table. Pairs of these that scale other numbers one by one are no scores.
    given : bool
        Whether they follow from the input alone, and from nothing that the network has learnt.
    chosen : bool
        Whether they are places that scores of queries by keys have ranked, or values of there.
    share : bool
        Whether it is what is left of places when they are rounded: neighbours that it weighs are
        interpolated.
    asked : Asked
        Whether it is scores of places, by a query that they share, or on the way there.
    """

    level: int = CONSTANT
    sequence: Hashable = None
    leaf: bool = False
    origins: frozenset[Origin] = frozenset()
    features: tuple[tuple[int, int], ...] = ()
    weighs: bool = False
    paired: bool = False
    inside: bool = False
    moved: Hashable = None
    told: frozenset[Origin] = frozenset()
    total_of: tuple[int, Any] | None = None
    meetings: frozenset[Meeting] = frozenset()
    rounded: bool = False
    counts: bool = False
    given: bool = False
    chosen: bool = False
    share: bool = False
    asked: Asked = Asked.NOT

    @property
    def multiplied(self) -> bool:
        """Whether it comes out of a product of computed tensors."""
        return bool(self.origins or self.meetings)


class Sequences(tuple[Hashable, ...]):
    """Several sequences joined in one."""


def sequences(sequence: Hashable) -> tuple[Hashable, ...]:
    """Return the sequences that one consists of; none of a constant."""
    if isinstance(sequence, Sequences):
        return tuple(sequence)
    return () if sequence is None else (sequence,)


def places_in(tensor: Tensor, fact: Fact) -> int:
    """Return how many places a tensor has numbers of: positions, texts, all that is no feature."""
    dims = [k for k, size in enumerate(tensor.shape) if size > 1]
    return math.prod(tensor.shape[k] for k in dims if not is_feature(tensor, k, fact))


def is_layer(left_fact: Fact, right_fact: Fact, right: Tensor) -> bool:
    """Tell whether a product is that of a layer with weights of its own, one matrix for all."""
    if left_fact.leaf or right_fact.leaf or CONSTANT in (left_fact.level, right_fact.level):
        return True
    alike = right.ndim < 3 or right.stride(0) == 0
    return alike and (left_fact.level, right_fact.level) == (READ, LEARNT)


def strides(tensor: Tensor, dim: int) -> tuple[tuple[int, int], ...]:
    """Return the strides of what lies within one dimension: from one and below another."""
    step = tensor.stride(dim)
    return ((step, step * tensor.shape[dim]),)


def is_feature(tensor: Tensor, dim: int, fact: Fact) -> bool:
    """Tell whether a dimension is one of features, which a layer has made."""
    return any(low <= tensor.stride(dim) < high for low, high in fact.features)
