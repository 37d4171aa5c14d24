"""Short training runs on a small real text, in this process or in one that can be killed.

A process that is started finds these functions by the name of this module.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch

from fourierkernels.foundation.files import claimed
from fourierkernels.models.tensor_files import read_metadata, read_tensors
from fourierkernels.studies.engine import run_setup, together
from fourierkernels.studies.engine.checkpoints import checkpoint_steps
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.language.corpora import read_corpus
from fourierkernels.studies.texts.token_files import build_token_files

Call = Callable[..., tuple[int, str, str]]  # a command, from options to status, output, messages
STEPS = 12
SAME = ("curve.csv", "results.csv", "study.json", "vocabulary.txt")
WEIGHTS = (
    "model.safetensors",
    *(f"checkpoint-{STEPS}/{name}.safetensors" for name in ["model", "optimiser", "random"]),
)
_MODULES = ["fourierkernels.studies.engine.run", "training_runs"]


def write_texts(folder: Path) -> Path:
    """Write train.txt, valid.txt and test.txt: pages of Python's manual."""
    folder.mkdir(parents=True)
    pages = [topics[name] for name in sorted(topics)]
    parts = {"train": pages[6:36], "valid": pages[:3], "test": pages[3:6]}
    for split, texts in parts.items():
        text = "\n".join(texts)[: 200_000 if split == "train" else 2_000]
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
    return folder


def short_run(texts: Path, **changes: Any) -> Setup:
    """Return a run of the smallest language model that is over in a second or two."""
    few = {"steps": STEPS, "batch": 4, "evaluate_every": 4, "save_every": 2, "log_every": 1}
    mixer = changes.pop("mixer", "softmax")
    options = {"warmup": 2, "clip": 1.0} | few | changes
    return run_setup.setup("language", preset="tiny", mixer=mixer, data=texts, **options)


def train_here(run: Setup, output: Path, cache: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, cache=cache, **options)


def same_results(one: Path, other: Path) -> list[str]:
    """Names of the files of results that differ.

    Of tensors the bits are compared; the order of texts in a .safetensors file is any.
    """
    differ = [n for n in SAME if (one / n).read_bytes() != (other / n).read_bytes()]
    for name in WEIGHTS:
        if (one / name).exists() or (other / name).exists():
            pair = (read_tensors(one / name), read_tensors(other / name))
            texts = (read_metadata(one / name), read_metadata(other / name))
            same = pair[0].keys() == pair[1].keys() and texts[0] == texts[1]
            if not (same and all(torch.equal(t, pair[1][key]) for key, t in pair[0].items())):
                differ.append(name)
    if checkpoint_steps(one) != checkpoint_steps(other):
        differ.append("checkpoints")
    return differ


def train_to_end(run: Setup, output: Path, cache: Path) -> None:
    """Train, or go on if there is something to go on from."""
    resume = (output / "study.json").is_file()
    train_here(run, output, cache, resume=resume)


def train_and_die(run: Setup, output: Path, cache: Path, step: int, part: str) -> None:
    """Train until a checkpoint is being written, and die when a file of it has been."""
    from fourierkernels.studies.engine import trainer as engine

    whole = engine.write_tensors

    def half(file: Path, *given: Any) -> None:
        whole(file, *given)
        if file.name == part and f"checkpoint-{step}-" in file.parent.name:
            os.kill(os.getpid(), signal.SIGKILL)

    engine.write_tensors = half  # type: ignore[attr-defined]
    train_to_end(run, output, cache)


def train_and_signal(run: Setup, output: Path, cache: Path, number: int) -> None:
    """Train until a signal comes in the fifth update, between two checkpoints of the recipe."""
    from fourierkernels.studies.engine.trainer import Engine

    plain = Engine.training_step

    def step(self: Any, *given: Any, **options: Any) -> torch.Tensor:
        if self.state.global_step == 4:
            os.kill(os.getpid(), number)
        return plain(self, *given, **options)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started this process
    Engine.training_step = step  # type: ignore[method-assign]
    train_to_end(run, output, cache)


def train_on_little_disk(run: Setup, output: Path, cache: Path, most: int, queue: Any) -> None:
    """Train where no file may be larger than `most` bytes, and hand the error on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    queue.put(error_of(lambda: train_to_end(run, output, cache)))


def error_of(call: Callable[[], Any]) -> str:
    """Return the kind and the message of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def read_texts(texts: Path, folder: Path) -> None:
    """Number the words of a text."""
    read_corpus(texts, folder=folder)


def number_and_wait(folder: Path, queue: Any) -> None:
    """Begin to build token files, tell so, and go on building until this process is killed."""

    def lines(split: str) -> Iterator[list[str]]:
        yield ["a", "b"]
        if split == "test":
            queue.put("at work")
            time.sleep(600)

    build_token_files("slow", "slow", lines, digest="slow", folder=folder)


def claim_and_wait(folder: Path, queue: Any) -> None:
    """Claim a folder, tell so, and hold it until this process is killed."""
    with claimed(folder):
        queue.put("claimed")
        time.sleep(600)


_WAITING = """
import os, signal, sys
told = os.open(sys.argv[1], os.O_WRONLY)
heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(os.write(told, b"saved\\n")))
os.write(told, f"{os.getpid()} {heeds}\\n".encode())
signal.pause()
"""


def launch_and_wait(pipe: Path, output: Path, handler: Any) -> None:
    """Launch a command in place of torchrun, which saves and ends at SIGTERM alone."""
    signal.signal(signal.SIGINT, handler)
    together._status_of([sys.executable, "-c", _WAITING, str(pipe)], output)


def start(target: Callable[..., None], *arguments: Any) -> Any:
    """Start a function in a process of its own, from one that has loaded torch already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_MODULES)
    process = context.Process(target=target, args=arguments)
    process.start()
    return process
