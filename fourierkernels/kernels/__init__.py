"""What smooths: Gaussian, Fourier and phi kernels, with transforms, moments and roughness."""

from fourierkernels.kernels.kernel import (
    KERNELS,
    FourierKernel,
    GaussianKernel,
    Kernel,
    as_kernel,
)

__all__ = ["KERNELS", "FourierKernel", "GaussianKernel", "Kernel", "as_kernel"]
