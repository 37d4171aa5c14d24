"""Small labelled images on disk, and short training runs on them."""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from fourierkernels.studies.engine.recipe import Preset
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.images import imagenet
from fourierkernels.studies.images import study as images
from fourierkernels.studies.images.augmentation import Augmentation

CLASSES = ("ant", "bee", "cow")


def noise(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx_bytes(array: NDArray[Any], kind: int = 8) -> bytes:
    """Return an IDX file of an array of bytes."""
    head = bytes([0, 0, kind, array.ndim])
    return head + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, arrays: Mapping[str, NDArray[Any]], *, packed: bool = False) -> Path:
    """Write arrays by the names of their files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        content = idx_bytes(array)
        file = folder / (f"{name}.gz" if packed else name)
        file.write_bytes(gzip.compress(content, 1) if packed else content)
    return folder


def few_arrays(n: int = 30, side: int = 4) -> dict[str, NDArray[Any]]:
    """Return images and labels of both parts of a small set in IDX files."""
    return {
        "train-images-idx3-ubyte": noise(n, side, side),
        "train-labels-idx1-ubyte": np.arange(n) % 3,
        "t10k-images-idx3-ubyte": noise(6, side, side, seed=1),
        "t10k-labels-idx1-ubyte": np.arange(6) % 3,
    }


def write_classes(folder: Path, splits: Mapping[str, int]) -> Path:
    """Write so many colour images of each class for each split, of different sizes."""
    for split, count in splits.items():
        for number, name in enumerate(CLASSES):
            (folder / split / name).mkdir(parents=True)
            for place in range(count):
                pixels = noise(12 + place, 10 + number, 3, seed=10 * place + number)
                Image.fromarray(pixels).save(folder / split / name / f"{name}_{place}.JPEG")
    return folder


def jpeg(seed: int) -> bytes:
    """Return a small photograph of noise."""
    content = io.BytesIO()
    Image.fromarray(noise(9, 11, 3, seed=seed)).save(content, "JPEG")
    return content.getvalue()


def tar_bytes(files: Mapping[str, bytes], mode: str = "w:") -> bytes:
    """Return an archive of files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, one in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(one)
            archive.addfile(member, io.BytesIO(one))
    return content.getvalue()


def kit_bytes(labels: Sequence[int]) -> bytes:
    """Return a development kit of three classes, numbered against their order, and one above."""
    rows = [(3, "ant", 0), (2, "bee", 0), (1, "cow", 0), (4, "animal", 3)]
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("num_children", "O")]
    table = io.BytesIO()
    savemat(table, {"synsets": np.array(rows, dtype=kinds)})
    home = "ILSVRC2012_devkit_t12/data/"
    text = "".join(f"{label}\n" for label in labels).encode()
    files = {"meta.mat": table.getvalue(), "ILSVRC2012_validation_ground_truth.txt": text}
    return tar_bytes({home + name: one for name, one in files.items()}, "w:gz")


def write_archives(folder: Path) -> Path:
    """Write two training images of each class and four for validation, as ImageNet's archives."""
    folder.mkdir(parents=True)
    inner = {
        f"{name}.tar": tar_bytes({f"{name}_{i}.JPEG": jpeg(10 * i + k) for i in (1, 0)})
        for k, name in reversed(list(enumerate(CLASSES)))
    }
    valid = {f"ILSVRC2012_val_0000000{i}.JPEG": jpeg(100 + i) for i in (2, 1, 4, 3)}
    (folder / imagenet.TRAIN).write_bytes(tar_bytes(inner))
    (folder / imagenet.VALID).write_bytes(tar_bytes(valid))
    (folder / imagenet.KIT).write_bytes(kit_bytes([3, 1, 1, 2]))
    return folder


def mini() -> Preset:
    """Return a preset that trains in a second or two, with all that is done to images."""
    digits = images.PRESETS["digits"]
    model = {**digits.model, "dim": 8, "hidden": 16, "layers": 2, "drop_path": 0.2}
    does = Augmentation(
        least_area=0.5,
        shift=1,
        flip=0.5,
        distortion=5.0,
        erase=0.5,
        mixup=0.8,
        cutmix=1.0,
        repeats=2,
        group=8,
    )
    return replace(digits, model=model, augmentation=does)


def mini_run(mixer: str = "softmax", **changes: Any) -> Setup:
    """Return a run of the preset "mini", which the tests add to the study."""
    few = {"steps": 8, "batch": 16, "evaluate_every": 4, "save_every": 2, "log_every": 1}
    return setup("images", preset="mini", mixer=mixer, **few | {"warmup": 2} | changes)


def train_images(run: Setup, output: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, **options)
