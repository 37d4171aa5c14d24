"""The PDF is one page of the site's articles: links stay inside, nothing of the screen is left."""

import os
import shutil
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from book import pdf

STYLE = Path(pdf.__file__).with_name("_static") / "print.css"
READY = "Object.assign(MathJax.startup, {defaultPageReady: async () => {}}).pageReady()"
CONTENTS = """
parts:
  - caption: Chapters
    chapters: [{file: notebooks/01_a}, {file: notebooks/02_b}]
  - caption: Project
    chapters: [{file: book/changelog}]
"""
PAGE = """<!doctype html><html><head>
<link rel="stylesheet" href="../_static/page.css?v=1"><script src="../_static/theme.js"></script>
<script>window.MathJax = {{}}</script><script defer src="../_static/mathjax/tex-svg.js"></script>
</head><body><header>Menu</header><article class="bd-article"><section id="title">
<h1>{title}<a class="headerlink" href="#title">#</a></h1>{body}</section></article></body></html>"""
FIRST = """<p id="here"><a href="#here">here</a> <a href="02_b.html#there">there</a>
<a href="02_b.html">b</a> <a href="../book/changelog.html">news</a> <a href="https://a.org">far</a></p>
<details class="hide"><summary>Show the code</summary>plot()</details>
<details><summary>Hint</summary>Try one.</details>
<svg><path id="cut"/><g clip-path="url(#cut)" fill="#123456"/></svg>
<p class="chapter-download">Download</p><img src="../_images/a.svg" alt="A">"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a built book of two chapters."""
    texts = {
        "book/_toc.yml": CONTENTS,
        "book/_config.yml": "title: small\nauthor: The authors",
        "_build/html/index.html": "",
        "_build/html/_static/page.css": STYLE.read_text("utf-8"),
        "_build/html/_static/mathjax/tex-svg.js": READY,
        "_build/html/_images/a.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "_build/html/notebooks/01_a.html": PAGE.format(title="1. First", body=FIRST),
        "_build/html/notebooks/02_b.html": PAGE.format(
            title="2. Second", body='<p id="there">b</p>'
        ),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_links_stay_inside(root: Path) -> None:
    text = pdf.single_page(root, root / pdf.SITE, {})
    for target in ("notebooks-01_a--here", "notebooks-02_b--there", "notebooks-02_b--"):
        assert f'href="#{target}"' in text
        assert f'id="{target}"' in text
    assert 'href="https://a.org"' in text
    assert "<a>news</a>" in text  # not printed
    assert 'clip-path="url(#notebooks-01_a--cut)"' in text


def test_what_is_for_the_screen_is_dropped(root: Path) -> None:
    text = pdf.single_page(root, root / pdf.SITE, {})
    for gone in ("Menu", "plot()", "Download", "headerlink", "theme.js"):
        assert gone not in text
    assert '<details open=""><summary>Hint' in text
    assert 'src="_images/a.svg"' in text
    assert text.count("_static/mathjax/tex-svg.js") == text.count("window.MathJax = {}") == 1


def test_contents_have_the_numbers_that_are_known(root: Path) -> None:
    text = pdf.single_page(root, root / pdf.SITE, {"notebooks-02_b--": 7})
    assert '<a href="#notebooks-01_a--">1. First</a><span></span>' in text
    assert '<a href="#notebooks-02_b--">2. Second</a><span>7</span>' in text
    assert "Project" not in text


def test_bookmarks_get_the_headings(tmp_path: Path) -> None:
    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    first = writer.add_outline_item(title="OneOne", page_number=0)
    writer.add_outline_item(title="a", page_number=0, parent=first)
    writer.add_outline_item(title="TwoTwo", page_number=0)
    pdf.set_bookmarks(writer, ["One", "1.1", "Two"])
    writer.write(tmp_path / "a.pdf")
    one, [inner], two = PdfReader(tmp_path / "a.pdf").outline
    assert [one.title, inner.title, two.title] == ["One", "1.1", "Two"]
    with pytest.raises(ValueError, match="1 headings have 3 bookmarks"):
        pdf.set_bookmarks(writer, ["One"])


def test_a_missing_browser_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="install the system package chromium"):
        pdf.find_browser({"PATH": ""})
    with pytest.raises(FileNotFoundError, match=r"none is not a program \(CHROMIUM\)"):
        pdf.find_browser({"PATH": os.environ["PATH"], "CHROMIUM": "none"})


def test_another_browser_may_be_named(tmp_path: Path) -> None:
    program = tmp_path / "browser"
    program.write_text("")
    program.chmod(0o755)
    assert pdf.find_browser({"CHROMIUM": str(program)}) == str(program)


def test_a_missing_book_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make book"):
        pdf.make(tmp_path, tmp_path / "none", tmp_path / "a.pdf", "chromium")


CHROMIUM = pytest.mark.skipif(
    not any(map(shutil.which, pdf.PROGRAMS)), reason="Chromium is optional"
)


@pytest.mark.slow
@CHROMIUM
def test_a_page_without_its_mathematics_is_not_accepted(root: Path) -> None:
    (root / pdf.SITE / "_static" / "mathjax" / "tex-svg.js").write_text("")
    with pytest.raises(ValueError, match="before mathematics was typeset"):
        pdf.make(root, root / pdf.SITE, root / "small.pdf", pdf.find_browser(os.environ))


@pytest.mark.slow
@CHROMIUM
def test_chromium_prints_pages_bookmarks_and_numbers(root: Path) -> None:
    target = root / "small.pdf"
    pdf.make(root, root / pdf.SITE, target, pdf.find_browser(os.environ))
    reader = PdfReader(target)
    pages = [page.extract_text() for page in reader.pages]
    assert "The authors" in pages[0]
    assert "1. First" in pages[1]
    assert any("Second" in page for page in pages[2:])
    assert "1. First" in [mark.title for mark in reader.outline if not isinstance(mark, list)]
    assert (
        pdf.page_numbers(target)["notebooks-02_b--"] > pdf.page_numbers(target)["notebooks-01_a--"]
    )
    assert not (root / pdf.SITE / "_print.html").exists()
