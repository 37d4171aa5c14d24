"""A regression that follows the pointer: drag a sample, move the query, see the weights."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators import LocalPolynomial, NadarayaWatson
from fourierkernels.estimators.checks import UndefinedWarning, silenced
from fourierkernels.estimators.radius import normal_reference
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.explore.exploration import Exploration
from fourierkernels.explore.preparing import compile_moment_sums, compile_sums
from fourierkernels.explore.settings import Choice, Slider, ticks
from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.foundation.validation import check_finite
from fourierkernels.kernels import KERNELS, as_kernel
from fourierkernels.plotting.svg import (
    BAR,
    INK,
    Panel,
    Picture,
    element,
    fill,
    key,
    line,
    number,
    stroke,
)

_REACH = 12.0  # radii on the slider, in those of the normal reference of the design, up and down
_CURVE = 161  # points of the drawn curve
_DRAWN = 800  # samples that are drawn, evenly chosen in the order of the table
_STEMS = 200  # samples up to which each weight is a line of its own; beyond, sums over bins
_BINS = 64
_NEAR = 14.0  # units of the picture within which the pointer takes a sample
_STEP = 1.0 / 60  # of a panel, that an arrow key moves
_AT_ONCE = 20_000  # samples up to which fits of degree one or more follow a slider


@dataclass(frozen=True)
class RegressionState:
    """Radius R, kernel, degree, query, and one sample with the place where it is held.

    Degree 0 is the Nadaraya-Watson estimate.
    """

    radius: float
    query: float
    point: int
    point_x: float
    point_y: float
    kernel: str = "fourier4"
    degree: int = 0


class Fit(NamedTuple):
    """The samples, the model, its `curve` at `at`, and the residual of the sample that is held.

    `left_out` is its residual when it is left out of the fit.
    """

    x: FloatArray
    y: FloatArray
    model: LinearSmoother
    at: FloatArray
    curve: FloatArray | None
    residual: float
    left_out: float


class RegressionResult(NamedTuple):
    """The fit, its value at the query, and the weights behind it, one per sample.

    `bars` are places and heights of the weights as they are drawn.
    """

    fit: Fit
    value: float
    weights: FloatArray
    bars: tuple[FloatArray, FloatArray]


class RegressionExploration(Exploration[RegressionState, RegressionResult]):
    """See :func:`fourierkernels.explore.regression`."""

    name = "regression"

    def __init__(self, x: ArrayLike, y: ArrayLike) -> None:
        self.x, self.y = _columns(x, y)
        points = self.x[:, None]
        start = float(normal_reference(points, np.ones(len(points)), as_kernel("fourier4"))[0])
        low, high = float(self.x.min()), float(self.x.max())
        self.settings = (
            Slider("radius", "Radius R", start / _REACH, start * _REACH, log=True),
            Choice("kernel", "Kernel", tuple(KERNELS)),
            Slider("degree", "Degree", 0, 3, whole=True),
            Slider("query", "Query x", low, high),
            Slider("point", "Sample", 0, len(points) - 1, whole=True),
        )
        self._held = ""
        self._fitted: tuple[RegressionState, Fit] | None = None
        self._written: tuple[tuple[int, float, float], str] | None = None
        middle = int(np.argsort(self.x)[len(self.x) // 2])
        query = low + 0.75 * (high - low)
        super().__init__(
            RegressionState(start, query, middle, float(self.x[middle]), float(self.y[middle]))
        )

    def completed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Put a sample that is newly held at its own place, unless another one is given."""
        point = changes.get("point", self.state.point)
        if point == self.state.point:
            return changes
        return {"point_x": float(self.x[point]), "point_y": float(self.y[point])} | changes

    def checked(self, state: RegressionState) -> RegressionState:
        """Refuse a place that is no number."""
        check_finite("point_x, point_y", np.array([state.point_x, state.point_y], dtype=float))
        return state

    def compute(self, state: RegressionState) -> RegressionResult:
        """Return the fit, and the weights of the query."""
        settings, kept = replace(state, query=0.0), self._fitted
        if kept is None or kept[0] != settings:
            kept = self._fitted = (settings, self._fit(state))
        fit = kept[1]
        (weights,) = _quietly(fit.model.weights, np.array([[state.query]]))
        bars = _bars(fit.x, np.nan_to_num(weights))
        return RegressionResult(fit, float(weights @ fit.y), weights, bars)

    def _fit(self, state: RegressionState) -> Fit:
        x, y = self._samples(state)
        held = np.arange(len(x)) == state.point  # smoothed, its weight in the fit at its place
        model = _model(state).fit(x[:, None], np.column_stack([y, held]))
        at = np.linspace(self.x.min(), self.x.max(), _CURVE)
        slow = self._is_slow(state)
        queries = np.append([] if slow else at, state.point_x)
        fits = _quietly(model.predict, queries[:, None])
        there, leverage = fits[-1]
        residual = state.point_y - float(there)
        with np.errstate(divide="ignore", invalid="ignore"):
            left_out = float(np.float64(residual) / (1.0 - leverage))
        return Fit(x, y, model, at, None if slow else fits[:-1, 0], residual, left_out)

    def _samples(self, state: RegressionState) -> tuple[FloatArray, FloatArray]:
        x, y = self.x.copy(), self.y.copy()
        x[state.point], y[state.point] = state.point_x, state.point_y
        return x, y

    def _is_slow(self, state: RegressionState) -> bool:
        return state.degree > 0 and len(self.x) > _AT_ONCE

    def prepare(self) -> None:
        """Compile the sums that other degrees, radii and kernels need."""
        compile_moment_sums()
        compile_sums()

    def later_key(self) -> RegressionState | None:
        """Return the settings of a fit that is too slow to follow a slider; the query is none."""
        return replace(self.state, query=0.0) if self._is_slow(self.state) else None

    def compute_later(self, state: RegressionState) -> FloatArray:
        """Return the curve of a local fit of degree one or more to many samples."""
        x, y = self._samples(state)
        at = np.linspace(self.x.min(), self.x.max(), _CURVE)
        return _quietly(_model(state).fit(x[:, None], y).predict, at[:, None])

    def sentence(self) -> str:
        """Return the fit at the query, how many samples it rests on, and the residuals."""
        state, result = self.state, self.result
        squares = float(np.square(result.weights).sum())
        effective = 1.0 / squares if squares > 0 else np.nan
        negative = float(np.abs(result.weights[result.weights < 0]).sum())
        return (
            f"Degree {state.degree}, {state.kernel}, R = {state.radius:.3g}: the fit at x = "
            f"{state.query:.3g} is {result.value:.4g}, a mean over {effective:.3g} effective "
            f"samples with negative weights of {negative:.2g} in all. Sample {state.point}: "
            f"residual {result.fit.residual:.3g}, {result.fit.left_out:.3g} when it is left out."
        )

    def panels(self) -> dict[str, Panel]:
        """Return the panel of the fit and that of the weights."""
        state = self.state
        x = _widened(np.append(self.x, state.point_x))
        y = _widened(np.append(self.y, state.point_y))
        heights = self.result.bars[1]
        top = 1.15 * max(float(np.abs(heights).max()), 1e-12)
        least = min(0.0, 1.15 * float(heights.min()))
        return {
            "fit": Panel(60, 30, 570, 205, x, y),
            "weights": Panel(60, 295, 570, 75, x, (least, top)),
        }

    def point(self, panel: str, x: float, y: float, *, pressed: bool) -> None:
        """Take the sample under the pointer, or move the query; then go along with the pointer."""
        if pressed:
            near = self._nearest(panel, x, y)
            self._held = "query" if near is None else "sample"
            if near is not None:
                self.set(point=near)
                return
        if self._held == "sample" and panel == "fit":
            self.set(point_x=x, point_y=y)
        elif self._held == "query":
            self.set(query=float(np.clip(x, self.x.min(), self.x.max())))

    def press(self, key: str) -> None:
        """Move the query to the left or right, the sample that is held up or down."""
        panel, way = self.panels()["fit"], 1.0 if key in ("ArrowRight", "ArrowUp") else -1.0
        if key in ("ArrowLeft", "ArrowRight"):
            x = self.state.query + way * _STEP * (panel.x[1] - panel.x[0])
            self.set(query=float(np.clip(x, self.x.min(), self.x.max())))
        else:
            self.set(point_y=self.state.point_y + way * _STEP * (panel.y[1] - panel.y[0]))

    def picture(self) -> Picture:
        """Return samples and fit above the weights of the query."""
        picture = Picture(
            name="regression",
            title="Samples, fit, and the weights of one query",
            description="Above, samples with the fitted curve, the query as an upright line and "
            "sample that is held as a ring. Below, the weight of each sample in the fit at the "
            "query: the row of the hat matrix.",
            size=(640, 415),
        )
        panels = self.panels()
        fit, below = panels["fit"], panels["weights"]
        fit.frame(picture, {"x": ticks(*fit.x), "y": ticks(*fit.y)}, y="response")
        picture.add(*key(21, 200, [("dot", "sample"), (1, "fit"), (2, "fit at the query")]))
        self._draw_fit(picture, fit)
        below.frame(picture, {"x": ticks(*below.x), "y": ticks(*below.y)[::2]}, x="x", y="weight")
        self._draw_weights(picture, below)
        return picture

    def _nearest(self, panel: str, x: float, y: float) -> int | None:
        """Return the drawn sample under the pointer."""
        if panel != "fit":
            return None
        place = self.panels()["fit"]
        drawn = self._drawn()
        fit = self.result.fit
        wide = (fit.x[drawn] - x) * place.width / (place.x[1] - place.x[0])
        high = (fit.y[drawn] - y) * place.height / (place.y[1] - place.y[0])
        away = np.hypot(wide, high)
        return int(drawn[away.argmin()]) if away.min() <= _NEAR else None

    def _drawn(self) -> IntArray:
        """Return which samples are drawn, the one that is held among them."""
        even = np.linspace(0, len(self.x) - 1, min(_DRAWN, len(self.x))).astype(np.intp)
        return np.unique(np.append(even, self.state.point))

    def _dots(self, panel: Panel) -> str:
        """Return the path of the drawn samples, written anew only where one has moved."""
        held, kept = (self.state.point, self.state.point_x, self.state.point_y), self._written
        if kept is None or kept[0] != held:
            x, y, drawn = self.result.fit.x, self.result.fit.y, self._drawn()
            steps = (
                f"M{number(panel.across(a))} {number(panel.down(b))}h0"
                for a, b in zip(x[drawn], y[drawn], strict=True)
            )
            kept = self._written = (held, "".join(steps))
        return kept[1]

    def _draw_fit(self, picture: Picture, panel: Panel) -> None:
        result, state = self.result, self.state
        fit, dots = result.fit, self._dots(panel)
        picture.add(panel.clipped(picture, "fit"))
        dotted = {"stroke": INK, "stroke-opacity": "0.4", "stroke-width": "4"}
        picture.add(element("path", {**dotted, "stroke-linecap": "round", "d": dots}))
        curve = self.later if fit.curve is None else fit.curve
        if curve is not None:
            picture.add(element("path", {**stroke(1), "d": panel.path(fit.at, curve)}))
        at = panel.across(state.query)
        picture.add(line(at, panel.top, at, panel.top + panel.height, stroke_dasharray="4 3"))
        for kind, x, y, size in (
            (2, state.query, result.value, "5"),
            (0, state.point_x, state.point_y, "7"),
        ):
            if np.isfinite(y):
                look = {"fill": "none", "stroke": INK, "stroke-width": "2"} if not kind else fill(2)
                place = {"cx": number(panel.across(x)), "cy": number(panel.down(y)), "r": size}
                picture.add(element("circle", {**look, **place}))
        picture.add("</g>")

    def _draw_weights(self, picture: Picture, panel: Panel) -> None:
        base, wide = panel.down(0.0), 0.8 * panel.width / _BINS
        x, heights = self.result.bars
        single = len(self.x) <= _STEMS
        for a, height in zip(x, heights, strict=True):
            if height:
                at, top = panel.across(float(a)), panel.down(float(height))
                if single:
                    picture.add(line(at, base, at, top, stroke_width="2"))
                else:
                    shape = f"M{number(at - wide / 2)} {number(base)}V{number(top)}h{number(wide)}"
                    picture.add(element("path", {**BAR, "d": f"{shape}V{number(base)}"}))
        at = panel.across(self.state.query)
        picture.add(line(at, panel.top, at, base, stroke_dasharray="4 3"))


def _bars(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and heights of the weights: each by itself, or summed over bins."""
    if len(weights) <= _STEMS:
        return x, weights
    low, high = float(x.min()), float(x.max())
    place = np.minimum((x - low) * (_BINS / (high - low)), _BINS - 1).astype(np.intp)
    sums = np.bincount(place, weights=weights, minlength=_BINS)
    return low + (np.arange(_BINS) + 0.5) * (high - low) / _BINS, sums.astype(np.float64)


def _columns(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    points, responses = (
        check_finite(name, np.array(values, dtype=np.float64).squeeze())
        for name, values in (("x", x), ("y", y))
    )
    if points.ndim != 1 or points.shape != responses.shape or len(points) < 3:
        raise ValueError(
            f"x and y must have shape (n,) with n >= 3, got {np.shape(x)} and {np.shape(y)}"
        )
    return points, responses


def _model(state: RegressionState) -> LinearSmoother:
    if state.degree == 0:
        return NadarayaWatson(state.kernel, radius=state.radius)
    return LocalPolynomial(state.kernel, radius=state.radius, degree=state.degree)


def _quietly(function: object, queries: FloatArray) -> FloatArray:
    """Return what a fit says at queries; NaN, where it is undefined, is drawn as a gap."""
    with silenced(UndefinedWarning):
        return np.asarray(function(queries))  # type: ignore[operator]


def _widened(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin
