"""The rooms of the package import one way, hide nothing in strings, and stay small and light."""

import ast
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from rooms import FOUNDATIONS, ROOMS

NAME = "fourierkernels"
PACKAGE = Path(__file__).parents[1] / NAME
FILES = sorted(PACKAGE.rglob("*.py"))

# Calls whose argument no string in the file decides: a class that a person names.
NAMED_BY_A_PERSON = {"checkpoints/formats/installed_models.py"}
LARGEST_SHARE = 1 / 6
LONGEST_FUNCTION = 40
# Nine files in ten end by 300 lines, none goes on beyond 400: the house has fewer, larger files.
SHORT_FILE, SHORT_SHARE, LONGEST_FILE = 300, 0.9, 400

# Rooms in which options travel as objects, and what may take a bag nevertheless: a function, or all
# functions of a folder, with the reason.
WITHOUT_BAGS = ("checkpoints", "diagnostics", "report", "studies")
BAGS = ("Mapping[str, Any]", "dict[str, Any]")
_OF_TORCH = "arguments of another's call, which are handed on as they came"
_HOOK = "a hook, whose signature transformers dictates"
TAKE_BAGS = {
    "checkpoints/recorders/": _OF_TORCH,
    "diagnostics/networks/lipschitz.py:layer_lipschitz": _OF_TORCH,
    "diagnostics/networks/lipschitz.py:_of_its_input": _OF_TORCH,
    "report/during_training.py:on_step_end": _HOOK,
    "studies/engine/prepared.py:forward": _HOOK,
    "studies/engine/callbacks.py:on_train_begin": _HOOK,
    "studies/engine/callbacks.py:on_step_end": _HOOK,
    "studies/engine/callbacks.py:on_evaluate": _HOOK,
    "studies/engine/callbacks.py:on_log": _HOOK,
    "studies/engine/trainer.py:_prepare_for_training": _HOOK,
    "studies/engine/trainer.py:evaluate": _HOOK,
    "studies/engine/trainer.py:training_step": _HOOK,
    "studies/engine/run_setup.py:setup": "fields of Recipe, typed in notebooks; replace() checks",
}
# Names for a bag, of which each says whose keys it has.
NAMED_BAGS = {
    "checkpoints/contexts.py:Kept": "hooks of a torch module",
    "checkpoints/options.py:Config": "JSON of a network, with the keys of whoever wrote it",
    "checkpoints/recorders/weighing.py:Found": _OF_TORCH,
    "diagnostics/moments.py:State": "sums of any statistic, as files of shards hold them",
    "studies/control/levers.py:Step": "what gymnasium's step returns",
    "studies/engine/checkpoints.py:Entry": "the history of transformers' Trainer",
    "studies/engine/comparison_table.py:Row": "a row of a CSV file, whose columns a study names",
    "studies/engine/state.py:State": "what state_dict() of torch returns",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(tree: ast.Module) -> set[int]:
    """Strings that stand alone: documentation, which may name what it likes."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def named(path: Path) -> set[str]:
    """Return every module of the package that a file names, by an import or in a string."""
    tree, found = parsed(path), set()
    prose = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            assert NAME not in found, f"{path}: name what is imported, not the whole package"
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        ):
            found |= {word.strip("\"'`,;:()") for word in node.value.split()}
    return {name for name in found if name.startswith(f"{NAME}.")}


def as_file(module: str) -> Path | None:
    """Return the file of a module, or of the module that a name in it belongs to."""
    parts = module.split(".")[1:]
    for end in range(len(parts), 0, -1):
        place = PACKAGE.joinpath(*parts[:end])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return file
    return None


@functools.cache
def arrows() -> dict[Path, set[Path]]:
    found = {}
    for path in FILES:
        files = {as_file(name) for name in named(path)}
        found[path] = {file for file in files if file is not None and file != path}
    return found


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


FILES_OF = {
    room: list(paths) for room, paths in itertools.groupby(sorted(FILES, key=room_of), room_of)
}
in_every_room = pytest.mark.parametrize("room", FILES_OF)


@in_every_room
def test_imports_go_one_way(room: str) -> None:
    below = () if room in FOUNDATIONS else ROOMS.get(room, ROOMS)  # __init__ is above all rooms
    for path in FILES_OF[room]:
        used = {name.split(".")[1] for name in named(path)} - {room, *FOUNDATIONS}
        wrong = sorted(used if room in FOUNDATIONS else used.intersection(ROOMS) - set(below))
        assert not wrong, f"{relative(path)} must not name {wrong}"


def test_every_room_is_listed_below_what_imports_it() -> None:
    rooms = {room_of(path) for path in FILES} - {"__init__", "__main__", *FOUNDATIONS}
    assert rooms == set(ROOMS)
    order = list(ROOMS)
    for room, below in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in below), room


def circles(graph: dict[Path, set[Path]]) -> Iterator[list[str]]:
    """Yield each circle that a walk along the arrows comes upon."""
    done: set[Path] = set()

    def walk(path: Path, trail: list[Path]) -> Iterator[list[str]]:
        if path in trail:
            yield [relative(each) for each in (*trail[trail.index(path) :], path)]
            return
        if path in done:
            return
        for other in sorted(graph.get(path, ())):
            yield from walk(other, [*trail, path])
        done.add(path)

    for path in sorted(graph):
        yield from walk(path, [])


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {}
    for path, others in arrows().items():
        if path.name != "__init__.py":  # a face hands on names of its own room
            graph[path] = {o for o in others if o.name != "__init__.py" or o.parent != path.parent}
    assert list(circles(graph)) == []


@in_every_room
def test_no_file_imports_the_face_of_its_own_package(room: str) -> None:
    for path in FILES_OF[room]:
        above = [path.parent, *path.parent.parents]
        faces = {folder / "__init__.py" for folder in above if folder.is_relative_to(PACKAGE)}
        assert path.name == "__main__.py" or not arrows()[path] & faces, relative(path)


def imports_by_name(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """Yield the place and the argument of every call that imports what it is given."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in ("import_module", "__import__"):
                yield f"{relative(path)}:{node.lineno}", node.args[0]


@in_every_room
def test_no_import_is_put_together_from_pieces(room: str) -> None:
    """`import_module` takes a whole name, one below the module itself, or one from a registry row.

    Rows hold whole names, which :func:`named` reads.
    """
    paths = [path for path in FILES_OF[room] if relative(path) not in NAMED_BY_A_PERSON]
    for place, argument in itertools.chain.from_iterable(map(imports_by_name, paths)):
        if isinstance(argument, ast.JoinedStr):
            first = argument.values[0]
            own = isinstance(first, ast.FormattedValue) and ast.unparse(first.value) == "__name__"
            assert own, f"{place}: {ast.unparse(argument)}"
        else:
            assert not isinstance(argument, ast.BinOp), place
            named_here = argument.value if isinstance(argument, ast.Constant) else ""
            assert not named_here.startswith("."), place


def test_no_room_is_larger_than_a_sixth_of_the_package() -> None:
    """Each study counts by itself: whoever reads or adds one opens its folder and the engine."""
    sizes: dict[str, int] = {}
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".js", ".css", ".cu", ".cuh"):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            room = "/".join(
                path.relative_to(PACKAGE).parts[: 2 if room_of(path) == "studies" else 1]
            )
            sizes[room] = sizes.get(room, 0) + lines
    largest = max(sizes, key=sizes.__getitem__)
    assert sizes[largest] <= LARGEST_SHARE * sum(sizes.values()), (largest, sizes)


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the documentation."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    prose = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - prose


@in_every_room
def test_functions_are_short(room: str) -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for path in FILES_OF[room]:
        functions = [node for node in ast.walk(parsed(path)) if isinstance(node, kinds)]
        long = {f.name: code_lines(f) for f in functions if code_lines(f) > LONGEST_FUNCTION}
        assert not long, relative(path)


def bags_taken(path: Path) -> Iterator[str]:
    """Yield the functions of a file that take options by any name."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            kinds = [ast.unparse(one.annotation) for one in arguments if one.annotation is not None]
            if given.kwarg is not None or any(bag in kind for kind in kinds for bag in BAGS):
                yield f"{relative(path)}:{node.name}"


def bags_named(path: Path) -> Iterator[str]:
    """Yield the names that a file gives to a type of mapping with any values."""
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and any(bag in ast.unparse(node.value) for bag in BAGS):
            yield from (f"{relative(path)}:{ast.unparse(target)}" for target in node.targets)


def test_options_travel_as_objects() -> None:
    files = [path for room in WITHOUT_BAGS for path in FILES_OF[room]]
    taken = [name for path in files for name in bags_taken(path)]
    folders = tuple(name for name in TAKE_BAGS if name.endswith("/"))
    assert {name for name in taken if not name.startswith(folders)} == {
        name for name in TAKE_BAGS if name not in folders
    }
    assert all(any(name.startswith(folder) for name in taken) for folder in folders)
    assert {name for path in files for name in bags_named(path)} == set(NAMED_BAGS)


def test_nine_files_in_ten_are_short_and_none_is_long() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in FILES]
    assert sum(length <= SHORT_FILE for length in lengths) >= SHORT_SHARE * len(lengths)
    assert max(lengths) <= LONGEST_FILE
