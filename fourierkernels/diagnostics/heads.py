"""How different are the heads of a checkpoint? Texts in, a summary out."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fourierkernels.diagnostics.capture import (
    Checkpoint,
    attention_maps,
    load_checkpoint,
    load_tokenizer,
)
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS, METRICS
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary
from fourierkernels.diagnostics.tokens import (
    TOKENS,
    Reading,
    check_known,
    cut_windows,
    encode_texts,
)
from fourierkernels.diagnostics.vectors import head_vectors
from fourierkernels.validation import check_choice, check_integer

_WARN_UNKNOWN = 0.1
UNKNOWN_HINT = f"try another tokenizer (tokens, --tokens): {', '.join(TOKENS)}"


def summarise_heads(
    checkpoint: str | Path | Checkpoint,
    texts: Iterable[str],
    *,
    metric: str = DEFAULT_METRIC,
    context: int | None = None,
    batch_size: int = 16,
    model_class: str | None = None,
    random_weights: bool = False,
    seed: int = 0,
    tokens: str = "auto",
    progress: Callable[[float], None] | None = None,
) -> HeadSummary:
    """Measure the distances between the heads of a checkpoint, averaged over texts.

    Parameters
    ----------
    checkpoint : str, Path or Checkpoint
        A folder saved by transformers, ``PACKAGE:FOLDER``, or one already loaded.
    texts : iterable of str
        Read lazily; memory does not depend on their number.
    metric : str
        A key of :data:`fourierkernels.diagnostics.distances.METRICS`.
    context : int, optional
        Join the texts end to end and cut windows of exactly so many tokens, special tokens
        included; an incomplete last one is left out. Without it every text is taken by itself, and
        one that is too long for the checkpoint is cut into several windows.
    model_class, random_weights, seed
        See :func:`fourierkernels.diagnostics.capture.load_checkpoint`; a loaded checkpoint is
        taken as it is.
    tokens : str
        See :func:`fourierkernels.diagnostics.capture.load_tokenizer`.
    progress : callable, optional
        Called after each window with the number of texts finished so far, fractions included.

    Raises
    ------
    ValueError
        For a checkpoint or texts that cannot be used; see the functions named above.
    """
    compared = METRICS[check_choice("metric", metric, list(METRICS))].of
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = load_checkpoint(
            checkpoint, model_class=model_class, random_weights=random_weights, seed=seed
        )
    accumulator, reading = HeadAccumulator(metric=metric), Reading()
    windows = text_windows(checkpoint, texts, tokens=tokens, context=context, reading=reading)
    captured: Iterator[Any] = attention_maps(checkpoint, windows, batch_size=batch_size)
    if compared != MAPS:
        captured = head_vectors(checkpoint, windows, batch_size=batch_size)
    for done, window in enumerate(captured, start=1):
        check_known(reading, UNKNOWN_HINT)
        accumulator.add(_compared(window, compared), number=window.index)
        if progress is not None:
            progress(reading.texts * done / reading.windows)
    if reading.windows == 0:
        raise ValueError(
            f"texts must fill at least one window of tokens, got {reading.tokens} tokens of "
            f"{reading.texts} texts for context={context}"
        )
    if reading.unknown_share > _WARN_UNKNOWN:
        warnings.warn(f"{reading.unknown_share:.0%} of the tokens are unknown", stacklevel=2)
    return accumulator.summary(n_texts=reading.texts, unknown=reading.unknown_share)


def _compared(window: Any, what: str) -> Any:
    values = getattr(window, what)
    if values is None:
        raise ValueError(f"metric of {what} outputs needs a linear layer after the heads, got none")
    return values


def text_windows(
    checkpoint: Checkpoint,
    texts: Iterable[str],
    *,
    tokens: str,
    context: int | None,
    reading: Reading,
) -> Iterator[list[int]]:
    """Return the windows of token ids of texts, as :func:`summarise_heads` cuts them."""
    tokenizer = load_tokenizer(checkpoint, tokens=tokens)
    limits = [limit for limit in (checkpoint.limit, tokenizer.limit) if limit is not None]
    longest = min(limits, default=None)
    if context is not None and longest is not None and check_integer("context", context) > longest:
        raise ValueError(
            f"context must be at most {longest}, the longest text of this checkpoint, got {context}"
        )
    encoded = encode_texts(texts, tokenizer, vocabulary=checkpoint.vocabulary, reading=reading)
    return cut_windows(
        encoded,
        tokenizer,
        size=longest if context is None else context,
        running=context is not None,
        reading=reading,
    )


def compare_networks(
    checkpoint: str | Path,
    texts: Iterable[str],
    *,
    baseline: bool = True,
    against: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> dict[str, HeadSummary]:
    """Summarise the heads of a checkpoint and of the same architecture with random weights.

    A distance between heads means little without the second: some measures do not tell a trained
    network from noise.

    Parameters
    ----------
    texts : iterable of str
        Read once for each network, so it must allow that: a list or :func:`read_texts`.
    baseline : bool
        Whether to measure the random weights too.
    against : str or Path, optional
        Another checkpoint, to be measured on the same texts with the same options; see
        :func:`~fourierkernels.diagnostics.comparison.head_difference`.
    progress : callable, optional
        Called with the name of the network and the number of its texts finished.
    **options
        Passed to :func:`summarise_heads`.

    Returns
    -------
    dict
        ``{"trained": HeadSummary, "random": HeadSummary, "other": HeadSummary}``, the second if
        `baseline`, the third if there is another checkpoint.
    """
    if iter(texts) is texts:
        raise TypeError("texts must be readable twice, a list or a text file, got an iterator")
    summaries = {}
    networks = {"trained": checkpoint}
    if baseline:
        networks["random"] = checkpoint
    if against is not None:
        networks["other"] = against
    for name, network in networks.items():
        report = None if progress is None else partial(progress, name)
        summaries[name] = summarise_heads(
            network, texts, random_weights=name == "random", progress=report, **options
        )
    return summaries
