"""Print the built book as one PDF: ``python -m book.pdf``, after book/build.py.

    python -m book.pdf [SITE [PDF]]    by default _build/html and _build/fourierkernels.pdf

The articles of the pages are put one after the other into a single page, whose links stay inside
it, and Chromium prints that page twice: the second time the contents know the page numbers. It is
an optional program: install chromium, or name another one in CHROMIUM.
"""

import datetime
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

ROOT = Path(__file__).resolve().parents[1]
SITE, PDF = Path("_build", "html"), Path("_build", "fourierkernels.pdf")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LEFT_OUT = ("book/api", "book/contributing", "book/changelog")  # of use on a screen only
PATIENCE = 900  # seconds

DROPPED = ", ".join(
    (
        "script",
        "a.headerlink",
        "button",
        "fieldset",
        "details.hide",  # code that the page hides
        ".cell.tag_hide-cell > details",
        ".chapter-download",
        "nav",
        ".prev-next-area",
    )
)
TITLE, UNFINISHED = "fourierkernels", "unfinished"  # of the page, when mathematics is typeset
TYPESET = (
    "<script>window.MathJax.startup = {pageReady: () => MathJax.startup.defaultPageReady()"
    f".then(() => {{document.title = '{TITLE}'}})}}</script>"
)


@dataclass(frozen=True)
class Part:
    """A caption of the table of contents, with the names of its pages."""

    caption: str
    pages: tuple[str, ...]


def parts(root: Path) -> list[Part]:
    """Return what of the table of contents is printed."""
    contents = yaml.safe_load((root / "book" / "_toc.yml").read_text("utf-8"))
    found = []
    for part in contents["parts"]:
        names = (entry["file"] for entry in part["chapters"])
        pages = tuple(name for name in names if not name.startswith(LEFT_OUT))
        if pages:
            found.append(Part(part["caption"], pages))
    return found


def find_browser(environment: Mapping[str, str]) -> str:
    """Return the program that prints.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    wanted = environment.get("CHROMIUM")
    for name in (wanted,) if wanted else PROGRAMS:
        if found := shutil.which(name, path=environment.get("PATH")):
            return found
    raise FileNotFoundError(
        f"{wanted} is not a program (CHROMIUM)"
        if wanted
        else "the PDF needs Chromium: install the system package chromium, or name a Chromium or "
        "Chrome in the variable CHROMIUM"
    )


# --- the single page -------------------------------------------------------------------------


def anchor(page: str, fragment: str = "") -> str:
    """Return the name of a place of a page in the single page."""
    return f"{page.replace('/', '-')}--{fragment}"


def article(site: Path, page: str, printed: frozenset[str]) -> Tag:
    """Return the article of a page, with names and links that hold in the single page."""
    path = site / f"{page}.html"
    soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
    found = soup.select_one("article.bd-article")
    if found is None:
        raise ValueError(f"{path} has no article")
    for tag in found.select(DROPPED):
        tag.decompose()
    for tag in found.select("details"):
        tag["open"] = ""
    _rename(found, page)
    for link in found.find_all("a", href=True):
        _relink(link, page, printed)
    for image in found.find_all("img", src=True):
        image["src"] = _local(path.parent, str(image["src"]), site)
    found.name = "section"
    found["id"] = anchor(page)
    return found


def _rename(found: Tag, page: str) -> None:
    """Make the names of places differ from those of other pages, and parts of pictures as well."""
    for tag in found.find_all(id=True):
        tag["id"] = anchor(page, str(tag["id"]))
    for tag in found.select("svg *"):  # it may refer to another part
        for key, value in tag.attrs.items():
            name = r"^#|(?<=url\()#" if key.endswith("href") else r"(?<=url\()#"
            tag[key] = re.sub(name, f"#{anchor(page)}", str(value))


def _relink(link: Tag, page: str, printed: frozenset[str]) -> None:
    target = urlsplit(str(link["href"]))
    if target.scheme or target.netloc:
        return
    name = os.path.normpath(Path(page).parent / target.path)
    name = page if not target.path else name.removesuffix(".html")
    if name in printed:
        link["href"] = f"#{anchor(name, unquote(target.fragment))}"
    else:
        del link["href"]


def contents(book: list[Part], titles: Mapping[str, str], numbers: Mapping[str, int]) -> str:
    """Return the table of contents; a page whose number is not known yet has none."""
    lines = ['<nav class="print-contents"><h1>Contents</h1>']
    for part in book:
        lines += [f"<h2>{part.caption}</h2>", "<ol>"]
        for page in part.pages:
            number = numbers.get(anchor(page), "")
            lines.append(
                f'<li><a href="#{anchor(page)}">{titles[page]}</a><span>{number}</span></li>'
            )
        lines.append("</ol>")
    return "\n".join([*lines, "</nav>"])


def title_page(settings: Mapping[str, str], site: Path) -> str:
    """Return the title page."""
    logo = site / "_static" / "logo.svg"
    mark = '<img src="_static/logo.svg" alt="">' if logo.is_file() else ""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f'<section class="print-title">{mark}<h1>{settings["title"]}</h1>'
        "<p>Kernel regression with Fourier integral kernels, and attention as kernel regression"
        f"</p><p>{settings['author']}</p><p>Printed on {date}</p></section>"
    )


def head(site: Path, pages: Iterable[str]) -> str:
    """Return the head of the single page: the pages' styles, the mathematics, nothing else."""
    kept: dict[str, None] = {}
    for page in pages:
        soup = BeautifulSoup((site / f"{page}.html").read_text("utf-8"), "html.parser")
        for tag in soup.select("head link[rel=stylesheet], head script"):
            key = "href" if tag.name == "link" else "src"
            if url := str(tag.get(key, "")):
                tag[key] = _local((site / page).parent, url, site)
            if tag.name == "link" or "mathjax/" in url or "window.MathJax" in tag.get_text():
                kept[str(tag)] = None
    return "\n".join([f'<meta charset="utf-8"><title>{UNFINISHED}</title>', *kept, TYPESET])


def _local(folder: Path, url: str, site: Path) -> str:
    return os.path.relpath((folder / unquote(urlsplit(url).path)).resolve(), site.resolve())


def single_page(root: Path, site: Path, numbers: Mapping[str, int]) -> str:
    """Return the whole book as one page; `numbers` are the page numbers by name of a place."""
    settings = yaml.safe_load((root / "book" / "_config.yml").read_text("utf-8"))
    book = parts(root)
    pages = [page for part in book for page in part.pages]
    articles = {page: article(site, page, frozenset(pages)) for page in pages}
    titles = {page: _title(found) for page, found in articles.items()}
    front = [title_page(settings, site), contents(book, titles, numbers)]
    body = "".join([*front, *map(str, articles.values())])
    return (
        '<!doctype html><html lang="en" data-theme="light" data-mode="light">'
        f"<head>{head(site, pages)}</head>"
        f'<body class="printed">{body}</body></html>'
    )


def _title(found: Tag) -> str:
    heading = found.find("h1")
    if not isinstance(heading, Tag):
        raise ValueError(f"{found['id']} has no title")
    return heading.get_text(" ", strip=True)


# --- printing --------------------------------------------------------------------------------


def browser_print(browser: str, page: Path, pdf: Path) -> None:
    """Print a page when its scripts are done."""
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0  # Windows has no such call
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            *(["--no-sandbox"] if as_root else []),  # Chromium refuses root otherwise
            f"--user-data-dir={profile}",
            f"--virtual-time-budget={1000 * PATIENCE}",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
            f"--print-to-pdf={pdf}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)


def page_numbers(pdf: Path) -> dict[str, int]:
    """Return the page numbers of the places that the PDF links to."""
    reader = PdfReader(pdf)
    numbers = {
        page.indirect_reference.idnum: number
        for number, page in enumerate(reader.pages, 1)
        if page.indirect_reference is not None
    }
    places = reader.named_destinations.items()
    return {name.removeprefix("/"): numbers[place.page.idnum] for name, place in places}


def set_bookmarks(writer: PdfWriter, titles: list[str]) -> None:
    """Give the bookmarks their titles: Chromium repeats words of some."""
    marks = list(_bookmarks(writer.root_object["/Outlines"]))
    if len(marks) != len(titles):
        raise ValueError(f"{len(titles)} headings have {len(marks)} bookmarks")
    for mark, title in zip(marks, titles, strict=True):
        mark[NameObject("/Title")] = TextStringObject(title)


def _bookmarks(parent: DictionaryObject) -> Iterator[DictionaryObject]:
    """Yield the bookmarks below one, in the order of the text."""
    mark = parent.get("/First")
    while mark is not None:
        found = mark.get_object()
        yield found
        yield from _bookmarks(found)
        mark = found.get("/Next")


def make(root: Path, site: Path, pdf: Path, browser: str) -> None:
    """Print the book of a built site."""
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site} has no book: build it first, with make book")
    page = site / "_print.html"
    try:
        numbers: dict[str, int] = {}
        for _ in range(2):
            text = single_page(root, site, numbers)
            page.write_text(text, "utf-8")
            browser_print(browser, page.resolve(), pdf.resolve())
            numbers = page_numbers(pdf)
            if PdfReader(pdf).metadata.title != TITLE:
                raise ValueError(f"{browser} printed before mathematics was typeset")
    finally:
        page.unlink(missing_ok=True)
    headings = BeautifulSoup(text, "html.parser").find_all(re.compile("^h[1-6]$"))
    writer = PdfWriter(clone_from=pdf)
    writer.add_metadata({"/Title": TITLE, "/Subject": "The book of the package"})
    set_bookmarks(writer, [" ".join(heading.get_text().split()) for heading in headings])
    writer.write(pdf)


def main(arguments: list[str]) -> int:
    """Print the book, of this checkout or of the site on the command line."""
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # Chromium counts its objects too low
    site, pdf = [*map(Path, arguments), *(ROOT / SITE, ROOT / PDF)[len(arguments) :]]
    try:
        make(ROOT, site, pdf, find_browser(os.environ))
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{pdf}: {len(PdfReader(pdf).pages)} pages\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
