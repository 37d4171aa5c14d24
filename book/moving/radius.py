"""The radius on a histogram, a density estimate and a regression of the same patients."""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes

import fourierkernels as fk
from book.moving.drawing import Control, Drawing, Over
from book.moving.panel import Panel
from fourierkernels.estimators.modes import modes
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.plotting.svg import BAR, INK, element, fill, key, label, line, stroke

KERNEL = "fourier4"
PER_DOUBLING = 6  # settings of the slider from a radius to twice that
DOUBLINGS = 2  # on either side of the rule's radius
# Standard deviations: b/√12 of a bin of width b, √μ₂/R = √(3/4)/R of the kernel. So b = 3/R.
BIN_TIMES_RADIUS = 3.0
_UNIT = "per kg/m²"

ESTIMATE = Panel(44, 24, 346, 118, (16.0, 44.0), (0.0, 0.12))
FIT = Panel(44, 208, 346, 118, (16.0, 44.0), (0.0, 350.0))


@dataclass(frozen=True)
class Setting:
    """What one radius gives: bins, curves on the grids, and the fit's leave-one-out error."""

    radius: float
    edges: FloatArray
    heights: FloatArray
    density: FloatArray
    modes: int
    fit: FloatArray
    error: float


def patients() -> tuple[FloatArray, FloatArray]:
    """Return body mass index and progression of the 442 patients."""
    data = load_diabetes(scaled=False)
    return data.data[:, data.feature_names.index("bmi")], data.target


def grids() -> tuple[FloatArray, FloatArray]:
    """Return where the density and where the fit is computed: the fit only among the data."""
    return np.linspace(16.0, 44.0, 113), np.linspace(18.0, 42.2, 98)


def radii() -> FloatArray:
    """Return the radii of the slider; the one in the middle is the choice of the rule."""
    bmi, _ = patients()
    chosen = float(fk.KernelDensity(KERNEL).fit(bmi[:, None]).radius_[0])
    steps = np.arange(-DOUBLINGS * PER_DOUBLING, DOUBLINGS * PER_DOUBLING + 1)
    return np.asarray(chosen * 2.0 ** (steps / PER_DOUBLING))


def compute(radius: float) -> Setting:
    """Return the three pictures at one radius."""
    bmi, progression = patients()
    at, inside = grids()
    model = fk.KernelDensity(KERNEL, radius=radius).fit(bmi[:, None])
    fit = fk.NadarayaWatson(KERNEL, radius=radius).fit(bmi[:, None], progression)
    width = BIN_TIMES_RADIUS / radius
    edges = bmi.min() + width * np.arange(math.ceil(np.ptp(bmi) / width + 1e-9) + 1)
    return Setting(
        radius=radius,
        edges=edges,
        heights=np.histogram(bmi, edges, density=True)[0],
        density=model.density(at[:, None]),
        modes=len(modes(model)),
        fit=fit.predict(inside[:, None]),
        error=float(np.sqrt(np.mean((progression - fit.leave_one_out()) ** 2))),
    )


def draw() -> Drawing:
    """Return the moving figure."""
    found = [compute(radius) for radius in radii()]
    start = len(found) // 2
    control = Control(
        name="radius",
        label="Radius R",
        hint="One radius for all three; the slider starts at the one that the rule chooses.",
        values=tuple(_shown(setting.radius, k == start) for k, setting in enumerate(found)),
        start=start,
    )
    best = min(setting.error for setting in found)
    drawing = Drawing(
        name="radius",
        title="A histogram, a density estimate and a regression at one radius",
        description="Above, a histogram of the body mass index of 442 patients and the kernel "
        "density estimate. Below, the patients' progression score against body mass index, and "
        "the Nadaraya–Watson fit. At the foot, a scale of radii with the rule's choice marked.",
        size=(400, 418),
        controls=(control,),
        sentences=[_sentence(setting, best, k - start) for k, setting in enumerate(found)],
    )
    _draw_estimates(drawing, found)
    _draw_fits(drawing, found)
    _draw_scale(drawing, found, start)
    return drawing


def _shown(radius: float, chosen: bool) -> str:
    return f"{radius:.2f} {_UNIT}" + (" (the rule’s)" if chosen else "")


def _sentence(setting: Setting, best: float, side: int) -> str:
    where = (
        "the rule’s choice" if side == 0 else f"{'less' if side < 0 else 'more'} than the rule’s"
    )
    peaks = f"{setting.modes} mode" + ("s" if setting.modes > 1 else "")
    return (
        f"R = {setting.radius:.2f} {_UNIT}, {where}: bins of "
        f"{BIN_TIMES_RADIUS / setting.radius:.1f} kg/m², an estimate with {peaks}, and a fit that "
        f"misses a patient left out by {setting.error:.1f} points (root mean square; at best "
        f"{best:.1f})."
    )


def _draw_estimates(drawing: Drawing, found: list[Setting]) -> None:
    at, _ = grids()
    ESTIMATE.frame(
        drawing, {"x": [20, 25, 30, 35, 40], "y": [0, 0.05, 0.1]}, x="BMI (kg/m²)", y="density"
    )
    drawing.add(ESTIMATE.clipped(drawing, "estimate"))
    drawing.change("path", BAR, d=Over([_bars(setting) for setting in found]))
    drawing.change("path", stroke(1), d=Over([ESTIMATE.path(at, s.density) for s in found]))
    drawing.add("</g>")
    drawing.add(*key(14, 140, [("bar", "histogram"), (1, "density estimate")]))


def _bars(setting: Setting) -> str:
    """Outline of the bins, each down to the axis."""
    x = np.repeat(setting.edges, 3)[1:-1]
    y = np.zeros_like(x)
    y[1::3], y[2::3] = setting.heights, setting.heights
    return ESTIMATE.path(x, y)


def _draw_fits(drawing: Drawing, found: list[Setting]) -> None:
    bmi, progression = patients()
    _, inside = grids()
    FIT.frame(
        drawing,
        {"x": [20, 25, 30, 35, 40], "y": [0, 100, 200, 300]},
        x="BMI (kg/m²)",
        y="progression",
    )
    dots = "".join(FIT.path([a], [b]) + "h0" for a, b in zip(bmi, progression, strict=True))
    look = {"fill": "none", "stroke": INK, "stroke-opacity": "0.5"}
    drawing.add(
        element("path", {**look, "d": dots, "stroke-width": "3", "stroke-linecap": "round"})
    )
    drawing.change("path", stroke(2, 2.5), d=Over([FIT.path(inside, s.fit) for s in found]))
    drawing.add(*key(198, 150, [("dot", "a patient"), (2, "regression")]))


def _draw_scale(drawing: Drawing, found: list[Setting], start: int) -> None:
    ends = (found[0].radius * 0.95, found[-1].radius * 1.05)
    scale = Panel(44, 378, 346, 12, ends, (0.0, 1.0), log_x=True)
    base, rule = scale.top + scale.height, scale.across(found[start].radius)
    drawing.add(line(scale.left, base, scale.left + scale.width, base))
    for value in (0.2, 0.5, 1.0, 2.0):
        at = scale.across(value)
        drawing.add(line(at, base, at, base + 4))
        drawing.add(label(f"{value:g}", at, base + 17, anchor="middle"))
    drawing.add(label("R", 30, base + 5))
    drawing.add(line(rule, base - 14, rule, base + 6, stroke_dasharray="2 2"))
    drawing.add(label("rule", rule + 4, base - 8))
    x = [f"{scale.across(setting.radius):.1f}" for setting in found]
    drawing.change("circle", {**fill(1), "cy": f"{base:g}", "r": "5"}, cx=Over(x))
