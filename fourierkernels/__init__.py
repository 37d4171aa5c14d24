"""Kernel regression with Fourier-integral kernels: density, regression, attention, error theory.

Public names are loaded on first use (PEP 562), so ``import fourierkernels`` stays light: it loads
neither torch nor matplotlib nor the JIT compiler.
"""

from typing import TYPE_CHECKING

from fourierkernels.foundation.lazy import forward, loaded_on_first_use
from fourierkernels.foundation.version import __version__

# Public name -> the module that defines it.
_HOMES = {
    "FourierKernel": "fourierkernels.kernels",
    "GaussianKernel": "fourierkernels.kernels",
    "HeadReport": "fourierkernels.report",
    "KernelDensity": "fourierkernels.estimators",
    "LocalPolynomial": "fourierkernels.estimators",
    "NadarayaWatson": "fourierkernels.estimators",
    "PhiKernel": "fourierkernels.kernels.phi_kernel",
    "head_report": "fourierkernels.report",
    "kernel_sum": "fourierkernels.sums",
}
_MODULES = (
    "fourierkernels.attention",
    "fourierkernels.checkpoints",
    "fourierkernels.diagnostics",
    "fourierkernels.estimators",
    "fourierkernels.estimators.modes",
    "fourierkernels.estimators.tables",
    "fourierkernels.explore",
    "fourierkernels.kernels",
    "fourierkernels.mixing",
    "fourierkernels.models",
    "fourierkernels.plotting",
    "fourierkernels.plotting.notebook",
    "fourierkernels.report",
    "fourierkernels.simulation",
    "fourierkernels.studies",
    "fourierkernels.sums",
    "fourierkernels.theorems",
    "fourierkernels.theory",
    "fourierkernels.theory.densities",
)

# What version 0.10 had elsewhere, for one more version.
forward(
    {
        "fourierkernels.analysis": "fourierkernels.estimators.tables",
        "fourierkernels.datasets": "fourierkernels.studies",
        "fourierkernels.densities": "fourierkernels.theory.densities",
        "fourierkernels.exact_error": "fourierkernels.theory",
        "fourierkernels.features": "fourierkernels.estimators.modes",
        "fourierkernels.notebook": "fourierkernels.plotting.notebook",
        "fourierkernels.phi_kernel": "fourierkernels.kernels.phi_kernel",
        "fourierkernels.theory.paper_rate": "fourierkernels.theorems.paper_rate",
        "fourierkernels.theory.rate_table": "fourierkernels.theorems.rate_table",
        "fourierkernels.theory.theorems": "fourierkernels.theorems",
        "fourierkernels.train": "fourierkernels.studies",
    }
)

if TYPE_CHECKING:
    from fourierkernels import (
        attention,
        checkpoints,
        diagnostics,
        estimators,
        explore,
        kernels,
        mixing,
        models,
        plotting,
        report,
        simulation,
        studies,
        sums,
        theorems,
        theory,
    )
    from fourierkernels.estimators import (
        KernelDensity,
        LocalPolynomial,
        NadarayaWatson,
        modes,
        tables,
    )
    from fourierkernels.kernels import FourierKernel, GaussianKernel
    from fourierkernels.kernels.phi_kernel import PhiKernel
    from fourierkernels.plotting import notebook
    from fourierkernels.report import HeadReport, head_report
    from fourierkernels.sums import kernel_sum
    from fourierkernels.theory import densities

__all__ = [
    "FourierKernel",
    "GaussianKernel",
    "HeadReport",
    "KernelDensity",
    "LocalPolynomial",
    "NadarayaWatson",
    "PhiKernel",
    "__version__",
    "attention",
    "checkpoints",
    "densities",
    "diagnostics",
    "estimators",
    "explore",
    "head_report",
    "kernel_sum",
    "kernels",
    "mixing",
    "models",
    "modes",
    "notebook",
    "plotting",
    "report",
    "simulation",
    "studies",
    "sums",
    "tables",
    "theorems",
    "theory",
]

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES, modules=_MODULES)
