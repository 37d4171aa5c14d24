"""Sphinx extension: at the end of a chapter, a link to its download.

The downloads are made by book/downloads.py before Sphinx runs; a chapter without one has no link.
"""

from pathlib import Path
from zipfile import ZipFile

from docutils import nodes
from sphinx.application import Sphinx

from book.chapters import Chapter
from book.downloads import DOWNLOADS, installation

FOLDER = "notebooks/"


def contents(download: Path) -> str:
    """Say what is in a download, and its size."""
    size = f"{max(round(download.stat().st_size / 1000), 1)} kB"
    if download.suffix != ".zip":
        return size
    with ZipFile(download) as archive:
        count = len(archive.namelist()) - 1
    return f"zip with {count} file{'s' * (count != 1)} that it reads, {size}"


def add_link(app: Sphinx, doctree: nodes.document) -> None:
    """Append the link, and the command that installs what the notebook needs."""
    page = app.env.docname
    name = page.removeprefix(FOLDER)
    found = list((Path(app.srcdir) / DOWNLOADS).glob(f"{name}.*"))
    if not page.startswith(FOLDER) or not found:
        return
    [download] = found
    link = nodes.reference(
        "", "Download this chapter as a notebook", refuri=f"../_static/downloads/{download.name}"
    )
    chapter = Chapter(Path(app.srcdir, f"{page}.md"))
    paragraph = nodes.paragraph("", "", link, nodes.Text(f" ({contents(download)}). After "))
    paragraph += nodes.literal("", installation(chapter))
    paragraph += nodes.Text(" in a checkout of the repository it runs anywhere.")
    paragraph["classes"] = ["chapter-download"]
    next(doctree.findall(nodes.section)).append(paragraph)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the reading of pages."""
    app.connect("doctree-read", add_link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
