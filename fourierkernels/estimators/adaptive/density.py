"""Kernel density with a radius of each sample."""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.adaptive.base import AdaptiveEstimator
from fourierkernels.estimators.adaptive.choice import DENSITY_SCORES
from fourierkernels.estimators.boxes import Bounds
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.proper import ProperDensity
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.theory.densities import Density


class AdaptiveDensity(AdaptiveEstimator, KernelDensity):
    """Density p̂(x) = Σ_i w_i ∏_d λ_i R_d K(λ_i R_d(x_d - x_id)) / Σ_i w_i.

    Narrow kernels where samples are dense, wide ones where they are sparse. With `KernelDensity` it
    shares all that follows: logarithms, derivatives, integrals, draws, leave-one-out (with the
    factors of the whole sample), limits, bounds, grids, modes and regions. It integrates to one.
    Not for streams, periods, devices or matrices; the ISE and corrected biases are refused. Limits
    take the factors for given.

    Parameters
    ----------
    kernel, radius, bandwidth, tol, bounds, weighting
        As for `KernelDensity`; with "lscv" R has the least cross-validation of this estimate. Other
        rules choose R for one radius, and the best one here is smaller.
    method : {"auto", "bandlimited", "reference"}
        How sums are computed: by sums with one radius each, exact to `tol`, or pair by pair; by
        default whichever a cost model finds cheaper.
    adaptive : str
        A rule of `fourierkernels.estimators.ADAPTIVE_RULES`: "abramson" [abramson1982bandwidth]_,
        λ_i = √(p̃(x_i)/g) with a pilot p̃ and g its geometric mean, or "neighbours", 1/λ_i
        proportional to the distance to the k-th nearest sample [breiman1977variable]_.
    sensitivity : float, optional
        The power α of the pilot, from 0 (one radius) to 1; 1/2 for "abramson", 1/D for
        "neighbours", where the pilot is the distance to the power -D.
    neighbours : int, optional
        k of "neighbours"; √n by default.
    pilot : KernelDensity, optional
        Of "abramson", positive at all samples. By default at the normal-reference radius, with the
        kernel of the estimate, or with the Gaussian if that has negative values.

    Attributes
    ----------
    factors_ : array of shape (n,)
        λ_i, whose geometric mean over the samples is 1.

    Raises
    ------
    ValueError
        From `fit`, as of `KernelDensity`; for a stream, an unknown rule, a sensitivity outside
        [0, 1], a pilot that is not positive, neighbours that are too many or all copies; with
        "lscv" in more than three dimensions, for a range that takes more than 2^23 places, or if
        no multiple of the radius for one radius is best.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_t(2, size=(2000, 1))
    >>> model = AdaptiveDensity().fit(x)
    >>> model.density([[0.0], [8.0]]).round(4)  # the density is 0.3536 and 0.0019
    array([0.3241, 0.0018])
    """

    _scores = DENSITY_SCORES

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        bounds: Bounds | None = None,
        weighting: str = "frequency",
        adaptive: str = "abramson",
        sensitivity: float | None = None,
        neighbours: int | None = None,
        pilot: KernelDensity | None = None,
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            bounds=bounds,
            weighting=weighting,
        )
        self.adaptive = adaptive
        self.sensitivity = sensitivity
        self.neighbours = neighbours
        self.pilot = pilot

    def own_densities(self) -> FloatArray:
        """Return what each sample, with its images, adds to Σw p̂ at itself, shape ``(n,)``."""
        return np.asarray(self._own_terms() * np.exp(self._log_scale()) * self.weights_.sum())

    def proper(self) -> "KernelDensity | ProperDensity":
        """Return the estimate itself, which is a density if its kernel is nonnegative.

        Raises
        ------
        ValueError
            For a kernel with negative values.
        """
        if not self.kernel_.nonnegative:
            raise ValueError(
                "kernel must be nonnegative to make an estimate with a radius of each sample a "
                f"density, got {self.kernel_.name}"
            )
        return super().proper()

    def ise(self, density: Density | str) -> float:
        """Refuse: the formula in frequency is that of one radius.

        Raises
        ------
        ValueError
        """
        raise ValueError(
            f"adaptive must be off for the ISE in frequency, got {self.adaptive!r}: integrate "
            "(p̂ - p)² by quadrature"
        )
