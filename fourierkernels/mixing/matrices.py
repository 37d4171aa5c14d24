"""The mixing matrices of every mixer in a model, from one pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.mixing.mixer import TokenMixer


def mixing_matrices(model: nn.Module, *inputs: Any, **options: Any) -> dict[str, Tensor]:
    """Run a model once and return the mixing matrix of every mixer in it, by module name.

    Parameters
    ----------
    model : nn.Module
        Any module that contains token mixers.
    *inputs, **options
        Arguments of its forward pass.

    Returns
    -------
    dict of str to Tensor
        ``(B, H, N, N)`` each, in the order of the calls; complex for Fourier mixing.

    Examples
    --------
    >>> from fourierkernels.mixing import create_mixer
    >>> model = nn.Sequential(create_mixer("dft", dim=4))
    >>> matrices = mixing_matrices(model, torch.ones(1, 2, 4))
    >>> matrices["0"].real.round(decimals=3)
    tensor([[[[ 0.7070,  0.7070],
              [ 0.7070, -0.7070]]]])
    """
    matrices: dict[str, Tensor] = {}
    with torch.no_grad(), _recording(model, matrices):
        model(*inputs, **options)
    return matrices


@contextmanager
def _recording(model: nn.Module, matrices: dict[str, Tensor]) -> Iterator[None]:
    def record(name: str) -> Any:
        def hook(mixer: TokenMixer, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> None:
            matrices[name] = mixer.mixing_matrix(*inputs, **options)

        return hook

    handles = [
        module.register_forward_pre_hook(record(name), with_kwargs=True)
        for name, module in model.named_modules()
        if isinstance(module, TokenMixer)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
