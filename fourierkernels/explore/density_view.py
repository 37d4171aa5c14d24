"""A density estimate that follows a slider: bins, radius, kernel, and the choice of every rule."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators import KernelDensity
from fourierkernels.estimators.checks import TiedDataWarning, silenced
from fourierkernels.estimators.radius import GAUSSIAN_RULES, RADIUS_RULES, normal_reference
from fourierkernels.estimators.radius.sample import tie_limit
from fourierkernels.estimators.radius.spectral import pilot
from fourierkernels.estimators.radius.spectrum import KernelScore, SampleSpectrum, settled
from fourierkernels.explore.exploration import Exploration
from fourierkernels.explore.preparing import compile_sums
from fourierkernels.explore.settings import Choice, Slider, log_grid, ticks
from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.foundation.validation import check_finite
from fourierkernels.kernels import KERNELS, GaussianKernel, as_kernel
from fourierkernels.plotting.svg import (
    BAR,
    INK,
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

_REACH = 12.0  # radii on the slider, in those of the normal reference, up and down
# Standard deviations: b/√12 of a bin of width b, √μ₂/R of sinc⁴. So b = √12 √(3/4)/R.
_BIN_TIMES_RADIUS = 3.0
_NARROWEST = 400  # bins are not narrower than this part of the range
_PER_RADIUS, _LEAST, _MOST = 8.0, 256, 4096  # points of the curve: per 1/R, at least, at most
_FLOOR = 0.01  # of the highest mode: lower ones are ripples of side lobes
_SHOWN = 12.0  # per cent above the least that the criteria show
_CURVE = 61  # radii at which the criteria are computed


@dataclass(frozen=True)
class DensityState:
    """Radius R, kernel, and where the first bin begins, as a part of a bin."""

    radius: float
    kernel: str = "fourier4"
    bin_start: float = 0.0


class DensityResult(NamedTuple):
    """Bins with their heights, the estimate `density` at `at`, and the places of its modes."""

    edges: FloatArray
    heights: FloatArray
    at: FloatArray
    density: FloatArray
    modes: FloatArray


class Criteria(NamedTuple):
    """Estimates of the error at `radii`, less a constant, and the radius that each rule chooses."""

    radii: FloatArray
    lscv: FloatArray
    plugin: FloatArray
    chosen: dict[str, float]


class DensityExploration(Exploration[DensityState, DensityResult]):
    """See :func:`fourierkernels.explore.density`."""

    name = "density"

    def __init__(self, x: ArrayLike) -> None:
        self.sample = _column(x)
        points = self.sample[:, None]
        start = float(normal_reference(points, np.ones(len(points)), as_kernel("fourier4"))[0])
        self.radii = (start / _REACH, start * _REACH)
        self.settings = (
            Slider("radius", "Radius R", *self.radii, log=True),
            Choice("kernel", "Kernel", tuple(KERNELS)),
            Slider("bin_start", "Bins begin at", 0.0, 1.0),
        )
        super().__init__(DensityState(start))

    def compute(self, state: DensityState) -> DensityResult:
        """Return histogram, estimate and modes."""
        low, high = float(self.sample.min()), float(self.sample.max())
        width = max(_BIN_TIMES_RADIUS / state.radius, (high - low) / _NARROWEST)
        first = low - (1.0 - state.bin_start) * width
        edges: FloatArray = first + width * np.arange(math.floor((high - first) / width) + 2.0)
        heights = np.histogram(self.sample, edges, density=True)[0].astype(np.float64)
        margin = 0.05 * (high - low) + 1.0 / state.radius
        points = np.clip(_PER_RADIUS * (high - low) * state.radius, _LEAST, _MOST)
        at = np.asarray(np.linspace(low - margin, high + margin, int(points)), dtype=np.float64)
        model = KernelDensity(state.kernel, radius=state.radius).fit(self.sample[:, None])
        density = model.density(at[:, None])
        return DensityResult(edges, heights, at, density, at[_peaks(density)])

    def prepare(self) -> None:
        """Compile the sums that other radii and kernels need."""
        compile_sums()

    def later_key(self) -> str:
        """Return the kernel, on which alone the criteria depend."""
        return self.state.kernel

    def compute_later(self, state: DensityState) -> Criteria:
        """Return the criteria at all radii, and the radius that each rule chooses."""
        kernel, points = as_kernel(state.kernel), self.sample[:, None]
        weights = np.ones(len(points))
        rules = {**RADIUS_RULES, **(GAUSSIAN_RULES if isinstance(kernel, GaussianKernel) else {})}
        chosen = {}
        with silenced(TiedDataWarning):
            for name, rule in rules.items():
                if name.endswith("_full"):  # a matrix, in one dimension the same
                    continue
                try:
                    chosen[name] = float(rule(points, weights, kernel)[0])
                except ValueError:  # a rule that finds no radius has no mark
                    continue
            radii = log_grid(*self.radii, _CURVE)
            return Criteria(radii, *_criteria(points, weights, state.kernel, radii), chosen)

    def sentence(self) -> str:
        """Return radius, modes and how the criteria judge the radius."""
        state, result = self.state, self.result
        count = len(result.modes)
        said = (
            f"{state.kernel}, R = {state.radius:.3g} (bandwidth {1.0 / state.radius:.3g}): "
            f"{count} mode{'s' * (count != 1)} above 1 % of the highest."
        )
        if self.later is None:
            return said
        rules = ", ".join(f"{name} {radius:.3g}" for name, radius in self.later.chosen.items())
        return f"{said} Radii of the rules: {rules}."

    def picture(self) -> Picture:
        """Return histogram and estimate above the criteria."""
        result = self.result
        picture = Picture(
            name="density",
            title="Histogram, density estimate and criteria of the radius",
            description="Above, the histogram and the estimate with its modes marked. Below, "
            "against the radius, two estimates of the error with the radius of each rule.",
            size=(640, 400),
        )
        top = 1.1 * float(max(result.heights.max(), result.density.max()))
        low = min(0.0, 1.1 * float(result.density.min()))
        above = Panel(60, 30, 570, 175, (float(result.at[0]), float(result.at[-1])), (low, top))
        above.frame(picture, {"x": ticks(*above.x), "y": ticks(low, top)}, y="density")
        picture.add(*key(21, 240, [("bar", "histogram"), (1, "estimate"), ("dot-1", "mode")]))
        _draw_bars(picture, above, result)
        picture.add(
            element("path", {**stroke(1), "d": above.path(result.at, result.density)}),
            *(_mode(above, result, x) for x in result.modes),
        )
        self._draw_criteria(picture)
        return picture

    def _draw_criteria(self, picture: Picture) -> None:
        low, high = self.radii
        below = Panel(60, 265, 570, 95, (low, high), (0.0, _SHOWN), log_x=True)
        where = {"x": ticks(low, high, log=True), "y": [0, 5, 10]}
        below.frame(picture, where, x="radius R", y="error above its least, %")
        at = below.across(self.state.radius)
        picture.add(line(at, below.top, at, below.top + below.height, stroke_width="1.5"))
        found = self.later
        if found is None:
            picture.add(label("criteria: being computed", 70, below.top + 16))
            return
        picture.add(*key(257, 240, [(2, "cross-validation"), (3, "plug-in")]))
        picture.add(below.clipped(picture, "criteria"))
        for kind, values in ((2, found.lscv), (3, found.plugin)):
            excess = 100.0 * (values - values.min()) / abs(values.min())
            picture.add(element("path", {**stroke(kind), "d": below.path(found.radii, excess)}))
        picture.add("</g>")
        _draw_marks(picture, below, found.chosen)


def _column(x: ArrayLike) -> FloatArray:
    sample = check_finite("x", np.array(x, dtype=np.float64))
    if sample.ndim == 2 and sample.shape[1] == 1:
        sample = sample[:, 0]
    if sample.ndim != 1 or len(sample) < 2:
        raise ValueError(f"x must have shape (n,) with n >= 2, got {sample.shape}")
    return sample


def _peaks(density: FloatArray) -> IntArray:
    """Return which points are local maxima, of a plateau its first."""
    inner = density[1:-1]
    high = (inner > density[:-2]) & (inner >= density[2:]) & (inner >= _FLOOR * density.max())
    return np.flatnonzero(high) + 1


def _criteria(
    points: FloatArray, weights: FloatArray, name: str, radii: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scores of cross-validation and of the plug-in rule at all radii."""
    kernel = as_kernel(name)
    sample, end = settled(points, weights, tie_limit(kernel, 1), "lscv")
    scale = sample.scale
    ends = np.minimum(kernel.cutoff * radii[-1] * scale, end)
    score = KernelScore(SampleSpectrum(sample, ends, rule="lscv"), kernel, ends)
    lscv = np.array([score(radius * scale) for radius in radii]) / scale
    spectrum, cut = pilot(sample, end)
    error = KernelScore(spectrum, kernel, cut)
    plugin = np.array([error(radius * scale) for radius in radii]) / scale
    return lscv, plugin


def _draw_bars(picture: Picture, panel: Panel, result: DensityResult) -> None:
    base = panel.down(0.0)
    lefts = [panel.across(float(edge)) for edge in result.edges]
    tops = [number(panel.down(float(height))) for height in result.heights]
    foot = number(base)
    outline = "".join(
        f"M{number(a)} {foot}V{top}H{number(b)}V{foot}"
        for a, b, top in zip(lefts, lefts[1:], tops, strict=False)
        if top != foot
    )
    picture.add(panel.clipped(picture, "bars"), element("path", {**BAR, "d": outline}), "</g>")


def _mode(panel: Panel, result: DensityResult, x: float) -> str:
    height = float(np.interp(x, result.at, result.density))
    place = {"cx": number(panel.across(x)), "cy": number(panel.down(height)), "r": "3.5"}
    return element("circle", {**fill(1), **place})


def _draw_marks(picture: Picture, panel: Panel, chosen: dict[str, float]) -> None:
    """Mark the radius of each rule, with its name on a line of its own."""
    base = panel.top + panel.height
    inside = {n: r for n, r in chosen.items() if panel.x[0] <= r <= panel.x[1]}
    for row, (name, radius) in enumerate(sorted(inside.items(), key=lambda each: each[1])):
        at, down = panel.across(radius), panel.top + 12.0 + 13.0 * row
        right = at > panel.left + 0.7 * panel.width
        picture.add(
            line(at, down - 4, at, base, stroke_dasharray="2 3", stroke_opacity="0.7"),
            label(name, at - 4 if right else at + 4, down, anchor="end" if right else "start"),
            element("circle", {"cx": number(at), "cy": number(base), "r": "3", "fill": INK}),
        )
