"""Code compiled by one process of a test run is found by another."""

from pathlib import Path

from shared_compilation import SharedFiles


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


def test_code_of_older_sources_is_not_loaded(tmp_path: Path) -> None:
    of_process(tmp_path, "one").save("float32", [1])
    newer = of_process(tmp_path, "two", stamp=2)
    assert newer.load("float32") is None
    newer.save("float32", [2])
    assert of_process(tmp_path, "three", stamp=2).load("float32") == [2]
