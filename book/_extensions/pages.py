"""Sphinx extension: which pages there are, and that several may be read at a time.

Pages with the source of the package are two thirds of all, and Sphinx highlights them one after the
other; the quick mode of the build goes without. Two extensions of jupyter-book do not say that
pages may be read in parallel, for which Sphinx reads them one by one: the one numbers sections when
all pages have been read, the other is for LaTeX alone.
"""

import os

from sphinx.application import Sphinx
from sphinx.config import Config

SILENT = ("sphinx_multitoc_numbering", "sphinx_jupyterbook_latex")


def allow_processes(app: Sphinx, _config: Config) -> None:
    """Say for the extensions that do not that pages may be read in parallel."""
    for name in SILENT:
        app.extensions[name].parallel_read_safe = True


def setup(app: Sphinx) -> dict[str, bool]:
    """Load sphinx.ext.viewcode, and connect to the end of the configuration."""
    if os.environ.get("FK_FAST") != "1":
        app.setup_extension("sphinx.ext.viewcode")
    app.connect("config-inited", allow_processes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
