"""One HTML page to look at any layer, head and text of a network: it opens offline, in a browser.

Arrays only. The script of the page is in the files beside this one, joined when a page is written.
"""

from fourierkernels.report.page.document import page_fragment, page_html, write_page
from fourierkernels.report.page.weights import (
    MOST_WEIGHTS,
    kept_shapes,
    pack_weights,
    unpack_weights,
)

__all__ = [
    "MOST_WEIGHTS",
    "kept_shapes",
    "pack_weights",
    "page_fragment",
    "page_html",
    "unpack_weights",
    "write_page",
]
