"""Models that were fitted to a table, asked with arrays."""

import copy

from fourierkernels.estimators import KernelDensity


def without_names(model: KernelDensity) -> KernelDensity:
    """Return the model as if it had been fitted to an array; it shares all that is prepared.

    scikit-learn warns when a model that knows the names of its columns is asked without them.
    """
    if not hasattr(model, "feature_names_in_"):
        return model
    other = copy.copy(model)
    del other.feature_names_in_
    return other
