"""Heads of language models before and after training, beside equally sharp ones untrained."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fourierkernels.checkpoints import attention_calls
from fourierkernels.diagnostics import head_distances, sharpened_maps
from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.models import LanguageModel
from fourierkernels.studies import Setup
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import Network
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.engine.trained import FINISHED, Trained
from fourierkernels.studies.language.comparison import LanguageComparison

WINDOWS = 32  # of the test text, for the maps
STAGES = ("untrained", "sharpened", "trained")


class HeadComparison(LanguageComparison):
    """The comparison of language models, with the heads of its networks measured as well."""

    @property
    def title(self) -> str:
        """What it compares, in a line."""
        return "Kernels, powers, radii and sizes of small language models, and their heads"

    def measured(self, network: Network, result: Trained) -> Row:
        """Return losses and, of kernels without signed weights, which have entropies, the heads.

        Controls have no kernel, and no heads.
        """
        signed = result.run.mixer.options.get("allow_signed", False)
        has_heads = bool(network.contender.kernel) and not signed and result.end == FINISHED
        measure = has_heads and network.part.name == "kernels"
        heads = heads_before_and_after(result) if measure else {}
        return {**super().measured(network, result), **heads}


def heads_before_and_after(result: Trained) -> dict[str, float]:
    """Return mean distances and entropies of each stage; the control is the sharpened network."""
    trained, text = result.model(), read_data(result.run)
    if not isinstance(trained, LanguageModel):
        raise TypeError(f"result must be a language model's, got {type(trained).__name__}")
    windows = even_windows(text.tokens("test"), trained.config.length, WINDOWS)
    measured = measure_stages(untrained_network(result.run, text), trained, windows)
    measured["control"] = measured.pop("sharpened")
    return {
        f"{name} {stage}": float(values.mean())
        for stage in ("untrained", "trained", "control")
        for name, values in measured[stage].items()
    }


def untrained_network(run: Setup, text: Any) -> LanguageModel:
    """Return the network with which the training of a run began."""
    torch.manual_seed(run.recipe.seed)  # as the engine draws the first weights
    network: LanguageModel = run.study.build(run.chosen_preset, text, run.mixer)
    return network


def measure_stages(
    start: LanguageModel, trained: LanguageModel, windows: Tensor
) -> dict[str, dict[str, np.ndarray]]:
    """Return distances ``(windows, L, pairs)`` and entropies ``(windows, L)`` of each stage.

    "sharpened" is the untrained network with each row of each head sharpened, or blunted, to the
    entropy of the trained row.
    """
    found: dict[str, dict[str, list[Any]]] = {s: {"distance": [], "entropy": []} for s in STAGES}
    for window in windows:  # one at a time: at n = 256 the maps of a window are 25 MB
        before, after = (maps_of(model, window[None]) for model in (start, trained))
        sharpened = sharpened_maps(before, row_entropies(after))
        for stage, maps in zip(STAGES, (before, sharpened, after), strict=True):
            found[stage]["distance"].append(pair_distances(maps))
            found[stage]["entropy"].append(row_entropies(maps).mean(axis=(1, 2)))
    return {
        stage: {name: np.array(values) for name, values in own.items()}
        for stage, own in found.items()
    }


def even_windows(tokens: Any, length: int, count: int) -> Tensor:
    """Return windows at even places of a text, ``(count, length)``."""
    starts = np.linspace(0, len(tokens) - length, count).astype(int)
    return torch.tensor(np.stack([tokens[start : start + length] for start in starts])).long()


@torch.inference_mode()
def maps_of(model: LanguageModel, window: Tensor) -> np.ndarray:
    """Return the maps of a window ``(1, n)``, ``(L, H, n, n)``, in double precision."""
    model.eval()
    calls = attention_calls(model, window, window)
    n = window.shape[1]
    return torch.stack([call.part("maps", 0, n, n) for call in calls]).double().numpy()


def pair_distances(layers: np.ndarray) -> np.ndarray:
    """Return ‖A_a - A_b‖_F of each pair of heads of each layer, ``(L, pairs)``."""
    upper = np.triu_indices(layers.shape[1], k=1)
    return np.array([head_distances(maps, metric="frobenius")[upper] for maps in layers])
