"""Which path computes a kernel sum: a row per method, with what it supports."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from fourierkernels.kernels import FourierKernel, GaussianKernel, Kernel
from fourierkernels.sums.result import KernelSums
from fourierkernels.validation import check_choice


@dataclass(frozen=True)
class Method:
    """One way to compute a kernel sum; its module is imported on first use."""

    name: str
    module: str
    function: str
    kernels: tuple[type, ...] | None  # None: every kernel

    def supports(self, kernel: Kernel) -> bool:
        """Whether this method has the kernel built in."""
        return self.kernels is None or isinstance(kernel, self.kernels)

    def load(self) -> Callable[..., KernelSums]:
        """Return the function that computes the sums."""
        function: Callable[..., KernelSums] = getattr(import_module(self.module), self.function)
        return function


# In the order of preference of "auto".
METHODS = {
    method.name: method
    for method in (
        Method(
            "direct",
            "fourierkernels.sums.direct",
            "direct_sums",
            (GaussianKernel, FourierKernel),
        ),
        Method("reference", "fourierkernels.sums.reference", "reference_sums", None),
    )
}


def choose_method(method: str, kernel: Kernel) -> Method:
    """Return the method of that name, or for "auto" the first that has the kernel.

    Raises
    ------
    ValueError
        If the name is unknown or the method does not have the kernel.
    """
    if check_choice("method", method, ["auto", *METHODS]) == "auto":
        return next(row for row in METHODS.values() if row.supports(kernel))
    chosen = METHODS[method]
    if not chosen.supports(kernel):
        fit = ", ".join(row.name for row in METHODS.values() if row.supports(kernel))
        raise ValueError(f"method must be one of {fit} for kernel {kernel.name}, got {method!r}")
    return chosen
