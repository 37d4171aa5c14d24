"""Models that were fitted to a table, asked with arrays."""

import copy

from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.density import KernelDensity


def without_names(model: KernelDensity) -> KernelDensity:
    """Return the model as if it had been fitted to an array; it shares all that is prepared.

    scikit-learn warns when a model that knows the names of its columns is asked without them.

    Raises
    ------
    TypeError, sklearn.exceptions.NotFittedError
        If it is no density estimate, or not fitted.
    """
    if not isinstance(model, KernelDensity):
        raise TypeError(f"model must be a KernelDensity, got {type(model).__name__}")
    check_is_fitted(model)
    if not hasattr(model, "feature_names_in_"):
        return model
    other = copy.copy(model)
    del other.feature_names_in_
    return other
