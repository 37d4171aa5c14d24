"""Kernel regression with Fourier-integral kernels: density, regression, attention, error theory.

Public names are loaded on first use (PEP 562), so ``import fourierkernels`` stays light: it loads
neither torch nor matplotlib nor the JIT compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fourierkernels.version import __version__

# Public name -> the module that defines it; a module of the package maps to itself.
_HOMES = {
    "FourierKernel": "kernels",
    "GaussianKernel": "kernels",
    "PhiKernel": "phi_kernel",
    "HeadReport": "report",
    "KernelDensity": "estimators",
    "NadarayaWatson": "estimators",
    "head_report": "report",
    "kernel_sum": "sums",
}
_MODULES = frozenset(
    (
        "attention",
        "checkpoints",
        "densities",
        "diagnostics",
        "estimators",
        "exact_error",
        "kernels",
        "mixing",
        "models",
        "plotting",
        "report",
        "simulation",
        "sums",
        "theory",
    )
)

if TYPE_CHECKING:
    from fourierkernels import (
        attention,
        checkpoints,
        densities,
        diagnostics,
        estimators,
        exact_error,
        kernels,
        mixing,
        models,
        plotting,
        report,
        simulation,
        sums,
        theory,
    )
    from fourierkernels.estimators import KernelDensity, NadarayaWatson
    from fourierkernels.kernels import FourierKernel, GaussianKernel
    from fourierkernels.phi_kernel import PhiKernel
    from fourierkernels.report import HeadReport, head_report
    from fourierkernels.sums import kernel_sum

__all__ = [
    "FourierKernel",
    "GaussianKernel",
    "HeadReport",
    "KernelDensity",
    "NadarayaWatson",
    "PhiKernel",
    "__version__",
    "attention",
    "checkpoints",
    "densities",
    "diagnostics",
    "estimators",
    "exact_error",
    "head_report",
    "kernel_sum",
    "kernels",
    "mixing",
    "models",
    "plotting",
    "report",
    "simulation",
    "sums",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
