"""Style of all figures: colours, lines, markers; figures are made without pyplot."""

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from fourierkernels.foundation.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito's colours, told apart by colour-blind readers, without the yellow that a white page
# swallows. Lines and markers go along in the same order: colour is never the only cue.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (6, 1.5)), (0, (4, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MAPS = {False: "cividis", True: "PuOr_r"}  # signed or not; both safe for colour-blind eyes


def style() -> dict[Any, Any]:  # matplotlib types the keys as literals that vary by version
    """Return the look of the book as matplotlib settings (rcParams).

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> with plt.rc_context(style()):
    ...     plt.rcParams["axes.grid"]
    True
    """
    return {
        "axes.prop_cycle": f"cycler('color', {COLOURS!r}) + cycler('linestyle', {LINES!r})",
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.labelsize": 10.5,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 11,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",  # on a dark page too
        "font.size": 10,
        "grid.color": "0.9",
        "grid.linewidth": 0.6,
        "image.cmap": MAPS[False],
        "legend.fontsize": 9.5,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "svg.hashsalt": "fourierkernels",  # the same numbers give the same file
        "xtick.labelsize": 9.5,
        "ytick.labelsize": 9.5,
    }


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Run `draw` with the settings of :func:`style`; say what to install if it cannot run."""

    @wraps(draw)
    def draw_in_style(*args: P.args, **kwargs: P.kwargs) -> T:
        require("matplotlib", "drawing")
        import matplotlib as mpl

        with mpl.rc_context(style()):
            return draw(*args, **kwargs)

    return draw_in_style


def new_panels(
    count: int, *, size: tuple[float, float] | None = None, share: bool = False
) -> "tuple[Figure, list[Axes]]":
    """Return a figure and `count` axes in it, at most two in a row."""
    from matplotlib.figure import Figure

    if count == 0:
        raise ValueError("panels must have at least one entry, got none")
    columns = min(2, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=size or (3.4 * columns, 2.5 * rows + 0.4))
    axes = figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False)
    for spare in axes.flat[count:]:
        spare.remove()
    return figure, list(axes.flat[:count])
