"""A query on its way along a regression: the fit, and the weights of the patients behind it.

The numbers are those of :func:`fourierkernels.explore.regression` at each setting.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from book.moving.drawing import Control, Drawing, Over
from book.moving.panel import Panel
from book.moving.radius import patients
from fourierkernels import explore
from fourierkernels.explore.regression_view import RegressionExploration, RegressionResult
from fourierkernels.plotting.svg import BAR, INK, element, fill, key, number, stroke

QUERIES = np.arange(18.0, 43.0)
DEGREES = (0, 1)
START = (int(np.flatnonzero(QUERIES == 41.0)[0]), 0)
_NAMES = ("0 (a weighted mean)", "1 (a line at each query)")

FIT = Panel(44, 24, 346, 150, (16.0, 44.0), (0.0, 350.0))
_TICKS = [20, 25, 30, 35, 40]


@dataclass(frozen=True)
class Setting:
    """What one query and one degree give; `centre` is Σ wᵢxᵢ, `effective` is 1/Σ wᵢ²."""

    query: float
    degree: int
    result: RegressionResult
    centre: float
    effective: float


@cache
def view() -> RegressionExploration:
    """Return the exploration of progression against body mass index."""
    return explore.regression(*patients())


@cache
def settings() -> list[Setting]:
    """Return what is shown at each query and degree, the degree fastest."""
    bmi, _ = patients()
    by_degree = {}
    for degree in DEGREES:  # one fit for all queries
        results = [view().set(degree=degree, query=query).result for query in QUERIES]
        by_degree[degree] = [
            Setting(
                query=float(query),
                degree=degree,
                result=result,
                centre=float(result.weights @ bmi),
                effective=1.0 / float(np.square(result.weights).sum()),
            )
            for query, result in zip(QUERIES, results, strict=True)
        ]
    return [by_degree[degree][k] for k in range(len(QUERIES)) for degree in DEGREES]


def draw() -> Drawing:
    """Return the moving figure."""
    found = settings()
    drawing = Drawing(
        name="regression",
        title="A regression and the weights behind its value at one query",
        description="Above, the patients' progression score against body mass index, the fitted "
        "curve, and the fit at the query, which an upright line marks. Below, the weights of the "
        "patients at this query, summed over 64 bins, and their centre: for degree 0 and a query "
        "near the right end it lies to the left of the query.",
        size=(400, 376),
        controls=(
            Control(
                name="query",
                label="Query x",
                hint="The body mass index at which the fit is computed.",
                values=tuple(f"{query:.0f} kg/m²" for query in QUERIES),
                start=START[0],
            ),
            Control(
                name="degree",
                label="Degree",
                hint="Of the polynomial that is fitted around the query.",
                values=_NAMES,
                start=START[1],
            ),
        ),
        sentences=[_sentence(setting) for setting in found],
    )
    _draw_fit(drawing, found)
    _draw_weights(drawing, found)
    return drawing


def weights_panel() -> Panel:
    """Return the panel of the weights, on one scale for all settings."""
    heights = np.concatenate([setting.result.bars[1] for setting in settings()])
    low, high = 1.1 * min(0.0, float(heights.min())), 1.1 * float(heights.max())
    return Panel(44, 240, 346, 90, FIT.x, (low, high))


def _sentence(setting: Setting) -> str:
    off = setting.centre - setting.query
    shown = f"{abs(off):.1f}"
    way = "above" if off > 0 else "below"
    side = "as is the query" if shown == "0.0" else f"{shown} {way} the query"
    return (
        f"Query {setting.query:.0f} kg/m², degree {setting.degree}: the fit is "
        f"{setting.result.value:.0f} points, a weighted mean over {setting.effective:.1f} "
        f"effective patients. The centre of their weights is {setting.centre:.1f} kg/m², {side}."
    )


def _draw_fit(drawing: Drawing, found: list[Setting]) -> None:
    bmi, progression = patients()
    FIT.frame(drawing, {"x": _TICKS, "y": [0, 100, 200, 300]}, x="BMI (kg/m²)", y="progression")
    dots = "".join(FIT.path([a], [b]) + "h0" for a, b in zip(bmi, progression, strict=True))
    look = {"fill": "none", "stroke": INK, "stroke-opacity": "0.4", "stroke-width": "3"}
    drawing.add(element("path", {**look, "stroke-linecap": "round", "d": dots}))
    fits = [setting.result.fit for setting in found[: len(DEGREES)]]
    curves = [FIT.path(fit.at, fit.curve) for fit in fits if fit.curve is not None]
    drawing.change("path", stroke(1, 2.5), d=Over(curves, (1,)))
    FIT.ruler(drawing, QUERIES.tolist())
    x = Over([number(FIT.across(query)) for query in QUERIES])
    y = Over([number(FIT.down(setting.result.value)) for setting in found], (0, 1))
    drawing.change("circle", {**fill(2), "r": "5"}, cx=x, cy=y)
    drawing.add(*key(14, 110, [("dot", "a patient"), (1, "fit"), ("dot-2", "fit at the query")]))


def _draw_weights(drawing: Drawing, found: list[Setting]) -> None:
    panel = weights_panel()
    panel.frame(drawing, {"x": _TICKS, "y": [0.0, 0.5]}, x="BMI (kg/m²)", y="weight")
    bars = [_bars(panel, *setting.result.bars) for setting in found]
    drawing.change("path", BAR, d=Over(bars, (0, 1)))
    panel.ruler(drawing, QUERIES.tolist())
    x = [number(panel.across(setting.centre)) for setting in found]
    base = number(panel.down(0.0))
    drawing.change("circle", {**fill(3), "r": "5", "cy": base}, cx=Over(x, (0, 1)))
    drawing.add(*key(panel.top - 10, 110, [("bar", "weights"), ("dot-3", "their centre")]))


def _bars(panel: Panel, x: np.ndarray, heights: np.ndarray) -> str:
    """Outline of the bars that can be seen, one after another."""
    base = panel.down(0.0)
    wide = 0.8 * (panel.across(float(x[1])) - panel.across(float(x[0])))
    return "".join(
        f"M{number(panel.across(float(a)) - wide / 2)} {number(base)}"
        f"V{number(panel.down(float(height)))}h{number(wide)}V{number(base)}"
        for a, height in zip(x, heights, strict=True)
        if abs(panel.down(float(height)) - base) >= 0.1
    )
