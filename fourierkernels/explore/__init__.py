"""Explorations for notebooks: sliders and the pointer on densities, fits, exact errors and heads.

Each function takes the reader's own data and returns an exploration: in JupyterLab, sliders above a
picture that follows them, a sentence below; elsewhere the picture. Its `state` is read, and `set`
changes it, from Python. What takes longer than a slider waits is computed beside the notebook, and
shown when it is there; `finish` computes it at once.
"""

from typing import TYPE_CHECKING

from fourierkernels.foundation.lazy import loaded_on_first_use

_HOMES = dict.fromkeys(
    ("attention", "density", "error", "heads", "regression"), "fourierkernels.explore.faces"
)

if TYPE_CHECKING:
    from fourierkernels.explore.faces import attention, density, error, heads, regression

__all__ = ["attention", "density", "error", "heads", "regression"]

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES)
