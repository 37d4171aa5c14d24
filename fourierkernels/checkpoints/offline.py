"""Contexts for calls of transformers: no downloads, no messages, and errors of one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import huggingface_hub.constants
import transformers


@contextmanager
def offline_and_quiet() -> Iterator[None]:
    """Forbid downloads and silence transformers; restore its settings afterwards."""
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
    """Turn any exception that a library raises on a file into a ValueError of one line."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "UnpicklingError":  # of torch.load with weights_only=True
            reason = "the file would have to run code to be read; convert it to safetensors"
        else:
            reason = re.sub(r"\x1b\[\d+m", "", str(error)).strip().split("\n")[0]
        raise ValueError(f"{what}: {reason or type(error).__name__}") from error
