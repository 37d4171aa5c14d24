"""Compiled code is kept as long as it is right, and found by the other processes of a test run."""

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import config, njit
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from shared_compilation import SharedFiles

from fourierkernels.ops.cpu import (
    backward,
    compiling,
    forward,
    kernel_sums,
    moment_sums,
    packing,
    spreading,
    tiles,
    weights,
)


def of_process(folder: Path, name: str, stamp: int = 1) -> SharedFiles:
    own = folder / name / "ops_1234"
    own.mkdir(parents=True, exist_ok=True)
    kind = type("Shared", (SharedFiles,), {"shared": folder / "shared"})
    return kind(str(own), "function-1.py311", stamp)


def test_what_one_process_compiles_all_load_and_keep(tmp_path: Path) -> None:
    one, two = (of_process(tmp_path, name) for name in ("one", "two"))
    one.save("float32", [32])
    two.save("float64", [64])
    for process in (one, two, of_process(tmp_path, "three")):
        assert [process.load(key) for key in ("float32", "float64", "int8")] == [[32], [64], None]
    (tmp_path / "shared").rename(tmp_path / "elsewhere")
    again = of_process(tmp_path, "three")
    assert [again.load(key) for key in ("float32", "float64")] == [[32], [64]]


LOOP = """
import numpy as np
from fourierkernels.ops.cpu.compiling import entry

@entry()
def double(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = x[i] + x[i]
    return y
"""


def test_processes_that_compile_other_types_at_once_leave_nobody_the_code_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find an empty index; the first writes it last, and the second its code."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "loop.py").write_text(LOOP)

    def process() -> Any:
        spec = importlib.util.spec_from_file_location("loop", tmp_path / "loop.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    one, two, late = process(), process(), []
    files, others = (loop._cache._cache_file for loop in (one, two))
    write_index, write_code = files._save_index, others._save_data

    def after_the_other(index: Any) -> None:
        two(np.ones(3))
        write_index(index)

    files._save_index = after_the_other
    others._save_data = lambda *given: late.append(given)
    x = np.full(3, 0.1, dtype=np.float32)
    one(x)
    write_code(*late[0])
    assert process()(x).tolist() == (x + x).tolist()
    assert process()(np.full(3, 0.1)).tolist() == [0.2] * 3


def test_code_of_older_sources_is_not_loaded(tmp_path: Path) -> None:
    of_process(tmp_path, "one").save("float32", [1])
    newer = of_process(tmp_path, "two", stamp=2)
    assert newer.load("float32") is None
    newer.save("float32", [2])
    assert of_process(tmp_path, "three", stamp=2).load("float32") == [2]


LOOPS = [
    value
    for module in (backward, forward, kernel_sums, moment_sums, packing, spreading, tiles, weights)
    for value in vars(module).values()
    if isinstance(value, Dispatcher)
]


def test_what_loops_call_has_no_code_of_its_own() -> None:
    """A process that compiles would run that, and one that loads the copy within its caller."""
    called = [loop for loop in LOOPS if loop.targetoptions.get("no_cpython_wrapper")]
    assert len(called) > 20
    assert [loop for loop in called if not loop.targetoptions.get("forceinline")] == []


def test_kept_code_is_of_all_sources_of_the_loops(tmp_path: Path) -> None:
    """A loop that calls a changed one in another file must be compiled again."""
    digest = compiling.sources_digest()
    assert len(LOOPS) > 20
    assert {loop._cache._cache_file._source_stamp for loop in LOOPS} == {digest}
    shutil.copytree(Path(compiling.__file__).parents[1], tmp_path / "ops")
    assert compiling.sources_digest(tmp_path / "ops" / "cpu") == digest
    with (tmp_path / "ops" / "cpu" / "pairs.py").open("a") as file:
        file.write("# another line\n")
    assert compiling.sources_digest(tmp_path / "ops" / "cpu") != digest


@pytest.mark.parametrize("slowed", [False, True])
def test_vectors_are_the_widest_where_these_slow_nothing_down(
    slowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an attribute, for any function: features are a part of the key of what is kept."""
    *_, features = cpu_target.target_context.codegen().magic_tuple()
    feature = "+none such" if slowed else features.split(",")[0]
    monkeypatch.setattr(compiling, "_NOT_SLOWED", feature)

    @njit(pipeline_class=compiling._Compiler)
    def total(x):  # type: ignore[no-untyped-def]
        return x.sum()

    assert total(np.ones(3)) == 3
    (code,) = total.inspect_llvm().values()
    assert ('"prefer-vector-width"="512"' in code) != slowed


def test_a_mark_that_would_do_nothing_or_harm_is_refused() -> None:
    def twice(x: float) -> float:
        return x + x

    with pytest.raises(TypeError, match="outer must stand below inner, got"):
        compiling.outer(compiling.inner()(twice))
    with pytest.raises(TypeError, match=r"must be always inlined, got .*twice"):
        compiling.entry()(compiling.outer(twice))(1.0)
