"""The handwritten digits that scikit-learn ships: 1,797 images of 8 × 8 pixels."""

from pathlib import Path

import numpy as np

from fourierkernels.studies.images.labelled import LabelledImages, Pixels, held_out

_DEEPEST = 16  # value of a pixel that is wholly ink


def open_digits(folder: Path) -> LabelledImages:
    """Return the digits, a tenth of them for validation and a tenth for the test.

    They are those of ``sklearn.datasets.load_digits``, which scale from 0 to 16; here from 0 to
    255, rounded.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits().images, load_digits().target.astype(np.int64)
    grey = np.rint(images * (255 / _DEEPEST)).astype(np.uint8)
    splits = dict(zip(("train", "valid", "test"), held_out(len(labels), 2), strict=True))
    pixels = Pixels(
        {split: grey[places] for split, places in splits.items()},
        {split: labels[places] for split, places in splits.items()},
    )
    return pixels.labelled("digits", "sklearn.datasets.load_digits", tuple("0123456789"))
