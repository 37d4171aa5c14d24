"""The door to everything that can be loaded: folders, files, and their tokenizers.

What a checkpoint is, is in :mod:`fourierkernels.checkpoints.checkpoint`. It is read offline,
and nothing in it is run: no custom code, no pickled objects.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

try:
    import torch
    import transformers  # noqa: F401 (what this module imports needs it)
except ImportError as missing:
    raise ImportError(
        f"reading a checkpoint needs torch and transformers ({missing}): "
        "pip install 'fourierkernels[heads]'"
    ) from missing

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.tokenizers import load_tokenizer
from fourierkernels.checkpoints.transformers_models import load_folder
from fourierkernels.checkpoints.weight_files import load_file
from fourierkernels.validation import check_integer

__all__ = ["Checkpoint", "load_checkpoint", "load_tokenizer"]


def load_checkpoint(
    checkpoint: str | Path,
    *,
    model_class: str | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    part: str | None = None,
    random_weights: bool = False,
    seed: int = 0,
) -> Checkpoint:
    """Load a checkpoint, or its architecture with random weights, in float32 on the CPU.

    Parameters
    ----------
    checkpoint : str or Path
        A folder as transformers saves it; a file of weights (.safetensors, or .pt, .pth, .bin
        with tensors only); or ``PACKAGE:PATH`` for one of these in an installed package.
    model_class : str, optional
        What the weights are of. For a folder, a model class of transformers, if its config.json
        names none. For a file, one of :data:`fourierkernels.models.MODELS`, of transformers,
        ``timm:NAME``, or ``module:Class`` of an installed package: a torch module that takes
        token ids or images as its one positional argument. Not needed for files of
        :func:`fourierkernels.models.save_model`.
    config : str, Path or mapping, optional
        JSON file, or its content, for a file of weights: the config.json of a class of
        transformers, else keyword arguments of the class.
    part : {"encoder", "decoder", "cross"}, optional
        Of an encoder-decoder, "encoder" by default; see
        :data:`~fourierkernels.checkpoints.checkpoint.PARTS`.
    random_weights : bool
        Initialise the weights by the architecture's own rule instead of reading them.
    seed : int
        Seed of the random weights; the global random state is left as it was.

    Raises
    ------
    ValueError
        If the checkpoint, its configuration or its weights cannot be used; weights that would have
        to run code are refused.
    """
    place = find_checkpoint(checkpoint)
    check_integer("seed", seed, least=0)
    if place.is_dir() and config is not None:
        raise ValueError("config must be left out for a folder, which has its own, got one")
    options: dict[str, Any] = {
        "model_class": model_class,
        "part": part,
        "random_weights": random_weights,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if place.is_dir():
            return load_folder(place, str(checkpoint), **options)
        return load_file(place, str(checkpoint), config=config, **options)
