"""Figures draw what they are given, say what is on their axes, and refuse what does not fit."""

import subprocess
import sys
from io import BytesIO

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from fourierkernels import plotting, theorems

SIZES = [100, 1_000, 10_000]
X = np.linspace(-1.0, 1.0, 20)
AT = np.linspace(-2.0, 2.0, 50)


@pytest.fixture(scope="module")
def rows():
    return theorems.rate_table("laplace", ["fourier1", "fourier4"], sizes=SIZES)


def drawn(figure):
    with BytesIO() as file:
        figure.savefig(file, format="svg")
        return file.getvalue()


def lines(axes, label):
    return [line for line in axes.get_lines() if str(line.get_label()).startswith(label)]


def test_style_is_valid_and_pairs_each_colour_with_its_own_line():
    with mpl.rc_context(plotting.style()):
        cycle = list(mpl.rcParams["axes.prop_cycle"])
    assert len({entry["color"] for entry in cycle}) == len(cycle)
    assert len({str(entry["linestyle"]) for entry in cycle}) == len(cycle)


def test_rates_are_the_errors_of_the_rows(rows):
    axes = plotting.plot_rates(rows)
    for kernel in ("fourier1", "fourier4"):
        (curve,) = lines(axes, kernel)
        errors = [row.optimum.mise.total for row in rows if row.kernel == kernel]
        np.testing.assert_array_equal(curve.get_xdata(), SIZES)
        np.testing.assert_array_equal(curve.get_ydata(), errors)


def test_reference_lines_pass_through_the_last_point_with_the_slope_of_their_rate(rows):
    axes = plotting.plot_rates([row for row in rows if row.kernel == "fourier1"])
    curve, sharp, paper = axes.get_lines()[:3]
    for line, exponent in ((sharp, 3 / 4), (paper, 1 / 2)):
        n, value = line.get_xdata(), line.get_ydata()
        assert value[-1] == curve.get_ydata()[-1]
        np.testing.assert_allclose(np.diff(np.log(value)) / np.diff(np.log(n)), -exponent)


def test_rates_say_which_line_is_which_on_labelled_logarithmic_axes(rows):
    axes = plotting.plot_rates(rows)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[0] == "fourier1 – sharp: $N^{-3/4}$, paper: $N^{-1/2}$"
    assert texts[1] == "fourier4 – sharp: $N^{-3/4}$, paper: none"
    assert texts[2:] == ["sharp rate, through the last point", "rate of the paper, if another"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_the_paper_is_not_drawn_twice_where_it_is_sharp():
    axes = plotting.plot_rates(theorems.rate_table("cauchy", ["fourier1"], sizes=SIZES))
    assert axes.get_legend().get_texts()[0].get_text().endswith("paper: the same")
    assert r"$(\log N) N^{-1}$" in axes.get_legend().get_texts()[0].get_text()
    assert len([line for line in axes.get_lines() if len(line.get_xdata())]) == 2


def test_rates_go_to_the_axes_that_are_given(rows):
    figure = Figure()
    axes = figure.subplots()
    assert plotting.plot_rates(rows, axes) is axes


def test_rates_name_the_dimension_and_take_rows_in_any_order():
    rows = theorems.rate_table("gaussian", ["fourier2"], sizes=SIZES, dim=3)
    axes = plotting.plot_rates(reversed(rows))
    assert axes.get_title() == "gaussian, D = 3"
    assert list(axes.get_lines()[0].get_xdata()) == SIZES


def test_rates_refuse_no_rows_and_rows_of_two_densities(rows):
    with pytest.raises(ValueError, match=r"rows must be of one density and dimension, got \[\]"):
        plotting.plot_rates([])
    other = theorems.rate_table("cauchy", ["fourier1"], sizes=SIZES)
    with pytest.raises(ValueError, match=r"got \[\('cauchy', 1\), \('laplace', 1\)\]"):
        plotting.plot_rates([*rows, *other])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_fits_have_a_panel_each_with_outer_labels(count):
    panels = {f"fit {i}": np.sin(i * AT) for i in range(count)}
    figure = plotting.plot_fits(panels, X, X**2, at=AT, truth=AT**2, xlabel="bmi", ylabel="risk")
    assert [axis.get_title() for axis in figure.axes] == list(panels)
    assert figure.axes[0].get_ylabel() == "risk"
    assert figure.axes[-1].get_xlabel() == "bmi"
    assert drawn(figure)


def test_fits_are_drawn_as_they_are_and_their_panel_shows_the_sample():
    fit = 100.0 * AT
    axis = plotting.plot_fits({"wild": fit}, X, X, at=AT).axes[0]
    np.testing.assert_array_equal(lines(axis, "fit")[0].get_ydata(), fit)
    assert axis.get_ylim() == pytest.approx((-1.16, 1.16))


def test_undefined_queries_are_marked_and_named():
    fit = np.where(AT < 0, np.nan, AT)
    figure = plotting.plot_fits({"half": fit, "whole": AT}, X, X, at=AT)
    np.testing.assert_array_equal(lines(figure.axes[0], "undefined")[0].get_xdata(), AT[AT < 0])
    assert not lines(figure.axes[1], "undefined")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["sample", "fit", "undefined"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"panels": {}}, "panels must have at least one entry"),
        ({"panels": {"a": X}}, r"panels\['a'\] must have shape \(50,\), got \(20,\)"),
        ({"y": X[1:]}, r"y must have shape \(20,\), got \(19,\)"),
        ({"at": AT[:, None]}, r"at must have shape \(n,\) with n >= 1, got \(50, 1\)"),
        ({"truth": X}, r"truth must have shape \(50,\), got \(20,\)"),
    ],
)
def test_fits_refuse_what_does_not_fit_together(change, message):
    arguments = {"panels": {"a": AT}, "x": X, "y": X, "at": AT} | change
    with pytest.raises(ValueError, match=message):
        plotting.plot_fits(**arguments)


def test_weight_maps_share_one_scale_from_zero():
    figure = plotting.plot_weight_maps({"a": np.eye(3), "b": np.full((2, 5), 0.2)})
    images = [axis.get_images()[0] for axis in figure.axes[:2]]
    assert [image.get_clim() for image in images] == [(0.0, 1.0)] * 2
    assert figure.axes[-1].get_ylabel() == "weight"
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("sample", "query")


def test_signed_weights_get_a_scale_that_is_even_around_zero():
    figure = plotting.plot_weight_maps({"a": np.array([[1.0, -3.0], [np.nan, 2.0]])})
    image = figure.axes[0].get_images()[0]
    assert image.get_clim() == (-3.0, 3.0)
    assert (
        image.get_cmap().name
        != plotting.plot_weight_maps({"a": np.eye(2)}).axes[0].get_images()[0].get_cmap().name
    )
    assert drawn(figure)


def test_weights_beyond_the_top_are_announced_on_the_colour_bar():
    def ends(**options):
        figure = plotting.plot_weight_maps({"a": np.array([[1.0, -1.0]])}, **options)
        return figure.axes[0].get_images()[0].colorbar.extend

    assert (ends(), ends(top=0.5)) == ("neither", "both")


@pytest.mark.parametrize("matrix", [np.full((2, 2), np.nan), np.zeros((2, 2))])
def test_weight_maps_without_any_weight_are_drawn(matrix):
    assert drawn(plotting.plot_weight_maps({"a": matrix}))


@pytest.mark.parametrize(
    ("panels", "options", "message"),
    [
        ({}, {}, "panels must have at least one entry"),
        ({"a": X}, {}, r"panels\['a'\] must be a matrix of weights, got shape \(20,\)"),
        ({"a": np.eye(2)}, {"top": 0.0}, "top must be positive and finite, got 0.0"),
    ],
)
def test_weight_maps_refuse_what_is_no_matrix(panels, options, message):
    with pytest.raises(ValueError, match=message):
        plotting.plot_weight_maps(panels, **options)


def test_without_matplotlib_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'fourierkernels\[plot\]'"):
        plotting.plot_weight_maps({"a": np.eye(2)})


def test_importing_the_module_does_not_load_matplotlib():
    code = "import sys, fourierkernels.plotting; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_drawing_leaves_the_settings_of_matplotlib_alone(rows):
    before = dict(mpl.rcParams)
    plotting.plot_rates(rows)
    assert dict(mpl.rcParams) == before


def test_simulated_errors_stand_over_computed_curves_with_bars_of_two_standard_errors():
    n = np.array(SIZES, float)
    rows = {name: plotting.SimulatedCurve(n, 1 / n, 0.1 / n, 2 / n) for name in ("a", "b")}
    figure = plotting.plot_simulated({"one": rows, "two": rows}, width=3.0)
    assert [axis.get_title() for axis in figure.axes] == ["one", "two"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    computed, simulated = figure.axes[0].get_lines()[:2]
    np.testing.assert_array_equal(computed.get_ydata(), 2 / n)
    np.testing.assert_array_equal(simulated.get_ydata(), 1 / n)
    (bars,) = figure.axes[0].containers[0].lines[2]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 0.4 / n)
    assert drawn(figure)
    with pytest.raises(ValueError, match="panels must have at least one entry"):
        plotting.plot_simulated({})


def test_labels_stand_at_the_ends_of_curves_in_their_colours_and_apart():
    axes = Figure().subplots()
    axes.plot([0, 1, 2], [0, 1, 1.00], "k", label="one")
    axes.plot([0, 1, 2], [0, 1, 1.01], color=plotting.COLOURS[0], label="two")
    axes.errorbar([0, 1], [3, 2], yerr=0.1, color="red", label="bars")
    axes.plot([0, 1], [0, 0], label="_unnamed")
    plotting.label_curves(axes)
    placed = {text.get_text(): text for text in axes.texts}
    assert {name: text.xy[0] for name, text in placed.items()} == {"one": 2, "two": 2, "bars": 1}
    assert placed["one"].get_color() == mpl.colors.to_rgb("black")
    figure = axes.figure
    figure.canvas.draw()
    boxes = [placed[name].get_window_extent() for name in ("one", "two")]
    assert not boxes[0].overlaps(boxes[1])
    assert boxes[0].y1 < boxes[1].y0


def test_labels_stand_where_they_are_told_to_and_no_label_is_invented():
    axes = Figure().subplots()
    axes.plot([0, 1], [1, 2], label="rising")
    plotting.label_curves(axes, {"rising": (0.2, 1.5)}, ha="right")
    assert [(text.get_position(), text.get_ha()) for text in axes.texts] == [((0.2, 1.5), "right")]
    with pytest.raises(ValueError, match=r"labels of curves, \['rising'\], got \['falling'\]"):
        plotting.label_curves(axes, {"falling": (0.0, 0.0)})


def test_a_label_stands_where_its_curve_leaves_the_limits_and_is_refused_where_none_is_seen():
    axes = Figure().subplots()
    axes.plot([0, 1, 2], [0, 1, 2], label="rising")
    axes.set_ylim(0, 1.5)
    plotting.label_curves(axes)
    assert axes.texts[0].xy == pytest.approx((1.0, 1 / 1.5))
    axes.set_ylim(5, 6)
    with pytest.raises(ValueError, match="curve 'rising' must have a point inside the limits"):
        plotting.label_curves(axes)


@pytest.mark.parametrize("colour", [*plotting.COLOURS, "white"])
def test_text_in_a_colour_can_be_read_on_white(colour):
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in plotting.text_colour(colour)
    )
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5


def test_a_note_points_at_its_place():
    axes = Figure().subplots()
    note = plotting.point_out(axes, "here", (0.5, 0.5), (0.1, 0.9), ha="center")
    assert (note.xy, note.get_position(), note.get_ha()) == ((0.5, 0.5), (0.1, 0.9), "center")
    assert note.arrow_patch is not None
