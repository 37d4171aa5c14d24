"""Whatever an extra brings is asked for in one sentence, and the table of extras is complete.

`make test-extras` installs each of them: tests/install_extras.py.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fourierkernels.foundation import extras
from fourierkernels.foundation.extras import EXTRAS, MissingExtra, needed_for, require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {
    extra: [Requirement(line) for line in lines]
    for extra, lines in PROJECT["optional-dependencies"].items()
}
BESIDE = {"llvmlite", "threadpoolctl"}  # numba and scikit-learn bring them
ASKED = {"pykeops", "fourier_layer_cuda"}  # methods that are timed only where they are installed


def builds_on(extra: str) -> set[str]:
    named = (row.extras for row in OPTIONAL[extra] if row.name == PROJECT["name"])
    return {extra}.union(*(builds_on(other) for names in named for other in names))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return {name.partition(".")[0] for name in found}


def test_every_module_from_outside_is_required_or_of_an_extra() -> None:
    names = set().union(*map(imported, (ROOT / "fourierkernels").rglob("*.py")))
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    known = {"sklearn", *core, *EXTRAS, *BESIDE, *ASKED, PROJECT["name"], *sys.stdlib_module_names}
    assert names - known == set()


@pytest.mark.parametrize("extra", sorted(set(EXTRAS.values()) - {""}))
def test_each_requirement_of_an_extra_is_told_by_it(extra: str) -> None:
    own = {row.name for row in OPTIONAL[extra] if row.name != PROJECT["name"]}
    told = {extras._PACKAGES.get(name, name) for name, of in EXTRAS.items() if of == extra}
    assert own <= told


@pytest.mark.parametrize("extra", extras._ALSO)
def test_extras_of_commands_bring_those_that_they_build_on(extra: str) -> None:
    assert extras._ALSO[extra] | {extra} == builds_on(extra)


def test_innermost_block_speaks_unless_an_outer_extra_brings_the_module() -> None:
    for inner, outer, said in (
        ("torch", "train", "training needs torch: pip install 'fourierkernels[train]'"),
        ("torch", "", "drawing needs torch: pip install 'fourierkernels[torch]'"),
        ("dask", "train", "drawing needs dask: pip install 'fourierkernels[cluster]'"),
    ):
        blocks = needed_for("training", extra=outer), needed_for("drawing")
        with pytest.raises(MissingExtra) as caught, blocks[0], blocks[1]:
            raise ModuleNotFoundError(name=inner)
        assert str(caught.value) == said


@pytest.mark.parametrize("name", ["torch.nn", "elsewhere"])
def test_other_modules_that_are_missing_stay_as_they_are(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="as it is"), needed_for("training"):
        raise ModuleNotFoundError("as it is", name=name)


def test_a_package_of_no_extra_is_asked_for_by_its_name() -> None:
    with pytest.raises(MissingExtra, match=r"^x needs timm: pip install timm$"), needed_for("x"):
        raise ModuleNotFoundError(name="timm")
    require("math", "rounding")


# Without all of them, in a process of its own

NAMES = {
    "fk.attention": "torch",
    "fk.mixing": "torch",
    "fk.models": "torch",
    "import_module('fourierkernels.attention.transformers')": "torch",
    "import_module('fourierkernels.models.huggingface')": "torch",
    "import_module('fourierkernels.ops.operator')": "torch",
    "import_module('fourierkernels.sums.on_device')": "torch",
    "fk.KernelDensity(device='cuda').fit([[0.0], [1.0]])": "torch",
    "fk.head_report": "heads",
    "fk.report.HeadDistances": "heads",
    "fk.checkpoints.load_checkpoint": "heads",
    "fk.diagnostics.head_importance": "heads",
    "import_module('fourierkernels.studies').train": "train",
    "import_module('fourierkernels.studies').STUDIES['language']": "train",
    "fk.theory.symbolic": "symbolic",
    "fk.plotting.plot_weight_maps({'a': np.eye(2)})": "plot",
    "fk.tables.read_columns('a.csv', ['a'])": "data",
    "import_module('fourierkernels.plotting.notebook').read_frame('a.csv')": "data",
    "samples_from('a.csv', columns=['a'])": "data",
    "samples_from('a.parquet', columns=['a'])": "files",
    "ENVIRONMENTS['hopper'].make()": "control",
}
COMMANDS = {
    "train language": "train",
    "train --list": "train",
    "evaluate run": "train",
    "translate run text": "train",
    "heads checkpoint --text text": "heads",
    "heads --help": "heads",
    "cuda check --device cpu": "torch",
    "cuda bench --device cpu": "torch",
    "bench attention": "torch",
    "density a.csv --column a": "data",
    "regress a.csv -x a -y b": "data",
    "rates --plot a.svg": "plot",
    "sweep a.jsonl --scheduler tcp://localhost:1": "cluster",
}
PROGRAM = """
import sys
from importlib import import_module
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *place):
        return None if name in {modules} else super().find_spec(name, *place)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
import numpy as np
import fourierkernels as fk
from fourierkernels import cli
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.estimators import samples_from
for name in {names}:
    try:
        eval(name)
    except ImportError as error:
        print("error:", error)
    else:
        print("nothing is missing")
sys.stderr = sys.stdout
for command in {commands}:
    sys.argv = ["fourierkernels", *command.split()]
    try:
        cli.main()
    except SystemExit as stopped:
        assert stopped.code == 2, command
"""


def test_without_any_extra_every_entry_is_one_sentence_that_names_its_own(tmp_path: Path) -> None:
    program = PROGRAM.format(modules=list(EXTRAS), names=list(NAMES), commands=list(COMMANDS))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    sentence = re.compile(r"error: .+ needs \S+: pip install 'fourierkernels\[(\w+)\]'")
    expected = {**NAMES, **COMMANDS}
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected)
    named = {}
    for entry, line in zip(expected, lines, strict=True):
        found = sentence.fullmatch(line)
        named[entry] = found and found[1]
    assert named == expected
