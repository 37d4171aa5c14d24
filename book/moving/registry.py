"""The moving figures of the book: a name, and the module of this folder that draws it.

One more is a module with a function ``draw`` that returns a :class:`~book.moving.drawing.Drawing`,
and a row of :data:`FIGURES`. Modules are imported on first use: some need PyTorch.
"""

from functools import cache
from importlib import import_module

from book.moving.drawing import Drawing

FIGURES = {
    "radius": "book.moving.radius",
    "kernel": "book.moving.kernel",
    "attention": "book.moving.attention",
    "causal": "book.moving.causal",
    "regression": "book.moving.regression",
    "row": "book.moving.row",
}
LARGEST = 150_000  # bytes of the numbers that a figure puts into its page


@cache
def figure(name: str) -> Drawing:
    """Return a moving figure; it is computed once.

    Raises
    ------
    ValueError
        If there is no such figure, or it is larger than a page should be.
    """
    if name not in FIGURES:
        raise ValueError(f"moving figure must be one of {list(FIGURES)}, got {name!r}")
    drawing: Drawing = import_module(FIGURES[name]).draw()
    size = len(drawing.data().encode())
    if size > LARGEST:
        raise ValueError(f"moving figure {name!r} must have at most {LARGEST} bytes, got {size}")
    return drawing
