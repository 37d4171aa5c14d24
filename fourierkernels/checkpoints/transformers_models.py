"""Networks of Hugging Face transformers: folders as its classes save them, and single files.

Everything is read offline, and nothing in a folder is run: no custom code, no pickled objects.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import torch
import transformers

from fourierkernels.checkpoints.checkpoint import PARTS, Checkpoint, Part, token_fields
from fourierkernels.checkpoints.images import read_preprocessing
from fourierkernels.checkpoints.running import as_pair, image_checkpoint, pad
from fourierkernels.models.tensor_files import check_uncompressed
from fourierkernels.validation import check_choice

_EAGER = {"attn_implementation": "eager", "dtype": torch.float32}


@contextmanager
def offline_and_quiet() -> Iterator[None]:
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
def one_line(what: str) -> Iterator[None]:
    """Turn whatever a foreign file makes a library raise into a ValueError of one line."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "UnpicklingError":  # of torch.load with weights_only=True
            reason = "the file would have to run code to be read; convert it to safetensors"
        else:
            reason = re.sub(r"\x1b\[\d+m", "", str(error)).strip().split("\n")[0]
        raise ValueError(f"{what}: {reason or type(error).__name__}") from error


def load_folder(
    folder: Path,
    name: str,
    *,
    model_class: str | None,
    part: str | None,
    random_weights: bool,
    body: bool,
) -> Checkpoint:
    """Load a folder with a config.json; see :func:`~.load.load_checkpoint`."""
    with offline_and_quiet():
        build = _build if random_weights else _load
        model, untrained = build(folder, model_class)
    loaded = listen_to(model, name=name, folder=folder, part=part)
    inside = None
    if body and model.base_model is not model:
        inside = listen_to(model.base_model, name=name, folder=folder, part=part)
    return replace(loaded, untrained=untrained, body=inside)


def listen_to(model: Any, *, name: str, folder: Path | None, part: str | None) -> Checkpoint:
    """Return a model of transformers ready to give what the heads of a part compute."""
    model = model.eval().requires_grad_(False)
    chosen = _part(model, part)
    if model.config.is_encoder_decoder and not chosen.pairs:
        model = model.get_encoder()
    if _main_input(model) == "pixel_values":
        return _listen_to_vision(model, name=name, folder=folder)
    model.config.use_cache = False  # keys and values of past tokens would only cost memory
    first = getattr(model.config, "decoder_start_token_id", None)
    return Checkpoint(
        name=name,
        folder=folder,
        model=model,
        limit=_position_limit(model),
        vocabulary=int(model.config.get_text_config().vocab_size),
        run=_run_pairs(model) if chosen.pairs else _run_tokens(model),
        selects=_selects(model, chosen),
        start=() if first is None or not chosen.pairs else (int(first),),
        **token_fields(chosen),
    )


def _main_input(model: Any) -> str:
    """Return what a model reads; "input_ids" or "pixel_values"."""
    given = inspect.signature(model.forward).parameters
    both = "input_ids" in given and "pixel_values" in given
    if both and hasattr(model, "logit_scale"):  # CLIP and its kin run on both together only
        raise ValueError(
            "checkpoint must read token ids or images, got both in "
            f"{type(model).__name__}: name one side (model_class='CLIPVisionModel')"
        )
    known = [one for one in ("input_ids", "pixel_values") if one in given]
    if not known:
        raise ValueError(f"checkpoint must read token ids or images, got {type(model).__name__}")
    return model.main_input_name if model.main_input_name in known else known[0]


def _listen_to_vision(model: Any, *, name: str, folder: Path | None) -> Checkpoint:
    config = model.config
    missing = [one for one in ("image_size", "patch_size") if not hasattr(config, one)]
    if missing:
        raise ValueError(
            f"checkpoint must say the {missing[0]} of its images, got {type(model).__name__}"
        )
    height, width = as_pair(config.image_size)
    channels = int(getattr(config, "num_channels", 3))
    return image_checkpoint(
        model,
        lambda images: model(pixel_values=images),
        name=name,
        folder=folder,
        preprocess=read_preprocessing(folder, height=height, width=width, channels=channels),
        shape=(channels, height, width),
        patch=as_pair(config.patch_size),
    )


def _part(model: Any, part: str | None) -> Part:
    chosen = PARTS["encoder" if part is None else check_choice("part", part, list(PARTS))]
    if part is not None and not model.config.is_encoder_decoder:
        raise ValueError(
            f"part must be left out for a network that is no encoder-decoder, got {part!r} "
            f"for {type(model).__name__}"
        )
    return chosen


def _run_tokens(model: Any) -> Callable[[Sequence[Any]], Any]:
    padding = getattr(model.config, "pad_token_id", None) or 0

    def run(batch: Sequence[Any]) -> Any:
        ids, mask = pad(batch, padding)
        return model(input_ids=ids, attention_mask=mask)

    return run


def _run_pairs(model: Any) -> Callable[[Sequence[Any]], Any]:
    padding = getattr(model.config, "pad_token_id", None) or 0

    def run(batch: Sequence[Any]) -> Any:
        source, mask = pad([pair[0] for pair in batch], padding)
        target, target_mask = pad([pair[1] for pair in batch], padding)
        return model(
            input_ids=source,
            attention_mask=mask,
            decoder_input_ids=target,
            decoder_attention_mask=target_mask,
            use_cache=False,
        )

    return run


def _selects(model: Any, part: Part) -> Callable[[Any], bool]:
    if not part.pairs:
        return lambda call: not call.cross
    decoder = model.get_decoder()
    inside = next(name for name, module in model.named_modules() if module is decoder) + "."
    cross = part.name == "cross"
    return lambda call: call.name.startswith(inside) and call.cross == cross


def _config(folder: Path, model_class: str | None) -> Any:
    auto = model_class is None
    reader = transformers.AutoConfig if auto else named_class(str(model_class)).config_class
    hint = " (name its class: --model-class)" if auto and _names_no_type(folder) else ""
    with one_line(f"config.json of {folder.name} cannot be used{hint}"):
        return reader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _names_no_type(folder: Path) -> bool:
    try:
        return "model_type" not in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError:  # no JSON at all: transformers says so
        return False


def named_class(model_class: str) -> Any:
    """Return a model class of transformers by its name."""
    found = getattr(transformers, model_class, None)
    if not (inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel)):
        raise ValueError(f"model_class must be a model of transformers, got {model_class!r}")
    return found


def _build(folder: Path, model_class: str | None) -> tuple[Any, tuple[str, ...]]:
    """Build the architecture of config.json with random weights, none of which is untrained."""
    config = _config(folder, model_class)
    with one_line(f"config.json of {folder.name} cannot be used"):
        if model_class is None:
            auto = transformers.AutoModel
            return auto.from_config(config, trust_remote_code=False, **_EAGER), ()
        return named_class(model_class)._from_config(config, **_EAGER), ()


def _load(folder: Path, model_class: str | None) -> tuple[Any, tuple[str, ...]]:
    """Load the weights: safetensors first, else a .bin of plain tensors.

    Also return the parameters behind the last map that they leave at random values.
    """
    config = _config(folder, model_class)
    owner = transformers.AutoModel if model_class is None else named_class(model_class)
    if not any(folder.glob("*.safetensors")):
        for file in folder.glob("pytorch_model*.bin"):
            check_uncompressed(file)
    with one_line(f"weights of {folder.name} cannot be read"):
        model, report = owner.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
            # Said here and not only afterwards: a config may name an implementation to download.
            # In float32: a half-precision checkpoint would otherwise stay so.
            **_EAGER,
        )
    untrained = _check_complete(folder.name, model, report)
    # sdpa, the default, returns an empty tuple of maps without a warning.
    model.set_attn_implementation("eager")
    return model, untrained


def build_alone(
    model_class: str, config: Mapping[str, Any], tensors: Mapping[str, Any] | None, name: str
) -> Any:
    """Return a model of transformers from its config and tensors, or with random weights.

    Raises
    ------
    ValueError
        If the class is none of transformers, the config none of the class, or the tensors are not
        exactly those of the model; ties and old names are resolved as transformers does.
    """
    owner = named_class(model_class)
    with offline_and_quiet(), one_line(f"config of {name} cannot be used"):
        known = owner.config_class.from_dict(dict(config))
        if tensors is None:
            return owner._from_config(known, **_EAGER)
    with offline_and_quiet(), one_line(f"weights of {name} cannot be read"):
        model, report = owner.from_pretrained(
            None,
            config=known,
            state_dict=dict(tensors),
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_EAGER,
        )
    misshapen = {key for key, *_ in report["mismatched_keys"]}
    found = {
        "missing": report["missing_keys"],
        "unexpected": report["unexpected_keys"],
        "misshapen": misshapen,
    }
    if any(found.values()):
        text = "; ".join(
            f"{len(keys)} {kind}, first {min(keys)}" for kind, keys in found.items() if keys
        )
        raise ValueError(f"weights of {name} must be the tensors of {model_class}, got {text}")
    return model


def _check_complete(name: str, model: Any, report: Any) -> tuple[str, ...]:
    """Refuse weights that leave parameters of the network at random values, silently otherwise.

    The pooler and a task's head come after the last map: theirs are returned.
    """
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    random = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    wrong = sorted(
        key
        for key in random
        if key.startswith(prefix) and not key.removeprefix(prefix).startswith("pooler.")
    )
    if wrong:
        raise ValueError(
            f"weights of {name} must fit {type(model).__name__}, "
            f"got {len(wrong)} parameters missing or of another shape, first {wrong[0]}"
        )
    return tuple(sorted(random))


def _position_limit(model: Any) -> int | None:
    """Longest text; the RoBERTa family counts positions from its padding index + 1."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None):
            return int(module.num_embeddings - module.padding_idx - 1)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit and limit > 0 else None
