"""The door to everything that can be loaded: folders, files, and their tokenizers.

What a checkpoint is, is in :mod:`fourierkernels.checkpoints.checkpoint`. It is read offline,
and nothing in it is run: no custom code, no pickled objects.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
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
from fourierkernels.checkpoints.find import CheckpointFiles, find_checkpoint
from fourierkernels.checkpoints.tokenizers import load_tokenizer
from fourierkernels.checkpoints.transformers_models import load_folder
from fourierkernels.checkpoints.weight_files import load_file
from fourierkernels.validation import check_integer

__all__ = ["Checkpoint", "load_checkpoint", "load_tokenizer"]


def load_checkpoint(
    checkpoint: str | Path | CheckpointFiles,
    *,
    model_class: str | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    part: str | None = None,
    task_head: bool = False,
    random_weights: bool = False,
    seed: int = 0,
) -> Checkpoint:
    """Load a checkpoint, or its architecture with random weights, in float32 on the CPU.

    Parameters
    ----------
    checkpoint : str, Path or CheckpointFiles
        A folder as transformers saves it; a file of weights (.safetensors, or .pt, .pth, .bin
        with tensors only); ``PACKAGE:PATH`` for one of these in an installed package; or what
        :func:`~fourierkernels.checkpoints.find.find_checkpoint` returned for one of them.
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
    task_head : bool
        Load a folder with the head for its own task, the class that its config.json names, unless
        `model_class` names one.
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
    files = find_checkpoint(checkpoint)
    check_integer("seed", seed, least=0)
    if files.folder is not None and config is not None:
        raise ValueError("config must be left out for a folder, which has its own, got one")
    redraw = partial(
        _draw, files, model_class=model_class, config=config, part=part, random_weights=True
    )
    head = files.task_class if task_head and model_class is None else None
    options: dict[str, Any] = {
        "model_class": model_class or head,
        "part": part,
        "random_weights": random_weights,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if files.folder is not None:
            loaded = load_folder(files.folder, files.name, body=head is not None, **options)
        else:
            loaded = load_file(files.path, files.name, config=config, **options)
    body = loaded.body and replace(loaded.body, files=files, redraw=redraw)
    return replace(loaded, files=files, redraw=redraw, body=body)


def _draw(files: CheckpointFiles, seed: int, **options: Any) -> Checkpoint:
    return load_checkpoint(files, seed=seed, **options)
