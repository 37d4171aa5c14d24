"""What the studies of language models share: networks of equal sharpness, trained and described.

Kernels are compared at equal sharpness s, the curvature of -log w at q = k in units of softmax's.
Softmax of s q·k/√D is regression with weights exp(-s |q - k|²/(2√D)) if the keys have one norm;
a Gaussian has the same curvature at σ = D^(1/4)/√s, and ∏ sinc^l(R(q - k)) at R = √(3 s/(l √D)).
"""

import contextlib
import csv
import io
import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor, nn

from fourierkernels.checkpoints import attention_calls
from fourierkernels.diagnostics import head_distances, sharpened_maps
from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.mixing import FourierMixer
from fourierkernels.models import LanguageModel, load_model
from fourierkernels.studies import Setup, setup, train
from fourierkernels.studies.engine.optimisers import DivergenceError
from fourierkernels.studies.registry import choose_preset, choose_study

HEAD_SIZE = 16
WINDOWS = 32  # of the test text, for the maps
POWERS = (1, 2, 3, 4, 5, 6)
STAGES = ("untrained", "sharpened", "trained")
KERNELS = ("softmax", "gaussian", *(f"l = {power}" for power in POWERS))


def use_one_thread() -> None:
    """Compute in this thread alone. In this order: numba's first call sets torch's threads, too."""
    numba.set_num_threads(1)
    torch.set_num_threads(1)


def kernel_options(kernel: str, sharpness: float) -> tuple[str, dict[str, Any]]:
    """Return the mixer of a kernel and its options for a sharpness s.

    >>> kernel_options("l = 4", 1.0)
    ('fourier', {'power': 4, 'radius': 0.4330127018922193, 'allow_signed': False})
    """
    root = math.sqrt(HEAD_SIZE)
    if kernel == "softmax":
        return "softmax", {"scale": sharpness / root}
    if kernel == "gaussian":
        return "gaussian", {"sigma": math.sqrt(root / sharpness)}
    power = int(kernel.removeprefix("l = "))
    radius = math.sqrt(3 * sharpness / (power * root))
    return "fourier", {"power": power, "radius": radius, "allow_signed": power % 2 == 1}


@dataclass(frozen=True)
class Network:
    """One network: its place in the tables, what it is and how it is trained."""

    part: str
    row: str
    preset: str
    mixer: str
    rate: float
    steps: int
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A text that no other network has."""
        return json.dumps(asdict(self), sort_keys=True)

    def setup(self, data: str) -> Setup:
        """Return the run, validated and saved once, at its end."""
        return setup(
            "language",
            preset=self.preset,
            mixer=self.mixer,
            mixer_options=self.options,
            data=data,
            learning_rate=self.rate,
            steps=self.steps,
            warmup=self.steps // 10,
            evaluate_every=self.steps,
            save_every=self.steps,
            log_every=max(self.steps // 40, 1),
            seed=self.seed,
        )


def train_network(network: Network, data: str, *, heads: bool) -> dict[str, Any]:
    """Train a network by the engine and return what there is to know of it, one row of a table.

    Parameters
    ----------
    heads : bool
        Whether its heads are measured as well, before and after training.
    """
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "run"
        found, end = _train(network.setup(data), output)
        curve = list(csv.DictReader((output / "curve.csv").open(encoding="utf-8")))
        norms = [float(row["grad_norm"]) for row in curve if row["grad_norm"]]
        model = load_model(output / "model.safetensors") if found else None
        if heads and model is not None:
            found |= heads_before_and_after(network, data, model)
    return {
        **{name: value for name, value in asdict(network).items() if name != "options"},
        "options": json.dumps(dict(network.options)),
        "end": end,
        "largest_gradient": max(norms, default=math.nan),
        "radii": "" if model is None else learned_radii(model),
        "seconds": round(time.process_time() - begun, 1),
        **found,
    }


def _train(run: Setup, output: Path) -> tuple[dict[str, float], str]:
    """Return losses in nats per word by split and metric, and how training ended."""
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        try:
            measured = train(run, output)
        except DivergenceError as error:
            return {}, str(error)
    return {f"{m.split} {m.metric}": math.log(m.value) for m in measured}, "finished"


def learned_radii(model: nn.Module) -> str:
    """Return the mean R of each layer."""
    radii = [m.radius.mean().item() for m in model.modules() if isinstance(m, FourierMixer)]
    return " ".join(f"{radius:.4f}" for radius in radii)


def heads_before_and_after(network: Network, data: str, trained: LanguageModel) -> dict[str, float]:
    """Return mean distances and entropies of each stage; the control is the sharpened network."""
    run = network.setup(data)
    text = choose_study("language").read(choose_preset(choose_study("language"), run.preset), data)
    windows = even_windows(text.tokens("test"), trained.config.length, WINDOWS)
    measured = measure_stages(untrained_network(run, text), trained, windows)
    measured["control"] = measured.pop("sharpened")
    return {
        f"{name} {stage}": float(values.mean())
        for stage in ("untrained", "trained", "control")
        for name, values in measured[stage].items()
    }


def untrained_network(run: Setup, text: Any) -> LanguageModel:
    """Return the network with which the training of a run began."""
    study = choose_study(run.study)
    torch.manual_seed(run.recipe.seed)  # as the engine draws the first weights
    network: LanguageModel = study.build(
        choose_preset(study, run.preset), text, run.mixer, run.mixer_options
    )
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


class Finished:
    """One JSON line per finished network, so that an interrupted study can resume."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._path, self._rows = path, {e["key"]: e["row"] for e in map(json.loads, lines)}

    def __contains__(self, network: Network) -> bool:
        return network.key in self._rows

    def add(self, network: Network, row: dict[str, Any]) -> None:
        """Keep a row at once."""
        self._rows[network.key] = row
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": network.key, "row": row}) + "\n")

    def rows(self, networks: list[Network]) -> Iterator[dict[str, Any]]:
        """Yield the rows of networks, in their order."""
        for network in networks:
            yield self._rows[network.key]
