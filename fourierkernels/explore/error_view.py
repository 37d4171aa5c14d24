"""Exact error that follows a slider: signal and noise, bias and variance, the rate as a slope."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fourierkernels import theory
from fourierkernels.explore.exploration import Exploration
from fourierkernels.explore.settings import Choice, Slider, log_grid, ticks
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import KERNELS, as_kernel
from fourierkernels.plotting.svg import (
    Panel,
    Picture,
    element,
    fill,
    key,
    label,
    line,
    number,
    stroke,
)
from fourierkernels.theory import Mise, Optimum
from fourierkernels.theory.densities import Density, as_density

_SAMPLES = 1000
_LARGEST = 1e9
_CURVE = 73
_WIDEST = 4000.0  # ratio of the ends of the slider
_DECADES = 7.0  # of the squared characteristic function that are shown
_AROUND = 10.0**1.5  # of the rate, a decade and a half of N on either side
_SIZES = tuple(round(10.0 ** (k / 4.0)) for k in range(4, 37))  # N, four a decade, to the largest


@dataclass(frozen=True)
class ErrorState:
    """Radius R, number of samples n, and kernel."""

    radius: float
    n: int = _SAMPLES
    kernel: str = "fourier1"


class ErrorResult(NamedTuple):
    """Squared bias and variance at `radii`, the error at the radius, and the best one."""

    radii: FloatArray
    bias2: FloatArray
    variance: FloatArray
    here: Mise
    best: Optimum


class ErrorExploration(Exploration[ErrorState, ErrorResult]):
    """See :func:`fourierkernels.explore.error`."""

    name = "error"

    def __init__(self, density: Density | str) -> None:
        self.density = as_density(density)
        self.title = density if isinstance(density, str) else repr(density)
        if self.density.dim != 1:
            raise ValueError(f"density must have one dimension, got {self.density.dim}")
        best = theory.optimal_radius(self.density, "fourier1", n=_SAMPLES)
        self.radii = self._range()
        self.settings = (
            Slider("radius", "Radius R", *self.radii, log=True),
            Slider("n", "Samples N", 10.0, _LARGEST, log=True),
            Choice("kernel", "Kernel", tuple(KERNELS)),
        )
        self._curves: dict[str, tuple[FloatArray, FloatArray]] = {}
        super().__init__(ErrorState(best))

    def _range(self) -> tuple[float, float]:
        """Return radii from below the best one for ten samples to beyond that for ten million."""
        low = theory.optimal_radius(self.density, "fourier1", n=10) / 4.0
        high = 2.0 * theory.optimal_radius(self.density, "fourier4", n=10**7)
        return low, min(high, _WIDEST * low)

    def checked(self, state: ErrorState) -> ErrorState:
        """Round the number of samples."""
        return replace(state, n=round(state.n))

    def compute(self, state: ErrorState) -> ErrorResult:
        """Return the exact error at all radii, at this one, and at the best."""
        radii = log_grid(*self.radii, _CURVE)
        if state.kernel not in self._curves:  # n MISE is linear in 1/n: one curve for all n
            errors = [
                theory.mise(self.density, state.kernel, n=1, radius=radius) for radius in radii
            ]
            self._curves[state.kernel] = (
                np.array([each.bias2 for each in errors]),
                np.array([each.variance for each in errors]),
            )
        bias2, noise = self._curves[state.kernel]
        here = theory.mise(self.density, state.kernel, n=state.n, radius=state.radius)
        best = theory.optimum(self.density, state.kernel, n=state.n)
        return ErrorResult(radii, bias2, noise / state.n, here, best)

    def later_key(self) -> str:
        """Return the kernel, on which alone the least errors depend."""
        return self.state.kernel

    def compute_later(self, state: ErrorState) -> FloatArray:
        """Return the least exact error for each number of samples."""
        best = [theory.optimum(self.density, state.kernel, n=n) for n in _SIZES]
        return np.array([each.mise.total for each in best])

    def sentence(self) -> str:
        """Return the error with its parts, the best radius, and the slope there."""
        state, result = self.state, self.result
        here, best = result.here, result.best
        rate = theory.sharp_rate(self.density, state.kernel)
        return (
            f"{self.title}, {state.kernel}, N = {state.n:,}, R = {state.radius:.3g}: exact MISE "
            f"{here.total:.3g}, {here.total / best.mise.total:.3g} times the least, and "
            f"{here.bias2 / here.total:.0%} of it is squared bias. At the best radius, "
            f"{best.radius:.3g}, the slope of log MISE in log N is {best.slope:.3f}, minus the "
            f"share of variance; the sharp rate is {rate}."
        )

    def panels(self) -> dict[str, Panel]:
        """Return the panels of the signal and of the error; the radius is moved on the latter."""
        result, (low, high) = self.result, self.radii
        least = result.best.mise.total
        total = float((result.bias2 + result.variance).min())
        error = (least / _AROUND, max(least * _AROUND, 2.0 * total))
        frequencies, power = (0.0, 1.5 * self.state.radius), (10.0**-_DECADES, 2.0)
        return {
            "signal": Panel(60, 30, 570, 140, frequencies, power, log_y=True),
            "error": Panel(60, 240, 365, 140, (low, high), error, log_x=True, log_y=True),
        }

    def _rate_panel(self) -> Panel:
        """Return the panel of the rate, with the scale of the error beside it; N is its middle.

        The pointer does not act on it: its scale would move along.
        """
        n, error = float(self.state.n), self.panels()["error"].y
        around = (n / _AROUND, n * _AROUND)
        return Panel(470, 240, 160, 140, around, error, log_x=True, log_y=True)

    def point(self, panel: str, x: float, y: float, *, pressed: bool) -> None:
        """Move the radius to the pointer."""
        if panel == "error":
            self.set(radius=float(np.clip(x, *self.radii)))

    def press(self, key: str) -> None:
        """Move the radius by a step, or the number of samples by a tenth of a decade."""
        way = 1.0 if key in ("ArrowRight", "ArrowUp") else -1.0
        if key in ("ArrowLeft", "ArrowRight"):
            ratio = (self.radii[1] / self.radii[0]) ** (way / _CURVE)
            self.set(radius=float(np.clip(self.state.radius * ratio, *self.radii)))
        else:
            self.set(n=float(np.clip(self.state.n * 10.0 ** (0.1 * way), 10.0, _LARGEST)))

    def picture(self) -> Picture:
        """Return signal and noise above squared bias, variance and error."""
        picture = Picture(
            name="error",
            title="Signal, noise, and exact error",
            description="Above, the squared characteristic function against the frequency, the "
            "noise line 1/(N + 1), and the part that the kernel lets pass. Below, squared bias, "
            "variance and their sum against the radius, with this radius and the best one; on the "
            "right, the least error against the number of samples, with its tangent at this one.",
            size=(640, 425),
        )
        panels = self.panels()
        self._draw_signal(picture, panels["signal"])
        self._draw_error(picture, panels["error"])
        self._draw_rate(picture, self._rate_panel())
        return picture

    def _draw_signal(self, picture: Picture, panel: Panel) -> None:
        state = self.state
        powers = [10.0**-k for k in range(0, int(_DECADES), 2)]
        panel.frame(picture, {"x": ticks(*panel.x), "y": powers}, x="frequency t")
        picture.add(*key(21, 130, [(1, "signal |p̂|²"), (2, "noise 1/(N + 1)"), (3, "kept")]))
        t = np.linspace(0.0, panel.x[1], 241)
        signal = np.abs(self.density.cf(t)) ** 2
        kept = np.square(as_kernel(state.kernel).transform(t / state.radius))
        noise = np.full_like(t, 1.0 / (state.n + 1))
        picture.add(panel.clipped(picture, "signal"))
        for kind, values in ((3, kept), (2, noise), (1, signal)):
            picture.add(
                element("path", {**stroke(kind), "d": panel.path(t, np.maximum(values, 1e-300))})
            )
        picture.add("</g>")

    def _draw_error(self, picture: Picture, panel: Panel) -> None:
        result, state = self.result, self.state
        where = {"x": ticks(*panel.x, log=True), "y": ticks(*panel.y, log=True)}
        panel.frame(picture, where, x="radius R", y="MISE")
        picture.add(*key(panel.top - 9, 120, [(1, "total"), (2, "bias²"), (3, "variance")]))
        picture.add(panel.clipped(picture, "error"))
        parts = ((2, result.bias2), (3, result.variance), (1, result.bias2 + result.variance))
        for kind, values in parts:
            shown = np.maximum(values, 1e-300)
            picture.add(element("path", {**stroke(kind), "d": panel.path(result.radii, shown)}))
        foot = panel.top + panel.height
        for radius, look in (
            (state.radius, {"stroke_width": "1.5"}),
            (result.best.radius, {"stroke_dasharray": "2 3"}),
        ):
            at = panel.across(radius)
            picture.add(line(at, panel.top, at, foot, **look))
        picture.add("</g>")
        if result.best.radius <= self.radii[1]:
            at = panel.across(result.best.radius)
            picture.add(label("best R", at + 4, panel.top + 12))

    def _draw_rate(self, picture: Picture, panel: Panel) -> None:
        best, n = self.result.best, self.state.n
        panel.frame(picture, {"x": ticks(*panel.x, log=True), "y": []}, x="samples N")
        picture.add(label("least MISE", panel.left, panel.top - 9), panel.clipped(picture, "rate"))
        if self.later is not None:
            drawn = panel.path(_SIZES, self.later)
            picture.add(element("path", {**stroke(1), "d": drawn}))
        ends = np.array(panel.x)
        tangent = panel.path(ends, best.mise.total * (ends / n) ** best.slope)
        picture.add(element("path", {**stroke(2), "d": tangent}), "</g>")
        place = {"cx": number(panel.across(n)), "cy": number(panel.down(best.mise.total))}
        picture.add(element("circle", {**fill(2), **place, "r": "4"}))
        slope = f"slope {best.slope:.3f}".replace("-", "−")
        right = panel.left + panel.width
        picture.add(label(slope, right, panel.top + 14, anchor="end"))
