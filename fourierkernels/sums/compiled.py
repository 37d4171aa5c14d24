"""Which kernels the compiled loops know."""

from fourierkernels.kernels import FourierKernel, GaussianKernel, Kernel
from fourierkernels.ops.cpu.shape import Shape

_LARGEST_POWER = 512  # exponents of compiled products are 32-bit integers


def compiled_refusal(kernel: Kernel) -> str:
    """Return why the compiled loops cannot do this kernel, or an empty string."""
    if isinstance(kernel, GaussianKernel):
        return ""
    if not isinstance(kernel, FourierKernel):
        return f"has no compiled form of kernel {kernel.name}"
    return "" if kernel.power <= _LARGEST_POWER else f"has powers up to {_LARGEST_POWER}"


def compiled_shape(kernel: Kernel) -> Shape:
    """Return the shape as the loops take it.

    Raises
    ------
    TypeError
        For kernels without a compiled form, which :func:`compiled_refusal` names.
    """
    if isinstance(kernel, GaussianKernel):
        return Shape(gaussian=True, power=1)
    if not isinstance(kernel, FourierKernel):
        raise TypeError(f"kernel must be gaussian or a power of the sinc, got {kernel!r}")
    return Shape(gaussian=False, power=kernel.power)
