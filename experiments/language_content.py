"""What content pays in the two trained twins: their maps replaced by maps that know no words.

    python experiments/language_content.py [--output FOLDER] [--quick]

Two language models that differ in their kernel read the same 16 windows of 256 words of the test
text, with all their maps replaced by

own      themselves: the network as it is, to which others are compared;
mean     the mean map of each head over 16 windows of the training text: what it does at each place,
         whatever the words are;
dealt    its own rows, the weights of each dealt out at random to the words that the row may see;
uniform  equal weights of these words.

A network that cannot do better than with its mean maps has attention for nothing that a trained
matrix would not do. It was not trained with these maps: one that was could have less loss, so what
is lost is the most that content is worth in this network, not what training without it would cost.

Writes, each with its provenance as JSON:
language_content         one row per network and replacement: loss in nats per word, perplexity, and
                         what the loss rises by, with a 95 % t interval over windows, corrected for
                         the three replacements;
language_content_layers  the same for mean maps in one layer alone, and in all layers up to one,
                         corrected for the layers; "share" is how much of that layer's maps two
                         texts have in common (1: they do not depend on the words).
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.workers import one_thread
from fourierkernels.mixing.attention import AttentionMixer
from fourierkernels.models import LanguageModel, load_model
from fourierkernels.studies.engine.comparison_table import interval

RESULTS = Path(__file__).parent / "results"
NETWORKS = ("language_softmax", "language_fourier")
REPLACED = ("mean", "dealt", "uniform")
SEED = 2022
Maps = Callable[[Tensor], Tensor]  # from a layer's maps (B, H, N, N) to others


@contextmanager
def replaced_maps(model: nn.Module, maps: Mapping[str, Maps]) -> Iterator[None]:
    """Mix with other maps in the layers of attention that are named.

    Parameters
    ----------
    maps : mapping of str to callable
        From the name of a module to what makes its maps, ``(B, H, N, N)``, of its own.
    """

    def mix(replace: Maps, layer: AttentionMixer, given: tuple[Tensor, ...], _: Tensor) -> Tensor:
        (tokens,) = given
        return layer.combine(replace(layer.mixing_matrix(tokens)) @ layer.values(tokens))

    layers = dict(model.named_modules())
    hooks = [layers[n].register_forward_hook(partial(mix, each)) for n, each in maps.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def mean_maps(model: LanguageModel, windows: Tensor) -> dict[str, Tensor]:
    """Return the mean map of each head of all layers over windows ``(n, N)``, in double."""
    sums: dict[str, Tensor] = {}

    def add(name: str, maps: Tensor) -> Tensor:
        sums[name] = sums.get(name, torch.zeros(())) + maps.double().mean(dim=0) / len(windows)
        return maps

    with replaced_maps(model, {name: partial(add, name) for name in attention_of(model)}):
        losses(model, windows)
    return sums


def same_maps(maps: Tensor, own: Tensor) -> Tensor:
    """Return the same maps ``(H, N, N)`` for each window."""
    return own.to(maps).expand_as(maps)


def attention_of(model: nn.Module) -> list[str]:
    """Return the names of the layers of attention."""
    return [name for name, part in model.named_modules() if isinstance(part, AttentionMixer)]


def dealt_maps(maps: Tensor, rng: torch.Generator) -> Tensor:
    """Return maps whose rows have their weights on other words that they may see, at random."""
    size = maps.shape[-1]
    unseen = torch.ones(size, size, dtype=torch.bool).triu(1)
    order = torch.rand(maps.shape, generator=rng).masked_fill(unseen, 2.0).argsort(dim=-1)
    return maps.gather(-1, order)  # unseen words come last, where they are


def uniform_maps(maps: Tensor) -> Tensor:
    """Return equal weights of all words that a row may see."""
    seen = torch.ones_like(maps).tril()
    return seen / seen.sum(dim=-1, keepdim=True)


@torch.no_grad()
def losses(model: LanguageModel, windows: Tensor) -> np.ndarray:
    """Return the loss of each window ``(n, N)`` in nats per word, its first word left out."""
    found = [model(ids[None, :-1], ids[None, 1:]).double().mean() for ids in windows]
    return torch.stack(found).numpy()


def rows_of(
    model: LanguageModel, means: Mapping[str, Tensor], test: Tensor
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a network with these mean maps."""
    rng = torch.Generator().manual_seed(SEED)
    names = attention_of(model)
    replacements: dict[str, Mapping[str, Maps]] = {
        "own": {},
        "mean": as_replacements(means),
        "dealt": dict.fromkeys(names, partial(dealt_maps, rng=rng)),
        "uniform": dict.fromkeys(names, uniform_maps),
    }
    own = losses(model, test)
    for maps, each in replacements.items():
        yield {"maps": maps, **rise(model, each, test, own, len(REPLACED))}


def layer_rows(
    model: LanguageModel, means: Mapping[str, Tensor], test: Tensor
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the layers of a network with these mean maps."""
    own, shares, names = losses(model, test), shares_of(model, test), list(means)
    for place, name in enumerate(names):
        for which, replaced in (("alone", [name]), ("and below", names[: place + 1])):
            maps = as_replacements({each: means[each] for each in replaced})
            found = rise(model, maps, test, own, len(names))
            yield {"layer": place + 1, "replaced": which, "share": shares[name], **found}


def as_replacements(means: Mapping[str, Tensor]) -> dict[str, Maps]:
    """Return what mixes with the same maps whatever the words are."""
    return {name: partial(same_maps, own=own) for name, own in means.items()}


def shares_of(model: LanguageModel, windows: Tensor) -> dict[str, float]:
    """Return how much of each layer's maps all windows have in common.

    The mean product of the deviations from equal weights of two windows, over heads and rows, by
    the mean square of one: 1 of maps that are always the same, 0 of independent ones.
    """
    sums: dict[str, Tensor] = {}
    squares: dict[str, float] = {}

    def measure(name: str, maps: Tensor) -> Tensor:
        own = (maps - uniform_maps(maps)).double()
        sums[name] = sums.get(name, torch.zeros(())) + own.sum(dim=0)
        squares[name] = squares.get(name, 0.0) + float(own.square().sum())
        return maps

    with replaced_maps(model, {name: partial(measure, name) for name in attention_of(model)}):
        losses(model, windows)
    return {
        name: (float(whole.square().sum()) / squares[name] - 1) / (len(windows) - 1)
        for name, whole in sums.items()
    }


def rise(
    model: LanguageModel,
    maps: Mapping[str, Maps],
    windows: Tensor,
    own: np.ndarray,
    comparisons: int,
) -> dict[str, Any]:
    """Return the loss with other maps, and by how much it is above the network's own."""
    with replaced_maps(model, maps):
        loss = losses(model, windows)
    middle, reach = interval(loss - own, comparisons)
    return {
        "windows": len(windows),
        "loss": loss.mean(),
        "perplexity": np.exp(loss.mean()),
        "rise": middle,
        "low": middle - reach,
        "high": middle + reach,
        "comparisons": comparisons,
    }


def twin(name: str) -> LanguageModel:
    """Return a committed network."""
    model = load_model(RESULTS / name / "model.safetensors")
    assert isinstance(model, LanguageModel)
    return model.float().eval()


def read_windows(split: str, count: int, length: int) -> Tensor:
    """Return the first words of the first windows of a split."""
    lines = (RESULTS / f"language_heads_{split}.txt").read_text(encoding="utf-8").splitlines()
    return torch.tensor([[int(word) for word in line.split()[:length]] for line in lines[:count]])


@one_thread()
def main() -> None:
    """Measure both networks and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="two windows of 16 words")
    options = parser.parse_args()
    size = (2, 16) if options.quick else (16, 256)
    train, test = (read_windows(split, *size) for split in ("train", "test"))
    config = {"networks": NETWORKS, "windows": size, "seed": SEED, "quick": options.quick}
    tables: dict[str, list[dict[str, Any]]] = {}
    for name in NETWORKS:
        model = twin(name)
        means = mean_maps(model, train)
        for table, rows in (("language_content", rows_of), ("language_content_layers", layer_rows)):
            own = tables.setdefault(table, [])
            own += ({"network": name, **row} for row in rows(model, means, test))
    for table, found in tables.items():
        write_study(
            options.output,
            f"{'quick_' * options.quick}{table}",
            found,
            config,
            source=Path(__file__),
            packages=("torch", "safetensors"),
        )


if __name__ == "__main__":
    main()
