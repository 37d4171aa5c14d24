"""Moving figures show what the package computes, and say so in words."""

import json
import math
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.datasets import load_diabetes

from book.moving import attention, causal, kernel, radius, regression, row
from book.moving.drawing import TEXT, Control, Drawing, Over, Part
from book.moving.markup import figure_html
from book.moving.panel import Panel
from book.moving.registry import FIGURES, LARGEST, figure
from fourierkernels.plotting import COLOURS
from fourierkernels.plotting.svg import number
from fourierkernels.report import HeadLens

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "book" / "_static"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SVG = "{http://www.w3.org/2000/svg}"

# These load a network.
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in ("attention", "row") else name
    for name in FIGURES
]


def points(path: str) -> np.ndarray:
    """Coordinates of a path of lines, shape (points, 2)."""
    return np.array([pair.split() for pair in re.split("[ML]", path)[1:]], dtype=float)


def path_at(drawing: Drawing, style: str, place: int) -> str:
    """The outline of the first changing part of this class."""
    for part in drawing.parts:
        if isinstance(part, Part) and part.tag == "path" and part.fixed.get("class") == style:
            return part.changes["d"].values[place]
    raise AssertionError(style)


def numbers(sentence: str) -> list[float]:
    return [float(n) for n in re.findall(r"\d+(?:\.\d+)?", sentence)]


# --- every figure ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_sound_at_every_setting(name: str) -> None:
    drawing = figure(name)
    assert drawing.name == name
    for settings in drawing.settings:
        written = drawing.svg(settings)
        root = ET.fromstring(written)
        told = {tag: root.find(f"{SVG}{tag}") for tag in ("title", "desc")}
        assert all(node is not None and node.text for node in told.values())
        assert root.get("aria-labelledby", "").split() == [n.get("id") for n in told.values()]
        ids = [node.get("id") for node in root.iter() if node.get("id")]
        assert len(ids) == len(set(ids))
        assert all(node.startswith(f"moving-{name}-") for node in ids)
        assert not re.search(r"\b(nan|inf)\b", written)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_a_page_are_few_and_match_the_picture(name: str) -> None:
    drawing = figure(name)
    data = json.loads(drawing.data())
    assert len(drawing.data().encode()) <= LARGEST
    assert "</" not in drawing.data()
    counts = [len(values) for values in data["controls"]]
    assert len(data["sentences"]) == math.prod(counts) == len(set(data["sentences"]))
    drawn = {node.get("id"): node for node in ET.fromstring(drawing.svg()).iter()}
    for part, changes in data["parts"].items():
        for key, (values, controls) in changes.items():
            assert len(values) == math.prod(counts[k] for k in controls)
            at = values[drawing.place(controls, drawing.start)]
            assert (drawn[part].text or "" if key == TEXT else drawn[part].get(key)) == at


@pytest.mark.parametrize("name", NAMES)
def test_sliders_are_labelled_and_wait_for_the_script(name: str) -> None:
    page = BeautifulSoup(figure_html(figure(name)), "html.parser")
    controls = page.select_one(".moving-controls")
    assert controls.has_attr("hidden")
    for control, slider in zip(figure(name).controls, page.select("input"), strict=True):
        assert slider["type"] == "range"
        assert page.select_one(f"label[for={slider['id']}]").text == control.label
        assert page.find(id=slider["aria-describedby"]).text == control.hint
        assert slider["aria-valuetext"] == control.values[int(slider["value"])]
        assert int(slider["max"]) == len(control.values) - 1
    status = page.select_one("[role=status][aria-live=polite]")
    assert status.text == figure(name).sentence()
    assert controls in status.parents


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be one of \['radius', .*, got 'nothing'"):
        figure("nothing")


def test_a_setting_without_a_value_is_refused() -> None:
    control = Control("a", "A", "Of three.", ("1", "2", "3"))
    drawing = Drawing("x", "X", "An x.", (1, 1), (control, control))
    with pytest.raises(ValueError, match="d must have 9 values, got 2"):
        drawing.change("path", {}, d=Over(["M0 0", "M1 1"], (0, 1)))


def test_what_is_written_is_escaped() -> None:
    evil = "</script><b>&"
    drawing = Drawing("x", evil, evil, (1, 1), (Control("a", evil, evil, (evil,)),), [evil])
    drawing.change("text", {"class": '"'}, text=Over([evil]))
    page = BeautifulSoup(figure_html(drawing), "html.parser")
    assert not page.find_all("b")
    assert json.loads(page.script.text)["sentences"] == [evil]
    assert ET.fromstring(drawing.svg()).find(f"{SVG}text").text == evil


def test_a_line_is_broken_where_nothing_is_known() -> None:
    panel = Panel(0, 0, 10, 10, (0, 10), (0, 10))
    assert panel.path([0, 1, 2, 3], [10, np.nan, 5, 4]) == "M0 0M2 5L3 6"
    assert [number(x, 2) for x in (100.0, -0.004, 0.25)] == ["100", "0", ".25"]


# --- their numbers, computed once more -------------------------------------------------------


def sinc4(u: np.ndarray) -> np.ndarray:
    return np.sinc(u / np.pi) ** 4 / (2 * np.pi / 3)


def spline(s: np.ndarray) -> np.ndarray:
    """The transform of sinc⁴/A₄: a cubic B-spline with knots at 0, 2 and 4."""
    v = np.abs(s) / 2
    return np.where(v < 1, 1 - 1.5 * v**2 + 0.75 * v**3, 0.25 * np.maximum(2 - v, 0.0) ** 3)


@pytest.mark.parametrize("place", [0, 12, 24])
def test_radius_shows_bins_density_and_fit(place: int) -> None:
    drawing, r = figure("radius"), radius.radii()[place]
    data = load_diabetes(scaled=False)
    bmi, score = data.data[:, 2], data.target
    at, inside = radius.grids()
    density = sinc4(r * (at[:, None] - bmi)).mean(axis=1) * r
    drawn = points(path_at(drawing, "moving-line-1", place))
    panel = radius.ESTIMATE
    assert drawn[:, 1] == pytest.approx([panel.down(p) for p in density], abs=0.051)
    assert drawn[:, 0] == pytest.approx([panel.across(x) for x in at], abs=0.051)
    weights = sinc4(r * (inside[:, None] - bmi))
    fit = weights @ score / weights.sum(axis=1)
    drawn = points(path_at(drawing, "moving-line-2", place))
    assert drawn[:, 1] == pytest.approx([radius.FIT.down(y) for y in fit], abs=0.051)
    setting = radius.compute(r)
    inner = [np.sum((bmi >= a) & (bmi < b)) for a, b in pairwise(setting.edges)]
    assert setting.heights == pytest.approx(np.array(inner) / 442 / (3 / r))
    assert setting.edges[-1] > bmi.max()


@pytest.mark.parametrize("place", [0, 12, 24])
def test_radius_says_modes_and_error(place: int) -> None:
    r = radius.radii()[place]
    data = load_diabetes(scaled=False)
    bmi, score = data.data[:, 2], data.target
    fine = np.linspace(5.0, 60.0, 5501)
    p = np.mean([sinc4(r * (fine - x)) for x in bmi], axis=0)
    tops = (p[1:-1] > p[:-2]) & (p[1:-1] > p[2:]) & (p[1:-1] > 0.01 * p.max())
    weights = sinc4(r * (bmi[:, None] - bmi))
    np.fill_diagonal(weights, 0.0)
    error = np.sqrt(np.mean((score - weights @ score / weights.sum(axis=1)) ** 2))
    said = numbers(figure("radius").sentences[place].replace("kg/m²", ""))
    assert said[:4] == [round(r, 2), round(3 / r, 1), tops.sum(), round(error, 1)]


def test_slider_of_the_radius_starts_at_the_rule() -> None:
    drawing = figure("radius")
    bmi = load_diabetes(scaled=False).data[:, 2]
    spread = min(bmi.std(), np.subtract(*np.percentile(bmi, [75, 25])) / 1.349)
    t = np.linspace(-40.0, 40.0, 8001)
    p = np.exp(-(t**2))  # squared characteristic function of the normal density

    def error(r: float) -> float:
        passed = spline(t / r)
        return float(np.sum(p * (1 - passed) ** 2 + (1 - p) * passed**2 / 442))

    best = minimize_scalar(error, bounds=(0.5, 10.0), method="bounded").x
    assert radius.radii()[drawing.start[0]] == pytest.approx(best / spread, rel=1e-4)
    assert "the rule’s choice" in drawing.sentence()


def mise_by_hand(shape: Callable[[np.ndarray], np.ndarray], r: float) -> tuple[float, float]:
    """Squared bias and variance of the density of two bumps, by sums over x and y."""
    y = np.linspace(-12.0, 12.0, 1601)
    step = y[1] - y[0]
    bumps = [np.exp(-0.5 * ((y - m) / (2 / 3)) ** 2) / (2 / 3) for m in (-1, 1)]
    p = sum(bumps) / 2 / np.sqrt(2 * np.pi)
    k = r * shape(r * (y[:, None] - y))
    mean, square = k @ p * step, k**2 @ p * step
    return np.sum((mean - p) ** 2) * step, np.sum(square - mean**2) * step / kernel.SAMPLES


@pytest.mark.parametrize(
    ("name", "shape"),
    [("fourier4", sinc4), ("gaussian", lambda u: np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi))],
)
def test_kernel_shows_exact_error(name: str, shape: Callable[[np.ndarray], np.ndarray]) -> None:
    curve = kernel.error_curve(name)
    for k in (4, 14, 20):
        bias2, variance = mise_by_hand(shape, kernel.RADII[k])
        assert curve.bias2[k] == pytest.approx(bias2, rel=2e-3)
        assert curve.variance[k] == pytest.approx(variance, rel=2e-3)
    place = kernel.KERNELS.index(name) * len(kernel.RADII) + 14
    said = numbers(figure("kernel").sentences[place].partition("R = ")[2])
    bias2, variance = mise_by_hand(shape, kernel.RADII[14])
    total = bias2 + variance
    assert said[:3] == [round(kernel.RADII[14], 2), round(total, 4), round(100 * bias2 / total)]
    assert curve.least <= curve.total.min()


def test_kernel_is_drawn_at_its_scale() -> None:
    drawing = figure("kernel")
    shapes = [
        part for part in drawing.parts if isinstance(part, Part) and "transform" in part.changes
    ]
    r = kernel.RADII[14]
    for part, panel, exact in (
        (shapes[0], kernel.SHAPE, lambda x: r * sinc4(r * x)),
        (shapes[1], kernel.TRANSFORM, lambda t: spline(t / r)),
    ):
        drawn = points(part.changes["d"].values[3])
        left, top, wide, high = numbers_of(part.changes["transform"].values[14])
        x, y = left + wide * drawn[:, 0], top + high * drawn[:, 1]
        seen = (x >= panel.left) & (x <= panel.left + panel.width)
        low, high = panel.x
        at = low + (x[seen] - panel.left) / panel.width * (high - low)
        assert y[seen] == pytest.approx([panel.down(v) for v in exact(at)], abs=0.2)


def numbers_of(transform: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", transform)]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 6, 14])
def test_attention_says_entropy_and_distance(place: int) -> None:
    tokens, maps = attention.recorded()
    beta, n = attention.SHARPNESS[place], len(tokens)
    with np.errstate(divide="ignore"):
        scores = np.log(maps)
    sharp = softmax(beta * scores, axis=-1)
    entropies = [-sum(p * math.log(p) for p in row if p > 0) for head in sharp for row in head]
    entropy = np.reshape(entropies, (len(maps), n)).mean(axis=1)
    apart = {
        (a, b): math.sqrt(((sharp[a] - sharp[b]) ** 2).sum() / n)
        for a in range(12)
        for b in range(a)
    }
    first, second = attention.HEADS
    said = numbers(figure("attention").sentences[place].partition("heads")[2])
    mean = (entropy[first] + entropy[second]) / 2
    wanted = [mean, math.exp(mean), apart[second, first], np.mean(list(apart.values()))]
    assert said[2:] == pytest.approx(wanted, abs=0.051)
    assert said[4] == round(apart[second, first], 2)
    assert attention.compute(beta).maps == pytest.approx(sharp[[first, second]])


@pytest.mark.slow
def test_distance_of_heads_grows_as_entropy_falls() -> None:
    found = [attention.compute(float(sharpness)) for sharpness in attention.SHARPNESS]
    assert np.all(np.diff([setting.entropy for setting in found]) < 0)
    assert np.all(np.diff([setting.distance for setting in found]) > 0)
    assert np.all(np.diff([setting.all_distance for setting in found]) > 0)
    _, maps = attention.recorded()
    trained = attention.compute(1.0)
    apart = [np.linalg.norm(a - b) for k, a in enumerate(maps) for b in maps[:k]]
    assert trained.distance == pytest.approx(min(apart) / math.sqrt(maps.shape[-1]))


def weights_by_hand(degree: int, query: float) -> np.ndarray:
    """Weights of a local mean or line at the radius of the rule, by the normal equations."""
    bmi = load_diabetes(scaled=False).data[:, 2]
    powers = (bmi - query)[:, None] ** np.arange(degree + 1)
    kernel_weights = sinc4(regression.view().state.radius * (bmi - query))
    moments = powers.T @ (kernel_weights[:, None] * powers)
    solved: np.ndarray = np.linalg.solve(moments, powers.T * kernel_weights)[0]
    return solved


@pytest.mark.parametrize("degree", regression.DEGREES)
@pytest.mark.parametrize("place", [0, 10, 23])
def test_regression_shows_fit_and_weights_of_the_query(place: int, degree: int) -> None:
    drawing, query = figure("regression"), regression.QUERIES[place]
    data = load_diabetes(scaled=False)
    bmi, score = data.data[:, 2], data.target
    weights = weights_by_hand(degree, query)
    at = 2 * place + degree
    assert regression.settings()[at].result.weights == pytest.approx(weights, abs=1e-9)
    centre, fit = weights @ bmi, weights @ score
    said = numbers(drawing.sentences[at].replace("kg/m²", ""))
    wanted = [query, degree, round(fit), round(1 / np.sum(weights**2), 1), round(centre, 1)]
    assert said[:5] == wanted
    marks = [p for p in drawing.parts if isinstance(p, Part) and p.tag == "circle"]
    assert float(marks[0].changes["cy"].values[at]) == pytest.approx(
        regression.FIT.down(fit), abs=0.051
    )
    panel = regression.weights_panel()
    assert float(marks[1].changes["cx"].values[at]) == pytest.approx(
        panel.across(centre), abs=0.051
    )


def test_bars_of_the_regression_add_up_to_one() -> None:
    drawing, panel = figure("regression"), regression.weights_panel()
    bars = next(p for p in drawing.parts if isinstance(p, Part) and "fill-opacity" in p.fixed)
    for d in bars.changes["d"].values:
        tops = [float(top) for top in re.findall(r"V(-?[\d.]+)h", d)]
        heights = [panel.number_at(0.0, top)[1] for top in tops]
        assert sum(heights) == pytest.approx(1.0, abs=0.03)  # tenths of a unit, and bars left out


def test_only_a_line_has_its_weights_about_the_query_at_both_ends() -> None:
    settings = regression.settings()
    lines = [setting for setting in settings if setting.degree == 1]
    assert [setting.centre for setting in lines] == pytest.approx(regression.QUERIES)
    means = [setting for setting in settings if setting.degree == 0]
    assert means[0].centre > means[0].query + 0.3
    assert means[-2].centre < means[-2].query - 0.3


@pytest.mark.slow
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("token", [0, 8])
def test_row_is_that_of_the_network_and_of_its_gaussian_kernel(token: int, centred: bool) -> None:
    lens = HeadLens(row.NETWORK)
    maps = lens.maps(row.LAYER, row.SENTENCE)[row.HEAD]
    keys = np.asarray(lens.keys(row.LAYER, row.SENTENCE)[row.HEAD], dtype=np.float64)
    from_there = keys - keys.mean(axis=0) if centred else keys
    scale = keys.shape[1] ** -0.5
    gaussian = maps[token] * np.exp(-scale * np.square(from_there).sum(axis=1) / 2)
    gaussian = gaussian / gaussian.sum()
    at = 2 * token + centred
    assert row.results()[at].softmax == pytest.approx(maps[token], abs=1e-6)
    assert row.results()[at].gaussian == pytest.approx(gaussian, abs=1e-6)
    moved = np.abs(maps[token] - gaussian).sum() / 2
    assert f"puts {moved:.0%} of the weight elsewhere" in figure("row").sentences[at]
    panel, _ = row.panels()
    dots = [p for p in figure("row").parts if isinstance(p, Part) and "cy" in p.changes]
    drawn = [float(dot.changes["cy"].values[at]) for dot in dots]
    assert drawn == pytest.approx([panel.down(weight) for weight in gaussian], abs=0.051)


@pytest.mark.parametrize("tokens", range(1, causal.LENGTH + 1))
def test_causal_outputs_are_sums_of_phasors(tokens: int) -> None:
    step, x = causal.compute(tokens), causal.TOKENS[:tokens]
    for m in range(tokens):
        plain = sum(x[n] * np.exp(-2j * np.pi * m * n / tokens) for n in range(tokens))
        masked = sum(x[n] * np.exp(-2j * np.pi * m * n / causal.LENGTH) for n in range(m + 1))
        assert step.causal[m] == pytest.approx(masked, abs=1e-12)
        assert step.plain[m] == pytest.approx(plain, abs=1e-12)


def test_a_token_changes_no_earlier_output_of_the_causal_dft_and_all_of_the_plain_one() -> None:
    steps = [causal.compute(tokens) for tokens in range(1, causal.LENGTH + 1)]
    for before, now in pairwise(steps):
        k = before.tokens
        # An output is a sum of at most k + 1 tokens times roots of unity, in whatever order.
        rounding = 2 * (k + 1) * np.finfo(float).eps * np.sum(np.abs(causal.TOKENS[: k + 1]))
        assert np.all(np.abs(before.causal - now.causal[:k]) <= rounding)
        assert np.all(np.abs(before.plain - now.plain[:k]) > 0.05)
        said = numbers(figure("causal").sentences[k])
        assert said == [k + 1, k, 0, k, k + 1, k, k]


def test_marks_say_what_is_new_and_what_has_changed() -> None:
    drawing, n = figure("causal"), causal.LENGTH
    marks = [
        part.changes[TEXT].values
        for part in drawing.parts
        if isinstance(part, Part) and TEXT in part.changes
    ]
    for (m, shown), changed in zip(enumerate(marks[:n]), marks[n:], strict=True):
        assert shown == [""] * m + ["+"] + ["="] * (n - 1 - m)
        assert changed == [""] * m + ["+"] + ["≠"] * (n - 1 - m)


# --- their colours ---------------------------------------------------------------------------


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_are_seen_on_a_light_and_a_dark_page() -> None:
    style = (STATIC / "moving.css").read_text("utf-8")
    light, dark = re.findall(r"\{([^{}]*--moving-1[^{}]*--moving-3[^{}]*)\}", style)
    for block, backgrounds in ((light, ("#ffffff", "#f3f4f5")), (dark, ("#121212", "#14181e"))):
        colours = re.findall(r"--moving-\d: (#[0-9a-f]{6});", block)
        assert len(set(colours)) == 3
        assert {colour.upper() for colour in colours} < set(COLOURS)
        assert min(contrast(c, b) for c in colours for b in backgrounds) >= 3.0


# --- in a page -------------------------------------------------------------------------------

CONF = """
import sys
sys.path[:0] = {paths!r}
extensions = ["myst_parser", "moving"]
numfig = True
html_static_path = [{static!r}]
"""
PAGE = """# A page

See {numref}`fig-moved`.

```{moving} causal
:name: fig-moved

A caption with $x$.
```
"""


def build(folder: Path, page: str, builder: str) -> tuple[str, Path]:
    """Messages of Sphinx on a book of two pages, and where its files are."""
    paths = [str(ROOT), str(ROOT / "book" / "_extensions")]
    conf = CONF.format(paths=paths, static=str(STATIC))
    files = {"conf.py": conf, "index.md": page, "other.md": "---\norphan: true\n---\n# Other\n"}
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", builder, str(folder), str(folder / "o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stderr, folder / "o"


@pytest.mark.slow
def test_a_page_has_its_figure_and_another_page_no_script(tmp_path: Path) -> None:
    messages, out = build(tmp_path, PAGE, "html")
    assert messages == ""
    page = BeautifulSoup((out / "index.html").read_text("utf-8"), "html.parser")
    found = page.select_one("figure#fig-moved")
    assert found.select_one(".moving svg title").text == figure("causal").title
    assert found.figcaption.text.strip().startswith("Fig. 1 A caption with")
    assert page.select_one("a[href='#fig-moved']").text == "Fig. 1"
    assert page.select_one("script[src*='moving.js'][defer]")
    assert page.select_one("link[href*='moving.css']")
    assert "moving." not in (out / "other.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("builder", ["text", "latex"])
def test_other_formats_have_the_static_picture(tmp_path: Path, builder: str) -> None:
    _, out = build(tmp_path, PAGE, builder)
    if builder == "text":
        assert "[image: The causal DFT step by step" in (out / "index.txt").read_text("utf-8")
    else:
        assert r"\sphinxincludegraphics" in next(out.glob("*.tex")).read_text("utf-8")
        assert (out / "causal.svg").read_text("utf-8") == figure("causal").svg()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("moving} causal", "moving} nothing", "must be one of ['radius', 'kernel', "),
        ("A caption with $x$.", "", "moving figure 'causal' must have a caption"),
    ],
)
def test_a_wrong_directive_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in build(tmp_path, PAGE.replace(old, new), "text")[0]


MOVE = """<script>
  document.getElementById("{slider}").value = {value};
  document.getElementById("{slider}").dispatchEvent(new Event("input"));
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("radius", (20,)),
        ("kernel", (1, 14)),
        ("causal", (6,)),
        ("regression", (5, 1)),
        ("row", (3, 0)),
    ],
)
def test_a_slider_moves_picture_and_words(
    tmp_path: Path, name: str, settings: tuple[int, ...]
) -> None:
    drawing = figure(name)
    script = f"<script>{(STATIC / 'moving.js').read_text('utf-8')}</script>"
    moved = [
        MOVE.format(slider=f"moving-{name}-{control.name}", value=value)
        for control, value in zip(drawing.controls, settings, strict=True)
    ]
    text = f"<!doctype html><meta charset='utf-8'>{figure_html(drawing)}{script}{''.join(moved)}"
    page = tmp_path / "page.html"
    page.write_text(text, "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"]
    flags += [f"--user-data-dir={tmp_path}/browser", "--virtual-time-budget=5000"]
    command = [str(CHROMIUM), *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    shown = BeautifulSoup(done.stdout, "html.parser")
    assert not shown.select_one(".moving-controls").has_attr("hidden")
    assert (
        shown.select_one("[role=status]").text == drawing.sentence(settings) != drawing.sentence()
    )
    wanted = BeautifulSoup(drawing.svg(settings), "html.parser")
    assert [node.attrs for node in shown.svg.find_all(True)] == [
        node.attrs for node in wanted.svg.find_all(True)
    ]
    assert shown.svg.get_text() == wanted.svg.get_text()
    for control, slider, at in zip(drawing.controls, shown.select("input"), settings, strict=True):
        assert slider["aria-valuetext"] == control.values[at]
