"""Sphinx extension: text that is generated when the book is built, as a directive.

``{generated} claims nguyen`` puts the claims of a paper there, ``{generated} verdicts`` the table
that counts them, ``{generated} reproduces studies`` the commands of the studies, ``{generated}
registries`` the list of registries, ``{generated} studies`` that of studies, ``{generated}
imprint`` authors and version. Another text is a row of ``TEXTS``.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from book.claims import page
from book.claims.registry import FOLDER, ROOT
from book.imprint import CITATION, imprint
from book.registries import registry_list
from book.reproduces import reproduction
from book.studies import study_list

TEXTS: dict[str, Callable[..., str]] = {
    "claims": page.claims_of,
    "verdicts": page.verdict_counts,
    "registries": registry_list,
    "studies": study_list,
    "imprint": imprint,
    "reproduces": reproduction,
}


class Generated(SphinxDirective):
    """Parse a generated text as if it were written where the directive stands."""

    required_arguments = 1
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return what the text means."""
        name, *rest = self.arguments
        if name not in TEXTS:
            raise self.error(f"generated text must be one of {list(TEXTS)}, got {name!r}")
        sources = (*FOLDER.glob("*.toml"), ROOT / "book" / "registries.toml", CITATION)
        for path in (*sources, ROOT / "experiments" / "README.md"):
            self.env.note_dependency(str(path))
        lines = TEXTS[name](*rest).splitlines()
        container = nodes.Element()
        self.state.nested_parse(StringList(lines, f"<{name}>"), self.content_offset, container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
