"""Each rule of the page lint finds its defect and lets a sound page pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from book import lint

SOUND = r"""<!DOCTYPE html><html><head><title>A page for $5</title>
<link rel="stylesheet" href="_static/page.css"><link rel="canonical" href="https://example.org/">
<script src="_static/page.js"></script><script>const price = "$5"; // {math}</script></head><body>
<p>The set {isu} and <span class="math">\(x\)</span>, cost <code>$PATH</code>.
<a href="#here">here</a> <a href="other.html#there">there</a> <a href="#">top</a>
<a href="https://example.org/a.html">far</a></p><h1 id="here">Title</h1>
<div class="math">\[ $ \]</div><pre>:::{note} ``` $$</pre>
<a href="api.html"><code class="xref py">FourierKernel</code></a>
<code class="xref py py-data">KERNELS</code>
<img src="_static/page.png" alt="Two curves that cross at 1">
<div class="cell_output"><div class="output text_plain"><pre>4</pre></div></div>
</body></html>"""


CELL = '<div class="cell"><div class="cell_input">x = 3.14</div><div class="cell_output">0.571'
CELL += " <p>9.9</p></div></div>"


def site_with(folder: Path, body: str, head: str = "", page: str = "page.html") -> Path:
    """A built site: one page with `body`, and the files that the sound page names."""
    (folder / "_static").mkdir()
    for name in ("page.css", "page.js", "page.png"):
        (folder / "_static" / name).write_text("")
    (folder / "other.html").write_text('<p id="there">other</p>')
    (folder / "api.html").write_text("<p>api</p>")
    (folder / page).write_text(f"<html><head>{head}</head><body>{body}</body></html>")
    return folder


def rules_broken(site: Path) -> set[str]:
    return {finding.rule for finding in lint.lint_site(site)}


def test_sound_page_passes(tmp_path: Path) -> None:
    site = site_with(tmp_path, "")
    (site / "page.html").write_text(SOUND)
    assert lint.lint_site(site) == []


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("literal_dollar", "<p>the value $$x^2$$ is</p>"),
        ("literal_dollar", '<div class="theorem"><p>so <em>$x</em></p></div>'),
        ("leftover_markup", "<p>see {numref} <code>fig-01</code></p>"),
        ("leftover_markup", "<p>see {prf:ref}</p>"),
        ("leftover_markup", "<p>see :math:<cite>x</cite></p>"),
        ("leftover_markup", "<p>::: note</p>"),
        ("image_text", '<img src="_static/page.png">'),
        ("image_text", '<img src="_static/page.png" alt=" ">'),
        ("image_text", '<img src="_static/page.png" alt="_images/' + "0f" * 32 + '.png">'),
        ("image_text", '<img src="_static/page.png" alt="' + "0f" * 32 + '">'),
        ("remote_loads", '<script src="https://cdn.example.org/mathjax.js"></script>'),
        ("remote_loads", '<img src="//example.org/a.png" alt="A curve">'),
        ("remote_loads", '<script>const URL = "https://cdn.example.org/thebe.js"</script>'),
        ("remote_loads", "<style>@import url('https://fonts.example.org/a.css');</style>"),
        ("remote_loads", '<iframe src="http://example.org"></iframe>'),
        ("cell_outputs", '<div class="cell_output"><div class="output traceback">E</div></div>'),
        ("cell_outputs", '<div class="cell_output"><div class="output stderr">W</div></div>'),
        ("parser_messages", '<div class="system-message">Unknown role</div>'),
        ("parser_messages", '<span class="problematic">*x</span>'),
        ("unresolved_names", '<code class="xref py py-class">FourierKernl</code>'),
        ("unbacked_numbers", CELL + "<p>the factor is 3.2</p>"),
        ("unbacked_numbers", CELL + "<ul><li><p>the factor is 3.141</p></li></ul>"),
        ("unbacked_numbers", CELL + "<table><tr><td>0.2</td></tr></table>"),
        ("broken_links", '<a href="nowhere.html">x</a>'),
        ("broken_links", '<a href="other.html#nowhere">x</a>'),
        ("broken_links", '<a href="#nowhere">x</a>'),
        ("broken_links", '<img src="_images/gone.png" alt="A curve">'),
    ],
)
def test_defect_is_found_by_its_rule_alone(tmp_path: Path, rule: str, body: str) -> None:
    assert rules_broken(site_with(tmp_path, body)) == {rule}


@pytest.mark.parametrize("rel", ["stylesheet", "preload", "preconnect", "icon"])
def test_remote_link_in_head_is_found(tmp_path: Path, rel: str) -> None:
    head = f'<link rel="{rel}" href="https://cdn.example.org/a">'
    assert rules_broken(site_with(tmp_path, "", head)) == {"remote_loads"}


def test_remote_import_of_own_stylesheet_is_found(tmp_path: Path) -> None:
    site = site_with(tmp_path, "")
    (site / "_static" / "page.css").write_text("@font-face { src: url(https://example.org/f) }")
    assert rules_broken(site) == {"remote_loads"}


@pytest.mark.parametrize(
    "text",
    [
        "<p>3.14, 3.1, 57 %, 57.1 % and 0.57</p>",
        "<p>integers 7 and 1,024, a version 3.11.7, <code>1.5</code></p>",
        '<p>the paper <a href="bibliography.html#id1">[A]</a> has 6.9</p>',
        '<p>as in <a href="bibliography.html#id1">[A]</a></p><table><tr><td>6.9</td></tr></table>',
        '<p>see <a href="other.html">Section 4.6</a></p>',
        '<div><p class="admonition-title">Exercise 4.6</p></div>',
        '<figcaption><p><span class="caption-number">Fig. 4.6</span> 3.14</p></figcaption>',
    ],
)
def test_numbers_of_cells_of_sources_and_of_references_pass(tmp_path: Path, text: str) -> None:
    site = site_with(tmp_path, CELL + text)
    (site / "bibliography.html").write_text('<p id="id1">A</p>')
    assert rules_broken(site) == set()


def test_numbers_of_a_page_without_cells_pass(tmp_path: Path) -> None:
    assert rules_broken(site_with(tmp_path, "<p>4.6</p>")) == set()


def test_escaped_anchor_is_no_broken_link(tmp_path: Path) -> None:
    assert rules_broken(site_with(tmp_path, '<a href="#%CE%BC">x</a><p id="μ">x</p>')) == set()


def test_finding_names_page_rule_and_place(tmp_path: Path) -> None:
    site = site_with(tmp_path, "<p>the value $$x$$ is</p>", page="chapter.html")
    (finding,) = lint.lint_site(site)
    assert str(finding).startswith("chapter.html: literal_dollar: ")
    assert "the value $$x$$ is" in str(finding)


def test_theme_files_are_not_pages(tmp_path: Path) -> None:
    site = site_with(tmp_path, "")
    (site / "_static" / "widget.html").write_text("<p>$x</p>")
    assert rules_broken(site) == set()


def test_empty_site_is_no_success(tmp_path: Path) -> None:
    assert rules_broken(tmp_path) == {"no_pages"}


@pytest.mark.parametrize(("body", "status"), [("<p>fine</p>", 0), ("<p>$x$</p>", 1)])
def test_exit_status_says_whether_the_site_is_sound(tmp_path: Path, body: str, status: int) -> None:
    command = [sys.executable, lint.__file__, str(site_with(tmp_path, body))]
    assert subprocess.run(command, capture_output=True, check=False).returncode == status


def test_a_page_may_not_weigh_more_than_the_limit(tmp_path: Path) -> None:
    site = site_with(
        tmp_path, '<img src="_images/a.svg" alt="A"><img src="_static/page.png" alt="B">'
    )
    (site / "_images").mkdir()
    picture = site / "_images" / "a.svg"
    picture.write_bytes(b" " * (lint.HEAVIEST_PAGE // 2))
    (site / "_static" / "page.png").write_bytes(b" " * lint.HEAVIEST_PAGE)  # of all pages
    assert "page_weight" not in rules_broken(site)
    picture.write_bytes(b" " * lint.HEAVIEST_PAGE)
    [found] = [f.detail for f in lint.lint_site(site) if f.rule == "page_weight"]
    assert "1.50 MB with its pictures" in found
    assert "a.svg" in found


def test_the_text_of_a_page_has_weight_and_pictures_count_once(tmp_path: Path) -> None:
    body = '<img src="_images/a.svg" alt="A"><img src="_images/a.svg" alt="A">'
    site = site_with(tmp_path, body)
    (site / "_images").mkdir()
    (site / "_images" / "a.svg").write_bytes(b" " * (lint.HEAVIEST_PAGE * 2 // 3))
    assert "page_weight" not in rules_broken(site)
    (site / "page.html").write_text(f"<p>{'a ' * (lint.HEAVIEST_PAGE // 2)}</p>")
    assert "page_weight" in rules_broken(site)


def test_the_html_of_a_chapter_is_lighter_than_that_of_other_pages(tmp_path: Path) -> None:
    body = f"<p>{'a ' * (lint.HEAVIEST_CHAPTER // 2)}</p>"
    broken = []
    for page in ("notebooks/01.html", "api.html"):
        (tmp_path / page / "notebooks").mkdir(parents=True)
        broken.append(rules_broken(site_with(tmp_path / page, body, page=page)))
    assert broken == [{"chapter_weight"}, set()]


@pytest.mark.parametrize(
    ("start", "columns"),
    [("<pre>", lint.WIDEST), ('<div class="highlight-console"><pre>', lint.WIDEST_CONSOLE)],
)
def test_a_chapter_cuts_no_visible_code(tmp_path: Path, start: str, columns: int) -> None:
    def site(name: str, page: str, code: str) -> Path:
        (tmp_path / name / "notebooks").mkdir(parents=True)
        body = f'<article class="bd-article">{code}</pre></article>'
        return site_with(tmp_path / name, body, page=page)

    fits, cut = ("short\n" + "x" * length for length in (columns, columns + 1))
    chapter = "notebooks/01.html"
    assert not rules_broken(site("fits", chapter, start + fits))
    assert rules_broken(site("cut", chapter, start + cut)) == {"wide_code"}
    assert not rules_broken(site("hidden", chapter, f'<details class="hide">{start}{cut}'))
    assert not rules_broken(site("reference", "api.html", start + cut))
