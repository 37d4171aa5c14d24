"""Roles of the heads of a network: of its texts, and of random tokens that come twice.

In a text few tokens occur twice, and those that do are not drawn at random. So heads that look for
another place of a token, or for what followed it there, are measured on sequences of random tokens,
each of which is repeated whole [olsson2022induction]_.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.passes import SlabMeasure, pass_over
from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples
from fourierkernels.diagnostics.role_summary import RoleAccumulator, RoleSummary
from fourierkernels.diagnostics.roles import (
    ROLES,
    RoleTokens,
    RoleWeights,
    check_roles,
    punctuation,
    role_weights,
)
from fourierkernels.diagnostics.slabs import MapSlab, padded
from fourierkernels.foundation.arrays import BoolArray, FloatArray

SEQUENCES = 16  # of random tokens
_TOKENS = 32  # random tokens at most, each of which comes twice
_LEAST = 4


class Roles(SlabMeasure):
    """How much weight heads give to the keys of each role, beside chance.

    Parameters
    ----------
    names : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.roles.ROLES`.
    repeated : bool
        Whether the samples are of random tokens that come twice: roles of the other kind are not
        measured on them.
    """

    def __init__(self, names: Sequence[str] | str = "all", *, repeated: bool = False) -> None:
        self.asked = [name for name in check_roles(names) if ROLES[name].repeated == repeated]
        self._by_name = "all" not in (names, *names)
        self._repeated = repeated
        self._taken = {name: RoleAccumulator(name) for name in self.asked}
        self._names: list[str] = []  # of those that have a meaning for the sample
        self._tokens = RoleTokens(0)
        self._sums: list[FloatArray] = []  # (2, R, H) of each layer
        self._rows: list[FloatArray] = []  # (R,)
        self._kept: dict[tuple[int, int], tuple[BoolArray, RoleWeights]] = {}

    def reads_maps(self) -> bool:
        """Return whether any role is measured."""
        return bool(self.asked)

    def start(self, sample: HeadSample) -> None:
        """Begin a text."""
        layers = sample.by_layer
        self_attention = not sample.cross and all(layer.queries == layer.keys for layer in layers)
        self._names = [name for name in self.asked if self_attention or not ROLES[name].own]
        if self._names and {(layer.windows, layer.keys) for layer in layers} != {
            (1, sample.span[1])
        }:
            raise InapplicableError(
                "roles need attention from all tokens to all tokens in every layer, got windows "
                "or layers with other keys"
            )
        self._tokens = _tokens(sample, repeated=self._repeated)
        self._sums, self._rows, self._kept = [], [], {}

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in the next slab of maps."""
        if not self._names:
            return
        slab.check("roles")
        weights = self._weights(slab)
        sums = weights.sums(slab.maps)
        if slab.layer == len(self._sums):
            self._sums.append(np.zeros_like(sums))
            self._rows.append(np.zeros_like(weights.rows))
        self._sums[slab.layer] += sums
        self._rows[slab.layer] += weights.rows

    def _weights(self, slab: MapSlab) -> RoleWeights:
        """Return what the slab is multiplied with: that of the layer before, as a rule."""
        place, visible = (slab.first, slab.stop), slab.visible
        kept = self._kept.get(place)
        if kept is not None and np.array_equal(kept[0], visible):
            return kept[1]
        weights = role_weights(self._names, np.arange(slab.first, slab.stop), self._tokens, visible)
        if slab.first == 0:  # of long inputs, the first slab alone: each is as large as the map
            self._kept[place] = visible, weights
        return weights

    def end(self, sample: HeadSample) -> None:
        """Take in the scores of all layers, of each role that has rows with a choice in them."""
        self._kept = {}
        for k, name in enumerate(self._names):
            rows = [rows_of_layer[k] for rows_of_layer in self._rows]
            if rows and min(rows) > 0:
                means = [sums[:, k] / n for sums, n in zip(self._sums, rows, strict=True)]
                both = np.stack(padded(means), axis=1)  # (2, L, H)
                self._taken[name].add(*both)

    def summaries(self, together: int) -> dict[str, RoleSummary]:
        """Return what was measured, by role.

        Parameters
        ----------
        together : int
            Roles that are measured together.
        """
        if self.left_out:
            return {}
        summaries = {
            name: measure.summary(together=together) for name, measure in self._taken.items()
        }
        return {name: summary for name, summary in summaries.items() if summary is not None}

    @property
    def unseen(self) -> list[str]:
        """Roles asked for by name of which no input had keys."""
        if not self._by_name or self.left_out:
            return []
        measured = self.summaries(1)
        return [name for name in self.asked if name not in measured]

    def state(self) -> State:
        """Return what has been taken in."""
        taken = {name: measure.state() for name, measure in self._taken.items()}
        return {"left_out": self.left_out, "taken": taken}

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other inputs."""
        self.left_out = self.left_out or state["left_out"]
        for name, measure in self._taken.items():
            measure.merge(state["taken"][name])


def _tokens(sample: HeadSample, *, repeated: bool) -> RoleTokens:
    m, special = sample.span[1], sample.special
    special = special if special is not None and len(special) == m else None
    if repeated:
        return RoleTokens(m, ids=np.asarray(sample.item, dtype=np.int64), special=special)
    image = sample.checkpoint.image_tokens(sample.item)
    image = image if image is not None and len(image) == m else None
    names = sample.checkpoint.labels(sample.item)[1]
    marks = punctuation(names) if len(names) == m else np.zeros(m, dtype=bool)
    marks = marks if special is None else marks | special
    return RoleTokens(m, special=special, delimiters=marks, image=image)


def measure_repeated(
    checkpoint: Checkpoint,
    measure: Roles,
    *,
    tokenizer: Tokenizer | None,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
) -> None:
    """Run a checkpoint on random tokens that come twice; a network that takes none is left out.

    Parameters
    ----------
    measure : Roles
        Of repeated tokens. Why it does not apply is kept in its `left_out`.
    tokenizer : Tokenizer or None
        Its special tokens stand around each sequence, and are not drawn.
    share : (int, int)
        See :func:`~fourierkernels.diagnostics.networks.samples.head_samples`.
    """
    if not measure.asked or measure.left_out:
        return
    try:
        items = list(repeated_tokens(checkpoint, tokenizer, seed=seed))
        for sample in head_samples(checkpoint, items, share=share):
            pass_over(sample, [measure])
    except ValueError as error:  # it may take words of its own alone
        measure.left_out = str(error)


def repeated_tokens(
    checkpoint: Checkpoint, tokenizer: Tokenizer | None, *, seed: int = 0
) -> Iterator[list[int]]:
    """Yield sequences of distinct random token ids, each sequence repeated once.

    They differ in length, so that a head that keeps to one offset is for none of the ids.

    Raises
    ------
    InapplicableError
        If the network reads no token ids, or too few.
    """
    if checkpoint.reads != "tokens" or checkpoint.vocabulary is None or tokenizer is None:
        raise InapplicableError(
            f"random tokens need a network that reads token ids, got one of {checkpoint.reads}"
        )
    around = [*tokenizer.prefix], [*tokenizer.suffix]
    taken = {*tokenizer.special, *around[0], *around[1], *_named_ids(checkpoint.model)}
    ids = np.array([id for id in range(checkpoint.vocabulary) if id not in taken])
    limits = [limit for limit in (checkpoint.limit, tokenizer.limit) if limit is not None]
    room = (min(limits) - len(around[0]) - len(around[1])) // 2 if limits else _TOKENS
    count = min(_TOKENS, room, len(ids))
    if count < _LEAST:
        raise InapplicableError(
            f"random tokens that come twice must be {_LEAST} at least, got room for {count}"
        )
    for number in range(SEQUENCES):
        rng = np.random.default_rng([seed, number])
        length = rng.integers(max(_LEAST, count // 2), count, endpoint=True)
        drawn = rng.choice(ids, size=length, replace=False)
        yield [*around[0], *drawn.tolist(), *drawn.tolist(), *around[1]]


def _named_ids(model: object) -> set[int]:
    """Return the ids that a configuration names, of padding and of ends, which may be several."""
    named = vars(getattr(model, "config", None) or object).items()
    given = [value for name, value in named if name.endswith("_token_id")]
    each = [id for one in given for id in (one if isinstance(one, list | tuple) else [one])]
    return {id for id in each if isinstance(id, int)}
