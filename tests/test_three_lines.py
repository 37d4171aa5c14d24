"""What a reader of the README wants takes three lines at most, from public names."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fourierkernels as fk

PROGRAMS = {
    "estimate": """
model = fk.KernelDensity().fit(x)
result = model.density([[0.0]])
""",
    "regression": """
model = fk.NadarayaWatson(radius="gcv").fit(x, y)
result = model.predict([[0.0]])
""",
    "exact error": 'result = fk.theory.mise("gaussian", "fourier4", n=1000, radius=2.0).total',
    "verdict": 'result = fk.theorems.verify("1", "gaussian", "fourier4").verdict',
    "attention map": """
layer = fk.attention.FourierAttention(8, 2)
output, result = layer(tokens, need_weights=True)
""",
    "head distances": """
report = fk.head_report(checkpoint, texts)
result = report.summaries()["trained"].distances
""",
    "model in memory": """
report = fk.head_report(model, batch, baseline=untrained)
result = report.frame()["mean"]
""",
    "page": """
report = fk.head_report(checkpoint, texts)
result = report.save(folder)
""",
}


def expected(name: str, result: Any) -> bool:
    """Tell whether the result is what was asked for."""
    shapes = {"estimate": (1,), "regression": (1,), "attention map": (2, 2, 5, 5)}
    if name in shapes:
        return tuple(result.shape) == shapes[name]
    if name == "exact error":
        return bool(0 < result < 0.01)
    if name == "verdict":
        return bool(result == "holds, loose")
    if name == "page":
        return any(path.name == "heads.html" and path.exists() for path in result)
    return bool(np.isfinite(result).any())


@pytest.mark.parametrize("name", PROGRAMS)
def test_result_takes_three_lines_at_most(
    name: str, tiny: Callable[[str], Path], texts: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    names: dict[str, Any] = {
        "fk": fk,
        "x": rng.normal(size=(100, 1)),
        "y": rng.normal(size=100),
        "tokens": torch.zeros(2, 5, 8),
        "checkpoint": tiny("bert"),
        "texts": texts,
        "model": torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        "untrained": torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        "batch": torch.ones(2, 5, 8),
        "folder": tmp_path / "heads",
    }
    assert len(ast.parse(PROGRAMS[name]).body) <= 2  # and the import of the package
    exec(PROGRAMS[name], names)
    assert expected(name, names["result"])


def test_report_prints_and_shows_itself(tiny: Callable[[str], Path], texts: Path) -> None:
    report = fk.head_report(tiny("bert"), texts)
    assert "layer average" in str(report)
    assert "<iframe" in report._repr_html_()
