"""Small data of the arena's tasks as files, and short runs on them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.lra.contours import SMALL, draw_image
from fourierkernels.studies.lra.listops import SMALL as SHORT
from fourierkernels.studies.lra.listops import write_listops

COUNTS = {"train": 60, "valid": 13, "test": 20}
WORDS = (b"noun verb ", b"plus less ")


def listops(folder: Path, **options: Any) -> Path:
    """Write short expressions."""
    write_listops(folder, COUNTS, grammar=SHORT, **options)
    return folder


def texts(folder: Path, train: int = 30, test: int = 6) -> Path:
    """Write texts of two classes, which have other words, of 10 to 200 bytes."""
    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("test", test)):
        for label, words in zip(("neg", "pos"), WORDS, strict=True):
            place = folder / part / label
            place.mkdir(parents=True)
            for number in range(count):
                text = words * int(rng.integers(1, 20))
                (place / f"{number}_7.txt").write_bytes(text)
    (folder / "train/unsup").mkdir()
    (folder / "train/unsup/0_0.txt").write_bytes(b"without a class")
    return folder


def pairs(folder: Path) -> Path:
    """Write pairs of texts, of the same words or of others, of unequal lengths."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("train", "eval", "test")
    for name, count in zip(names, COUNTS.values(), strict=True):
        with (folder / f"new_aan_pairs.{name}.tsv").open("wb") as file:
            for number in range(count):
                label, first = number % 2, int(rng.integers(2))
                chosen = (WORDS[first], WORDS[first if label else 1 - first])
                own = b"\t".join(word * int(rng.integers(1, 20)) for word in chosen)
                file.write(b"%d.0\tA%d\tB%d\t%s\n" % (label, number, number, own))
    return folder


def cifar(folder: Path, each: int = 4) -> Path:
    """Write six batches of random colours."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = rng.integers(0, 256, size=(each, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / f"{name}.bin")
    return folder


def pathfinder(folder: Path, count: int = 40) -> Path:
    """Write images of contours as Pathfinder's are distributed, one of them empty."""
    place = folder / "curv_contour_length_14"
    (place / "metadata").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in range(2):
        (place / f"imgs/{part}").mkdir(parents=True)
        rows = []
        for number in range(count // 2):
            label = number % 2
            image = draw_image(SMALL, label, rng)
            Image.fromarray(image).save(place / f"imgs/{part}/sample_{number}.png")
            rows.append(f"imgs/{part} sample_{number}.png {number} {label} 1.0 14\n")
        (place / f"metadata/{part}.npy").write_text("".join(rows))
    (place / "imgs/0/sample_3.png").write_bytes(b"")
    return folder


def arena_run(
    data: Path | str, mixer: str | ChosenMixer = "softmax", preset: str = "tiny", **changes: Any
) -> Setup:
    """Return a run that is over in a second or two."""
    few = {"steps": 12, "evaluate_every": 6, "save_every": 3, "log_every": 1, "warmup": 2}
    return setup("lra", preset=preset, mixer=mixer, data=data, **few | {"batch": 8} | changes)


def train_arena(run: Setup, output: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, **options)
