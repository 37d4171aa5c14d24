"""One file of HTML with everything inside: it asks for nothing, from this machine or another."""

import base64
import hashlib
import json
import re
import uuid
from html import escape
from importlib.resources import files
from pathlib import Path

from fourierkernels.report.page.content import Page, check_page
from fourierkernels.report.page.data import as_json, page_numbers
from fourierkernels.report.page.tables import layers_table, notes_list

# In the order in which they are joined to one script.
_SCRIPTS = ("core.js", "grid.js", "figures.js", "heads.js", "maps.js", "rows.js", "page.js")


def page_html(page: Page) -> str:
    """Return the page as text.

    Its script, style and data stand inside; the policy in its head allows those by their digests
    and nothing else. Texts and tokens are data: the script shows them as text only.

    Raises
    ------
    ValueError
        If the parts of the page do not fit each other, or weights are negative or not finite.

    Examples
    --------
    >>> page_html(Page("a checkpoint")).splitlines()[0]
    '<!doctype html>'
    """
    check_page(page)
    style = _source("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_source, _SCRIPTS)) + "})();\n"
    filled = {
        "title": escape(page.title),
        "kind": escape(page.kind),
        "heading": escape(page.kind.capitalize()),
        "policy": escape(_policy(style, script)),
        "style": style,
        "notes": notes_list(page),
        "layers": layers_table(page),
        "origin": escape(json.dumps(dict(page.origin), indent=1, default=str)),
        "data": as_json(page_numbers(page)),
        "script": script,
    }
    # One pass, so that nothing which is filled in is taken for a place to fill.
    return re.sub("@@([a-z]+)@@", lambda place: filled[place[1]], _source("template.html"))


def write_page(path: str | Path, page: Page) -> None:
    """Write the page to `path`: the whole file, or nothing and the file that was there.

    Raises
    ------
    ValueError
        As :func:`page_html`.
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    made = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    text = page_html(page)
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
