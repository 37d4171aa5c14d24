"""Kernels by name."""

from collections.abc import Callable

from fourierkernels.foundation.validation import check_choice, lacking
from fourierkernels.kernels.kernel import FourierKernel, GaussianKernel, Kernel
from fourierkernels.kernels.polynomial import PolynomialKernel, kernel_of_order

KERNELS: dict[str, Kernel] = {
    "gaussian": GaussianKernel(),
    **{f"fourier{power}": FourierKernel(power) for power in range(1, 7)},
}


_POLYNOMIAL = frozenset("0123456789.+-*/^ z")


def as_kernel(kernel: "Kernel | str") -> Kernel:
    """Return a kernel given itself or its name.

    A name is a key of `KERNELS`, ``"fourier<power>"``, ``"order<r>"`` for :func:`kernel_of_order`,
    or a polynomial φ written in z.

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is neither a name nor a kernel.

    Examples
    --------
    >>> as_kernel("fourier8").power, as_kernel("order6").order, as_kernel("3z^8 - 2z^6").order
    (8, 6.0, 4.0)
    """
    if isinstance(kernel, str):
        return _named(kernel)
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel must be a kernel or its name, got {kernel!r}{lacking(Kernel, kernel)}"
        )
    return kernel


def _named(name: str) -> Kernel:
    families: dict[str, Callable[[int], Kernel]] = {
        "fourier": FourierKernel,
        "order": kernel_of_order,
    }
    for family, made in families.items():
        number = name.removeprefix(family)
        if number != name and number.isdecimal():
            return made(int(number))
    if name not in KERNELS and "z" in name and _POLYNOMIAL.issuperset(name):
        return PolynomialKernel.of(name)
    return as_kernel(KERNELS[check_choice("kernel", name, list(KERNELS))])
