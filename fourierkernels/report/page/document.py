"""One file of HTML with everything inside: it loads nothing external."""

import base64
import hashlib
import json
import re
import uuid
from html import escape
from importlib.resources import files
from pathlib import Path

from fourierkernels.report.content import ReportContent
from fourierkernels.report.page.data import as_json, page_numbers
from fourierkernels.report.page.tables import (
    finding_lines,
    layers_table,
    notes_list,
    pruning_list,
    pruning_numbers,
)
from fourierkernels.report.page.weights import MOST_WEIGHTS

# In the order in which they are joined to one script.
_SCRIPTS = (
    "core.js",
    "grid.js",
    "figures.js",
    "heads.js",
    "maps.js",
    "rows.js",
    "lines.js",
    "overview.js",
    "vector.js",
    "page.js",
)
_FRAME = "width: 100%; height: 60rem; border: 1px solid; color-scheme: light dark"


def page_html(report: ReportContent, *, most: int = MOST_WEIGHTS) -> str:
    """Return the page of a report as text; distances are those of the first metric.

    Its script, style and data stand inside; the policy in its head allows those by their digests
    and nothing else. Texts and tokens are data: the script shows them as text only.

    Parameters
    ----------
    report : ReportContent
    most : int
        Attention weights on the page in all; longer examples are cut, and the page says so.

    Raises
    ------
    ValueError
        If weights are negative or not finite.

    Examples
    --------
    >>> page_html(ReportContent("a checkpoint")).splitlines()[0]
    '<!doctype html>'
    """
    style = _source("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_source, _SCRIPTS)) + "})();\n"
    filled = {
        "title": escape(report.name),
        "kind": escape(report.kind),
        "heading": escape(report.kind.capitalize()),
        "policy": escape(_policy(style, script)),
        "style": style,
        "finding": finding_lines(report),
        "notes": notes_list(report),
        "pruning": pruning_numbers(report.pruning),
        "pruned": pruning_list(report.pruning),
        "layers": layers_table(report),
        "origin": escape(json.dumps(report.shared_origin, indent=1, default=str)),
        "data": as_json(page_numbers(report, most=most)),
        "script": script,
    }
    # One pass, so that nothing which is filled in is taken for a place to fill.
    return re.sub("@@([a-z]+)@@", lambda place: filled[place[1]], _source("template.html"))


def page_fragment(report: ReportContent, *, most: int = MOST_WEIGHTS) -> str:
    """Return the page as one element that may stand in any other page, such as a notebook.

    It is a frame with a document of its own: its script, style and identifiers meet nothing of the
    page around it, nor of a second report there.

    Parameters
    ----------
    report, most
        As for :func:`page_html`.

    Examples
    --------
    >>> page_fragment(ReportContent("a checkpoint"))[:53]
    '<iframe title="Report on the heads of a checkpoint" s'
    """
    page = escape(page_html(report, most=most))
    title = escape(f"Report on the heads of {report.name}")
    return f'<iframe title="{title}" srcdoc="{page}" style="{_FRAME}"></iframe>'


def write_page(path: str | Path, report: ReportContent) -> None:
    """Write the page to `path`: the whole file, or nothing, and the earlier file stays.

    Raises
    ------
    ValueError
        As :func:`page_html`.
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    made = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    text = page_html(report)
    try:
        made.write_text(text, encoding="utf-8", newline="\n")
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def _source(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
