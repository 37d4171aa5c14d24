"""Sphinx extension: figures that a reader moves, as a directive.

::

    ```{moving} radius
    :name: fig-02-moving-radius

    The caption.
    ```

The figure is a row of ``book/moving/registry.py``. It is numbered and referred to like any other.
A page has its numbers in it, and needs neither the network nor a server; in other formats than
HTML the picture of the starting setting stands there.
"""

import os
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from book.moving.markup import figure_html
from book.moving.registry import FIGURES, figure

SCRIPT, STYLE = "moving.js", "moving.css"


class moving(nodes.General, nodes.Element):  # noqa: N801 - nodes have names in lower case
    """The picture with its sliders; `figure` is its name in the registry."""


class Moving(SphinxDirective):
    """A moving figure with its caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"name": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return a figure like those of images."""
        name = self.arguments[0]
        if name not in FIGURES:
            raise self.error(f"moving figure must be one of {list(FIGURES)}, got {name!r}")
        if not self.content:
            raise self.error(f"moving figure {name!r} must have a caption")
        self.env.note_dependency(str(Path(self.env.srcdir, *FIGURES[name].split("."))) + ".py")
        text = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, text)
        first, *rest = text.children
        caption = nodes.caption(first.rawsource, "", *first.children)
        self.set_source_info(caption)
        legend = [nodes.legend("", *rest)] if rest else []
        found = nodes.figure("", moving(figure=name), caption, *legend)
        self.set_source_info(found)
        self.add_name(found)
        return [found]


class StaticPicture(SphinxPostTransform):
    """In other formats than HTML, an image of the starting setting."""

    default_priority = 5  # before images are collected and converted

    def run(self, **_: Any) -> None:
        """Write the images and put them in the place of the figures."""
        if self.app.builder.format == "html":
            return
        folder = Path(self.app.doctreedir, "moving")
        for node in list(self.document.findall(moving)):
            drawing = figure(node["figure"])
            path = folder / f"{drawing.name}.svg"
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(drawing.svg(), "utf-8")
            uri = Path(os.path.relpath(path, self.app.srcdir)).as_posix()
            told = f"{drawing.title}. {drawing.description}"
            self.env.images.add_file(self.env.docname, uri)
            node.replace_self(nodes.image(uri=uri, alt=told, candidates={"*": uri}))


def write(translator: Any, node: moving) -> None:
    """Write a figure into a page."""
    translator.body.append(figure_html(figure(node["figure"])))
    raise nodes.SkipNode


def provide(app: Sphinx, _page: str, _template: str, _context: Any, doctree: Any) -> None:
    """Load script and style on pages that have a moving figure, and on no other."""
    if doctree is not None and any(doctree.findall(moving)):
        app.add_css_file(STYLE)
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and its node."""
    app.add_node(moving, html=(write, None))
    app.add_directive("moving", Moving)
    app.add_post_transform(StaticPicture)
    app.connect("html-page-context", provide)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
