"""Sphinx extension: what the package's docstrings and signatures mean, as Sphinx says it.

Four habits need help. ``|s|`` is an absolute value, not a substitution. A key of
book/references.bib, bare or as ``[parzen1962estimation]_``, is a citation, not a footnote.
``ArrayLike`` and ``NDArray`` are names, not the half page of types they stand for. A name may be
given by the module that defines it, though the package that re-exports it is the one documented.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils.nodes import literal
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

_CODE = re.compile(r"(``.*?``|`[^`]*`)")
_OPENING_BAR = re.compile(r"(?<!\\)\|(?=\S)")  # reST opens a substitution only before a non-blank
_ENTRY = re.compile(r"^@\w+\{\s*([^,\s]+)\s*,", re.MULTILINE)

# What Sphinx writes for numpy's two aliases. A union drops members that it has already.
_ARRAY_LIKE = re.compile(
    r"""\S*_Buffer\ \|\ \S*_SupportsArray\[\S+\]\ \|\ \S*_NestedSequence\[\S+\]
    (\ \|\ complex)?(\ \|\ bytes)?(\ \|\ str)?
    \ \|\ \S*_NestedSequence\[complex\ \|\ bytes\ \|\ str\]""",
    re.VERBOSE,
)
_ND_ARRAY = re.compile(
    r"""~?numpy\.ndarray\[tuple\[~?(typing\.)?Any,\ \.\.\.\],
    \ ~?numpy\.dtype\[~?((numpy|typing)\.)?(?P<scalar>\w+)\]\]""",
    re.VERBOSE,
)


def bibliography_keys(bibtex: str) -> list[str]:
    """Keys of the entries of a BibTeX text, in their order."""
    return _ENTRY.findall(bibtex)


def citation_pattern(keys: list[str]) -> re.Pattern[str]:
    """Pattern of any key, bare or as ``[key]_``."""
    names = "|".join(map(re.escape, keys)) or r"(?!)"
    return re.compile(rf"\[({names})\]_|\b({names})\b")


def translate(line: str, citation: re.Pattern[str]) -> str:
    """One line of prose: bars escaped and keys cited, code spans left alone."""
    parts = _CODE.split(line)
    for i in range(0, len(parts), 2):  # odd parts are code spans
        escaped = _OPENING_BAR.sub(r"\\|", parts[i])
        parts[i] = citation.sub(lambda m: f":cite:t:`{m[1] or m[2]}`", escaped)
    return "".join(parts)


def translate_docstring(lines: list[str], citation: re.Pattern[str]) -> Iterator[str]:
    """All lines of a docstring; an example with its printed result stays as it is."""
    example = False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        yield line if example else translate(line, citation)


def shorten_types(annotations: str) -> str:
    """Put numpy's aliases back under their own names, in a signature or a part of it."""
    return _ND_ARRAY.sub(r"NDArray[\g<scalar>]", _ARRAY_LIKE.sub("ArrayLike", annotations))


def shorten_signature(
    _app: Sphinx, _what: str, _name: str, obj: Any, _options: Any, arguments: Any, result: Any
) -> tuple[str | None, str | None]:
    """Show a protocol without arguments, for it is never called, and the rest with short types."""
    if getattr(obj, "_is_protocol", False):
        return "", None
    return arguments and shorten_types(arguments), result and shorten_types(result)


def public_names(target: str) -> Iterator[str]:
    """Names under which a package may re-export ``package.module.Name``, nearest first."""
    *modules, name = target.split(".")
    yield from (".".join([*modules[:depth], name]) for depth in range(len(modules) - 1, 0, -1))


def find_public_name(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """Resolve a name where it is defined to the page of the package that re-exports it.

    A type in a signature that has no page, numpy's or a private one, stays plain text. A role that
    a person wrote has literal content: None leaves it to Sphinx, which warns.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    for name in public_names(node["reftarget"]):
        if name in domain.objects:
            page = domain.objects[name].docname
            origin = node.get("refdoc", page)
            return make_refnode(app.builder, origin, page, name, content, name)
    return None if isinstance(content, literal) else content


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to autodoc, ahead of napoleon."""
    sources = [Path(app.srcdir) / name for name in app.config.bibtex_bibfiles]
    keys = [key for source in sources for key in bibliography_keys(source.read_text("utf-8"))]
    citation = citation_pattern(keys)

    def process(_app: Sphinx, _what: str, _name: str, _obj: Any, _opt: Any, lines: Any) -> None:
        lines[:] = translate_docstring(list(lines), citation)

    app.connect("autodoc-process-docstring", process, priority=100)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("missing-reference", find_public_name)
    return {"version": "1", "parallel_read_safe": True}
