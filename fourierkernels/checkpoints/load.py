"""Load a checkpoint of any kind, and its tokenizer.

Checkpoints are read offline, and no code in them is run: neither custom classes nor pickled
objects. To add another kind, write a function from a
:class:`~fourierkernels.checkpoints.formats.request.LoadRequest` to a subclass of
:class:`~fourierkernels.checkpoints.checkpoint.Checkpoint` in a file of ``formats/`` and add a row
to :data:`FORMATS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fourierkernels.foundation.extras import needed_for

with needed_for("reading a checkpoint", extra="heads"):
    import torch
    import transformers  # noqa: F401 (the modules imported below need it)

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.find import CheckpointFiles, find_checkpoint
from fourierkernels.checkpoints.formats.installed_models import load_installed, load_timm
from fourierkernels.checkpoints.formats.package_models import load_package_model, load_published
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.formats.transformers_models import load_folder, load_pretrained
from fourierkernels.checkpoints.options import Config, LoadOptions
from fourierkernels.checkpoints.tokenizer_places import check_tokenizer
from fourierkernels.checkpoints.tokenizers import load_tokenizer
from fourierkernels.checkpoints.word_lists import find_words
from fourierkernels.foundation.validation import check_integer
from fourierkernels.models import MODELS
from fourierkernels.models.saved import read_config

__all__ = ["Checkpoint", "load_checkpoint", "load_tokenizer"]


@dataclass(frozen=True)
class CheckpointFormat:
    """A kind of checkpoint: how it is recognised, and how it is loaded."""

    name: str
    recognises: Callable[[LoadRequest], bool]
    load: Callable[[LoadRequest], Checkpoint]


# The last row that recognises a request loads it, so the general rows come first.
FORMATS = {
    row.name: row
    for row in (
        CheckpointFormat("file of transformers", lambda request: True, load_pretrained),
        CheckpointFormat(
            "class of an installed package",
            lambda request: ":" in (request.model_class or ""),
            load_installed,
        ),
        CheckpointFormat(
            "timm", lambda request: (request.model_class or "").startswith("timm:"), load_timm
        ),
        CheckpointFormat(
            "model of this package",
            lambda request: request.model_class is None or request.model_class in MODELS,
            load_package_model,
        ),
        CheckpointFormat(
            "folder of transformers", lambda request: request.files.folder is not None, load_folder
        ),
        CheckpointFormat(
            "published language model", lambda request: request.preset is not None, load_published
        ),
    )
}


def load_checkpoint(
    checkpoint: str | Path | CheckpointFiles,
    *,
    model_class: str | None = None,
    config: str | Path | Config | None = None,
    preset: str | None = None,
    vocabulary: str | Path | None = None,
    tokenizer: str | Path | None = None,
    part: str | None = None,
    task_head: bool = False,
    random_weights: bool = False,
    seed: int = 0,
) -> Checkpoint:
    """Load a checkpoint, or its architecture with random weights, in float32 on the CPU.

    Parameters
    ----------
    checkpoint : str, Path or CheckpointFiles
        A folder as transformers or sentence-transformers saves it, or peft with a LoRA, which is
        merged into the network that its adapter_config.json names; a file of weights (.safetensors,
        or .pt, .pth, .bin, .ckpt with tensors only, in the dictionary of a training script or of
        Lightning or without one); the name of a network of this repository; the folder of a
        training run (``fourierkernels.studies.train``), for its best model; ``PACKAGE:PATH`` for
        one of these in an installed package; or what
        :func:`~fourierkernels.checkpoints.find.find_checkpoint` returned for one of them.
    model_class : str, optional
        The class that the weights belong to. For a folder, a class of transformers, needed if its
        config.json names none. For a file, one of :data:`fourierkernels.models.MODELS`, a class of
        transformers, ``timm:NAME``, or ``module:Class`` of an installed package: a torch module
        that takes token ids or images as its one positional argument. Not needed for files written
        by
        :func:`fourierkernels.models.save_model`.
    config : str, Path or mapping, optional
        For a file of weights, a JSON file or its content: the config.json of a class of
        transformers, or the keyword arguments of any other class. With a preset, what differs.
    preset : {"small", "medium"}, optional
        For a state dict of the language models that the FourierFormer authors' code trains
        (:mod:`fourierkernels.models.published_language`): what no tensor of it says.
    vocabulary : str or Path, optional
        The words of a language model, one per line in the order of their numbers, by default the
        ``vocabulary.txt`` of a training run or beside a published model.
    tokenizer : str or Path, optional
        A folder with the files of a tokenizer, or one of these: tokenizer.json, vocab.txt or a
        .model of SentencePiece. By default that of the checkpoint's folder, or of the folder above.
    part : {"encoder", "decoder", "cross"}, optional
        Which attention of an encoder-decoder to record, "encoder" by default; see
        :data:`~fourierkernels.checkpoints.checkpoint.PARTS`.
    task_head : bool
        Load a folder as the class that its config.json names, with the head for its task, unless
        `model_class` names another.
    random_weights : bool
        Draw the weights by the initialisation rule of the architecture instead of reading them.
    seed : int
        Seed of the random weights; the global random state does not change.

    Raises
    ------
    ValueError
        If the checkpoint, its configuration or its weights cannot be used; weights
        that can only be read by running code are refused.
    """
    options = LoadOptions(model_class, config, preset, vocabulary, tokenizer, part)
    return load_files(
        find_checkpoint(checkpoint),
        options,
        task_head=task_head,
        random_weights=random_weights,
        seed=seed,
    )


def load_files(
    files: CheckpointFiles,
    options: LoadOptions,
    *,
    task_head: bool = False,
    random_weights: bool = False,
    seed: int = 0,
) -> Checkpoint:
    """Load a checkpoint that was found; see :func:`load_checkpoint`."""
    given = _read_config(options.config)
    published = options.preset is not None
    words = find_words(files, vocabulary=options.vocabulary, published=published)
    if words is not None and options.tokenizer is not None:
        raise ValueError(
            "tokenizer must be left out for a language model of words (which has a vocabulary), "
            f"got {options.tokenizer}"
        )
    request = LoadRequest(
        files=files,
        model_class=options.model_class,
        config=given,
        part=options.part,
        task_head=task_head,
        random_weights=random_weights,
        preset=options.preset,
        words=words,
        tokenizer=None if options.tokenizer is None else check_tokenizer(options.tokenizer),
    )
    return _load(request, seed)


def _load(request: LoadRequest, seed: int) -> Checkpoint:
    """Load what was asked for, with a rule for drawing the same architecture anew."""
    row = next(row for row in reversed(FORMATS.values()) if row.recognises(request))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(check_integer("seed", seed, least=0))
        loaded = row.load(request)
    if request.tokenizer is not None and not loaded.reads_texts:
        raise ValueError(
            f"tokenizer must be left out for a network that reads {loaded.reads}, "
            f"got {request.tokenizer}"
        )
    without = replace(request, task_head=False, random_weights=True)
    anew, path = partial(_load, without), request.tokenizer
    body = loaded.body and replace(
        loaded.body, guarded=True, redraw=anew, words=request.words, tokenizer_path=path
    )
    return replace(
        loaded, guarded=True, redraw=anew, words=request.words, tokenizer_path=path, body=body
    )


def _read_config(config: str | Path | Config | None) -> Config | None:
    if config is None or isinstance(config, Mapping):
        return config
    file = Path(config)
    if not file.is_file():
        raise ValueError(f"config must be a JSON file, got {config}")
    try:
        return read_config(file.read_text(encoding="utf-8"), file.name)
    except UnicodeDecodeError as error:
        raise ValueError(f"config of {file.name} must be UTF-8, got {error}") from error
