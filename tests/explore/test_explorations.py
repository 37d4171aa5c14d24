"""Explorations show what the package computes, follow their settings, and refuse what cannot be."""

import os
import re
import subprocess
import sys
import threading
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PvtConfig, PvtModel, SwinConfig, SwinModel

import fourierkernels as fk
from fourierkernels import explore, theory
from fourierkernels.estimators.modes import modes
from fourierkernels.explore import density_view
from fourierkernels.explore.attention_view import _without_overlap
from fourierkernels.explore.error_view import _SIZES
from fourierkernels.explore.exploration import Exploration
from fourierkernels.explore.settings import Choice, Slider, ticks
from fourierkernels.explore.widget import _ONE_AT_A_TIME, View
from fourierkernels.plotting.svg import written
from fourierkernels.report import HeadLens

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=200), RNG.normal(3.0, 0.5, size=150)])
Y = np.sin(2.0 * X) + 0.3 * RNG.normal(size=len(X))
IDS = "3 1 4 1 5 2"


def lens() -> HeadLens:
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 9, "n_positions": 16}
    config = GPT2Config(**sizes, initializer_range=0.6, bos_token_id=0, eos_token_id=0)
    return HeadLens(GPT2LMHeadModel(config).eval(), tokens="ids")


MAKERS: dict[str, Callable[[], Exploration[Any, Any]]] = {
    "density": lambda: explore.density(X),
    "regression": lambda: explore.regression(X, Y),
    "error": lambda: explore.error("laplace"),
    "attention": lambda: explore.attention(lens(), IDS),
    "heads": lambda: explore.heads(lens(), [IDS, "2 7 1 8"]),
}
RATES = [("laplace", 10_000, "fourier1"), ("gaussian", 1_000, "fourier4")]
every = pytest.mark.parametrize("name", MAKERS)


def ends(view: Exploration[Any, Any]) -> list[dict[str, Any]]:
    """Each setting at its ends, or at each of its names, the others as they are."""
    found = []
    for setting in view.settings:
        options = setting.options if isinstance(setting, Choice) else (setting.low, setting.high)
        whole = int if getattr(setting, "whole", False) else lambda value: value
        found += [{setting.name: whole(value)} for value in options]
    return found


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3e-13, 2e-13), (1.0e9, 1.0e9 + 1e-5), (1234561.0, 1234570.0)]
)
def test_ticks_are_round_and_their_labels_say_where_they_are(low: float, high: float) -> None:
    places = ticks(low, high)
    assert 3 <= len(set(places)) <= 12
    said = [float(text.replace("−", "-")) for text in written(places)]
    assert said == pytest.approx(places, rel=0.0, abs=0.01 * (places[1] - places[0]))
    assert low <= places[0] + 1e-9 * (high - low)
    assert places[-1] <= high + 1e-9 * (high - low)


# --- what all share --------------------------------------------------------------------------


@every
def test_picture_and_sentence_are_whole_at_every_end(name: str) -> None:
    view = MAKERS[name]()
    start = view.state
    for changes in [{}, *ends(view)]:
        view._to(start)
        view.set(**changes).finish()
        root = ET.fromstring(view.svg())
        assert root.tag.endswith("svg")
        assert not re.search(r"\b(nan|inf)\b", view.svg()), changes
        ids = [node.get("id") for node in root.iter() if node.get("id")]
        assert len(ids) == len(set(ids))
        assert view.sentence().endswith((".", "texts."))


@every
def test_unknown_settings_and_values_are_refused_and_nothing_changes(name: str) -> None:
    view = MAKERS[name]()
    before = view.state
    with pytest.raises(ValueError, match="setting must be"):
        view.set(no_such_thing=1.0)
    for setting in view.settings:
        wrong = "nothing" if isinstance(setting, Choice) else int(setting.high) + 10**9
        with pytest.raises(ValueError, match=f"^{setting.name} must"):
            view.set(**{setting.name: wrong})
    assert view.state == before


@every
def test_watchers_hear_of_each_change_once(name: str) -> None:
    view, heard = MAKERS[name](), []
    view.watch(lambda: heard.append(view.state))
    view.set(**ends(view)[1])
    view.set(**ends(view)[1])  # no change
    assert len(heard) == 1
    assert heard[0] == view.state


@every
def test_keys_and_pointer_stay_within_the_settings(name: str) -> None:
    view = MAKERS[name]()
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        for _ in range(200 if name == "error" else 40):
            view.press(key)
    for panel_name, panel in view.panels().items():
        for x in (*panel.x, np.mean(panel.x)):
            for y in (*panel.y, np.mean(panel.y)):
                view.point(panel_name, float(x), float(y), pressed=True)
                view.point(panel_name, float(x), float(y), pressed=False)
    for setting in view.settings:
        setting.check(getattr(view.state, setting.name))


@every
def test_notebook_gets_controls_and_a_still_picture(name: str) -> None:
    view = MAKERS[name]()
    bundle = view._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    paper, _, rest = bundle["image/svg+xml"].partition(">")
    assert paper.startswith('<svg style="background: #fff; color:')  # on a dark page too
    assert paper.count("style=") == 1
    assert rest
    assert view.sentence() in bundle["text/plain"]


def test_without_widgets_the_picture_stands_still_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fourierkernels.explore.exploration.find_spec", lambda _: None)
    bundle = explore.error("laplace")._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    assert "pip install 'fourierkernels[explore]'" in bundle["text/plain"]


@every
def test_controls_and_settings_follow_each_other(name: str) -> None:
    exploration = MAKERS[name]()
    view = View(exploration)
    for setting in exploration.settings:
        control = view._controls[setting.name]
        ends = setting.options if isinstance(setting, Choice) else (control.max, control.min)
        log = isinstance(setting, Slider) and setting.log
        for value in [10.0**end for end in ends] if log else ends:
            control.value = value  # of a logarithmic slider as far as its digits go
            moved = getattr(exploration.state, setting.name)
            assert moved == value if isinstance(value, str) else moved == pytest.approx(value)
    drawn, first = view._picture.svg, exploration.settings[0]  # it is at its least
    exploration.set(**{first.name: first.check(first.high)})
    assert view._controls[first.name].value == pytest.approx(first.high)
    assert view._picture.svg != drawn
    assert view._picture.sentence == exploration.sentence()


def test_messages_of_the_picture_move_what_lies_under_the_pointer() -> None:
    exploration = explore.regression(X, Y)
    view = View(exploration)
    panel = exploration.panels()["weights"]
    place = {"x": panel.across(1.0), "y": panel.top + 5.0}
    view._heard(None, {"kind": "pointer", **place, "pressed": True, "number": 1}, [])
    assert exploration.state.query == pytest.approx(1.0)
    before = exploration.state.point_y
    view._heard(None, {"kind": "key", "key": "ArrowUp", "number": 2}, [])
    assert exploration.state.point_y > before
    assert view._picture.answered == 2


@every
def test_what_a_first_move_needs_is_prepared_beside_the_notebook(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, seen = MAKERS[name](), []
    monkeypatch.setattr(view, "prepare", lambda: seen.append(threading.current_thread()))
    View(view)
    _ONE_AT_A_TIME.submit(lambda: None).result()
    assert len(seen) == 1
    assert seen[0] is not threading.current_thread()


def test_numbers_are_those_of_the_settings_whichever_thread_ends_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is computed beside the notebook draws while the reader moves on."""
    view, begun, moved = explore.density(X), threading.Event(), threading.Event()
    compute, here = view.compute, threading.current_thread()

    def slow(state: Any) -> Any:
        found = compute(state)
        if threading.current_thread() is not here:
            begun.set()
            assert moved.wait(5.0)
        return found

    monkeypatch.setattr(view, "compute", slow)
    other = threading.Thread(target=view.svg)
    other.start()
    assert begun.wait(5.0)
    view.set(radius=3.0)
    moved.set()
    other.join()
    assert np.array_equal(view.result.density, explore.density(X).set(radius=3.0).result.density)


def test_a_move_counts_while_another_thread_shows_the_settings() -> None:
    exploration, moved = explore.density(X), threading.Event()
    exploration.watch(moved.set)
    view = View(exploration)
    radius, kernel = view._controls["radius"], view._controls["kernel"]
    reader = threading.Thread(target=lambda: setattr(radius, "value", 3.0))
    kernel.observe(lambda _: (reader.start(), moved.wait(0.5)), "value")
    exploration._state = replace(exploration.state, kernel="gaussian")
    view.show()
    reader.join()
    assert exploration.state.radius == pytest.approx(3.0)
    assert radius.value == pytest.approx(3.0)


# A process of its own, whose loops are not compiled yet: counts what numba compiles.
FIRST_MOVES = """
import numpy as np
from numba.core import event
from fourierkernels import explore
from fourierkernels.explore.widget import _ONE_AT_A_TIME, View

x = np.random.default_rng(0).normal(size=500)

class Count(event.Listener):
    compiled = 0

    def on_start(self, seen):
        Count.compiled += 1

    def on_end(self, seen):
        pass

event.register("numba:compile", Count())
counts = []
for view in (explore.regression(x, np.sin(x)), explore.density(x)):
    shown = View(view)
    _ONE_AT_A_TIME.submit(lambda: None).result()
    before, drawn = Count.compiled, shown._picture.svg
    radius = view.settings[0]
    moves = [{"degree": 1}] if view.name == "regression" else []
    moves += [{"kernel": "gaussian"}, {"radius": radius.high}, {"radius": radius.low}]
    for move in moves:
        view.set(**move)
    assert shown._picture.svg != drawn
    counts += [before, Count.compiled - before]
print(*counts)
"""


@pytest.mark.slow
def test_first_moves_compile_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_MOVES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    before, regression, _, density = map(int, done.stdout.split())
    assert before > 0
    assert (regression, density) == (0, 0)


# --- numbers ---------------------------------------------------------------------------------


def test_density_is_that_of_the_estimator_with_its_modes() -> None:
    view = explore.density(X).set(radius=3.0, kernel="gaussian")
    model = fk.KernelDensity("gaussian", radius=3.0).fit(X[:, None])
    np.testing.assert_allclose(view.result.density, model.density(view.result.at[:, None]))
    exact = np.sort(modes(model).points[:, 0])
    step = view.result.at[1] - view.result.at[0]
    np.testing.assert_allclose(view.result.modes, exact, atol=step)
    mass = (view.result.heights * np.diff(view.result.edges)).sum()
    assert mass == pytest.approx(1.0)  # no sample lies outside the bins


@pytest.mark.parametrize("kernel", ["fourier1", "fourier4", "gaussian"])
def test_marks_of_the_rules_are_where_their_criteria_are_least(kernel: str) -> None:
    found = explore.density(X).set(kernel=kernel).finish().later
    for rule in ("lscv", "plugin"):
        values, step = getattr(found, rule), np.log(found.radii[1] / found.radii[0])
        least = found.radii[values.argmin()]
        assert found.chosen[rule] == fk.KernelDensity(kernel, radius=rule).fit(X[:, None]).radius_
        assert abs(np.log(found.chosen[rule] / least)) <= 1.01 * step


def test_rules_are_silent_where_another_thread_has_changed_the_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def filters_change(*_: Any) -> NoReturn:
        warnings.simplefilter("error")
        raise ValueError

    rules = {"other thread": filters_change, **density_view.RADIUS_RULES}
    monkeypatch.setattr(density_view, "RADIUS_RULES", rules)
    rounded = np.random.default_rng(0).normal(size=300).round(1)
    with warnings.catch_warnings():
        chosen = explore.density(rounded).finish().later.chosen
    assert {"plugin", "lscv"} < chosen.keys()


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_residual_left_out_is_that_of_a_fit_without_the_sample(degree: int) -> None:
    view = explore.regression(X, Y).set(radius=2.0, degree=degree, point=7, query=1.0)
    view.set(point_y=4.0)
    rest = np.delete(np.arange(len(X)), 7)
    model = (
        fk.NadarayaWatson("fourier4", radius=2.0)
        if degree == 0
        else fk.LocalPolynomial("fourier4", radius=2.0, degree=degree)
    )
    model.fit(X[rest, None], Y[rest])
    without = 4.0 - float(model.predict([[X[7]]])[0])
    assert view.result.fit.left_out == pytest.approx(without, rel=1e-9)
    moved = Y.copy()
    moved[7] = 4.0
    whole = model.fit(X[:, None], moved)
    assert view.result.value == pytest.approx(float(whole.predict([[1.0]])[0]), rel=1e-9)
    np.testing.assert_allclose(view.result.fit.curve, whole.predict(view.result.fit.at[:, None]))


def test_pointer_takes_the_nearest_sample_and_drags_it() -> None:
    view = explore.regression(X, Y)
    view.point("fit", float(X[11]), float(Y[11]), pressed=True)
    assert view.state.point == 11
    view.point("fit", 0.5, 1.5, pressed=False)
    assert (view.state.point_x, view.state.point_y) == (0.5, 1.5)
    view.set(point=12)  # the first goes back
    assert view.result.fit.y[11] == Y[11]
    assert (view.state.point_x, view.state.point_y) == (X[12], Y[12])
    view.set(point=3, point_y=2.0)  # a response moved at its own place
    assert (view.state.point_x, view.state.point_y) == (X[3], 2.0)
    view.set(point=4, point_x=X[3])  # where the sample before was
    assert (view.state.point_x, view.state.point_y) == (X[3], Y[4])


def test_error_is_exact_and_the_marked_radius_is_the_best() -> None:
    view = explore.error("laplace").set(n=5000, kernel="fourier4")
    view.set(radius=6.0)
    exact = theory.mise("laplace", "fourier4", n=5000, radius=6.0)
    assert view.result.here == exact
    assert view.result.best == theory.optimum("laplace", "fourier4", n=5000)
    at = [theory.mise("laplace", "fourier4", n=5000, radius=r) for r in view.result.radii[::9]]
    np.testing.assert_allclose(view.result.bias2[::9], [each.bias2 for each in at])
    np.testing.assert_allclose(view.result.variance[::9], [each.variance for each in at])


def test_picture_of_a_regression_is_that_of_its_settings_however_they_were_reached() -> None:
    moves = [{"radius": 2.0}, {"point": 9}, {"point_y": 5.0}, {"query": 1.0}, {"point": 2}]
    moved, settings = explore.regression(X, Y), {}
    for move in moves:
        moved.set(**move).svg()
        settings = {**settings, **move}
        settings = {k: v for k, v in settings.items() if k != "point_y" or "point" not in move}
        assert moved.svg() == explore.regression(X, Y).set(**settings).svg()


def drawn_points(d: str) -> np.ndarray:
    """Coordinates of a path of lines, shape (points, 2)."""
    return np.array([pair.split() for pair in re.split("[ML]", d)[1:]], dtype=float)


@pytest.mark.parametrize(("density", "n", "kernel"), RATES)
def test_rate_is_drawn_as_the_slope_of_the_least_error(density: str, n: int, kernel: str) -> None:
    view = explore.error(density).set(n=n, kernel=kernel)
    assert view.later is None  # the tangent is there before the curve
    drawn = len(re.findall("<path", view.svg()))
    view.finish()
    assert len(re.findall("<path", view.svg())) == drawn + 1
    panel = view._rate_panel()
    *_, curve, tangent = (
        drawn_points(found)
        for found in re.findall(r' d="(M[^"]*)"', view.svg().partition("least MISE")[2])
    )
    sizes, least = zip(*(panel.number_at(*point) for point in curve), strict=True)
    assert np.log(sizes) == pytest.approx(np.log(_SIZES), abs=0.003)
    for k in (8, 20):
        best = theory.optimum(density, kernel, n=_SIZES[k])
        assert view.later[k] == pytest.approx(best.mise.total, rel=1e-9)
        if abs(panel.down(best.mise.total)) < 900:  # farther away it is cut off
            assert np.log(least[k]) == pytest.approx(np.log(best.mise.total), abs=0.01)
    (n0, e0), (n1, e1) = (panel.number_at(*point) for point in tangent)
    slope = np.log(e1 / e0) / np.log(n1 / n0)
    best = theory.optimum(density, kernel, n=n)
    assert slope == pytest.approx(best.slope, abs=0.002)
    assert f"slope {best.slope:.3f}".replace("-", "−") in view.svg()
    at = np.log(e0) + slope * np.log(n / n0)
    assert at == pytest.approx(np.log(best.mise.total), abs=0.005)
    near = [theory.optimum(density, kernel, n=round(f * n)).mise.total for f in (0.95, 1.05)]
    assert np.log(near[1] / near[0]) / np.log(1.05 / 0.95) == pytest.approx(slope, abs=0.005)


def test_picture_stays_xml_whatever_tokens_hold() -> None:
    view = explore.attention(lens(), IDS).set(layer=1, head=2, token=4)
    view.tokens = view.queries = ("\x1b[1m", "\x00", "a<b>&", "\ud800", "\uffff", *view.tokens[5:])
    texts = {node.text for node in ET.fromstring(view.svg()).iter()}
    assert {"␛[1m", "␀", "a<b>&", "\ufffd"} <= texts


def test_rows_of_attention_are_recorded_ones_at_temperature_one() -> None:
    view = explore.attention(lens(), IDS).set(layer=1, head=2, token=4)
    np.testing.assert_allclose(view.result.softmax, lens().maps(1, IDS)[2, 4], atol=1e-7)
    warm = view.set(temperature=2.0).result.softmax
    expected = np.sqrt(lens().maps(1, IDS)[2, 4])
    np.testing.assert_allclose(warm, expected / expected.sum(), atol=1e-6)
    query, keys = lens().queries(1, IDS)[2, 4], lens().keys(1, IDS)[2]
    scale = lens().read(IDS).by_layer[1].call.scale / 2.0
    gaussian = np.exp(-scale * np.square(query - keys).sum(axis=1) / 2.0) * (warm > 0)
    np.testing.assert_allclose(view.result.gaussian, gaussian / gaussian.sum(), atol=1e-6)


def test_heads_that_share_nothing_but_chance_have_no_share() -> None:
    view = explore.heads(lens(), [IDS, "2 7 1 8"])
    pairs = np.triu_indices(4, 1)
    squares = np.square(view.result.distances[pairs]).mean()
    chance = np.square(view.result.chance[pairs]).mean()
    assert view.result.share == pytest.approx(1.0 - squares / chance)
    maps = [lens().maps(0, text) for text in (IDS, "2 7 1 8")]
    both = [np.square(fk.diagnostics.head_distances(each)) for each in maps]
    np.testing.assert_allclose(view.result.distances, np.sqrt(np.mean(both, axis=0)), atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_heads_over_a_single_key_are_not_compared() -> None:
    view = explore.heads(lens(), ["3"])
    assert np.isnan(view.result.share)
    assert "are 0, too: there is nothing to compare." in view.sentence()
    assert "nan" not in view.svg()


def test_texts_of_one_key_are_passed_over_beside_others() -> None:
    one, both = (explore.heads(lens(), texts) for texts in ([IDS], ["3", IDS]))
    np.testing.assert_array_equal(both.result.distances, one.result.distances)
    assert (both.result.width, both.tokens) == (one.result.width, one.tokens)


def test_loss_without_a_head_is_that_of_the_lens() -> None:
    view = explore.heads(lens(), [IDS, "2 7 1 8"]).set(layer=1, masked=3)
    assert "being computed" in view.sentence()
    effects = lens().effects([IDS, "2 7 1 8"], heads=[(1, 3)])
    np.testing.assert_allclose(view.finish().later.masked, effects.changed[:, 0])
    assert "without head 3" in view.sentence()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: explore.density([1.0]), "n >= 2"),
        (lambda: explore.density([1.0, 1.0]), "vary"),
        (lambda: explore.density([1.0, np.nan, 2.0]), "x must be finite"),
        (lambda: explore.regression([1.0, 2.0, 3.0], [1.0, 2.0]), "shape"),
        (lambda: explore.error("no density"), "density"),
        (lambda: explore.heads(lens(), []), "at least one text"),
        (lambda: explore.attention(lens(), IDS).set(head=3, layer=5), "layer must"),
    ],
)
def test_bad_data_is_refused_in_a_sentence(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_names_of_keys_do_not_lie_on_stronger_ones() -> None:
    names = [
        ("strong", 0.0, 0.0),
        ("on it", 20.0, 5.0),
        ("below", 20.0, 13.0),
        ("beside", 42.0, 0.0),
    ]
    assert [name for name, _, _ in _without_overlap(names)] == ["strong", "below", "beside"]


def test_keys_of_a_layer_with_fewer_have_their_numbers() -> None:
    view = explore.attention(lens(), IDS).set(layer=1, head=2, token=4)
    names = [view._name(k, len(view.tokens)) for k in range(len(view.tokens))]
    assert names == [str(token)[:12] for token in view.tokens]
    assert view._name(2, len(view.tokens) - 1) == "3"


def pvt() -> PvtModel:
    """PVT pools its keys in the first stages, and none of its tokens has a name."""
    sizes = {"image_size": 32, "num_encoder_blocks": 2, "hidden_sizes": [8, 16], "depths": [1, 1]}
    more = {"patch_sizes": [4, 2], "strides": [4, 2], "num_attention_heads": [1, 2]}
    return PvtModel(PvtConfig(**sizes, **more, sequence_reduction_ratios=[2, 1])).eval()


def test_sentence_numbers_tokens_of_layers_that_have_their_own() -> None:
    view = explore.attention(pvt(), torch.zeros(1, 3, 32, 32)).set(layer=0, token=63)
    assert "query number 64: " in view.sentence()
    assert f"is on number {view.result.softmax.argmax() + 1};" in view.sentence()
    view.point("rows", 5.0, 0.0, pressed=True)  # no query is among the pooled keys
    assert view.state.token == 63


def swin(depths: list[int]) -> SwinModel:
    """Attention in windows in the first stage, over all 16 places in the second if there is one."""
    sizes = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "window_size": 4}
    return SwinModel(SwinConfig(**sizes, depths=depths, num_heads=[1, 2][: len(depths)])).eval()


def test_heads_begin_at_a_layer_that_has_them_and_refuse_others_at_once() -> None:
    image = torch.linspace(0.0, 1.0, 3 * 32 * 32).reshape(1, 3, 32, 32)
    view = explore.heads(swin([1, 1]), [image])
    assert view.state.layer == 1
    before = view.state
    with pytest.raises(ValueError, match="layer must attend over the whole input, got 0: windows"):
        view.set(layer=0, second=0)
    assert view.state == before
    with pytest.raises(ValueError, match="must have a layer of two heads or more that attends"):
        explore.heads(swin([1]), [image])


def test_a_control_returns_from_where_the_settings_cannot_go() -> None:
    """The second layer has a quarter of the queries, and the last one is chosen."""
    exploration = explore.attention(pvt(), torch.zeros(1, 3, 32, 32)).set(layer=0, token=63)
    view = View(exploration)
    with pytest.raises(ValueError, match="token must be below 17 in layer 1, got 63"):
        view._controls["layer"].value = 1
    assert view._controls["layer"].value == exploration.state.layer == 0


def test_data_are_those_of_the_start_if_the_arrays_change() -> None:
    x, y = X.copy(), Y.copy()
    density, regression = explore.density(x), explore.regression(x, y)
    x += 100.0
    y[:] = 0.0
    for view, kept in ((density.sample, X), (regression.x, X), (regression.y, Y)):
        assert np.array_equal(view, kept)


def test_weights_that_are_none_negative_sum_to_zero_in_words() -> None:
    view = explore.regression(X, Y).set(kernel="gaussian")
    assert "with negative weights of 0 in all" in view.sentence()
