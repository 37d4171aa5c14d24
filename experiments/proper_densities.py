"""Measure what becomes of the error when signed estimates are made densities.

    python experiments/proper_densities.py [--output FOLDER] [--quick]

Glad, Hjort and Ushakov (2003): max(0, p̂ - ξ) with integral one never has a larger integrated
squared error than p̂. For l = 1, 3 and 5, the normal, Laplace and bimodal density, 25 samples of
200 each and the radius of least exact MISE: in how many samples the error is larger, and by how
much it is smaller on average. Beside them the exact MISE of l = 4 at its own best radius.

Writes proper_densities.csv and the provenance as JSON.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fourierkernels import KernelDensity
from fourierkernels.foundation.provenance import write_study
from fourierkernels.theory import optimum
from fourierkernels.theory.densities import as_density

ROOT = Path(__file__).parents[1]
SEED = 2003
KERNELS, DENSITIES = ("fourier1", "fourier3", "fourier5"), ("gaussian", "laplace", "mw6")


@dataclass(frozen=True)
class Row:
    """One setting: errors over ∫p², and their ratio with its 95 % interval over the samples."""

    density: str
    kernel: str
    n: int
    samples: int
    larger: int
    signed: float
    proper: float
    ratio: float
    ratio_low: float
    ratio_high: float
    threshold: float
    nonnegative: float


def compared(name: str, kernel: str, n: int, samples: int) -> Row:
    """Return both errors averaged over samples, and the ratio of the averages."""
    density = as_density(name)
    rng = np.random.default_rng([SEED, n, DENSITIES.index(name), KERNELS.index(kernel)])
    radius = optimum(density, kernel, n=n).radius
    pairs, thresholds = [], []
    for _ in range(samples):
        model = KernelDensity(kernel, radius=radius).fit(density.sample(n, rng)[:, None])
        proper = model.proper()
        pairs.append([model.ise(density), proper.ise(density)])
        thresholds.append(proper.threshold)
    errors = np.array(pairs) / density.roughness
    signed, proper_error = errors.mean(axis=0)
    ratio = proper_error / signed
    half = 2.0 * (errors[:, 1] - ratio * errors[:, 0]).std(ddof=1) / signed / np.sqrt(samples)
    return Row(
        name,
        kernel,
        n,
        samples,
        int((errors[:, 1] > errors[:, 0]).sum()),
        float(signed),
        float(proper_error),
        float(ratio),
        float(ratio - half),
        float(ratio + half),
        float(np.mean(thresholds)),
        optimum(density, "fourier4", n=n).mise.total / density.roughness,
    )


def main() -> None:
    """Run all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="3 samples of 50")
    options = parser.parse_args()
    sizes, samples = ((50,), 3) if options.quick else ((200,), 25)
    rows = [
        compared(name, kernel, n, samples)
        for name in DENSITIES
        for kernel in KERNELS
        for n in sizes
    ]
    config = {"seed": SEED, "quick": options.quick, "radius": "least exact MISE"}
    write_study(options.output, "proper_densities", rows, config, source=Path(__file__))


if __name__ == "__main__":
    main()
