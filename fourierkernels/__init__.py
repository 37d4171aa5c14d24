"""Kernel regression with Fourier-integral kernels: density, regression, attention, error theory.

Public names are loaded on first use (PEP 562), so ``import fourierkernels`` stays light: it loads
neither torch nor matplotlib nor the JIT compiler.
"""

from typing import TYPE_CHECKING

from fourierkernels.lazy import loaded_on_first_use
from fourierkernels.version import __version__

# Public name -> the module that defines it; a module of the package is its own home.
_HOMES = {
    "FourierKernel": "fourierkernels.kernels",
    "GaussianKernel": "fourierkernels.kernels",
    "HeadReport": "fourierkernels.report",
    "KernelDensity": "fourierkernels.estimators",
    "LocalPolynomial": "fourierkernels.estimators",
    "NadarayaWatson": "fourierkernels.estimators",
    "PhiKernel": "fourierkernels.phi_kernel",
    "analysis": "fourierkernels.analysis",
    "attention": "fourierkernels.attention",
    "checkpoints": "fourierkernels.checkpoints",
    "densities": "fourierkernels.densities",
    "diagnostics": "fourierkernels.diagnostics",
    "estimators": "fourierkernels.estimators",
    "exact_error": "fourierkernels.exact_error",
    "features": "fourierkernels.features",
    "head_report": "fourierkernels.report",
    "kernel_sum": "fourierkernels.sums",
    "kernels": "fourierkernels.kernels",
    "mixing": "fourierkernels.mixing",
    "models": "fourierkernels.models",
    "plotting": "fourierkernels.plotting",
    "report": "fourierkernels.report",
    "simulation": "fourierkernels.simulation",
    "sums": "fourierkernels.sums",
    "theory": "fourierkernels.theory",
}

if TYPE_CHECKING:
    from fourierkernels import (
        analysis,
        attention,
        checkpoints,
        densities,
        diagnostics,
        estimators,
        exact_error,
        features,
        kernels,
        mixing,
        models,
        plotting,
        report,
        simulation,
        sums,
        theory,
    )
    from fourierkernels.estimators import KernelDensity, LocalPolynomial, NadarayaWatson
    from fourierkernels.kernels import FourierKernel, GaussianKernel
    from fourierkernels.phi_kernel import PhiKernel
    from fourierkernels.report import HeadReport, head_report
    from fourierkernels.sums import kernel_sum

__all__ = [
    "FourierKernel",
    "GaussianKernel",
    "HeadReport",
    "KernelDensity",
    "LocalPolynomial",
    "NadarayaWatson",
    "PhiKernel",
    "__version__",
    "analysis",
    "attention",
    "checkpoints",
    "densities",
    "diagnostics",
    "estimators",
    "exact_error",
    "features",
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

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES)
