"""The mean of several checkpoints of one model, as [vaswani2017attention]_ section 6.1 takes it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fourierkernels.models.saved import saved_class
from fourierkernels.models.tensor_files import read_tensors


def average_models(paths: Sequence[str | Path]) -> dict[str, Tensor]:
    """Return the mean of the tensors of several files of one model, for `load_state_dict`.

    One file is read at a time, sums are in float64, and each mean has the dtype of the first file.
    Tensors that are no floating numbers must be equal.

    Parameters
    ----------
    paths : sequence of str or Path
        Files that :func:`save_model` wrote, for instance the last five of a run.

    Raises
    ------
    ValueError
        If there is none, or one has another class, configuration, name, shape or dtype than the
        first; the message names both files.

    Examples
    --------
    >>> import tempfile
    >>> from fourierkernels.models import LanguageModel, language_config, save_model
    >>> config = language_config("small", vocabulary=9, cutoffs=(), dim=8, layers=1, hidden=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [Path(folder) / f"{i}.safetensors" for i in range(2)]
    ...     for file in files:
    ...         save_model(LanguageModel(config), file)
    ...     len(average_models(files)) == len(LanguageModel(config).state_dict())
    True
    """
    files = [Path(path) for path in paths]
    if not files:
        raise ValueError("paths must hold at least one file, got none")
    first, model = read_tensors(files[0]), saved_class(files[0])
    drift = {name: torch.zeros_like(x, dtype=torch.float64) for name, x in first.items()}
    for file in files[1:]:
        if saved_class(file) != model:
            raise ValueError(
                "paths must be of one model: class or configuration of "
                f"{file.name} differs from {files[0].name}"
            )
        tensors = read_tensors(file)
        _check_alike(first, tensors, files[0].name, file.name)
        for name, tensor in tensors.items():
            drift[name] += tensor.double() - first[name].double()
    return {name: (x.double() + drift[name] / len(files)).to(x.dtype) for name, x in first.items()}


def _check_alike(
    first: Mapping[str, Tensor], other: Mapping[str, Tensor], name: str, other_name: str
) -> None:
    different = sorted(first.keys() ^ other.keys())
    for key in first.keys() & other.keys():
        mine, theirs = first[key], other[key]
        fits = mine.shape == theirs.shape and mine.dtype == theirs.dtype
        if not (fits and (mine.is_floating_point() or torch.equal(mine, theirs))):
            different.append(key)
    if different:
        raise ValueError(
            f"paths must hold tensors that can be averaged: {', '.join(sorted(different))} of "
            f"{other_name} differ in name, shape or dtype from {name}"
        )
