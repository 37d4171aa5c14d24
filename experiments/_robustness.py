"""What the study of robustness measures on one network, item by item, in arrays."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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
from fourierkernels.models import LanguageModel, VisionTransformer

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


def conditions(rates: Mapping[str, tuple[float, ...]]) -> list[Condition]:
    """Return all corruptions at all their rates."""
    return [(kind, rate) for kind, own in rates.items() for rate in own]


def gathered(items: list[dict[tuple[str, str, float], float]]) -> Measures:
    """Return one array per measure and condition from what was found of each item."""
    return {key: np.array([own[key] for own in items]) for key in items[0]}


def vision_measures(
    model: VisionTransformer, images: Tensor, labels: Tensor, rates: Mapping[str, Any]
) -> Measures:
    """Return what an image classifier does with clean and corrupted images ``(n, C, h, w)``."""
    model.eval()
    items = zip(images, labels.tolist(), strict=True)
    return gathered([_image(model, i, x[None], y, rates) for i, (x, y) in enumerate(items)])


def _image(
    model: VisionTransformer, item: int, image: Tensor, label: int, rates: Mapping[str, Any]
) -> dict[tuple[str, str, float], float]:
    target = torch.tensor([label])

    def log_p(x: Tensor) -> Tensor:
        return torch.log_softmax(model(x), dim=-1)

    def loss(x: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(x), target)

    clean = respond(model, image, run=log_p)
    found = _scores(clean.output, label, CLEAN)
    for kind, rate in conditions(rates):
        if kind == STEEPEST:
            moved = steepest(loss, image, rate)
        else:
            noisy = corrupt(image.numpy(), kind=kind, rate=rate, rng=drawn(kind, item)).values
            moved = torch.from_numpy(noisy).to(image.dtype)
        after = respond(model, moved, run=log_p)
        found |= _scores(after.output, label, (kind, rate))
        found["loss rise", kind, rate] = float(clean.output[label] - after.output[label])
        found["maps", kind, rate] = float(head_changes(clean.maps, after.maps).mean())
        found["output", kind, rate] = float(output_changes(clean.output, after.output))
    return found


def _scores(
    log_p: np.ndarray, label: int, condition: Condition
) -> dict[tuple[str, str, float], float]:
    return {
        ("accuracy", *condition): 100.0 * (int(log_p.argmax()) == label),
        ("loss", *condition): -float(log_p[label]),
    }


def language_measures(
    model: LanguageModel, windows: Tensor, rates: Mapping[str, Any], *, words: int
) -> Measures:
    """Return what a language model does with windows ``(w, n)``, of which it reads n - 1 words.

    Targets are always the words that follow in the clean text; those after deleted words, and the
    clean loss beside them, are left out.
    """
    model.eval()
    alphabet = Alphabet(words, BLANK)
    return gathered([_window(model, i, w, rates, alphabet) for i, w in enumerate(windows)])


def _window(
    model: LanguageModel, item: int, window: Tensor, rates: Mapping[str, Any], alphabet: Alphabet
) -> dict[tuple[str, str, float], float]:
    tokens, targets = window[:-1], window[1:].numpy()
    given: dict[str, Any] = {"run": model.log_probabilities}
    clean = respond(model, tokens[None], **given)
    own = _losses(clean.output, targets)
    found = {("loss", *CLEAN): float(own.mean())}
    for kind, rate in conditions(rates):
        places = np.arange(len(tokens))
        if kind == "noise":
            noise = _noise(kind, rate, item)
            after = respond(model, tokens[None], at=model.embedding, change=noise, **given)
        else:
            options: dict[str, Any] = {"kind": kind, "rate": rate, "alphabet": alphabet}
            changed = corrupt(tokens.numpy(), rng=drawn(kind, item), **options)
            places = changed.places
            after = respond(model, torch.from_numpy(changed.values)[None], **given)
        losses = _losses(after.output, targets[places])
        maps = head_changes(clean.maps, after.maps, places=places)
        output = output_changes(clean.output[places], after.output)
        found |= {
            ("loss", kind, rate): float(losses.mean()),
            ("loss rise", kind, rate): float((losses - own[places]).mean()),
            ("maps", kind, rate): float(maps.mean()),
            ("output", kind, rate): float(output.mean()),
        }
    return found


def _noise(kind: str, rate: float, item: int) -> Callable[[Tensor], Tensor]:
    def change(embedded: Tensor) -> Tensor:
        noisy = corrupt(embedded.numpy(), kind=kind, rate=rate, rng=drawn(kind, item)).values
        return torch.from_numpy(noisy).to(embedded.dtype)

    return change


def _losses(log_p: np.ndarray, targets: np.ndarray) -> np.ndarray:
    found: np.ndarray = -np.take_along_axis(log_p, targets[:, None], axis=-1)[:, 0]
    return found


def vision_lipschitz(model: VisionTransformer, images: Tensor) -> Measures:
    """Return local Lipschitz estimates, pixels to logits, and of each layer of attention."""
    model.eval()
    return gathered(
        [
            _lipschitz(model, image[None], network_lipschitz(model, image[None], **_POWER))
            for image in images
        ]
    )


def language_lipschitz(model: LanguageModel, windows: Tensor) -> Measures:
    """Return local Lipschitz estimates, embeddings to log-probabilities, and of each layer.

    The first is multiplied by the norm of the embeddings: it is per relative change of these, since
    networks choose the size of their embeddings themselves.
    """
    model.eval()
    items = []
    for window in windows:
        options: dict[str, Any] = {"at": model.embedding, **_POWER}
        found = network_lipschitz(model.log_probabilities, window[None], **options)
        with torch.no_grad():
            size = float(model.embedding(window[None]).norm())
        items.append(_lipschitz(model, window[None], size * found, window[None]))
    return gathered(items)


_POWER: dict[str, Any] = {"iterations": ITERATIONS}


def _lipschitz(
    model: nn.Module, inputs: Tensor, network: float, *further: Tensor
) -> dict[tuple[str, str, float], float]:
    layers = layer_lipschitz(model, inputs, *further, **_POWER)
    return {("Lipschitz, network", *CLEAN): network} | {
        (f"Lipschitz, layer {i}", *CLEAN): own.value for i, own in enumerate(layers, start=1)
    }
