"""Translate a chapter into plain Markdown, which a notebook outside the book can show.

JupyterLab knows neither MyST's roles and directives nor the macros of the book. A role is a row of
ROLES, a directive a row of DIRECTIVES; what has no row is an error, not left in the text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from pybtex.database import Entry, parse_file
from pybtex.plugin import find_plugin

from book.labels import KINDS, UNNUMBERED, Book

MARKUP = re.compile(
    r"\{[a-zA-Z:_+-]+\}`|^\s*(?:`{3,}|:{3,}|~{3,})\s*\{|^\(\S+\)=\s*$|^:[a-z-]+:(?: |$)|^\+\+\+",
    re.MULTILINE,
)
_SPAN = re.compile(
    r"\{(?P<role>[a-zA-Z:_+-]+)\}(?P<ticks>`+)(?P<inside>.+?)(?P=ticks)"
    r"|(?P<code>(?P<fence>`+)(?!`).+?(?<!`)(?P=fence)(?!`))"
    r"|(?P<math>(?<![\\$])\$(?!\$)[^$]+?\$)",
    re.DOTALL,
)
_FENCE = re.compile(r"^( *)(`{3,}|:{3,}|~{3,}) *(.*)$")
_DIRECTIVE = re.compile(r"\{([^}]+)\} *(.*)")
_OPTION = re.compile(r"^:([a-z-]+): *(.*)$")
_CODE = re.compile(
    r"^ *(?P<block>`{3,})(?!`|\s*\{).*?^ *(?P=block)$"
    r"|(?<!\})(?<!`)(?P<span>`+)(?!`)[^\n]*?(?P=span)",
    re.MULTILINE | re.DOTALL,
)
_TARGET = re.compile(r"^\([^)\s]+\)= *$")
_EXPLICIT = re.compile(r"^(.*?)\s*<([^<>]+)>$", re.DOTALL)
_CLOSED = re.compile(r"^\$\$(.*?)\$\$ *(?:\(([^)\s]+)\))? *$", re.DOTALL)


@dataclass(frozen=True)
class Directive:
    """A block with a name, an argument, options and a body, whose lines are not translated yet."""

    name: str
    argument: str
    options: dict[str, str]
    body: list[str]


@dataclass
class Plain:
    """The translator of one chapter; it remembers which works were cited."""

    book: Book
    page: Path
    cited: list[str] = field(default_factory=list)

    def markdown(self, text: str) -> str:
        """Translate a text.

        Raises
        ------
        ValueError
            If it has a role, a directive or a label that cannot be translated.
        """
        lines = "\n".join(self._blocks(text.split("\n")))
        plain = re.sub(r"\n{3,}", "\n\n", lines).strip("\n")
        if left := MARKUP.search(_without_code(plain)):
            line = plain[left.start() :].strip().split("\n")[0]
            raise ValueError(f"{self.page.name}: cannot be written as plain Markdown: {line!r}")
        return plain

    def works(self) -> Iterator[str]:
        """Yield what was cited, as a list of references."""
        known = bibliography(self.book.root)
        style = find_plugin("pybtex.style.formatting", "unsrt")()
        keys = sorted(set(self.cited), key=lambda key: (_named(known[key]), key))
        for entry in style.format_entries([known[key] for key in keys]):
            yield f"- {entry.text.render_as('text')}"

    def _blocks(self, lines: Sequence[str]) -> Iterator[str]:
        text: list[str] = []
        at = 0
        while at < len(lines):
            line = lines[at]
            if fence := _FENCE.match(line):
                end = _closing(lines, at, fence)
                block = self._fenced(fence, lines[at : end + 1])
            elif line.lstrip().startswith("$$"):
                end = _math_end(lines, at)
                block = self._math(lines[at : end + 1])
            elif _TARGET.match(line) or line.startswith("% "):
                end, block = at, iter(())
            else:
                text.append(line)
                at += 1
                continue
            yield self._inline("\n".join(text)) if text else ""
            yield from block
            text, at = [], end + 1
        yield self._inline("\n".join(text))

    def _fenced(self, fence: re.Match[str], lines: Sequence[str]) -> Iterator[str]:
        directive = _DIRECTIVE.fullmatch(fence[3].strip())
        if directive is None:
            yield from lines
            return
        indent = len(fence[1])
        options, body = _options([line[indent:] for line in lines[1:-1]])
        block = Directive(directive[1], directive[2].strip(), options, body)
        if block.name not in DIRECTIVES:
            raise ValueError(f"{self.page.name}: no plain Markdown for {{{block.name}}}")
        for line in "\n".join(DIRECTIVES[block.name](self, block)).split("\n"):
            yield f"{fence[1]}{line}" if line else ""

    def _math(self, lines: Sequence[str]) -> Iterator[str]:
        indent = len(lines[0]) - len(lines[0].lstrip())
        found = _CLOSED.match("\n".join(lines).strip())
        if found is None:
            raise ValueError(f"{self.page.name}: a displayed equation does not end: {lines[0]!r}")
        tag = f" \\tag{{{self._label(found[2]).number}}}" if found[2] else ""
        inside = self._macros(found[1].strip())
        for line in ("$$", *(inside + tag).split("\n"), "$$"):
            yield " " * indent + line.strip()

    def _inline(self, text: str) -> str:
        return _SPAN.sub(self._span, text)

    def _span(self, found: re.Match[str]) -> str:
        if found["math"]:
            return self._macros(found["math"].replace("\n", " "))
        if found["code"]:
            return found["code"]
        name, inside = found["role"], " ".join(found["inside"].split())
        if name not in ROLES:
            raise ValueError(f"{self.page.name}: no plain Markdown for {found[0]!r}")
        return ROLES[name](self, inside)

    def _macros(self, tex: str) -> str:
        for name, body in macros(self.book.root).items():
            tex = re.sub(rf"\\{name}(?![A-Za-z])", lambda _found, body=body: body, tex)
        return tex

    def _label(self, name: str) -> Any:
        if name not in self.book.labels:
            raise ValueError(f"{self.page.name}: the book has no label {name!r}")
        return self.book.labels[name]

    def quote(self, head: str, body: Sequence[str]) -> Iterator[str]:
        """Yield a head and a translated body as a quotation."""
        text = "\n".join([head, "", *self._blocks(body)]).rstrip("\n")
        # On lines of its own mathematics would take the marks of the quotation for its own.
        text = re.sub(r"\$\$\n(.*?)\n *\$\$", _on_one_line, text, flags=re.DOTALL)
        yield ""
        yield from (f"> {line}".rstrip() for line in re.sub(r"\n{3,}", "\n\n", text).split("\n"))
        yield ""

    def fold(self, head: str, body: Sequence[str]) -> Iterator[str]:
        """Yield a translated body behind a click."""
        yield from ("", "<details>", f"<summary>{head}</summary>", "")
        yield from self._blocks(body)
        yield from ("", "</details>", "")


# --- sources ---------------------------------------------------------------------------------


@cache
def bibliography(root: Path) -> dict[str, Entry]:
    """Return the entries of book/references.bib by key."""
    return dict(parse_file(root / "book" / "references.bib").entries)


@cache
def macros(root: Path) -> dict[str, str]:
    """Return the macros of the book, none of which has arguments."""
    options = yaml.safe_load((root / "book" / "_config.yml").read_text("utf-8"))
    return dict(options["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"])


def _named(entry: Entry) -> str:
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [
        " ".join(str(part) for part in (*who.rich_prelast_names, *who.rich_last_names))
        for who in people
    ]
    if len(names) > 2:
        return f"{names[0]} et al."
    return " and ".join(names) or entry.fields.get("organization", entry.fields["title"])


# --- lines -----------------------------------------------------------------------------------


def _closing(lines: Sequence[str], start: int, fence: re.Match[str]) -> int:
    end = re.compile(rf" *{fence[2][0]}{{{len(fence[2])},}} *")
    for at in range(start + 1, len(lines)):
        if end.fullmatch(lines[at]):
            return at
    raise ValueError(f"a block does not end: {lines[start]!r}")


def _math_end(lines: Sequence[str], start: int) -> int:
    if lines[start].count("$$") > 1:
        return start
    ends = (at for at in range(start + 1, len(lines)) if "$$" in lines[at])
    return next(ends, len(lines) - 1)


def _options(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    while lines and (found := _OPTION.match(lines[0])):
        options[found[1]] = found[2]
        lines = lines[1:]
    return options, lines


def _on_one_line(found: re.Match[str]) -> str:
    return f"$$ {' '.join(line.strip() for line in found[1].split(chr(10)))} $$"


def _without_code(text: str) -> str:
    """Text with code blanked out, of the same length."""
    return _CODE.sub(lambda found: " " * len(found[0]), text)


# --- roles -----------------------------------------------------------------------------------


def _cited(plain: Plain, inside: str, *, text: bool) -> str:
    known = bibliography(plain.book.root)
    shown = []
    for key in (key.strip() for key in inside.split(",")):
        if key not in known:
            raise ValueError(f"{plain.page.name}: references.bib has no entry {key!r}")
        plain.cited.append(key)
        name, year = _named(known[key]), known[key].fields.get("year", "n.d.")
        shown.append(f"{name} [{year}]" if text else f"{name}, {year}")
    return ", ".join(shown) if text else f"[{'; '.join(shown)}]"


def _document(plain: Plain, inside: str) -> str:
    explicit = _EXPLICIT.match(inside)
    if explicit:
        return explicit[1]
    path = (plain.page.parent / f"{inside}.md").resolve()
    return f"“{plain.book.title(path)}”"


def _reference(plain: Plain, inside: str) -> str:
    explicit = _EXPLICIT.match(inside)
    if explicit is None:
        return str(plain._label(inside).text)
    return explicit[1].replace("%s", plain._label(explicit[2]).number)


def _words(_plain: Plain, inside: str) -> str:
    explicit = _EXPLICIT.match(inside)
    return explicit[1] if explicit else inside


def _code(_plain: Plain, inside: str, *, call: bool = False) -> str:
    explicit = _EXPLICIT.match(inside)
    name = explicit[1] if explicit else inside
    shown = name.rsplit(".", 1)[-1] if name.startswith("~") else name
    return f"`{shown}{'()' if call and not explicit else ''}`"


ROLES: dict[str, Callable[[Plain, str], str]] = {
    "cite": partial(_cited, text=False),
    "cite:p": partial(_cited, text=False),
    "cite:t": partial(_cited, text=True),
    "doc": _document,
    "eq": _reference,
    "numref": _reference,
    "prf:ref": _reference,
    "ref": _reference,
    "term": _words,
    "math": lambda _plain, inside: f"${inside}$",
    "code": _code,
    "download": _code,
    "py:func": partial(_code, call=True),
    "py:meth": partial(_code, call=True),
    **dict.fromkeys(("py:class", "py:mod", "py:attr", "py:data", "py:exc", "py:obj"), _code),
}


# --- directives ------------------------------------------------------------------------------


def _statement(plain: Plain, block: Directive) -> Iterator[str]:
    kind = block.name.removeprefix("prf:")
    label = block.options.get("label") or block.options.get("name")
    numbered = kind not in UNNUMBERED and "nonumber" not in block.options
    shown = plain._label(label).text if numbered and label else kind.title()
    title = f" ({plain._inline(block.argument)})" if block.argument else ""
    yield from plain.quote(f"**{shown}**{title}", block.body)


def _exercise(plain: Plain, block: Directive) -> Iterator[str]:
    label = block.options.get("label", "")
    title = f" ({plain._inline(block.argument)})" if block.argument else ""
    yield from ("", f"**{plain._label(label).text}**{title}", "")
    yield from plain._blocks(block.body)
    yield ""


def _solution_start(plain: Plain, block: Directive) -> Iterator[str]:
    yield from ("", f"**Solution to {plain._label(block.argument).text}**", "")


def _solution(plain: Plain, block: Directive) -> Iterator[str]:
    head = f"Solution to {plain._label(block.argument).text}"
    yield from plain.fold(head, block.body)


def _admonition(plain: Plain, block: Directive) -> Iterator[str]:
    title = block.argument if block.name == "admonition" else block.name.title()
    body = block.body if block.name == "admonition" else [block.argument, "", *block.body]
    if "dropdown" in block.options.get("class", ""):
        yield from plain.fold(plain._inline(title), body)
    else:
        yield from plain.quote(f"**{plain._inline(title)}**", body)


def _dropdown(plain: Plain, block: Directive) -> Iterator[str]:
    yield from plain.fold(plain._inline(block.argument), block.body)


def _list_table(plain: Plain, block: Directive) -> Iterator[str]:
    rows: list[list[str]] = []
    for line in block.body:
        if line.startswith("* - "):
            rows.append([line[4:]])
        elif line.startswith("  - "):
            rows[-1].append(line[4:])
        elif line.strip():
            rows[-1][-1] += f" {line.strip()}"
    cells = [[plain._inline(cell) for cell in row] for row in rows]
    if block.argument:
        yield from ("", plain._inline(block.argument))
    yield ""
    for at, row in enumerate(cells):
        yield f"| {' | '.join(row)} |"
        if at == 0:
            yield "|" + " --- |" * len(row)
    yield ""


def _table(plain: Plain, block: Directive) -> Iterator[str]:
    yield from ("", plain._inline(block.argument), "", *plain._blocks(block.body), "")


def _moving(plain: Plain, block: Directive) -> Iterator[str]:
    shown = plain._label(block.options["name"]).text if "name" in block.options else "Figure"
    page, caption = f"“{plain.book.title(plain.page)}”", " ".join(" ".join(block.body).split())
    yield from ("", f"*On the page {page} of the book stands a figure with sliders.*", "")
    yield from plain._blocks([f"**{shown}** {caption}", ""])


def _generated(plain: Plain, _block: Directive) -> Iterator[str]:
    page = f"“{plain.book.title(plain.page)}”"
    yield from ("", f"*On the page {page} of the book stands a text that is generated.*", "")


def _verbatim(_plain: Plain, block: Directive) -> Iterator[str]:
    yield from (f"```{block.argument}", *block.body, "```")


DIRECTIVES: dict[str, Callable[[Plain, Directive], Iterator[str]]] = {
    **{f"prf:{kind}": _statement for kind in (*KINDS, *UNNUMBERED)},
    "exercise": _exercise,
    "solution": _solution,
    "solution-start": _solution_start,
    "solution-end": lambda _plain, _block: iter(()),
    **dict.fromkeys(
        ("note", "tip", "hint", "warning", "important", "caution", "attention", "seealso"),
        _admonition,
    ),
    "admonition": _admonition,
    "dropdown": _dropdown,
    "list-table": _list_table,
    "table": _table,
    "code-block": _verbatim,
    "moving": _moving,
    "generated": _generated,
}
