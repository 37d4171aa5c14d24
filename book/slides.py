"""Make slides of a chapter, from its text and its kept outputs; no network, no other program.

    python book/slides.py notebooks/07_exact_error.md    writes _build/slides/07_exact_error.html

One page each: the question, every figure with its caption, every statement with its intuition, and
the summary. Build the book once before: slides execute nothing.
"""

import html
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, beside the book

from book.build import MATHJAX, provide_mathjax
from book.execute import KEPT, ROOT, settings

SLIDES = Path("_build", "slides")
STATEMENT = re.compile(
    r"^(`{3,})\{prf:(?:theorem|proposition|lemma)\} *([^\n]*)\n(?::label:[^\n]*\n)?(.*?)^\1$"
    r"(?:\s*\*\*Intuition\.\*\* (.*?)\n\n)?",
    re.MULTILINE | re.DOTALL,
)
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<script>MathJax = {{tex: {{inlineMath: [["$", "$"]], macros: {macros}}}}};</script>
<script defer src="{mathjax}"></script><style>
html {{ scroll-snap-type: y mandatory; font: 1.5rem/1.45 sans-serif; }}
section {{ box-sizing: border-box; min-height: 100vh; padding: 8vh 10vw; scroll-snap-align: start;
  display: flex; flex-direction: column; justify-content: center; }}
svg {{ max-width: 100%; max-height: 62vh; }} figcaption {{ font-size: 1.1rem; }} h1 {{ margin: 0; }}
</style></head><body>{pages}<script>
addEventListener("keydown", key => {{
  const step = {{ArrowRight: 1, ArrowDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1}}[key.key];
  if (step) {{ key.preventDefault(); scrollBy(0, step * innerHeight); }}
}});</script></body></html>"""


def slides(text: str, outputs: Any) -> Iterator[str]:
    """Yield the pages of a chapter: its source, and its executed notebook."""
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    question = re.search(r"\*\*Question\.\*\* (.*?)\n\n", text, re.DOTALL)
    yield f"<h1>{prose(title[1] if title else '')}</h1><p>{prose(question[1] if question else '')}"
    for cell in outputs["cells"]:
        caption = cell["metadata"].get("mystnb", {}).get("figure", {}).get("caption", "")
        for output in cell.get("outputs", []):
            if caption and (svg := output.get("data", {}).get("image/svg+xml")):
                picture = "<svg" + "".join(svg).partition("<svg")[2]
                yield f"<figure>{picture}<figcaption>{prose(caption)}</figcaption></figure>"
    for _, name, body, intuition in STATEMENT.findall(text):
        yield f"<h2>{prose(name)}</h2><p>{prose(body)}</p>" + (
            f"<p><em>{prose(intuition)}</em></p>" if intuition else ""
        )
    summary = re.search(r"^## Summary\n(.*?)(?=^\*\*Further|^## )", text, re.MULTILINE | re.DOTALL)
    points = re.split(r"^- ", summary[1], flags=re.MULTILINE)[1:] if summary else []
    yield "<h2>Summary</h2><ul>" + "".join(f"<li>{prose(point)}</li>" for point in points) + "</ul>"


def prose(text: str) -> str:
    """Write MyST as HTML, as far as slides need it: mathematics stays, roles leave their words."""
    roles = r"\{(?:cite|eq|numref|doc|ref|prf:ref|py:\w+)[^}]*\}`[~!]?([^`<]*)[^`]*`"
    text = re.sub(roles, r"\1", text)
    text = html.escape(re.sub(r"\$\$ \([\w-]+\)", "$$", text), quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<![\w$\\])\*([^*$\n]+)\*", r"<em>\1</em>", text)


def write(root: Path, chapter: Path) -> Path:
    """Write the slides of a chapter, from the newest of its kept outputs.

    Raises
    ------
    FileNotFoundError
        If the chapter has no outputs.
    """
    kept = sorted((root / KEPT).glob(f"*/{chapter.stem}-*.ipynb"), key=lambda p: p.stat().st_mtime)
    if not kept:
        raise FileNotFoundError(f"{chapter.name} has no outputs: build the book before")
    text, outputs = chapter.read_text("utf-8"), json.loads(kept[-1].read_text("utf-8"))
    pages = "".join(f"<section>{page}</section>" for page in slides(text, outputs))
    provide_mathjax(root)
    target = root / SLIDES / f"{chapter.stem}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / MATHJAX, target.with_name(MATHJAX.name))
    macros = json.dumps(settings(root)["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"])
    page = PAGE.format(title=chapter.stem, macros=macros, mathjax=MATHJAX.name, pages=pages)
    target.write_text(page, "utf-8")
    return target


def main(arguments: list[str]) -> int:
    """Write the slides of the chapters named on the command line."""
    if not arguments:
        sys.stderr.write("usage: python book/slides.py notebooks/CHAPTER.md ...\n")
        return 2
    try:
        for name in arguments:
            sys.stdout.write(f"{write(ROOT, ROOT / name).relative_to(ROOT)}\n")
    except FileNotFoundError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
