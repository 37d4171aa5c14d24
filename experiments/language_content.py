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

Writes language_content, one row per network and replacement: loss in nats per word, perplexity, and
what the loss rises by, with a 95 % t interval over windows, corrected for the three replacements.
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


def mean_maps(model: LanguageModel, windows: Tensor) -> dict[str, Maps]:
    """Return the mean maps of all layers over windows ``(n, N)``, as replacements."""
    sums: dict[str, Tensor] = {}

    def add(name: str, maps: Tensor) -> Tensor:
        sums[name] = sums.get(name, torch.zeros(())) + maps.double().mean(dim=0) / len(windows)
        return maps

    with replaced_maps(model, {name: partial(add, name) for name in attention_of(model)}):
        losses(model, windows)
    return {name: lambda maps, own=own: own.to(maps).expand_as(maps) for name, own in sums.items()}


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


def rows_of(name: str, train: Tensor, test: Tensor) -> Iterator[dict[str, Any]]:
    """Yield the rows of a network."""
    model = load_model(RESULTS / name / "model.safetensors").float().eval()
    rng = torch.Generator().manual_seed(SEED)
    names = attention_of(model)
    replacements: dict[str, Mapping[str, Maps]] = {
        "own": {},
        "mean": mean_maps(model, train),
        "dealt": dict.fromkeys(names, partial(dealt_maps, rng=rng)),
        "uniform": dict.fromkeys(names, uniform_maps),
    }
    own = losses(model, test)
    for maps, each in replacements.items():
        with replaced_maps(model, each):
            loss = losses(model, test)
        rise, reach = interval(loss - own, len(REPLACED))
        yield {
            "network": name,
            "maps": maps,
            "windows": len(test),
            "loss": loss.mean(),
            "perplexity": np.exp(loss.mean()),
            "rise": rise,
            "low": rise - reach,
            "high": rise + reach,
            "comparisons": len(REPLACED),
        }


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
    windows = [read_windows(split, *size) for split in ("train", "test")]
    rows = [row for name in NETWORKS for row in rows_of(name, *windows)]
    config = {"networks": NETWORKS, "windows": size, "seed": SEED, "quick": options.quick}
    write_study(
        options.output,
        f"{'quick_' * options.quick}language_content",
        rows,
        config,
        source=Path(__file__),
        packages=("torch", "safetensors"),
    )


if __name__ == "__main__":
    main()
