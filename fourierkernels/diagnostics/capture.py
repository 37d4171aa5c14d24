"""Attention maps out of a checkpoint: the only module here that knows frameworks.

A checkpoint is a folder as Hugging Face transformers saves it. It is read offline, and nothing in
it is run: no custom code, no pickled objects.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.diagnostics.folders import find_checkpoint
from fourierkernels.diagnostics.tokens import (
    SPLITTERS,
    TOKENS,
    Tokenizer,
    ids_tokenizer,
    list_tokenizer,
)
from fourierkernels.validation import check_choice, check_integer

try:
    import huggingface_hub.constants
    import torch
    import transformers
except ImportError as missing:
    raise ImportError(
        f"reading a checkpoint needs torch and transformers ({missing}): "
        "pip install 'fourierkernels[heads]'"
    ) from missing

FloatArray = NDArray[np.float64]

TOKENIZER_FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model",
)  # fmt: skip
_BATCHES_SORTED_TOGETHER = 16  # token ids only: similar lengths meet, and little padding is needed
_NO_LIMIT = 10**6  # transformers writes 1e30 where a tokenizer declares no length


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A network ready to give its attention maps.

    Attributes
    ----------
    limit : int or None
        Longest text in tokens; None if the architecture sets none.
    vocabulary : int
        Number of token ids.
    """

    name: str
    folder: Path
    model: Any
    limit: int | None
    vocabulary: int


@dataclass(frozen=True, eq=False)
class WindowMaps:
    """Attention maps ``(L, H, n, n)`` of window number `index`, one layer a call of attention."""

    index: int
    maps: FloatArray


def load_checkpoint(
    checkpoint: str | Path,
    *,
    model_class: str | None = None,
    random_weights: bool = False,
    seed: int = 0,
) -> Checkpoint:
    """Load a checkpoint, or its architecture with random weights, in float32 on the CPU.

    Of an encoder-decoder network the encoder is taken.

    Parameters
    ----------
    checkpoint : str or Path
        A folder, or ``PACKAGE:FOLDER``.
    model_class : str, optional
        Name of a model class of transformers, for a config.json without "model_type".
    random_weights : bool
        Initialise the weights by the architecture's own rule instead of reading them.
    seed : int
        Seed of the random weights; the global random state is left as it was.

    Raises
    ------
    ValueError
        If the folder, its configuration or its weights cannot be used; weights that would have to
        run code are refused.
    """
    folder = find_checkpoint(checkpoint)
    check_integer("seed", seed, least=0)
    with _offline_and_quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _build(folder, model_class) if random_weights else _load(folder, model_class)
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    if "input_ids" not in inspect.signature(model.forward).parameters:
        raise ValueError(f"checkpoint must read token ids, got {type(model).__name__}")
    model.config.use_cache = False  # keys and values of past tokens would only cost memory
    return Checkpoint(
        name=str(checkpoint),
        folder=folder,
        model=model.eval().requires_grad_(False),
        limit=_position_limit(model),
        vocabulary=int(model.config.get_text_config().vocab_size),
    )


@contextmanager
def _offline_and_quiet() -> Iterator[None]:
    """Forbid downloads and silence transformers for the moment; put everything back afterwards."""
    logging = transformers.utils.logging
    offline, verbosity = huggingface_hub.constants.HF_HUB_OFFLINE, logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    huggingface_hub.constants.HF_HUB_OFFLINE = True
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        huggingface_hub.constants.HF_HUB_OFFLINE = offline
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turn whatever a foreign file makes transformers raise into a ValueError of one line."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "UnpicklingError":  # of torch.load with weights_only=True
            reason = "the file would have to run code to be read; convert it to safetensors"
        else:
            reason = re.sub(r"\x1b\[\d+m", "", str(error)).strip().split("\n")[0]
        raise ValueError(f"{what}: {reason or type(error).__name__}") from error


def _config(folder: Path, model_class: str | None) -> Any:
    auto = model_class is None
    reader = transformers.AutoConfig if auto else _named(str(model_class)).config_class
    with _one_line(f"config.json of {folder.name} cannot be used"):
        return reader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _named(model_class: str) -> Any:
    """Return a model class of transformers by its name."""
    found = getattr(transformers, model_class, None)
    if not (inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel)):
        raise ValueError(f"model_class must be a model of transformers, got {model_class!r}")
    return found


def _build(folder: Path, model_class: str | None) -> Any:
    """Build the architecture of config.json with random weights."""
    config = _config(folder, model_class)
    eager = {"attn_implementation": "eager", "dtype": torch.float32}
    with _one_line(f"config.json of {folder.name} cannot be used"):
        if model_class is None:
            return transformers.AutoModel.from_config(config, trust_remote_code=False, **eager)
        return _named(model_class)._from_config(config, **eager)


def _load(folder: Path, model_class: str | None) -> Any:
    """Load the weights: safetensors first, else a .bin of plain tensors."""
    config = _config(folder, model_class)
    owner = transformers.AutoModel if model_class is None else _named(model_class)
    with _one_line(f"weights of {folder.name} cannot be read"):
        model, report = owner.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            # Said here and not only afterwards: a config may name an implementation to download.
            attn_implementation="eager",
            dtype=torch.float32,  # a half-precision checkpoint would otherwise stay so
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
        )
    _check_complete(folder, model, report)
    # sdpa, the default, returns an empty tuple of maps without a warning.
    model.set_attn_implementation("eager")
    return model


def _check_complete(folder: Path, model: Any, report: Any) -> None:
    """Refuse weights that leave parameters of the network at random values, silently otherwise.

    The pooler and a task's head come after the last map.
    """
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    wrong = sorted(
        name
        for name in (*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"]))
        if name.startswith(prefix) and not name.removeprefix(prefix).startswith("pooler.")
    )
    if wrong:
        raise ValueError(
            f"weights of {folder.name} must fit {type(model).__name__}, "
            f"got {len(wrong)} parameters missing or of another shape, first {wrong[0]}"
        )


def _position_limit(model: Any) -> int | None:
    """Longest text; the RoBERTa family counts positions from its padding index + 1."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None):
            return int(module.num_embeddings - module.padding_idx - 1)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit and limit > 0 else None


def load_tokenizer(checkpoint: Checkpoint, *, tokens: str = "auto") -> Tokenizer:
    """Return how texts become ids for a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`load_checkpoint` returned.
    tokens : str
        "auto" for the checkpoint's own tokenizer, "ids" for texts that already are ids, or a key
        of :data:`fourierkernels.diagnostics.tokens.SPLITTERS` together with its vocab.txt.

    Raises
    ------
    ValueError
        If the files of a tokenizer are missing or cannot be read.
    """
    check_choice("tokens", tokens, TOKENS)
    if tokens == "ids":
        return ids_tokenizer()
    if tokens in SPLITTERS:
        return list_tokenizer(checkpoint.folder / "vocab.txt", tokens)
    return _own_tokenizer(checkpoint.folder)


def _own_tokenizer(folder: Path) -> Tokenizer:
    advice = "give pre-tokenised ids instead (tokens='ids', --ids FILE)"
    # Without any of these files transformers makes up an empty tokenizer.
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ValueError(
            f"checkpoint must hold a tokenizer ({', '.join(TOKENIZER_FILES)}), "
            f"got none in {folder.name}: {advice}"
        )
    with _offline_and_quiet(), _one_line(f"tokenizer of {folder.name} cannot be read; {advice}"):
        own = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        prefix, suffix = _special_tokens(own)
    limit = own.model_max_length if own.model_max_length < _NO_LIMIT else None
    return Tokenizer(
        # verbose=False: long texts are cut into windows here, its warning would mislead
        encode=lambda text: list(own(text, add_special_tokens=False, verbose=False)["input_ids"]),
        prefix=prefix,
        suffix=suffix,
        unknown=own.unk_token_id,
        limit=limit,
    )


def _special_tokens(own: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what a tokenizer puts before and after a text, read off a text of one letter."""
    bare = list(own("a", add_special_tokens=False)["input_ids"])
    full = list(own("a")["input_ids"])
    starts = range(len(full) - len(bare) + 1)
    start = next(i for i in starts if full[i : i + len(bare)] == bare)
    return tuple(full[:start]), tuple(full[start + len(bare) :])


def attention_maps(
    checkpoint: Checkpoint, windows: Iterable[list[int]], *, batch_size: int = 16
) -> Iterator[WindowMaps]:
    """Yield the attention maps of each window of token ids, in float64, padding cut away.

    Windows of similar length share a batch, so they come out of order. One batch of maps is held
    at a time.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`load_checkpoint` returned.
    windows : iterable of list of int
        Token ids; read lazily.

    Yields
    ------
    WindowMaps
        Its number in `windows`, and its maps: padded keys *and* padded queries are left out.

    Raises
    ------
    ValueError
        If the network gives no n x n attention maps, or layers with different numbers of heads.
    """
    for batch in sorted_batches(windows, batch_size):
        yield from _batch_maps(checkpoint, batch)


def sorted_batches(
    windows: Iterable[list[int]], batch_size: int
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield batches of numbered windows; those of similar length meet, and are padded little."""
    check_integer("batch_size", batch_size)
    numbered = enumerate(windows)
    while chunk := list(islice(numbered, batch_size * _BATCHES_SORTED_TOGETHER)):
        chunk.sort(key=lambda pair: len(pair[1]))
        for start in range(0, len(chunk), batch_size):
            yield chunk[start : start + batch_size]


def _batch_maps(checkpoint: Checkpoint, batch: list[tuple[int, list[int]]]) -> Iterator[WindowMaps]:
    layers = _forward(checkpoint, [ids for _, ids in batch])
    for row, (index, ids) in enumerate(batch):
        n = len(ids)
        maps = np.stack([layer[row, :, :n, :n].numpy() for layer in layers])
        yield WindowMaps(index, maps.astype(np.float64))


@torch.inference_mode()
def _forward(checkpoint: Checkpoint, batch: list[list[int]]) -> list[torch.Tensor]:
    """Return the maps of a padded batch, ``(B, H, n, n)`` for each call of attention."""
    longest = max(map(len, batch))
    ids, mask = token_batch(checkpoint, batch)
    output = checkpoint.model(input_ids=ids, attention_mask=mask, output_attentions=True)
    # A module shared by several layers (ALBERT) is there once a call; layers without attention in
    # a mixed network are None.
    layers = [maps for maps in getattr(output, "attentions", None) or () if maps is not None]
    _check_layers(checkpoint, layers, longest)
    return layers


def token_batch(
    checkpoint: Checkpoint, batch: list[list[int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded ids ``(B, n)``, and the mask that is 1 where they are not padding."""
    longest = max(map(len, batch))
    padding = getattr(checkpoint.model.config, "pad_token_id", None) or 0
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in batch])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
    return ids, mask


def _check_layers(checkpoint: Checkpoint, layers: list[torch.Tensor], n: int) -> None:
    name = type(checkpoint.model).__name__
    if not layers:
        raise ValueError(f"checkpoint must have attention, got none in {name}")
    shapes = {tuple(maps.shape[1:]) for maps in layers}
    if len(shapes) > 1 or next(iter(shapes))[1:] != (n, n):
        raise ValueError(
            f"checkpoint must give maps of one shape (heads, {n}, {n}) in every layer, "
            f"got {sorted(shapes)} in {name}"
        )
