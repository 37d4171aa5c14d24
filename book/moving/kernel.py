"""Power and radius: the kernel, its transform, and the exact MISE they lead to."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from book.moving.drawing import Control, Drawing, Over
from book.moving.panel import Panel
from fourierkernels import theory
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import FourierKernel, as_kernel
from fourierkernels.plotting.svg import element, fill, key, line, number, stroke
from fourierkernels.theory import Mise
from fourierkernels.theory.densities import as_density

DENSITY = "mw6"  # two bumps, of Marron and Wand
SAMPLES = 400
KERNELS = (*(f"fourier{power}" for power in range(1, 7)), "gaussian")
START = (3, 14)  # l = 4, near its best radius
RADII = 0.7 * 2.0 ** (np.arange(22) / 7)

SHAPE = Panel(34, 28, 150, 112, (-5.0, 5.0), (-0.8, 3.3))
TRANSFORM = Panel(236, 28, 154, 112, (0.0, 12.0), (0.0, 1.0))
ERROR = Panel(52, 206, 338, 132, (0.62, 6.3), (3e-4, 0.3), log_x=True, log_y=True)
_BEST = Over(["best R"] * len(KERNELS))
_UNSCALED = {**stroke(1, 2.5), "vector-effect": "non-scaling-stroke"}


@dataclass(frozen=True)
class Curve:
    """Exact error of one kernel at `RADII`, and its best radius."""

    bias2: FloatArray
    variance: FloatArray
    best: float
    least: float

    @property
    def total(self) -> FloatArray:
        """The MISE at `RADII`."""
        return self.bias2 + self.variance


@cache
def error_curve(kernel: str) -> Curve:
    """Return what one kernel can do for the density."""

    def error(radius: float) -> Mise:
        return theory.mise(DENSITY, kernel, n=SAMPLES, radius=radius)

    found = [error(float(radius)) for radius in RADII]
    best = theory.optimal_radius(DENSITY, kernel, n=SAMPLES)
    return Curve(
        bias2=np.array([each.bias2 for each in found]),
        variance=np.array([each.variance for each in found]),
        best=best,
        least=error(best).total,
    )


def draw() -> Drawing:
    """Return the moving figure."""
    drawing = Drawing(
        name="kernel",
        title="A kernel, its transform, and its exact error",
        description="Above, left, the kernel at radius R; right, its transform at that radius over "
        "the squared characteristic function of the density. Below, on logarithmic scales, exact "
        "MISE against R with its parts, squared bias falling and variance rising, and the current "
        "and the best radius marked.",
        size=(400, 380),
        controls=_controls(),
        sentences=[_sentence(name, k) for name in KERNELS for k in range(len(RADII))],
    )
    _draw_kernel(drawing)
    _draw_transform(drawing)
    _draw_error(drawing)
    return drawing


def _controls() -> tuple[Control, Control]:
    power = Control(
        name="power",
        label="Power l",
        hint="Powers of sinc from 1 to 6, then the Gaussian.",
        values=tuple(map(_called, KERNELS)),
        start=START[0],
    )
    radius = Control(
        name="radius",
        label="Radius R",
        hint="The same kernel, narrower: its transform lets higher frequencies pass.",
        values=tuple(f"R = {radius:.2f}" for radius in RADII),
        start=START[1],
    )
    return power, radius


def _called(name: str) -> str:
    kernel = as_kernel(name)
    return f"l = {kernel.power}" if isinstance(kernel, FourierKernel) else "Gaussian"


def _sentence(name: str, k: int) -> str:
    curve = error_curve(name)
    total = curve.total[k]
    return (
        f"{_called(name)}, R = {RADII[k]:.2f}: MISE {total:.4f}, of which squared bias is "
        f"{100 * curve.bias2[k] / total:.0f} %; {total / curve.least:.2f} times the least of this "
        f"kernel, {curve.least:.4f} at R = {curve.best:.2f}."
    )


def _draw_kernel(drawing: Drawing) -> None:
    SHAPE.frame(drawing, {"x": [-4, 0, 4], "y": [0, 1, 2, 3]}, x="x", y="kernel R K(Rx)")
    drawing.add(SHAPE.clipped(drawing, "kernel"))
    zero, unit = SHAPE.down(0.0), SHAPE.down(0.0) - SHAPE.down(1.0)
    drawing.add(line(SHAPE.left, zero, SHAPE.left + SHAPE.width, zero, stroke_opacity="0.35"))
    wide = SHAPE.across(1.0) - SHAPE.across(0.0)
    u = np.arange(-28.5, 28.6, 0.25)  # as far as the panel shows at the largest radius
    shapes = [path(u * wide, -unit * as_kernel(name).value(u)) for name in KERNELS]
    scales = [
        f"translate({SHAPE.across(0.0):g} {zero:.2f}) scale({1 / r:.4f} {r:.4f})" for r in RADII
    ]
    drawing.change("path", _UNSCALED, d=Over(shapes), transform=Over(scales, (1,)))
    drawing.add("</g>")


def _draw_transform(drawing: Drawing) -> None:
    TRANSFORM.frame(drawing, {"x": [0, 4, 8, 12], "y": [0, 0.5, 1]}, x="frequency t")
    drawing.add(*key(TRANSFORM.top - 9, 224, [(1, "kernel"), (3, "density")]))
    t = np.linspace(0.0, 12.0, 100)
    power = np.abs(as_density(DENSITY).cf(t)) ** 2
    drawing.add(element("path", {**stroke(3), "d": TRANSFORM.path(t, power)}))
    drawing.add(TRANSFORM.clipped(drawing, "transform"))
    base, high = TRANSFORM.down(0.0), TRANSFORM.height
    wide = TRANSFORM.across(1.0) - TRANSFORM.across(0.0)
    shapes = [path(s * wide, -high * as_kernel(name).transform(s)) for name, s in _frequencies()]
    scales = [f"translate({TRANSFORM.left:g} {base:g}) scale({r:.4f} 1)" for r in RADII]
    drawing.change("path", _UNSCALED, d=Over(shapes), transform=Over(scales, (1,)))
    drawing.add("</g>")


def _frequencies() -> Iterator[tuple[str, FloatArray]]:
    """Yield each kernel with frequencies up to its cutoff, and one far beyond it."""
    for name in KERNELS:
        end = min(as_kernel(name).cutoff, 6.0)
        yield name, np.r_[np.linspace(0.0, end, 73), end + 1e-9, 18.0]


def path(x: FloatArray, y: FloatArray) -> str:
    """Return a line that is scaled later, and so needs a digit more."""
    points = (f"{number(a, 2)} {number(b, 2)}" for a, b in zip(x, y, strict=True))
    return "M" + "L".join(points)


def _draw_error(drawing: Drawing) -> None:
    ticks = {"x": [0.7, 1, 2, 3, 5], "y": [0.001, 0.01, 0.1]}
    ERROR.frame(drawing, ticks, x="radius R", y=f"MISE, N = {SAMPLES}")
    curves = [error_curve(name) for name in KERNELS]
    drawing.add(ERROR.clipped(drawing, "error"))
    best = [f"M{ERROR.across(c.best):.1f} {ERROR.top}V{ERROR.top + ERROR.height}" for c in curves]
    look = {"stroke": "currentColor", "stroke-dasharray": "2 3", "fill": "none"}
    drawing.change("path", look, d=Over(best))
    ERROR.ruler(drawing, RADII.tolist(), 1)
    for kind, values in ((1, "total"), (2, "bias2"), (3, "variance")):
        lines = [ERROR.path(RADII, getattr(curve, values)) for curve in curves]
        drawing.change("path", stroke(kind), d=Over(lines))
        y = [number(ERROR.down(v)) for curve in curves for v in getattr(curve, values)]
        x = [number(ERROR.across(radius)) for radius in RADII]
        drawing.change("circle", {**fill(kind), "r": "4"}, cx=Over(x, (1,)), cy=Over(y, (0, 1)))
    drawing.add("</g>")
    drawing.add(*key(ERROR.top - 9, 160, [(1, "total"), (2, "bias²"), (3, "variance")]))
    at = [number(ERROR.across(curve.best) + 5) for curve in curves]
    drawing.change("text", {"y": f"{ERROR.top + 12:g}"}, x=Over(at), text=_BEST)
