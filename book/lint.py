"""Check the built pages: what Sphinx does not call a warning but a reader calls broken.

    python book/lint.py _build/html

A rule is a function from a page to descriptions of its defects; adding one means adding a row to
RULES. Exit status 1 if anything was found.
"""

import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import NavigableString

SKIPPED_FOLDERS = {"_static", "_sources"}
NOT_PROSE = ["script", "style", "pre", "code", "svg", "title"]
MATH_CLASS = "math"
LOADING_RELS = {
    "stylesheet",
    "icon",
    "preload",
    "modulepreload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "manifest",
    "apple-touch-icon",
}
LOADING_TAGS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
}

REMOTE = re.compile(r"^\s*(https?:)?//", re.IGNORECASE)
REMOTE_ASSET = re.compile(r"https?://[^\s'\"`)]+\.(?:m?js|css|woff2?)\b", re.IGNORECASE)
CSS_REMOTE = re.compile(r"(?:@import\s+|url\()\s*['\"]?\s*((?:https?:)?//[^'\")\s;]+)")
FILE_NAME = re.compile(r"^\S+\.(png|svg|jpe?g|gif|webp)$|^[0-9a-f]{32,64}$", re.IGNORECASE)
MYST_ROLE = re.compile(r"\{(?:math|eq|ref|numref|cite|doc|term|download|[a-z]+:[a-z]+)\}")
REST_ROLE = re.compile(r"(?<![\w:]):[a-z]+(?::[a-z]+)?:(?=`|$)")
NUMBER = re.compile(r"\d+\.?\d*(?:e[+-]?\d+)?")
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?!\.?\w)")
HEAVIEST_PAGE = 1_500_000  # bytes, with its pictures
HEAVIEST_CHAPTER = 700_000  # without
WIDEST = 78  # columns of code and output that fit beside the contents at 1,280 pixels
MOST_TOGETHER, FEW = 4, 20  # processes; pages that one alone reads as fast
WIDEST_CONSOLE = 92  # in the smaller letters that fourierkernels.css gives terminals
FENCE = re.compile(r":::|```|~~~")


@dataclass(frozen=True)
class Finding:
    """One defect of one page."""

    page: str
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.page}: {self.rule}: {self.detail}"


class Page:
    """A parsed HTML file and its place in the site."""

    def __init__(self, path: Path, site: Path) -> None:
        self.path, self.site = path, site
        self.name = path.relative_to(site).as_posix()
        self.soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")

    @cached_property
    def tags(self) -> tuple[Tag, ...]:
        """All tags in the order of the page; to walk it once is half of the lint's time."""
        return tuple(self.soup.find_all(True))

    @cached_property
    def by_name(self) -> dict[str, list[Tag]]:
        """The tags of each name."""
        found: dict[str, list[Tag]] = defaultdict(list)
        for tag in self.tags:
            found[tag.name].append(tag)
        return found

    def named(self, *names: str) -> list[Tag]:
        """Return the tags of these names."""
        return [tag for name in names for tag in self.by_name.get(name, [])]

    @cached_property
    def by_class(self) -> dict[str, list[Tag]]:
        """The tags of each class."""
        found: dict[str, list[Tag]] = defaultdict(list)
        for tag in self.tags:
            for name in tag.get("class") or []:
                found[name].append(tag)
        return found

    def classed(self, *names: str) -> list[Tag]:
        """Return the tags of these classes."""
        return [tag for name in names for tag in self.by_class.get(name, [])]

    @cached_property
    def anchors(self) -> frozenset[str]:
        """Everything a fragment may point to."""
        return frozenset(
            str(tag[key]) for tag in self.tags for key in ("id", "name") if tag.get(key)
        )

    @cached_property
    def prose(self) -> tuple[str, ...]:
        """The pieces of text that a reader reads as text: no code, no mathematics, no scripts."""
        return tuple(text for node in self.soup.find_all(string=True) if (text := _prose(node)))


def _prose(node: NavigableString) -> str:
    outside = isinstance(node, Comment) or any(
        tag.name in NOT_PROSE or MATH_CLASS in tag.get_attribute_list("class")
        for tag in node.parents
    )
    return "" if outside else str(node).strip()


def excerpt(text: str, at: int = 0, width: int = 60) -> str:
    """Return the piece of `text` around position `at`, on one line."""
    return " ".join(text[max(0, at - width // 2) : at + width].split())


# --- rules -----------------------------------------------------------------------------------


def literal_dollar(page: Page) -> Iterator[str]:
    """Mathematics that was not parsed; Sphinx gives no warning for it."""
    for text in page.prose:
        if "$" in text:
            yield f"'$' in the text, so unparsed mathematics: {excerpt(text, text.index('$'))!r}"


def leftover_markup(page: Page) -> Iterator[str]:
    """Roles and fences that reached the page as text."""
    for text in page.prose:
        for pattern in (MYST_ROLE, REST_ROLE, FENCE):
            if match := pattern.search(text):
                yield f"markup in the text: {excerpt(text, match.start())!r}"


def image_text(page: Page) -> Iterator[str]:
    """Images that a reader who cannot see them gets nothing from."""
    for image in page.named("img"):
        alt, source = image.get("alt"), Path(str(image.get("src", ""))).name
        if alt is None or not str(alt).strip():
            yield f"image without alt text: {source}"
        elif FILE_NAME.match(Path(str(alt).strip()).name):
            yield f"alt text is a file name: {alt} (in a cell, set mystnb: image: alt:)"


def remote_loads(page: Page) -> Iterator[str]:
    """Anything a browser would fetch from another host; the book must render with no network."""
    for url in _loaded_urls(page):
        if REMOTE.match(url):
            yield f"loads from the network: {url}"
    for script in (script for script in page.named("script") if not script.has_attr("src")):
        names = REMOTE_ASSET.findall(script.get_text())
        yield from (f"inline script names a remote file: {name}" for name in names)
    for style in page.named("style"):
        yield from (f"style loads from the network: {u}" for u in CSS_REMOTE.findall(style.text))


def _loaded_urls(page: Page) -> Iterator[str]:
    for name, keys in LOADING_TAGS.items():
        for tag in page.named(name):
            yield from (str(tag[key]) for key in keys if tag.get(key))
    for link in page.named("link"):
        if link.has_attr("href") and LOADING_RELS & set(link.get_attribute_list("rel")):
            yield str(link["href"])


def stylesheet_loads(site: Path) -> Iterator[Finding]:
    """Find remote loads in the stylesheets of the site."""
    for path in sorted(site.rglob("*.css")):
        for url in CSS_REMOTE.findall(path.read_text("utf-8", errors="replace")):
            name = path.relative_to(site).as_posix()
            yield Finding(name, "remote_loads", f"loads from the network: {url}")


def cell_outputs(page: Page) -> Iterator[str]:
    """Cells that raised or wrote to standard error."""
    for output in page.classed("traceback", "stderr"):
        if output.find_parent(class_="cell_output") is None:
            continue
        kind = "raised" if "traceback" in output.get_attribute_list("class") else "wrote to stderr"
        last = (output.get_text().strip().splitlines() or [""])[-1]
        yield f"a cell {kind}: {excerpt(last)!r}"


def parser_messages(page: Page) -> Iterator[str]:
    """Docutils' own error boxes and the text it marks as problematic."""
    for tag in page.classed("system-message", "problematic"):
        yield f"parser message: {excerpt(tag.get_text())!r}"


def unresolved_names(page: Page) -> Iterator[str]:
    """Roles such as {py:class} whose target is in no API page; shown as code that links nowhere.

    Data is excepted: a registry that a package re-exports has no entry of its own.
    """
    for code in page.classed("xref"):
        data = "py-data" in code.get_attribute_list("class")
        if code.name == "code" and not data and code.find_parent("a") is None:
            yield f"reference to nothing: {code.get_text()!r} (use plain code for a foreign name)"


def unbacked_numbers(page: Page) -> Iterator[str]:
    """Decimals in the text of a chapter that none of its cells states or prints.

    Text that cites its source is excepted; so are cross-references, code and numbers of figures.
    """
    cells = page.classed("cell_input", "cell_output")
    backed = [float(n) for cell in cells for n in NUMBER.findall(cell.get_text(" "))]
    for block in page.named("p", "li", "td") if cells else []:
        if block.find(["p", "li"]) or "admonition-title" in block.get_attribute_list("class"):
            continue  # a title has the number of an exercise
        if block.find_parent(class_="cell") or _cites(block):
            continue
        for text in block.find_all(string=True):
            named = text.find_parent(["a", "code"]) or text.find_parent(class_="caption-number")
            if named is None:
                alone = (m for m in DECIMAL.finditer(text) if not _is_backed(m.group(), backed))
                yield from (f"number of no cell: {excerpt(text, m.start())!r}" for m in alone)


def _cites(block: Tag) -> bool:
    """Whether a block, or the paragraph before its table, has a citation."""
    above = block.find_parent("table")
    nearby = [block, above.find_previous("p") if above else None]
    return any(tag and tag.select_one("a[href*='bibliography.html#']") for tag in nearby)


def _is_backed(number: str, backed: list[float]) -> bool:
    """Whether a number, as it is or as a share, rounds to this one."""
    value, digits = float(number), len(number.partition(".")[2])
    half = 0.5000001 * 10.0**-digits
    return any(min(abs(x - value), abs(100 * x - value)) <= half for x in backed)


def page_weight(page: Page) -> Iterator[str]:
    """Pages too heavy for a slow line: HTML and its own pictures; what pages share is cached."""
    urls = {
        url
        for name in ("img", "source", "video", "object", "embed")
        for tag in page.named(name)
        for url in (tag.get(key) for key in LOADING_TAGS[name] if key != "srcset")
        if url and not REMOTE.match(url) and not url.startswith("data:")
    }
    paths = {(page.path.parent / unquote(urlsplit(url).path)).resolve() for url in urls}
    own = [path for path in paths if path.is_file() and not _shared(path, page.site)]
    weight = page.path.stat().st_size + sum(path.stat().st_size for path in own)
    if weight > HEAVIEST_PAGE:
        heaviest = max(own, key=lambda path: path.stat().st_size, default=page.path)
        yield (
            f"{weight / 1e6:.2f} MB with its pictures, at most {HEAVIEST_PAGE / 1e6} MB are "
            f"wanted; the heaviest is {heaviest.name}, {heaviest.stat().st_size / 1e6:.2f} MB"
        )


def chapter_weight(page: Page) -> Iterator[str]:
    """Chapters whose own HTML is too heavy."""
    weight = page.path.stat().st_size
    if page.name.startswith("notebooks/") and weight > HEAVIEST_CHAPTER:
        yield f"{weight / 1e3:.0f} kB of HTML, at most {HEAVIEST_CHAPTER / 1e3:.0f} kB are wanted"


def wide_code(page: Page) -> Iterator[str]:
    """Code and output that a chapter cuts at its margin; what it hides may be wider."""
    told = page.name.startswith(("book/index", "notebooks/"))
    for block in page.soup.select(".bd-article pre") if told else []:
        if block.find_parent(class_="hide"):
            continue
        most = WIDEST_CONSOLE if block.find_parent(class_="highlight-console") else WIDEST
        for line in block.get_text().splitlines():
            if len(line) > most:
                yield f"{len(line)} columns, at most {most} are wanted: {line[:50]!r}"


def _shared(path: Path, site: Path) -> bool:
    """Whether a file is of the theme or of all pages; one of a single page's may lie there."""
    return path.is_relative_to(site.resolve() / "_static") and path.parent.name == "_static"


RULES: dict[str, Callable[[Page], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        literal_dollar,
        leftover_markup,
        image_text,
        remote_loads,
        cell_outputs,
        parser_messages,
        unresolved_names,
        unbacked_numbers,
        page_weight,
        chapter_weight,
        wide_code,
    )
}


# --- links: the one rule that needs the whole site -------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What is kept of a page when it has been read: what links to it need, and its findings."""

    path: Path
    name: str
    anchors: frozenset[str]
    references: tuple[str, ...]
    findings: tuple[Finding, ...]


def broken_links(page: Seen, pages: dict[Path, Seen]) -> Iterator[str]:
    """Links and files inside the site that are not there."""
    for url in page.references:
        if problem := _problem(url, page, pages):
            yield f"{problem}: {url}"


def _local_references(page: Page) -> Iterator[str]:
    for key in ("href", "src"):
        for tag in page.named("a", "link", "script", "img"):
            url = str(tag.get(key) or "#")
            parts = urlsplit(url)
            if not parts.scheme and not parts.netloc and url != "#":
                yield url


def _problem(url: str, page: Seen, pages: dict[Path, Seen]) -> str | None:
    parts = urlsplit(url)
    target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    if not target.exists():
        return "broken link"
    aim = pages.get(target)
    if parts.fragment and aim and unquote(parts.fragment) not in aim.anchors:
        return "broken anchor"
    return None


# --- the site --------------------------------------------------------------------------------


def page_paths(site: Path) -> list[Path]:
    """Every page of a resolved site; the theme's own files are left out."""
    paths = sorted(site.rglob("*.html"))
    return [path for path in paths if path.relative_to(site).parts[0] not in SKIPPED_FOLDERS]


def read(path: Path, site: Path) -> Seen:
    """Read a page, and find what is wrong with it alone."""
    page = Page(path, site)
    found = [Finding(page.name, name, text) for name, rule in RULES.items() for text in rule(page)]
    references = tuple(_local_references(page))
    return Seen(path, page.name, page.anchors, references, tuple(found))


def read_all(paths: list[Path], site: Path) -> list[Seen]:
    """Read pages, many of them in a process per core."""
    one = partial(read, site=site)
    if len(paths) <= FEW:
        return [one(path) for path in paths]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MOST_TOGETHER)) as pool:
        return list(pool.map(one, paths))


def lint_site(site: Path) -> list[Finding]:
    """All findings of a built site, each once, in page order."""
    paths = page_paths(site := site.resolve())
    if not paths:
        return [Finding(str(site), "no_pages", "there is no HTML file in this folder")]
    pages = {page.path: page for page in read_all(paths, site)}
    found: list[Finding] = []
    for page in pages.values():
        broken = (Finding(page.name, "broken_links", text) for text in broken_links(page, pages))
        found += [*page.findings, *broken]
    return list(dict.fromkeys([*found, *stylesheet_loads(site)]))


def main(arguments: list[str]) -> int:
    """Lint the site named on the command line."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python book/lint.py SITE\n")
        return 2
    findings = lint_site(Path(arguments[0]))
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    sys.stdout.write(f"lint: {len(findings)} finding(s)\n")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
