"""Attention that reads token ids or computed places: recorded or named, and what is neither."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.recording import recording

B, N, H, D, E, WORDS = 3, 6, 4, 4, 16, 50
TEXTS = torch.arange(B)[:, None]


class Middle(nn.Module):
    """What a kind of mixing uses, and the mixing added to the tokens."""

    def __init__(self, mix: "Mix") -> None:
        super().__init__()
        self.mix, self.both, self.out = mix, nn.Linear(E, 2 * E), nn.Linear(E, E)
        self.q, self.k, self.v = (nn.Linear(E, E) for _ in range(3))
        self.table = nn.Parameter(torch.randn(WORDS, E))
        self.register_buffer("fixed", torch.randn(WORDS, E))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        return x + self.out(self.mix(self, x, ids))


Mix = Callable[[Middle, Tensor, Tensor], Tensor]


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (one.unflatten(-1, (H, D)).transpose(1, 2) for one in (q, k, v))
    return ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Network(nn.Module):
    """Softmax attention, a mixing, and softmax attention."""

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, E)
        own: Mix = lambda m, x, ids: attend(m.q(x), m.k(x), m.v(x))  # noqa: E731
        self.first, self.middle, self.last = Middle(own), Middle(mix), Middle(own)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for part in (self.first, self.middle, self.last):
            x = part(x, ids)
        return x


def recorded(mix: Mix) -> RecordedCalls:
    torch.manual_seed(0)
    model = Network(mix).eval().requires_grad_(False)
    with torch.inference_mode(), recording(model) as calls:
        model(torch.randint(1, WORDS, (B, N)))
    return calls


def gaps(x: Tensor) -> Tensor:
    return x[:, :, None] - x[:, None]


def waves(ids: Tensor) -> Tensor:
    return (ids.float()[..., None] * torch.linspace(0.1, 1, E)).sin()


def best(m: Middle, x: Tensor) -> Tensor:
    return (m.q(x) @ m.k(x).mT).argmax(-1)


def between(values: Tensor, places: Tensor) -> Tensor:
    """Return values (B, N, E) read between tokens, at places (B, M) from 0 to N - 1."""
    grid = torch.stack([torch.zeros_like(places), places / (N - 1) * 2 - 1], dim=-1)
    read = functional.grid_sample(values.mT[..., None], grid[:, :, None], align_corners=True)
    return read[..., 0].mT


def points(m: Middle, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return three places and three weights of each token."""
    return m.k(x)[..., :3].sigmoid() * (N - 1), m.q(x)[..., :3].softmax(-1)


def one_by_one(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    values, (at, weights) = m.v(x), points(m, x)
    total = torch.zeros_like(values)
    for k in range(3):
        total = total + weights[..., k, None] * between(values, at[..., k])
    return total


def added_in_place(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    values, (at, weights) = m.v(x), points(m, x)
    total = torch.zeros_like(values)
    for k in range(3):
        total += weights[..., k, None] * values[TEXTS, at[..., k].round().long()]
    return total


def in_buckets(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    at = torch.bucketize(m.k(x)[..., :3].sigmoid(), torch.linspace(0, 1, N - 1))
    return (points(m, x)[1][..., None] * m.v(x)[TEXTS[..., None], at]).sum(2)


def in_bags(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    at, weights = points(m, x)
    at = at.round().long() + N * TEXTS[..., None]
    values = m.v(x).flatten(0, 1)
    bags = functional.embedding_bag(
        at.flatten(0, 1), values, mode="sum", per_sample_weights=weights.flatten(0, 1)
    )
    return bags.unflatten(0, (B, N))


def read_at(m: Middle, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return values at three points (B, N, 3, E), and weights (B, N, 3, 1)."""
    at, weights = points(m, x)
    return m.v(x)[TEXTS[..., None], at.round().long()], weights[..., None]


def blended(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    values, weights = read_at(m, x)
    return torch.lerp(values[:, :, 0], values[:, :, 1], weights[:, :, 0])


def differing(m: Middle, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return values of tokens at two rounded places, and a weight of the second."""
    at = ((N - 1) * m.q(x)[..., :2].sigmoid()).round().long()
    one, other = m.v(x)[TEXTS[..., None], at].unbind(2)
    return one, other, m.k(x)[..., :1].sigmoid()


def by_difference(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    one, other, share = differing(m, x)
    return one + share * (other - one)


def from_the_other(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    one, other, share = differing(m, x)
    return other - (1 - share) * (other - one)


def added_in_turn(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    values, weights = read_at(m, x)
    total = (values * weights).cumsum(2)
    return total[:, :, 2] - total[:, :, 0]


def weighed_in_place(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    values, weights = read_at(m, x)
    return values.mul_(weights).sum(2)


def by_hash(m: Middle, x: Tensor) -> Tensor:
    hashes = m.k(x)[..., :4].argmax(-1)
    return (hashes[:, :, None] == hashes[:, None]).float() @ m.v(x)


def pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
    return ids[:, :, None], ids[:, None]


def told_by_two(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    one, other = pairs(ids)
    return ((one <= other).float() * (one >= other).float()) @ m.v(x)


def written(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    found = torch.empty(B, N, N, dtype=torch.bool)
    torch.eq(*pairs(ids), out=found)
    return found.float() @ m.v(x)


NAMED: dict[str, Mix] = {
    "points added one by one": one_by_one,
    "points added in place": added_in_place,
    "points blended": blended,
    "a difference of points added": by_difference,
    "a difference of points taken": from_the_other,
    "points added in turn": added_in_turn,
    "points weighed in place": weighed_in_place,
    "points in buckets": in_buckets,
    "points in bags": in_bags,
    "scores in bags of a table": lambda m, x, ids: functional.embedding_bag(
        ids[:, None].expand(-1, N, -1).flatten(0, 1),
        m.table,
        mode="sum",
        per_sample_weights=(m.q(x) @ m.k(x).mT).softmax(-1).flatten(0, 1),
    ).unflatten(0, (B, N)),
    "equal hashes": lambda m, x, ids: by_hash(m, x),
    "equal ids": lambda m, x, ids: (ids[:, :, None] == ids[:, None]).float() @ m.v(x),
    "equal ids, by two comparisons": told_by_two,
    "equal ids, written to a tensor": written,
    "equal ids, as numbers that are close": lambda m, x, ids: (
        torch.isclose(*pairs(ids)).float() @ m.v(x)
    ),
    "equal ids, bit by bit": lambda m, x, ids: (
        ((pairs(ids)[0] ^ pairs(ids)[1]) == 0).float() @ m.v(x)
    ),
    "equal ids, by the smaller and the larger": lambda m, x, ids: (
        (torch.minimum(*pairs(ids)) == torch.maximum(*pairs(ids))).float() @ m.v(x)
    ),
    "equal ids, by products": lambda m, x, ids: (
        (pairs(ids)[0] * pairs(ids)[1] == pairs(ids)[0] ** 2).float() @ m.v(x)
    ),
    "equal ids, by what is left of quotients": lambda m, x, ids: (
        ((pairs(ids)[0] % pairs(ids)[1]) + (pairs(ids)[1] % pairs(ids)[0]) == 0).float() @ m.v(x)
    ),
    "ids with a bit in common": lambda m, x, ids: (
        ((pairs(ids)[0] & pairs(ids)[1]) > 0).float() @ m.v(x)
    ),
    "equal ids, by one in a row": lambda m, x, ids: (
        torch.mul(*pairs(functional.one_hot(ids, WORDS))).sum(-1).float() @ m.v(x)
    ),
    "equal ids, by any in a row": lambda m, x, ids: (
        torch.logical_and(*pairs(functional.one_hot(ids, WORDS) > 0)).any(-1).float() @ m.v(x)
    ),
    "equal ids, with a gate": lambda m, x, ids: (
        (torch.eq(*pairs(ids)) * m.q(x)[..., :1].sigmoid()) @ m.v(x)
    ),
    "a table of differences of ids": lambda m, x, ids: m.table[gaps(ids).abs(), 0] @ m.v(x),
    "the same, embedded": lambda m, x, ids: (
        functional.embedding(gaps(ids).abs(), m.table)[..., 0] @ m.v(x)
    ),
    "distances of places": lambda m, x, ids: (
        torch.exp(-gaps((ids != 0).long().cumsum(-1).float()).abs()) @ x
    ),
    "distances of times": lambda m, x, ids: torch.exp(-gaps(ids.float()).abs()) @ m.v(x),
    "products of waves": lambda m, x, ids: (
        (waves(ids)[:, :, None] * waves(ids)[:, None]).sum(-1) @ m.v(x)
    ),
    "rows of a fixed table": lambda m, x, ids: (
        torch.exp(-gaps(m.fixed[ids]).square().sum(-1)) @ m.v(x)
    ),
    "the id of the best key, embedded": lambda m, x, ids: functional.embedding(
        ids.gather(1, best(m, x)), m.table
    ),
    "the id of the best key, in a table": lambda m, x, ids: m.table[ids.gather(1, best(m, x))],
}


@pytest.mark.parametrize("kind", NAMED)
def test_attention_over_ids_is_named(kind: str) -> None:
    calls = recorded(NAMED[kind])
    assert [call.name for call in calls] == ["first", "last"]
    assert [name.split(".")[0] for name in calls.unread] == ["middle"]


def sampled(m: Middle, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values read between tokens, at places that a layer makes."""
    places = m.k(x)[:, :4, :1].tanh()
    grid = torch.stack([torch.zeros_like(places), places], dim=-1)
    read = functional.grid_sample(m.both(x).mT[..., None], grid, align_corners=True)
    k, v = read[..., 0].mT.chunk(2, dim=-1)
    return k, v


def by_sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (one.unflatten(-1, (H, D)) for one in (q, k, v))
    weights = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)


def unpadded(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Tokens are chosen by a mask that was computed as numbers."""
    kept = (ids.float() * 0 + 1).int().flatten().nonzero()[:, 0]
    return attend(*(one(x).flatten(0, 1)[kept].reshape(x.shape) for one in (m.q, m.k, m.v)))


RECORDED: dict[str, Mix] = {
    "keys read between tokens": lambda m, x, ids: attend(m.q(x), *sampled(m, x)),
    "the same by sums": lambda m, x, ids: by_sums(m.q(x), *sampled(m, x)),
    "keys of the tokens at computed places": lambda m, x, ids: attend(
        m.q(x), *m.both(x)[TEXTS, (N * m.k(x)[:, :4, 0].sigmoid() - 0.5).long()].chunk(2, -1)
    ),
    "tokens chosen by a mask of numbers": unpadded,
    "a bias by differences of ids": lambda m, x, ids: (
        (m.q(x) @ m.k(x).mT + m.table[gaps(ids).abs(), 0]).softmax(-1) @ m.v(x)
    ),
    "keys of the same id": lambda m, x, ids: (
        (m.q(x) @ m.k(x).mT).masked_fill(ids[:, :, None] != ids[:, None], -1e9).softmax(-1) @ m.v(x)
    ),
    "the same, added": lambda m, x, ids: (
        (m.q(x) @ m.k(x).mT - 1e9 * (ids[:, :, None] != ids[:, None]).float()).softmax(-1) @ m.v(x)
    ),
}


@pytest.mark.parametrize("kind", RECORDED)
def test_attention_to_what_is_read_at_places_is_recorded(kind: str) -> None:
    calls = recorded(RECORDED[kind])
    assert [call.name for call in calls] == ["first", "middle", "last"]
    assert calls.unread == {}


def interpolated(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table, weighed by what follows from the sizes of a grid."""
    h, w = ids.float() / 60 * 4, ids.float() / 50 * 4
    one, other = h - h.int(), w - w.int()
    pairs = [(1 - one)[:, :, None] * (1 - other)[:, None], one[:, :, None] * other[:, None]]
    corner = h.int()[:, :, None] * 5 + w.int()[:, None]
    at = torch.stack([corner, corner + 6]).flatten(2).long()
    return (functional.embedding(at, m.table) * torch.stack(pairs).flatten(2)[..., None]).sum(0)[
        :, :N
    ]


def resampled(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Tokens at places that follow from a length."""
    places = torch.linspace(0, 1, N) * (ids.float().amax(-1, keepdim=True) * 0 + N - 1)
    low, share = places.long(), places.frac()[..., None]
    ends = torch.stack([low, (low + 1).clamp(max=N - 1)], dim=-1)
    return (x[TEXTS[:, :, None], ends] * torch.stack([1 - share, share], dim=-2)).sum(2)


def masked_mean(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """The mean of what was read between tokens, over those that are no padding."""
    places = torch.arange(N) * m.k(x).mean((1, 2)).sigmoid()[:, None]
    mask = (ids > 3).float()[..., None]
    total = (between(m.v(x), places) * mask).sum(1, keepdim=True)
    return x + m.q(total / mask.sum(1, keepdim=True).clamp(min=1))


def biased(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Positions that a learnt scale moves are read, and a learnt scale is applied."""
    places = torch.arange(N) * m.k(x).mean((1, 2)).sigmoid()[:, None]
    return (between(m.v(x), places) * m.table[0]).mean(1, keepdim=True)


def beside(m: Middle, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two values beside each place, and the share of the second."""
    places = torch.arange(N) * m.k(x).mean((1, 2)).sigmoid()[:, None]
    low, share = places.long(), (places - places.floor())[..., None]
    return m.v(x)[TEXTS, low], m.v(x)[TEXTS, (low + 1).clamp(max=N - 1)], share


def by_neighbours(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    one, other, share = beside(m, x)
    return one * (1 - share) + other * share


def by_difference_of_neighbours(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    one, other, share = beside(m, x)
    return one + share * (other - one)


def by_remainder(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """The share of the second neighbour is what is left of a place beside whole numbers."""
    one, other, _ = beside(m, x)
    places = torch.arange(N) * m.k(x).mean((1, 2)).sigmoid()[:, None]
    return one + (places % 1)[..., None] * (other - one)


def gated_difference(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """What is read at one place is gated, and a layer reads how two places differ."""
    one, other, share = differing(m, x)
    return one + share * one + m.k(share * m.q(other - one))


def pooled_after_shift(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Tokens that a vector of the text shifts are pooled by weights that a layer gives them."""
    shifted = x + m.k(x[:, :1])
    return x + ((m.q(shifted)[..., :1].softmax(1)) * shifted).sum(1, keepdim=True)


def rare(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Tokens are scaled by how often their word occurs."""
    return m.v(x) * m.table[(ids[:, :, None] == ids[:, None]).sum(-1), :1]


def by_count(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """A mean of words, each of which has the same weight however often it occurs."""
    weights = 1 / torch.eq(*pairs(ids)).float().sum(-1)
    return x + (x * weights[..., None]).sum(1, keepdim=True) / weights.sum(1)[:, None, None]


def by_rank(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    return m.v(x) * torch.lt(*pairs(ids)).float().sum(-1).log1p()[..., None]


def labelled(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Losses of texts with one label, by the hardest pairs and by all."""
    found = functional.normalize(m.k(x).mean(1), dim=-1)
    scores, same = found @ found.T, (ids[:, :1] == ids[:, 0]).float()
    hardest = ((1 - scores) * same).amax(1) - (1 - scores + 2 * same).amin(1)
    m.loss = hardest.relu().mean() - (same * scores.log_softmax(-1)).sum() / same.sum()
    return m.v(x)


def in_segments(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Means of the tokens of each kind, of which the mean is pooled."""
    own = functional.one_hot(ids % 3, 3).float()
    return m.q((own / own.sum(1, keepdim=True).clamp(min=1)).mT @ m.v(x)).mean(1, keepdim=True)


def in_order(m: Middle, x: Tensor, ids: Tensor) -> Tensor:
    """Numbers in place of tensors."""
    edges = x[0, 0].sort().values
    at = [torch.bucketize(0.5, edges), torch.searchsorted(edges, 0.5)]
    return m.v(x) * torch.stack(at).sum()


OTHERS: dict[str, Mix] = {
    "neighbours of places": by_neighbours,
    "neighbours of places, blended": lambda m, x, ids: torch.lerp(*beside(m, x)),
    "neighbours of places, by their difference": by_difference_of_neighbours,
    "neighbours of places, by remainders": by_remainder,
    "gates of a place, and a difference": gated_difference,
    "pooling after a shift": pooled_after_shift,
    "counts of equal ids": rare,
    "a mean of words by their count": by_count,
    "the rank of an id": by_rank,
    "losses of labels": labelled,
    "means of segments": in_segments,
    "a number among edges": in_order,
    "positions of a grid": interpolated,
    "another length": resampled,
    "a masked mean": masked_mean,
    "a scaled mean": biased,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_interpolation_and_means_raise_no_alarm(kind: str) -> None:
    calls = recorded(OTHERS[kind])
    assert [call.name for call in calls] == ["first", "last"]
    assert calls.unread == {}
