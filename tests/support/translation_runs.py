"""Short training runs on a made-up corpus of two languages, the second the first backwards."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tiny_bitext import lines, write_lines

from fourierkernels.studies.engine.recipe import Preset
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.translation import study as translation

PAIRS = 200


def write_corpus(folder: Path) -> Path:
    """Write 200 pairs of short sentences."""
    return write_lines(folder / "toy-en-it", lines(PAIRS, longest=5))


def mini() -> Preset:
    """Return a preset that trains in a second or two."""
    tiny = translation.PRESETS["tiny"]
    model = {**tiny.model, "dim": 16, "hidden": 16, "layers": 1, "decoder_layers": 1, "heads": 2}
    changes = {"model": model | {"length": 32, "dropout": 0.1}, "most_words": 120, "positions": 8}
    return replace(tiny, **changes, budget=400)


def mini_run(corpus: Path, mixer: str = "dft_both", **changes: Any) -> Setup:
    """Return a run of the preset "mini", which the tests add to the study."""
    few = {"steps": 12, "evaluate_every": 6, "save_every": 3, "log_every": 1, "warmup": 4}
    return setup("translation", preset="mini", mixer=mixer, data=corpus, **few | changes)


def train_mini(run: Setup, output: Path, cache: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, cache=cache, **options)
