"""What smooths: Gaussian, Fourier and phi kernels, with transforms, moments and roughness."""

from fourierkernels.kernels.kernel import FourierKernel, GaussianKernel, Kernel
from fourierkernels.kernels.periodic import PeriodicKernel
from fourierkernels.kernels.polynomial import PolynomialKernel, kernel_of_order
from fourierkernels.kernels.registry import KERNELS, as_kernel

__all__ = [
    "KERNELS",
    "FourierKernel",
    "GaussianKernel",
    "Kernel",
    "PeriodicKernel",
    "PolynomialKernel",
    "as_kernel",
    "kernel_of_order",
]
