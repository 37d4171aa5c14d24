"""One file that asks for nothing, holds what it was given, and runs in a browser."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import dumped, embedded, in_a_browser

from fourierkernels.diagnostics import METRICS, HeadProfile, summarise_maps, summarise_statistics
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.profile import Example, HeadImportance, HeadPruning, PruningCurve
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.report.content import ReportContent
from fourierkernels.report.figures import CIVIDIS
from fourierkernels.report.notes import decimals
from fourierkernels.report.page import document, page_html, unpack_weights, write_page

Make = Callable[..., ReportContent]
EVIL = "</script><img src=x onerror=alert(1)><!--<script>\u2028&amp;"
LABELABLE = {"select", "input", "textarea", "output", "meter", "progress", "button"}
SCALED = (
    "distances",
    "mean",
    "std_pairs_texts",
    "std_pairs",
    "std_texts",
    "std_layers",
    "texts",
    "powers",
)
VOID = {"meta", "link", "input", "img", "br"}


def pruned(values: np.ndarray) -> HeadPruning:
    """Importance of these values, and curves that nothing of the page shows."""
    layers = tuple(f"layer {k}" for k in range(len(values)))
    found = HeadImportance("masking", values, values - 1, values + 1, layers, 3)
    curve = PruningCurve(np.arange(2), np.zeros(2), np.argwhere(np.ones_like(values)))
    return HeadPruning("states", "a loss", found, curve, curve)


def changed(page: ReportContent, **parts: Any) -> ReportContent:
    """The same report; parts of the profile of its first network, or of all of it, are others."""
    of_profile = {name: parts.pop(name) for name in list(parts) if hasattr(page.first, name)}
    profiles = {**page.profiles, "trained": replace(page.first, **of_profile)}
    return replace(page, profiles=profiles, **parts)


def with_summaries(page: ReportContent, summaries: dict[str, Any]) -> ReportContent:
    profiles = {
        name: replace(page.profiles[name], distances={DEFAULT_METRIC: one})
        for name, one in summaries.items()
    }
    return replace(page, profiles=profiles)


class Elements(HTMLParser):
    """All elements with their attributes, the labels around them, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str], list[str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attributes}, [*self._open]))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def named(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes, _ in self.found if tag in tags]


def labels(n: int, name: str = "t") -> tuple[str, ...]:
    return tuple(f"{name}{k + 1}" for k in range(n))


@pytest.fixture
def make_page(make_maps: Callable[..., np.ndarray]) -> Make:
    """A report with all its parts, of random maps; `texts` of them."""

    def make(layers: int = 2, heads: int = 4, n: int = 5, texts: int = 3) -> ReportContent:
        maps = [make_maps(layers, heads, n, n, seed=k) for k in range(texts)]
        other = [make_maps(layers, heads, n, n, seed=100 + k) for k in range(texts)]
        summaries = {"trained": summarise_maps(maps), "other": summarise_maps(other)}
        values = np.random.default_rng(0).normal(size=(layers, heads))
        mean = summaries["trained"].mean
        first = HeadProfile(
            distances={DEFAULT_METRIC: summaries["trained"]},
            statistics=summarise_statistics(maps),
            null=NullComparison(mean, np.stack([mean - 0.1, mean + 0.1]), mean * 0),
            examples=[
                Example(f"text {k}", labels(n), labels(n), one) for k, one in enumerate(maps)
            ],
        )
        return ReportContent(
            title="a checkpoint",
            profiles={
                "trained": first,
                "other": HeadProfile(distances={DEFAULT_METRIC: summaries["other"]}),
            },
            pruning=pruned(values),
            origin={"options": {"text": Path("texts.txt")}, "versions": {"numpy": "2"}},
        )

    return make


def small_page(page: ReportContent, size: float) -> ReportContent:
    """The same page, with its distances and importance of another size."""
    found, null = page.pruning.importance, page.first.null
    parts = {part: size * getattr(found, part) for part in ("values", "low", "high")}
    summaries = {
        name: replace(one, **{part: size * getattr(one, part) for part in SCALED})
        for name, one in page.summaries().items()
    }
    smaller = changed(
        page,
        null=replace(null, observed=size * null.observed, null=size * null.null),
        pruning=replace(page.pruning, importance=replace(found, **parts)),
    )
    return with_summaries(smaller, summaries)


def test_page_asks_for_nothing_from_anywhere(make_page: Make) -> None:
    text = page_html(make_page())
    elements = Elements(text)
    for _, attributes, _ in elements.found:
        for name in ("src", "href", "srcset", "action", "data", "style", "onclick", "onload"):
            assert (
                name not in attributes
                or attributes[name][:1] == "#"
                or ((name, attributes[name]) == ("href", "data:,"))
            )
    style = "".join(elements.texts["style"])
    assert "url(" not in style
    assert "@import" not in style
    assert "fetch(" not in text
    assert "XMLHttpRequest" not in text
    assert "innerHTML" not in text


def test_policy_allows_this_style_and_this_script_alone(make_page: Make) -> None:
    text = page_html(make_page())
    policy = next(a["content"] for a in Elements(text).named("meta") if "http-equiv" in a)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy
    for rule, tag in [("style-src", "style"), ("script-src", "script")]:
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside is not None
        assert rules[rule] == f"'{document._digest(inside[1])}'"


def test_texts_and_tokens_stay_data_whatever_they_hold(
    make_page: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = make_page()
    example = replace(page.first.examples[0], label=EVIL, keys=(EVIL, *labels(4)))
    harmless = Elements(page_html(page)).found
    evil = replace(METRICS[DEFAULT_METRIC], description=EVIL, unit=EVIL)
    monkeypatch.setitem(METRICS, DEFAULT_METRIC, evil)
    text = page_html(changed(page, title=EVIL, examples=[example], origin={EVIL: EVIL}))
    found = Elements(text).found
    assert len(found) == len(harmless)
    assert sum(EVIL in one for one in Elements(text).texts["li"]) == 1  # the note of the metric
    assert not Elements(text).named("img")
    assert embedded(text)["examples"][0]["label"] == EVIL
    assert embedded(text)["examples"][0]["keys"][0] == EVIL
    assert embedded(text)["title"] == EVIL


def test_what_looks_like_a_place_to_fill_is_not_filled(
    make_page: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = replace(METRICS[DEFAULT_METRIC], source="@@data@@")
    monkeypatch.setitem(METRICS, DEFAULT_METRIC, row)
    text = page_html(replace(make_page(), title="@@script@@"))
    assert "<li>source: @@data@@</li>" in text
    assert len(Elements(text).named("script")) == 2


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
def test_what_is_no_weight_is_refused(make_page: Make, bad: float) -> None:
    page = make_page()
    maps = np.array(page.first.examples[0].maps)
    maps[0, 0, 0, 0] = bad
    with pytest.raises(ValueError, match="weights must"):
        page_html(changed(page, examples=[replace(page.first.examples[0], maps=maps)]))


def test_page_holds_the_maps_it_was_given(make_page: Make) -> None:
    page = make_page()
    for given, found in zip(
        page.first.examples, embedded(page_html(page))["examples"], strict=True
    ):
        maps = unpack_weights(found["maps"], tuple(found["shape"]), scale=found["scale"])
        assert maps == pytest.approx(given.maps, abs=1 / 255)
        assert tuple(found["keys"]) == given.keys


def test_page_holds_the_distances_statistics_and_importance(make_page: Make) -> None:
    page = make_page()
    found = embedded(page_html(page))
    for row in found["networks"]:
        assert np.allclose(row["distances"], page.summaries()[row["name"]].distances, rtol=1e-5)
    by_name = {row["name"]: row for row in found["statistics"]}
    assert set(by_name) == {*page.first.statistics, "importance", "nearest"}
    entropy = page.first.statistics["entropy"]
    assert np.allclose(by_name["entropy"]["values"], entropy.mean, rtol=1e-5)
    assert np.allclose(by_name["entropy"]["low"], entropy.low, rtol=1e-5)
    assert np.allclose(by_name["importance"]["values"], page.pruning.importance.values, rtol=1e-5)
    without_self = page.summaries()["trained"].distances + np.diag([np.inf] * 4)
    assert np.allclose(by_name["nearest"]["values"], without_self.min(axis=-1), rtol=1e-5)


def test_drawn_dendrogram_starts_at_the_nearest_pair_and_has_each_head_once(
    make_page: Make,
) -> None:
    """Average linkage: the first merge is the nearest pair; each head hangs from one bracket."""
    page = make_page()
    drawing = embedded(page_html(page))["networks"][0]["drawings"][0]
    distances = page.summaries()["trained"].distances[0]
    pairs = distances[np.triu_indices(4, k=1)]
    heights = [max(heights) for heights in drawing["y"]]
    assert min(heights) == pytest.approx(pairs.min(), rel=1e-5)
    assert sorted(drawing["leaves"]) == [0, 1, 2, 3]
    ends = [
        x
        for xs, ys in zip(drawing["x"], drawing["y"], strict=True)
        for x, y in zip(xs, ys, strict=True)
        if y == 0
    ]
    assert sorted(ends) == [0, 1, 2, 3]  # each leaf is drawn once, at its place


def test_table_shows_means_intervals_differences_and_the_null(make_page: Make) -> None:
    page = make_page()
    cells = Elements(page_html(page)).texts["td"]
    summary = page.summaries()["trained"]
    low, high = summary.interval()
    assert f"{summary.mean[0]:.3f} ± {summary.std()[0]:.3f}" in cells
    assert f"{low[1]:.3f} to {high[1]:.3f}" in cells
    difference = page.difference()
    digits = decimals(difference.layers, difference.average)
    assert f"{difference.layers[0]:+.{digits}f}" in cells
    assert f"{difference.low:+.{digits}f} to {difference.high:+.{digits}f}" in cells
    assert f"{summary.mean[0] - 0.1:.3f} to {summary.mean[0] + 0.1:.3f}" in cells


@pytest.mark.parametrize("size", [1e-4, 3e-7])
def test_table_of_small_numbers_shows_three_digits_of_the_largest(
    make_page: Make, size: float
) -> None:
    page = small_page(make_page(), size)
    cells = Elements(page_html(page)).texts["td"]
    means = [float(cell.split(" ± ")[0]) for cell in cells if " ± " in cell]
    expected = [*page.summaries()["trained"].mean, page.summaries()["trained"].layer_average]
    assert means[:6:2] == pytest.approx(expected, rel=5e-3)
    differences = [float(cell) for cell in cells if re.fullmatch(r"[+-][\d.]+", cell)]
    assert differences[:2] == pytest.approx(page.difference().layers, abs=5e-3 * size)
    low, high = (float(end[0]) for end in (page.first.null.low, page.first.null.high))
    ends = [tuple(map(float, cell.split(" to "))) for cell in cells if " to " in cell]
    assert any(one == pytest.approx((low, high), abs=5e-3 * size) for one in ends)


def test_every_control_has_a_label(make_page: Make) -> None:
    elements = Elements(page_html(make_page()))
    controls = [row for row in elements.found if row[0] in LABELABLE]
    assert len(controls) >= 8
    assert all("label" in around for _, _, around in controls)
    # A label names the first control inside it and no other.
    assert len(elements.named("label")) == len(controls)
    ids = {attributes["id"] for _, attributes, _ in elements.found if "id" in attributes}
    for _, attributes, _ in elements.found:
        named = f"{attributes.get('aria-labelledby', '')} {attributes.get('aria-describedby', '')}"
        assert set(named.split()) <= ids
    assert any(row.get("aria-live") == "polite" for row in elements.named("p"))


def test_ids_are_used_once_and_the_script_finds_all_of_its_own(make_page: Make) -> None:
    text = page_html(make_page())
    ids = [row["id"] for _, row, _ in Elements(text).found if "id" in row]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'byId\("([^"]+)"\)', text)) <= set(ids)


def test_one_text_has_no_intervals_and_says_so(make_page: Make) -> None:
    text = page_html(make_page(texts=1))
    assert "nan" not in "".join(Elements(text).texts["td"]).lower()
    row = next(row for row in embedded(text)["statistics"] if row["name"] == "entropy")
    assert row["low"] == [[None] * 4] * 2


def test_one_head_or_no_distances_still_give_a_page(make_maps: Callable[..., np.ndarray]) -> None:
    maps = make_maps(1, 1, 3, 3)
    profile = HeadProfile(
        statistics=summarise_statistics([maps]),
        examples=[Example("a b c", labels(3), labels(3), maps)],
    )
    page = ReportContent("one head", {"trained": profile})
    text = page_html(page)
    assert "at least two heads" in text
    assert embedded(text)["networks"] == []


def test_page_without_examples_or_statistics(make_page: Make) -> None:
    found = embedded(
        page_html(changed(make_page(), examples=[], statistics={}, pruning=None, null=None))
    )
    assert found["examples"] == []
    assert [row["name"] for row in found["statistics"]] == ["nearest"]


def test_networks_of_different_depth_share_one_table(make_page: Make) -> None:
    deep, flat = make_page(layers=3), make_page(layers=1)
    text = page_html(replace(deep, profiles={**deep.profiles, "other": flat.profiles["other"]}))
    assert Elements(text).texts["th"].count("3") == 1


def test_cross_attention_has_maps_with_two_sides(make_maps: Callable[..., np.ndarray]) -> None:
    maps = make_maps(1, 2, 3, 7)
    example = Example("cross", labels(7, "key"), labels(3, "query"), maps)
    found = embedded(
        page_html(ReportContent("cross", {"trained": HeadProfile(examples=[example])}))
    )["examples"][0]
    assert found["shape"] == [1, 2, 3, 7]
    assert (found["queries"][2], found["keys"][6]) == ("query3", "key7")
    back = unpack_weights(found["maps"], (1, 2, 3, 7))
    assert back == pytest.approx(maps, abs=1 / 255)


def test_a_text_without_room_is_left_out_and_named(make_page: Make) -> None:
    found = embedded(page_html(make_page(), most=2 * 4 * 3 - 1))["examples"]
    assert [row["shape"] for row in found] == [[2, 4, 1, 1], [2, 4, 0, 0], [2, 4, 0, 0]]
    assert [row["of"] for row in found] == [[5, 5]] * 3
    assert [row["label"] for row in found] == ["text 0", "text 1", "text 2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spread": "heads"}, "spread must be one of"),
        ({"examples": [Example("x", ("a",), ("a",), np.ones((1, 1, 2, 2)))]}, "maps of example 1"),
        ({"examples": [Example("x", (), (), np.ones((1, 1, 0, 0)))]}, "maps of example 1"),
        (
            {"null": NullComparison(np.zeros(2), np.zeros((4, 3)), np.zeros(2))},
            "null must have",
        ),
        (
            {"pruning": pruned(np.zeros((2, 3)))},
            "layers and heads must be the same",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    make_page: Make, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        changed(make_page(), **change)


def test_interrupted_write_leaves_what_was_there(
    make_page: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "heads.html"
    path.write_text("before")

    def fails(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(KeyboardInterrupt):
        write_page(path, make_page())
    assert [one.name for one in tmp_path.iterdir()] == ["heads.html"]
    assert path.read_text() == "before"


def test_same_page_gives_the_same_file(make_page: Make, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_page(tmp_path / name, make_page())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_colours_are_those_of_the_figures() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    published = np.array(matplotlib.colormaps["cividis"].colors)
    own = np.array([int(CIVIDIS[k : k + 2], 16) for k in range(0, len(CIVIDIS), 2)]) / 255
    assert own.reshape(-1, 3) == pytest.approx(published, abs=0.5 / 255)


def opened(folder: Path, choice: str) -> str:
    """The page of a folder after its script has run, as text."""
    address = (folder / "page.html").as_uri() + choice
    return dumped(address, folder / "browser", "--virtual-time-budget=5000")


@pytest.mark.slow
@in_a_browser
def test_script_runs_in_a_browser_and_says_what_is_shown(make_page: Make, tmp_path: Path) -> None:
    page = make_page()
    evil = replace(page.first.examples[1], label=EVIL, keys=(EVIL, *labels(4)))
    page = changed(page, examples=[page.first.examples[0], evil], kind="image")
    write_page(tmp_path / "page.html", page)
    choice = "#text=2&layer=2&head=3&query=4&beside=1&statistic=importance&weights=other"
    text = opened(tmp_path, choice)
    found = Elements(re.sub("[\u2068\u2069]", "", text))  # marks that isolate labels
    best = int(evil.maps[1, 2, 3].argmax())
    key = evil.keys[best]
    said = next(text for text in found.texts["p"] if text.startswith("Layer 2 of 2"))
    assert f"head 3 of 4, image 2 of 2: query 4 “t4” gives most weight to key {best + 1}" in said
    assert f"“{key}”, {evil.maps[1, 2, 3, best]:.2f}"[:-1] in said
    assert "Head 1 is shown beside it" in said
    failure = next(row for row in found.named("p") if row.get("id") == "failure")
    assert "hidden" in failure
    assert not found.named("img")
    assert len(found.named("bdi")) == 2 * 5 + 5  # two rows of tokens and a table of keys
    assert found.texts["bdi"].count(EVIL) == 3


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-4, 1e-9])
def test_ticks_and_cells_of_numbers_of_any_size_are_told_apart(
    make_page: Make, size: float, tmp_path: Path
) -> None:
    page = small_page(make_page(), size)
    write_page(tmp_path / "page.html", page)
    text = opened(tmp_path, "#statistic=importance")
    for name, axes in {"scatter": 2, "tree": 1}.items():
        drawn = re.search(rf'<div[^>]*id="{name}"[^>]*>(.*?)</svg>', text, re.DOTALL)
        ends = re.findall(r'text-anchor="(end|middle)"[^>]*>([-\d.e+]+)<', drawn[1])
        for side in ("end", "middle")[:axes]:
            labels = [label for anchor, label in ends if anchor == side]
            ticks = [float(label) for label in labels]
            steps = np.diff(ticks)
            assert len(ticks) >= 2
            assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-6)
            assert max(map(len, labels)) <= 8
    table = re.search(r'<table[^>]*id="statistics"[^>]*>(.*?)</table>', text, re.DOTALL)
    cells = [float(cell) for cell in re.findall(r"<td[^>]*>([^<]+)</td>", table[1])]
    assert cells == pytest.approx(page.pruning.importance.values.ravel(), rel=5.1e-3)
