"""The kernels under the address and the thread sanitizer, and faults that these must report.

Calls of the entry points are recorded in this process and run again in another one, with a thread
of the system for each lane and each array in memory of its size; every byte must come out alike.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from attention_problems import AttentionProblem
from host_kernels import REALS, host_library, needs_compiler, sources
from recorded_calls import RecordingLibrary, replay

from fourierkernels.ops.arguments import Inputs, Options, Saved
from fourierkernels.ops.cuda import backward, forward
from fourierkernels.ops.cuda_build import VARIANTS, Variant

pytestmark = needs_compiler
DTYPES = {real: dtype for dtype, real in REALS.items()}
SMALL = Variant("float", 32)
Record = Callable[..., Path]


@dataclass(frozen=True)
class Small:
    """Two tiles of queries and of keys, the second of each ragged, two chunks of features."""

    mask: str = "none"
    power: int = 4
    causal: bool = False
    eps: float = 0.0
    heads: int = 2

    def problem(self, variant: Variant) -> AttentionProblem:
        dtype, g = DTYPES[variant.real], torch.Generator().manual_seed(variant.size)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)

        tile = 256 // dtype.itemsize
        n, m, width = tile + 3, tile + 7, max(variant.size - 3, 3)
        radius = 0.2 + 0.1 * normal(self.heads, width).abs()
        mask = {
            "none": lambda: None,
            "boolean": lambda: normal(1, self.heads, n, m) > 0,
            "additive": lambda: normal(1, 1, n, m),
        }[self.mask]()
        query, key = normal(1, self.heads, n, width), normal(1, self.heads, m, width)
        value, grad = normal(1, self.heads, m, width), normal(1, self.heads, n, width)
        options = Options(self.power, self.causal, self.eps)
        return AttentionProblem(Inputs(query, key, value, radius, mask), options, grad)


PLAIN = Small(causal=True, mask="boolean")
PROBLEMS = (PLAIN, Small(mask="additive", power=3, eps=1e-3, heads=1))


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    """Record forward and backward; deterministic torch fills new memory with NaN."""
    torch.use_deterministic_algorithms(True)

    def run(variant: Variant, *problems: Small) -> Path:
        plain = host_library(DTYPES[variant.real], variant.size)
        library = RecordingLibrary(plain.handle, plain.size)
        for each in problems:
            given = each.problem(variant)
            rows = forward(library, given.inputs, given.options)
            saved = Saved(rows.significand, rows.exponent, rows.packed)
            cotangents = given.cotangents(rows.output, rows.weights)
            backward(library, cotangents, given.inputs, saved, given.options)
        return library.write(tmp_path / "calls")

    yield run
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_find_nothing_and_threads_give_the_same_bytes(
    record: Record, sanitizer: str
) -> None:
    run = replay(sanitizer, SMALL, record(SMALL, *PROBLEMS))
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != SMALL], ids=str)
def test_sanitizers_find_nothing_in_any_library(
    record: Record, variant: Variant, sanitizer: str
) -> None:
    run = replay(sanitizer, variant, record(variant, *PROBLEMS))
    assert (run.returncode, run.stderr) == (0, "")


# ---- planted faults ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A change to a copy of the sources that must not go unnoticed.

    `pattern` is a regular expression that must be found exactly once in `file`; `report` has to be
    in what the program writes.
    """

    file: str
    pattern: str
    replacement: str
    engine: str
    report: str
    order: int = 1

    def planted(self) -> dict[str, str]:
        files = dict(sources())
        files[self.file], found = re.subn(self.pattern, self.replacement, files[self.file])
        assert found == 1, f"{self.file} has {found} places like {self.pattern}"
        return files


RACE = "WARNING: ThreadSanitizer: data race"
DIFFERS = "of its structure differs"
BARRIER = r"__syncthreads\(\);"
# The step that writes the largest exponents of the threads, which all threads of a row read next.
PEAKS = (
    r"threads\.each(\(\[&\]\(int thread, State& state\) \{(?:(?!threads\.)[\s\S])*?shared\.peaks\[)"
)
UNORDERED = "template <class State>\nstruct BlockThreads {"
FAULTS: dict[str, Fault] = {}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_reported(record: Record, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    calls = record(SMALL, PLAIN)
    run = replay(
        fault.engine, SMALL, calls, order=fault.order, files=fault.planted(), folder=tmp_path
    )
    assert run.returncode != 0
    assert fault.report in run.stderr
