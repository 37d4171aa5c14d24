"""Names of the version before lead to their new places, with one warning."""

import pickle  # noqa: TID251 (what is read here was written here)
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

import fourierkernels
from fourierkernels.foundation.lazy import MOVED
from fourierkernels.theory.densities.univariate import Gaussian

# What is a member of a module, not a module: there is nothing that `import` could load.
MEMBERS = {old for old in MOVED if old.endswith(("paper_rate", "rate_table"))}
MODULES = sorted(MOVED.keys() - MEMBERS)


@pytest.fixture(autouse=True)
def not_yet_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test begin as a process does: with no old name used."""
    for old in MOVED:
        package, _, name = old.rpartition(".")
        vars(import_module(package)).pop(name, None)
        for module in [m for m in sys.modules if m == old or m.startswith(f"{old}.")]:
            monkeypatch.delitem(sys.modules, module)


def at_its_place(whole: str) -> Any:
    package, _, name = whole.rpartition(".")
    return getattr(import_module(package), name)


def by_import(old: str) -> Any:
    scope: dict[str, Any] = {}
    exec(f"import {old} as it", scope)
    return scope["it"]


def by_from(old: str) -> Any:
    package, _, name = old.rpartition(".")
    scope: dict[str, Any] = {}
    exec(f"from {package} import {name} as it", scope)
    return scope["it"]


def by_attribute(old: str) -> Any:
    package, _, name = old.rpartition(".")
    return getattr(import_module(package), name)


# Still public by their short names, without a warning; only their modules have moved.
PUBLIC = {old for old in MOVED if old.removeprefix("fourierkernels.") in fourierkernels.__all__}
WAYS = [
    *((by_import, old) for old in MODULES),
    *((way, old) for way in (by_from, by_attribute) for old in sorted(MOVED.keys() - PUBLIC)),
]


@pytest.mark.parametrize(("way", "old"), WAYS, ids=lambda part: getattr(part, "__name__", part))
def test_an_old_name_leads_to_the_new_place_and_warns_once(way: Any, old: str) -> None:
    with pytest.warns(FutureWarning) as warned:
        found = [way(old) for _ in range(2)]
    assert [str(warning.message) for warning in warned] == [f"{old} is now {MOVED[old]}"]
    assert [warning.filename for warning in warned] == [
        "<string>" if way != by_attribute else __file__
    ]
    assert all(one is at_its_place(MOVED[old]) for one in found)


@pytest.mark.parametrize("way", [by_from, by_attribute])
@pytest.mark.parametrize("old", sorted(PUBLIC))
def test_a_public_name_of_a_moved_module_needs_no_warning(way: Any, old: str) -> None:
    assert way(old) is import_module(MOVED[old])


@pytest.mark.parametrize("old", MODULES)
def test_a_moved_module_keeps_its_name_and_specification(old: str) -> None:
    module = import_module(MOVED[old])
    before = module.__name__, module.__spec__, module.__loader__, module.__package__
    with pytest.warns(FutureWarning):
        assert import_module(old) is module
    assert (module.__name__, module.__spec__, module.__loader__, module.__package__) == before
    assert module.__name__ == MOVED[old] == module.__spec__.name


def test_a_module_of_a_moved_package_is_not_loaded_twice() -> None:
    with pytest.warns(FutureWarning) as warned:
        module = import_module("fourierkernels.densities.univariate")
    assert module is sys.modules["fourierkernels.theory.densities.univariate"]
    assert len(warned) == 1


def test_a_member_of_a_moved_module_is_that_of_the_new_one() -> None:
    with pytest.warns(FutureWarning, match=r"exact_error is now fourierkernels\.theory"):
        from fourierkernels.exact_error import optimal_radius
    assert optimal_radius is fourierkernels.theory.optimal_radius


def test_an_object_pickled_by_an_old_path_is_read() -> None:
    """Protocol 0 writes the path of a class as a line of text."""
    written = pickle.dumps(Gaussian(std=2.0), protocol=0)
    old = written.replace(b"fourierkernels.theory.densities", b"fourierkernels.densities")
    assert old != written
    with pytest.warns(FutureWarning):
        read = pickle.loads(old)
    assert read == Gaussian(std=2.0)
    assert type(read) is Gaussian


@pytest.mark.parametrize("package", ["fourierkernels", "fourierkernels.theory"])
def test_a_wrong_name_is_an_error_that_names_it(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        by_attribute(f"{package}.nothing")
    with pytest.raises(ImportError, match=f"cannot import name 'nothing' from '{package}'"):
        by_from(f"{package}.nothing")
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{package}.nothing'"):
        by_import(f"{package}.nothing")


@pytest.mark.parametrize("old", sorted(MEMBERS))
def test_a_moved_function_is_no_module(old: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{old}'"):
        import_module(old)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_wrong_module_of_a_moved_package_is_an_error_that_names_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'fourierkernels\.densities\.no'"):
        import_module("fourierkernels.densities.no")


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (
            "fourierkernels",
            [
                *("numpy", "scipy", "torch", "matplotlib", "numba", "sklearn", "transformers"),
                "fourierkernels.theory",
            ],
        ),
        ("fourierkernels.cli", ["scipy", "torch", "sklearn", "pandas"]),
        (
            "fourierkernels.attention",
            ["torch._dynamo", "torch.distributed.tensor", "scipy.interpolate"],
        ),
    ],
)
def test_what_is_slow_to_import_is_loaded_where_it_is_used(modules: str, absent: list[str]) -> None:
    code = f"import sys, {modules}; print([m for m in {absent} if m in sys.modules])"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
