"""Sphinx extension: which pages there are, and that they are written with all cores.

Pages with the source of the package are two thirds of all, and Sphinx highlights them one after the
other; the quick mode of the build goes without. Reading stays with one process, as sphinx_proof
cannot merge what several have read.
"""

import os
from typing import Any

from sphinx.application import Sphinx

from book.build import MOST_TOGETHER, cores


def write_together(app: Sphinx, _env: Any) -> None:
    """Let Sphinx write in parallel, now that all pages have been read."""
    app.parallel = min(cores(), MOST_TOGETHER)


def setup(app: Sphinx) -> dict[str, bool]:
    """Load sphinx.ext.viewcode, and connect to the end of reading."""
    if os.environ.get("FK_FAST") != "1":
        app.setup_extension("sphinx.ext.viewcode")
    app.connect("env-check-consistency", write_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
