"""Small documents, a small labelled task, and short runs on them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, setup
from fourierkernels.studies.masked.document_files import DocumentFiles
from fourierkernels.studies.masked.sets import read_documents

SUBJECTS = ("the cat", "a dog", "one bird", "this horse", "my old teacher", "his friend")
VERBS = ("sees", "hears", "follows", "likes", "forgets")
SIZE, LENGTH = 60, 64


def sentence(rng: np.random.Generator) -> str:
    """Return a sentence whose words mostly follow from their places."""
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(SUBJECTS)}"


def document(rng: np.random.Generator, lines: int = 8) -> list[str]:
    """Return the lines of a document."""
    return [sentence(rng) for _ in range(lines)]


def write_documents(folder: Path, train: int = 30) -> Path:
    """Write train.txt, valid.txt and test.txt with documents between blank lines."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", train), ("valid", 5), ("test", 6)):
        texts = ("\n".join(document(rng)) for _ in range(count))
        (folder / f"{name}.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return folder


def document_ends(files: DocumentFiles, split: str) -> np.ndarray:
    """Return the line after the last one of each document, as the file of them has it."""
    ends = np.fromfile(files.folder / f"{split}.documents", dtype="<i8")
    assert len(ends) == files.documents[split]
    return ends


def read_tiny(folder: Path, cache: Path, *, size: int = SIZE, length: int = 32) -> DocumentFiles:
    """Return the files of documents."""
    return read_documents(folder, size=size, length=length, folder=cache)


def write_task(folder: Path, train: int = 60) -> Path:
    """Write train.tsv and dev.tsv: does a text tell of cats or of something else?"""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for name, count in (("train", train), ("dev", 20)):
        rows = ((word, int(rng.integers(3, 6))) for word in rng.choice(["cat", "horse"], count))
        names = {"cat": "cat", "horse": "other"}
        lines = (f"{' '.join([str(word)] * n)}\t{names[word]}\n" for word, n in rows)
        (folder / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(lines), encoding="utf-8")
    return folder


def masked_run(folder: Path, mixer: str = "fnet", **changes: Any) -> Setup:
    """Return a run that is over in a second or two."""
    few = {"steps": 6, "batch": 4, "evaluate_every": 3, "save_every": 2, "log_every": 1}
    options = {"warmup": 2, "preset": "mini"} | few | changes
    return setup("masked", mixer=mixer, data=folder, **options)


def glue_run(folder: Path, start: Path, **changes: Any) -> Setup:
    """Return a run that begins with another one and is over in a second or two."""
    few = {"steps": 6, "batch": 4, "evaluate_every": 3, "save_every": 2, "log_every": 1}
    return setup("glue", data=folder, start=start, **{"warmup": 2} | few | changes)


def train_tiny(run: Setup, output: Path, cache: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, cache=cache, **options)
