"""Imports go one way, and importing the package stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fourierkernels"

# A module may import what stands to the right of it, itself, and nothing else of the package.
ALLOWED = {
    "validation": set(),
    "sinc": set(),
    "study": set(),
    "console": set(),
    "kernels": {"sinc", "validation"},
    "phi_kernel": {"kernels", "sinc", "validation"},
    "densities": {"kernels", "validation"},
    "sums": {"kernels", "validation"},
    "theory": {"console", "densities", "sums", "kernels", "validation"},
    "estimators": {"theory", "densities", "sums", "kernels", "validation"},
    "simulation": {"console", "estimators", "theory", "densities", "sums", "kernels", "validation"},
    "attention": {"sums", "kernels", "validation"},
    "mixing": {"attention", "validation"},
    "models": {"mixing", "attention", "validation"},
    "diagnostics": {"models", "mixing", "attention", "console", "validation"},
    "bench": {"attention", "sums", "kernels", "validation"},
    "plotting": {
        "diagnostics",
        "attention",
        "simulation",
        "estimators",
        "theory",
        "densities",
        "sums",
        "kernels",
        "validation",
    },
}
ALLOWED["cli"] = {"bench", "console", "plotting", *ALLOWED["plotting"]}
HEAVY = ("torch", "matplotlib", "numba", "sklearn", "transformers", "scipy.stats")


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("fourierkernels.")}


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_go_one_way(path: Path) -> None:
    home = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if home == "__init__":
        return
    used = {name.split(".")[1] for name in imported_modules(path)} - {home, "__version__"}
    assert used <= ALLOWED[home], f"{home} must not import {sorted(used - ALLOWED[home])}"


def test_import_is_light() -> None:
    code = "import sys, fourierkernels; print([m for m in sys.argv[1:] if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
