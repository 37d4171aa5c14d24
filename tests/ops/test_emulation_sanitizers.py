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
from fourierkernels.ops.cuda.attention import backward, forward
from fourierkernels.ops.cuda.build import VARIANTS, Variant

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
    dropout: float = 0.0
    asked: bool = False  # for weights and the gradient of the mask

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
        seed = torch.tensor([2**40 + 5]) if self.dropout else None
        options = Options(self.power, self.causal, self.eps, self.dropout, self.asked, self.asked)
        inputs = Inputs(query, key, value, radius, mask, seed)
        weights_grad = normal(1, self.heads, n, m) if self.asked else None
        return AttentionProblem(inputs, options, grad, weights_grad)


PLAIN = Small(causal=True, mask="boolean")
PROBLEMS = (
    PLAIN,
    Small(mask="additive", power=3, eps=1e-3, heads=1, dropout=0.3, asked=True),
)


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
            saved = Saved(rows.significand, rows.exponent)
            cotangents = given.cotangents(rows.output, rows.weights)
            backward(library, cotangents, given.inputs, saved, given.options)
        return library.write(tmp_path / "calls")

    yield run
    torch.use_deterministic_algorithms(False)


@pytest.mark.slow
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
        files["threads.cuh"] = files["threads.cuh"].replace("  State state;\n", STEP)
        assert STEP in files["threads.cuh"]
        return files


RACE = "ThreadSanitizer: data race"
OVERFLOW = "AddressSanitizer: heap-buffer-overflow"
DIFFERS = "of its structure differs"
OUTSIDE = "a block wrote outside its shared memory"
BARRIER = r"__syncthreads\(\);"
# From a step that writes to shared memory to its end, where the barrier is.
PEAKS = r"threads\.each(\((?:(?!threads\.)[\s\S])*shared\.peaks\[)"
TOTALS = r"threads\.each(\((?:(?!threads\.)[\s\S])*= state\.total\[a\];)"
STAGED = r"threads\.each(\((?:(?!threads\.)[\s\S])*stage\(thread, shared\.other, value\.lines)"
GATHERED = r"threads\.each(\((?:(?!threads\.)[\s\S])*gather\(p, head)"
LOOSE = r"threads.loose\1"
STEP = """  State state;
  template <class Step>
  void loose(Step step) { step(int(threadIdx.x), state); }
"""
FAULTS = {
    "no barrier": Fault("threads.cuh", BARRIER, "", "fibres", DIFFERS),
    "no barrier, of real threads": Fault("threads.cuh", BARRIER, "", "thread", RACE),
    "a barrier that few reach": Fault(
        "threads.cuh",
        BARRIER,
        "if (threadIdx.x < 250) __syncthreads();",
        "fibres",
        "lanes wait at two barriers",
    ),
    "no barrier before the peaks are read": Fault("forward.cuh", PEAKS, LOOSE, "fibres", DIFFERS),
    "no barrier before the totals are read": Fault("forward.cuh", TOTALS, LOOSE, "thread", RACE),
    "no barrier before the values are read": Fault("forward.cuh", STAGED, LOOSE, "fibres", DIFFERS),
    "no barrier before the packed rows are read": Fault(
        "pack.cuh", GATHERED, LOOSE, "fibres", DIFFERS
    ),
    "too little shared memory": Fault(
        "attention.cu", r"kThreads, bytes,", "kThreads, bytes - 16,", "fibres", OUTSIDE
    ),
    "too little shared memory, to the byte": Fault(
        "attention.cu", r"kThreads, bytes,", "kThreads, bytes - (bytes > 0),", "address", OVERFLOW
    ),
    "a lane reads its neighbour's largest exponents": Fault(
        "forward.cuh",
        r"peaks\[row \* kSide \+ k\]",
        "peaks[row * kSide + k + 1]",
        "fibres",
        DIFFERS,
    ),
    "a row beyond the last is read": Fault(
        "pack.cuh",
        r"p\.rows\[\(head \* p\.n \+ row\)",
        "p.rows[(head * p.n + row + 1)",
        "address",
        OVERFLOW,
    ),
    "an exponent is not written": Fault(
        "forward.cuh", r"p\.exponent\[at\] =", "if (at != 5) p.exponent[at] =", "fibres", DIFFERS
    ),
    "two blocks write one row": Fault(
        "forward.cuh",
        r"write_row\(p, head \* p\.queries \+ row,",
        "write_row(p, 0 * p.queries + row,",
        "thread",
        RACE,
    ),
    "a causal row misses its own key": Fault(
        "tile.cuh", r"\(p\.causal && j > i\)\)", "(p.causal && j >= i))", "fibres", DIFFERS
    ),
}
# One of each kind; the others are slow.
QUICK = (
    "no barrier before the peaks are read",
    "too little shared memory",
    "two blocks write one row",
)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FAULTS]
)
def test_planted_faults_are_reported(record: Record, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    calls = record(SMALL, PLAIN)
    run = replay(
        fault.engine, SMALL, calls, order=fault.order, files=fault.planted(), folder=tmp_path
    )
    assert run.returncode != 0
    assert fault.report in run.stderr
