"""What the study of robustness measures on one language model, window by window, in arrays."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fourierkernels.diagnostics import (
    Alphabet,
    corrupt,
    head_changes,
    layer_lipschitz,
    network_lipschitz,
    output_changes,
    respond,
    steepest,
)
from fourierkernels.diagnostics.networks.robustness import Response, replaced_output
from fourierkernels.models import LanguageModel

SEED = 2022
Condition = tuple[str, float]  # corruption, rate
CLEAN: Condition = ("none", 0.0)
STEEPEST = "steepest"  # along the gradient of the loss, which no corruption of arrays is
BLANK = 1  # <unk>, the second of every vocabulary
ITERATIONS = 10  # of the power method
Measures = dict[tuple[str, str, float], np.ndarray]  # (measure, corruption, rate) -> one per item


def drawn(kind: str, item: int) -> np.random.Generator:
    """Return the generator of an item: the same for all networks and rates."""
    return np.random.default_rng([SEED, item, zlib.crc32(kind.encode())])


def measures(
    model: LanguageModel,
    windows: Tensor,
    rates: Mapping[str, tuple[float, ...]],
    counts: np.ndarray,
) -> Measures:
    """Return what a language model does with windows ``(w, n)``, of which it reads n - 1 words.

    Targets are always the words that follow in the clean text; those after deleted words, and the
    clean loss beside them, are left out.

    Parameters
    ----------
    rates : mapping
        Of each corruption.
    counts : ndarray of bool, shape (w, n - 1)
        The words whose prediction counts.
    """
    model.eval()
    items = (_Window(model, i, *own) for i, own in enumerate(zip(windows, counts, strict=True)))
    conditions = [(kind, rate) for kind, own in rates.items() for rate in own]
    return gathered([item.measures(conditions) for item in items])


def gathered(items: list[dict[tuple[str, str, float], float]]) -> Measures:
    """Return one array per measure and condition from what was found of each item."""
    return {key: np.array([own[key] for own in items]) for key in items[0]}


class _Window:
    """One window, read by one network."""

    def __init__(self, model: LanguageModel, item: int, window: Tensor, counts: np.ndarray) -> None:
        self.model, self.item, self.counts = model, item, counts
        self.tokens, self.targets = window[:-1], window[1:]
        self.clean = self.respond(self.tokens)
        self.loss = _losses(self.clean.output, self.targets.numpy())

    def respond(self, tokens: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Response:
        """Return the answer to tokens, whose embeddings may be changed."""
        at = {} if change is None else {"at": self.model.embedding, "change": change}
        return respond(self.model, tokens[None], run=self.model.log_probabilities, **at)

    def measures(self, conditions: list[Condition]) -> dict[tuple[str, str, float], float]:
        """Return all measures of all conditions."""
        every = np.arange(len(self.tokens))
        found = self._scores(CLEAN, self.clean.output, every)
        found["cosine", *CLEAN] = mean_cosine(self.model.states(self.tokens[None])[0])
        for kind, rate in conditions:
            after, places = self._corrupted(kind, rate)
            found |= self._scores((kind, rate), after.output, places)
            counted = places[self.counts[places]]
            rise = _losses(after.output, self.targets.numpy()[places]) - self.loss[places]
            maps = head_changes(self.clean.maps, after.maps, places=places)
            moved = output_changes(self.clean.output[counted], _at(after.output, places, counted))
            found["loss rise", kind, rate] = float(rise[self.counts[places]].mean())
            found["maps", kind, rate] = float(maps.mean())
            found["output", kind, rate] = float(moved.mean())
        return found

    def _scores(
        self, condition: Condition, output: np.ndarray, places: np.ndarray
    ) -> dict[tuple[str, str, float], float]:
        targets, counts = self.targets.numpy()[places], self.counts[places]
        hits = output.argmax(axis=-1) == targets
        return {
            ("loss", *condition): float(_losses(output, targets)[counts].mean()),
            ("accuracy", *condition): 100.0 * float(hits[counts].mean()),
        }

    def _corrupted(self, kind: str, rate: float) -> tuple[Response, np.ndarray]:
        """Return the answer to a corrupted window, and the places of the words that are left."""
        every = np.arange(len(self.tokens))
        if kind == STEEPEST:
            embedded = self.model.embedding(self.tokens[None])
            moved = steepest(self._loss_from, embedded, rate).detach()
            return self.respond(self.tokens, lambda _: moved), every
        if kind == "noise":
            return self.respond(self.tokens, lambda x: self._noisy(x, rate)), every
        options: dict[str, Any] = {"alphabet": Alphabet(self.model.config.vocabulary, BLANK)}
        changed = corrupt(
            self.tokens.numpy(), kind=kind, rate=rate, rng=drawn(kind, self.item), **options
        )
        return self.respond(torch.from_numpy(changed.values)), changed.places

    def _loss_from(self, embedded: Tensor) -> Tensor:
        with replaced_output(self.model.embedding, lambda _: embedded):
            losses = self.model(self.tokens[None], self.targets[None])[0]
        return losses[torch.from_numpy(self.counts)].mean()

    def _noisy(self, embedded: Tensor, rate: float) -> Tensor:
        rng = drawn("noise", self.item)
        noisy = corrupt(embedded.numpy(), kind="noise", rate=rate, rng=rng).values
        return torch.from_numpy(noisy).to(embedded.dtype)


def _at(output: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the rows of an output, which has those at `places`, at some of them."""
    rows: np.ndarray = output[np.searchsorted(places, wanted)]
    return rows


def _losses(log_p: np.ndarray, targets: np.ndarray) -> np.ndarray:
    found: np.ndarray = -np.take_along_axis(log_p, targets[:, None], axis=-1)[:, 0]
    return found


def mean_cosine(states: Tensor) -> float:
    """Return the mean cosine of different rows ``(n, E)``; 0 of directions drawn evenly.

    >>> round(mean_cosine(torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])), 3)
    0.471
    """
    rows = torch.nn.functional.normalize(states.detach().double(), dim=-1)
    n = len(rows)
    return float((rows.sum(dim=0).square().sum() - n) / (n * (n - 1)))


def lipschitz(model: LanguageModel, windows: Tensor) -> Measures:
    """Return local Lipschitz estimates, embeddings to log-probabilities, and of each layer.

    The first is multiplied by the norm of the embeddings: it is per relative change of these, since
    networks choose the size of their embeddings themselves.
    """
    model.eval()
    items = []
    for window in windows:
        options: dict[str, Any] = {"at": model.embedding, "iterations": ITERATIONS}
        found = network_lipschitz(model.log_probabilities, window[None], **options)
        with torch.no_grad():
            size = float(model.embedding(window[None]).norm())
        layers = layer_lipschitz(model, window[None], window[None], iterations=ITERATIONS)
        items.append(
            {("Lipschitz, network", *CLEAN): size * found}
            | {(f"Lipschitz, layer {i}", *CLEAN): own.value for i, own in enumerate(layers, 1)}
        )
    return gathered(items)
