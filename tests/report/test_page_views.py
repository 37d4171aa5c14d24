"""What the page of heads shows: finding, matches, cut maps, and every view in a browser."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from pages import dumped, embedded, in_a_browser, rows_of

from fourierkernels.diagnostics import HeadProfile, summarise_maps, summarise_statistics
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.profile import Example, HeadImportance, HeadPruning, PruningCurve
from fourierkernels.report.content import ReportContent, without_folders
from fourierkernels.report.files import write_report
from fourierkernels.report.numbers import csv_table, report_numbers
from fourierkernels.report.page import page_fragment, page_html, unpack_weights
from fourierkernels.report.page.weights import LEAST_SIDE, MOST_WEIGHTS, kept_shapes

EVIL = "</script><b onclick=alert(1)>\x00\x07\x1b\x7f\x85\ud800\uffff\u202e&amp;"
PATH = "/home/someone/models/secret"
Make = Callable[..., np.ndarray]


def example(maps: np.ndarray, name: str = "t", **parts: Any) -> Example:
    keys, queries = (tuple(f"{name}{k + 1}" for k in range(n)) for n in maps.shape[:1:-1])
    return replace(Example(" ".join(queries), keys, queries, maps), **parts)


def pruned(shape: tuple[int, int]) -> HeadPruning:
    values = np.random.default_rng(0).normal(size=shape)
    found = HeadImportance("masking", values, values - 1, values + 1, ("one", "two"), 3)
    removed, order = np.array([0, 2, 4, 8]), np.argwhere(np.ones(shape))
    curves = (
        PruningCurve(removed, np.array(y), order) for y in ([1.0, 1.1, 1.5, 3], [1, 2, 2.5, 3])
    )
    return HeadPruning("states", "a loss", found, *curves)


@pytest.fixture
def report(make_maps: Make) -> ReportContent:
    """Two networks on the same three texts, the second with the heads of the first moved."""
    maps = [make_maps(2, 4, 6, 6, seed=k) for k in range(3)]
    other = [one[::-1, ::-1] for one in maps]
    first = HeadProfile(
        distances={DEFAULT_METRIC: summarise_maps(maps)},
        statistics=summarise_statistics(maps),
        examples=[example(one) for one in maps],
    )
    second = HeadProfile(
        distances={DEFAULT_METRIC: summarise_maps(other)},
        examples=[example(one) for one in other],
    )
    return ReportContent(
        f"{PATH}/trained",
        {"trained": first, "other": second},
        pruning=pruned((2, 4)),
        against=f"{PATH}/elsewhere",
        origin={"options": {"text": Path(PATH) / "a.txt", "config": {"name": PATH}}},
    )


def with_examples(report: ReportContent, examples: list[Example]) -> ReportContent:
    first = replace(report.first, examples=examples)
    return replace(report, profiles={**report.profiles, "trained": first})


def test_page_starts_with_the_finding_and_folds_the_notes(report: ReportContent) -> None:
    text = page_html(report)
    order = [
        "<h1>",
        '<p class="finding">',
        "<summary>How this was measured",
        "<li>metric:",
        "<table",
    ]
    places = [text.index(one) for one in order]
    assert places == sorted(places)
    assert '<details class="notes">' in text  # closed


def test_page_opens_at_the_layer_that_stands_out(report: ReportContent) -> None:
    summary = report.summaries()["trained"]
    apart = np.array([0.0, 1.0])
    texts = np.tile(summary.mean, (3, 1)) + apart
    shifted = replace(summary, mean=summary.mean + apart, texts=texts, n_windows=3)
    first = replace(report.first, distances={DEFAULT_METRIC: shifted})
    found = embedded(page_html(replace(report, profiles={"trained": first})))
    assert found["start"]["layer"] == 1
    nearest = next(row for row in found["statistics"] if row["name"] == "nearest")
    assert found["start"]["head"] == int(np.argmax(nearest["values"][1]))


def test_nothing_that_is_shared_has_a_folder_of_this_machine(
    report: ReportContent, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    files = write_report(report, tmp_path / "out")
    assert {"heads.html", "heads.json", "heads.svg", "matches.csv"} <= {one.name for one in files}
    for file in files:
        assert b"someone" not in file.read_bytes(), file.name
    assert "someone" not in page_fragment(report)
    text = (tmp_path / "out" / "heads.html").read_text()
    assert "Attention heads of trained" in text


@pytest.mark.parametrize(
    ("value", "shared"),
    [
        ("/a/b/c.txt", "c.txt"),
        ("C:\\Users\\me\\model", "model"),
        ("\\\\server\\share\\me\\model", "model"),
        ("~/model", "model"),
        (Path("/a/b"), "b"),
        (["/a/b", {"x": ("/c/d", 3)}], ["b", {"x": ["d", 3]}]),
        ("runs/model", "runs/model"),
        ("package:model/weights", "package:model/weights"),
        ("a:b", "a:b"),
        ("and/or", "and/or"),
        (None, None),
        (0.5, 0.5),
    ],
)
def test_absolute_paths_keep_their_last_part_alone(value: Any, shared: Any) -> None:
    assert without_folders(value) == shared


def test_each_head_is_matched_with_the_one_it_was_moved_to(report: ReportContent) -> None:
    found = embedded(page_html(report))["matches"]
    assert found["layers"] == [[1] * 4, [0] * 4]
    assert found["heads"] == [[3, 2, 1, 0]] * 2
    assert np.max(found["distances"]) == 0
    assert found["n_texts"] == 3


def test_maps_of_both_networks_are_kept_and_share_the_room(report: ReportContent) -> None:
    whole = embedded(page_html(report))["examples"][0]
    theirs = unpack_weights(whole["other"]["maps"], tuple(whole["other"]["shape"]))
    assert theirs == pytest.approx(report.profiles["other"].examples[0].maps, abs=1 / 255)
    rows = embedded(page_html(report, most=2 * 2 * 4 * 6 * 6))["examples"]
    assert [row["shape"][2:] for row in rows] == [[6, 6], [0, 0], [0, 0]]
    assert rows[0]["other"]["shape"] == [2, 4, 6, 6]


def test_matches_are_written_as_a_table_and_as_json(report: ReportContent, tmp_path: Path) -> None:
    csv_table("matches")(report, tmp_path / "matches.csv")
    rows = rows_of(tmp_path / "matches.csv")
    assert [(row["layer"], row["head"]) for row in rows[:2]] == [("1", "1"), ("1", "2")]
    assert [(row["other_layer"], row["other_head"]) for row in rows[:2]] == [("2", "4"), ("2", "3")]
    assert {float(row["distance"]) for row in rows} == {0.0}
    found = report_numbers(report)["matches"]
    assert found["heads"] == [[4, 3, 2, 1]] * 2
    assert found["metric"] == rows[0]["metric"] == DEFAULT_METRIC


def test_inputs_of_one_name_are_paired_in_their_order_or_not_at_all(report: ReportContent) -> None:
    assert [b.maps[0, 0, 0, 0] for _, b in report.examples] == [
        a.maps[1, 3, 0, 0] for a, _ in report.examples
    ]
    fewer = with_examples(report, report.first.examples[:2])
    assert [other for _, other in fewer.examples] == [None, None]


def test_networks_that_read_other_tokens_are_not_matched(report: ReportContent) -> None:
    renamed = [replace(one, keys=("x", *one.keys[1:])) for one in report.first.examples]
    found = embedded(page_html(with_examples(report, renamed)))
    assert found["matches"] is None
    assert all(row["other"] is None for row in found["examples"])


def test_rows_whose_largest_weight_is_cut_off_say_so(make_maps: Make) -> None:
    maps = make_maps(2, 2, 9, 9)
    report = ReportContent("x", {"trained": HeadProfile(examples=[example(maps)])})
    found = embedded(page_html(report, most=4 * 5 * 5))["examples"][0]
    assert found["shape"] == [2, 2, 5, 5]
    packed = found["beyond"]
    beyond = unpack_weights(packed["maps"], (2, 2, 5), scale=packed["scale"])
    cut = maps[:, :, :5].argmax(axis=-1) >= 5
    assert 0 < cut.sum() < cut.size
    assert ((beyond > 0) == cut).all()
    assert beyond[cut] == pytest.approx(maps[:, :, :5].max(axis=-1)[cut], abs=1 / 255)
    assert "beyond" not in embedded(page_html(report))["examples"][0]  # nothing is cut off


def test_cross_attention_has_the_text_of_both_sides(make_maps: Make) -> None:
    cross = example(make_maps(1, 2, 3, 5), keys=("der", "Hund", "bellt", "laut", "."))
    found = embedded(page_html(ReportContent("x", {"trained": HeadProfile(examples=[cross])})))
    assert found["examples"][0]["source"] == "der Hund bellt laut ."
    assert found["examples"][0]["label"] == "t1 t2 t3"


def test_large_model_has_whole_maps_of_a_text_in_a_page_below_eight_megabytes() -> None:
    shape = (24, 16, 100, 100)
    maps = np.random.default_rng(0).random(shape, dtype=np.float32).astype(np.float16)
    one = example(maps)
    report = ReportContent("x", {"trained": HeadProfile(examples=[one] * 8)})
    text = page_html(report)
    assert len(text.encode()) < 8e6
    assert embedded(text)["examples"][0]["shape"] == list(shape)


def test_first_texts_share_what_whole_ones_leave() -> None:
    kept = kept_shapes([(24, 16, 100, 100)] * 8)
    sides = [shape[2] for shape in kept]
    assert sides[0] == 100
    assert min(sides[1:3]) >= LEAST_SIDE
    assert sides[3:] == [0] * 5
    assert sum(int(np.prod(shape)) for shape in kept) <= MOST_WEIGHTS


def test_pruning_curves_are_a_table_and_a_drawing(report: ReportContent) -> None:
    text = page_html(report)
    assert '<th scope="row">8</th><td>3.0000</td><td>3.0000</td>' in text
    assert "<li>loss: states (a loss)</li>" in text
    assert embedded(text)["pruning"]["random"] == [1, 2, 2.5, 3]
    assert embedded(page_html(replace(report, pruning=None)))["pruning"] is None


def test_infinite_losses_of_a_pruned_network_are_shown_and_written(
    report: ReportContent, undrawn: None, tmp_path: Path
) -> None:
    curve = replace(report.pruning.curve, losses=np.array([1.0, 1.1, 1.5, np.inf]))
    report = replace(report, pruning=replace(report.pruning, curve=curve))
    assert '<th scope="row">8</th><td>inf</td><td>3.0000</td>' in page_html(report)
    write_report(report, tmp_path)
    assert rows_of(tmp_path / "pruning.csv")[3]["states"] == "inf"
    found = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    assert found["importance"]["pruned"] == [1.0, 1.1, 1.5, None]


def test_fragment_is_one_frame_with_the_page_inside(report: ReportContent) -> None:
    frame = re.fullmatch(
        r'<iframe title="([^"]*)" srcdoc="([^"]*)" style="[^"]*"></iframe>',
        page_fragment(report, most=100),
    )
    assert frame is not None
    assert unescape(frame[2]) == page_html(report, most=100)


def in_browser(text: str, actions: str, folder: Path, *, width: int = 1280) -> str:
    """The page after its script and these actions have run, without the marks around labels.

    Saved files come into the page as text, in elements of class "saved".
    """
    watched = """<script>
      URL.createObjectURL = (blob) => {
        if (blob.type !== "application/json") blob.text().then((text) => {
          const box = document.createElement("pre");
          box.className = "saved";
          box.textContent = text;
          document.body.append(box);
        });
        return "#";
      };
      const q = (selector) => document.querySelector(selector);
      const all = (selector) => [...document.querySelectorAll(selector)];
      </script>"""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', watched, text)
    text = text.replace("</body>", f"<script>{actions}</script></body>")
    (folder / "page.html").write_text(text, encoding="utf-8")
    flags = (f"--window-size={width},2000", "--virtual-time-budget=4000")
    shown = dumped((folder / "page.html").as_uri(), folder / "browser", *flags)
    failure = re.search(r'<p id="failure"[^>]*>(.*?)</p>', shown)
    assert failure is not None
    assert failure[1] == ""
    return re.sub("[\u2068\u2069]", "", shown)


def said(dumped: str, name: str) -> str:
    found = re.search(rf'<(\w+)[^>]* ?id="{name}"[^>]*>(.*?)</\1>', dumped, re.DOTALL)
    assert found is not None
    return unescape(re.sub("<[^>]+>", "", found[2]))


@pytest.mark.slow
@in_a_browser
def test_saved_map_is_svg_that_stands_alone_whatever_tokens_hold(
    report: ReportContent, tmp_path: Path
) -> None:
    one = report.first.examples[0]
    evil = replace(one, label=EVIL, keys=(EVIL, *one.keys[1:]), queries=(EVIL, *one.queries[1:]))
    # Chromium cannot print half a pair of code units, so what shows the labels goes afterwards.
    actions = """
      q("#map").nextElementSibling.click();
      setTimeout(() => { for (const node of all("main, header")) node.remove(); }, 1000);
    """
    dumped = in_browser(page_html(with_examples(report, [evil])), actions, tmp_path)
    saved = re.search(r'<pre class="saved">(.*?)</pre>', dumped, re.DOTALL)
    assert saved is not None
    tree = ElementTree.fromstring(unescape(saved[1]).encode())
    names = {node.tag.removeprefix("{http://www.w3.org/2000/svg}") for node in tree.iter()}
    assert names == {"svg", "title", "rect", "text", "g", "path"}
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("t2") == 2
    assert sum(str(text).startswith("</script><b onclick=alert(1)>\u2400") for text in texts) == 2
    assert not any("://" in value for node in tree.iter() for value in node.attrib.values())
    cells = list(tree.iter("{http://www.w3.org/2000/svg}path"))
    drawn = sum(int(w) for cell in cells for w in re.findall(r"h(\d+)v", cell.get("d", "")))
    assert drawn == 6 * 6 * 14  # every cell once


@pytest.mark.slow
@in_a_browser
def test_overview_opens_a_map_and_lines_follow_the_pointer(
    report: ReportContent, tmp_path: Path
) -> None:
    actions = """
      all("#overview td")[6].click();
      q("#map").dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
      const key = all("#line-keys button")[2];
      key.dispatchEvent(new PointerEvent("pointerenter"));
      document.body.dataset.focus = document.activeElement.id;
      document.body.dataset.all = q("#line-drawing .all").getAttribute("visibility");
      document.body.dataset.lines = all("#line-drawing .one path").length;
    """
    dumped = in_browser(page_html(report), actions, tmp_path)
    maps = report.first.examples[0].maps[1, 2]
    best = int(maps[0].argmax())
    assert f"query 1 “t1” gives most weight to key {best + 1}" in said(dumped, "status")
    assert "Layer 2 of 2, head 3 of 4" in said(dumped, "status")
    giver = int(maps[:, 2].argmax())
    assert f"Key 3 “t3” gets most weight from query {giver + 1}" in said(dumped, "lines-read")
    assert 'data-focus="map"' in dumped
    assert 'data-all="hidden"' in dumped
    assert f'data-lines="{(maps[:, 2] > (0.5 / 255) ** 2).sum()}"' in dumped


@pytest.mark.slow
@in_a_browser
def test_nearest_head_of_the_other_network_is_shown_beside(
    report: ReportContent, tmp_path: Path
) -> None:
    actions = """
      q("#layer").value = "0"; q("#layer").onchange({ target: q("#layer") });
      q("#head").value = "1"; q("#head").onchange({ target: q("#head") });
      q("#other").value = "4"; q("#other").onchange({ target: q("#other") });
      q("#other-map").nextElementSibling.click();
    """
    dumped = in_browser(page_html(report), actions, tmp_path)
    assert said(dumped, "other-caption").startswith(
        "Layer 2, head 3 of elsewhere, the nearest to head 2: 0 away over 3 texts"
    )
    assert "Layer 2, head 3 of elsewhere is shown beside it." in said(dumped, "status")
    assert re.search(r'<p id="unmatched"[^>]*hidden', dumped)
    assert "elsewhere, layer 2, head 3: queries down" in dumped.split('class="saved"')[1]


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("beyond", [True, False])
def test_cut_map_names_no_kept_key_as_the_one_of_most_weight(
    beyond: bool, make_maps: Make, tmp_path: Path
) -> None:
    maps = make_maps(1, 2, 9, 9)
    cut = maps[0, 0, :5].argmax(axis=-1) >= 5
    query = int(np.flatnonzero(cut == beyond)[0])
    report = ReportContent("x", {"trained": HeadProfile(examples=[example(maps)])})
    actions = f"""
      q("#head").value = "0"; q("#head").onchange({{ target: q("#head") }});
      q("#query").value = "{query + 1}"; q("#query").oninput({{ target: q("#query") }});
      all("#line-queries button")[{query}].dispatchEvent(new PointerEvent("pointerenter"));
    """
    dumped = in_browser(page_html(report, most=2 * 5 * 5), actions, tmp_path)
    row = maps[0, 0, query]
    best = int(row[:5].argmax())
    claim = f"gives most weight to key {best + 1}"
    honest = f"gives most weight, {row.max():.2f}"[:-1]
    for name in ("status", "lines-read"):
        assert (claim in said(dumped, name)) == (not beyond)
        assert (honest in said(dumped, name)) == beyond
    spoken = re.search(r'id="map"[^>]*aria-valuetext="([^"]*)"', dumped)
    assert spoken is not None
    assert ("cut off from this page" in spoken[1]) == beyond
    assert "of the 5 keys that are kept" in said(dumped, "top")


@pytest.mark.slow
@in_a_browser
def test_wide_tables_say_on_a_phone_that_they_scroll(report: ReportContent, tmp_path: Path) -> None:
    hints = """
      document.body.dataset.hints = all(".more:not([hidden])").length;
      document.body.dataset.wide =
        all(".scroll").filter((one) => one.scrollWidth > one.clientWidth + 1).length;
      document.body.dataset.beyond = document.documentElement.scrollWidth > innerWidth;
    """
    for width, some in [(500, True), (2000, False)]:
        folder = tmp_path / str(width)
        folder.mkdir()
        dumped = in_browser(page_html(report), hints, folder, width=width)
        found = {
            name: re.search(rf'data-{name}="(\w+)"', dumped)[1]
            for name in ("hints", "wide", "beyond")
        }
        assert found["hints"] == found["wide"]
        assert (int(found["hints"]) > 0) == some
        assert found["beyond"] == "false"  # the page itself does not scroll sideways


@pytest.mark.slow
@in_a_browser
def test_both_texts_of_cross_attention_and_the_pruning_curves_are_seen(
    report: ReportContent, make_maps: Make, tmp_path: Path
) -> None:
    cross = example(make_maps(2, 4, 3, 5), keys=("der", "Hund", "bellt", "laut", "."))
    first = replace(report.first, examples=[cross])
    shown = replace(report, profiles={"trained": first})
    dumped = in_browser(page_html(shown), "", tmp_path)
    assert said(dumped, "source") == "der Hund bellt laut ."
    assert said(dumped, "label") == "t1 t2 t3"
    assert not re.search(r'id="source-block"[^>]*hidden', dumped)
    drawing = re.search(r'<div id="pruning"><svg.*?</svg>', dumped)
    assert drawing is not None
    assert len(re.findall("<polyline[^>]*mark", drawing[0])) == 2
    assert len(re.findall("<circle", drawing[0])) == 8


def _one_head(make: Make, report: ReportContent) -> ReportContent:
    return ReportContent("x", {"trained": HeadProfile(examples=[example(make(3, 1, 4, 4))])})


def _one_token(make: Make, report: ReportContent) -> ReportContent:
    return with_examples(report, [example(np.ones((2, 4, 1, 1)), queries=("",), keys=("",))])


def _nothing(make: Make, report: ReportContent) -> ReportContent:
    return ReportContent("x")


def _curve_of_one_point(make: Make, report: ReportContent) -> ReportContent:
    point = PruningCurve(np.array([0]), np.array([np.nan]), np.argwhere(np.ones((2, 4))))
    pruning = replace(pruned((2, 4)), curve=point, at_random=point)
    return replace(report, pruning=pruning)


def _deeper_other(make: Make, report: ReportContent) -> ReportContent:
    maps = [make(5, 6, 6, 6, seed=k) for k in range(3)]
    found = {DEFAULT_METRIC: summarise_maps(maps)}
    other = HeadProfile(distances=found, examples=[example(one) for one in maps])
    return replace(report, profiles={**report.profiles, "other": other})


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize(
    "change", [_one_head, _one_token, _nothing, _curve_of_one_point, _deeper_other]
)
def test_page_works_whatever_is_missing(
    change: Callable[[Make, ReportContent], ReportContent],
    report: ReportContent,
    make_maps: Make,
    tmp_path: Path,
) -> None:
    """Every choice of every list is made, and every token pointed at: nothing fails."""
    actions = """
      for (const list of all("select")) for (const option of list.options) {
        list.value = option.value;
        list.onchange({ target: list });
      }
      for (const one of all(".ends button")) one.dispatchEvent(new PointerEvent("pointerenter"));
      for (const cell of all("td")) cell.click();
      for (const button of all("button")) if (button.offsetParent) button.click();
    """
    dumped = in_browser(page_html(change(make_maps, report), most=10_000), actions, tmp_path)
    assert "NaN" not in dumped
    assert "undefined" not in re.sub(r"<script.*?</script>", "", dumped, flags=re.DOTALL)
