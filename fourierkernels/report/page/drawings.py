"""Coordinates of the drawings of a page: the dendrogram and the plane of the heads of a layer."""

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import dendrogram, leaves_list

from fourierkernels.diagnostics.clusters import head_linkage, head_positions
from fourierkernels.foundation.arrays import FloatArray


def layer_drawings(distances: FloatArray) -> dict[str, Any] | None:
    """Return coordinates for a layer of distances ``(H, H)``; None for a single head.

    Returns
    -------
    dict
        "leaves", heads from left to right; "x" and "y", ``(H - 1, 4)``, the brackets of the
        dendrogram with leaf k at x = k; "points", ``(H, 2)``; "stress", how far distances in the
        plane are from the true ones, sqrt(Σ (d - d')² / Σ d²), or NaN if all are zero.

    Examples
    --------
    >>> layer_drawings(np.array([[0.0, 2.0], [2.0, 0.0]]))["y"]
    [[0.0, 2.0, 2.0, 0.0]]
    """
    if len(distances) < 2:
        return None
    merges = head_linkage(distances)
    tree = dendrogram(merges, no_plot=True)
    points = head_positions(distances)
    brackets = np.array(tree["icoord"]) / 10 - 0.5  # scipy puts leaf k at 10 k + 5
    return {
        "leaves": leaves_list(merges).tolist(),
        "x": brackets.tolist(),
        "y": np.array(tree["dcoord"]).tolist(),
        "points": points.tolist(),
        "stress": _stress(distances, points),
    }


def _stress(distances: FloatArray, points: FloatArray) -> float:
    drawn = np.linalg.norm(points[:, None] - points, axis=-1)
    total = float(np.square(distances).sum())
    return float(np.sqrt(np.square(distances - drawn).sum() / total)) if total > 0 else float("nan")
