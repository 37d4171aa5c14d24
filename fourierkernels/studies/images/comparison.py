"""The image table of the FourierFormer paper on a small scale: kernels on two sets of images.

[nguyen2022fourierformer]_, table 2, compares softmax with Fourier attention in DeiT-tiny on
ImageNet. Here the preset "digits" (2 layers of 2 heads of 16 features, 17 tokens) is trained on
scikit-learn's digits: 1,439 images for training, 179 for validation, 179 for the test. Softmax,
Gaussian and Fourier attention (l = 4) start at the same two sharpnesses (see
:mod:`fourierkernels.studies.engine.contenders`; 5.3 is the paper's R = 1), with one rate, 100
updates of 32 images (2.2 epochs, by no means the end of learning) and five seeds, which decide
first weights, order of the images and stochastic depth.

The preset "fashion" (4 layers of 4 heads of 16 features, 17 tokens) is trained on Fashion-MNIST:
200 updates of 64 of its 54,000 training images, from the sharpness that was the better one for all
kernels on digits, three seeds. Differences are from softmax of the same sharpness, over seeds
alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table
from fourierkernels.studies.engine.contenders import (
    Contender,
    Network,
    Part,
    Stage,
    grid,
    kernel_contenders,
)
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.trained import Trained

NAMES = {
    "digits": ("images_networks", "images_small"),
    "fashion": ("images_fashion_networks", "images_fashion"),
}
SPLITS = ("valid", "test")


@dataclass(frozen=True)
class ImageComparison(Comparison):
    """Budget; the same for all kernels."""

    data: str | None = None
    steps: int = 100
    kernels: tuple[str, ...] = ("softmax", "gaussian", "l = 4")
    sharpness: tuple[float, ...] = (1.0, 16 / 3)  # R = 1 at l = 4 and 16 features
    preset: str = "digits"

    study = "images"
    packages = ("pillow",)
    places: ClassVar = {"data": "data_images.py"}
    columns = "kernel sharpness seed steps preset options"
    table = Table(index=("kernel", "sharpness"), contender="kernel")
    decided_by = "test top-1"
    log_lines = 1

    @property
    def names(self) -> tuple[str, str]:
        """Files of the networks and of the table."""
        return NAMES[self.preset]

    def stages(self) -> tuple[Stage, ...]:
        """Return all kernels at all sharpnesses from several seeds, without trials."""
        kernels = kernel_contenders(self.kernels, names_sign=False)
        parts = (
            Part(kernels, self.preset, self.steps, tunings=(start,))
            for start in grid(sharpness=self.sharpness)
        )
        return (Stage(tuple(parts), self.seeds),)

    def measured(self, network: Network, result: Trained) -> Row:
        """Return radii and all that the study measures."""
        return {
            "radii": result.radii,
            "seconds": result.seconds,
            **{f"{row.split} {row.metric}": row.value for row in result.measured},
        }

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield mean accuracy and loss of each split."""
        for split in SPLITS:
            line = {"split": split, "seeds": len(cell.rows), "comparisons": cell.comparisons}
            for metric in ("top-1", "cross-entropy"):
                middle, low, high = cell.difference(f"{split} {metric}")
                line |= {
                    metric: cell.values(f"{split} {metric}").mean(),
                    f"{metric} minus softmax": middle,
                    f"{metric} low": low,
                    f"{metric} high": high,
                }
            yield line

    def measure_of(self, line: Row) -> str:
        """Return the accuracy of the split of a line."""
        return f"{line['split']} top-1"

    def quick(self, folder: Path) -> Self:
        """Return a comparison of two updates of four networks on digits."""
        kernels = ("softmax", "l = 4")
        small = replace(self, steps=2, kernels=kernels, sharpness=(1.0,), seeds=(1, 2))
        return replace(small, data=None, preset="digits")


def _digits(problem: Problem, folder: Path) -> Problem:
    """Return scikit-learn's digits in the place of ImageNet."""
    return replace(problem, preset="digits", data="", place="digits")


TABLE_2 = PaperTable(
    file="fourierformer_2",
    shows="DeiT-tiny on ImageNet's validation images: top-1 and top-5",
    source="nguyen2022fourierformer, table 2",
    problems=(Problem("ImageNet", "images", "deit_tiny", "imagenet folder", hours=8_700),),
    contenders=(Contender("softmax", "softmax"), Contender("fourier", "fourier")),
    metrics=("valid top-1", "valid top-5"),
    stand_in=_digits,
)
COMPARISONS: dict[str, Comparison] = {
    "fourierformer-2": TABLE_2,
    "images-small": ImageComparison(time="2 min"),
    "images-fashion": ImageComparison(
        data="fashion-mnist",
        steps=200,
        sharpness=(1.0,),
        seeds=(1, 2, 3),
        preset="fashion",
        time="3 min",
    ),
}
