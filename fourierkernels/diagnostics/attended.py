"""What do the heads of a checkpoint attend to? Texts in, statistics of each head out."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.diagnostics.capture import Checkpoint, load_checkpoint, load_tokenizer
from fourierkernels.diagnostics.heads import UNKNOWN_HINT, text_windows
from fourierkernels.diagnostics.kernel_gap import gaussian_gap, key_norm_spread
from fourierkernels.diagnostics.maps import STATISTICS, map_statistics
from fourierkernels.diagnostics.profile import StatisticSummary, ValueAccumulator
from fourierkernels.diagnostics.tokens import Reading, check_known
from fourierkernels.diagnostics.vectors import WindowHeads, head_vectors
from fourierkernels.validation import check_choice

FloatArray = NDArray[np.float64]

# Statistics of keys: see fourierkernels.diagnostics.kernel_gap.
OF_KEYS = {
    "key_norm_spread": lambda heads: key_norm_spread(heads.keys),
    "centred_key_norm_spread": lambda heads: key_norm_spread(heads.keys, centred=True),
    "gaussian_gap": lambda heads: gaussian_gap(heads.maps, heads.keys, scale=heads.scale),
    "centred_gaussian_gap": lambda heads: gaussian_gap(
        heads.maps, heads.keys, scale=heads.scale, centred=True
    ),
}


def head_statistics(
    checkpoint: str | Path | Checkpoint,
    texts: Iterable[str],
    *,
    names: Sequence[str] | None = None,
    context: int | None = None,
    batch_size: int = 16,
    model_class: str | None = None,
    tokens: str = "auto",
    seed: int = 0,
) -> dict[str, StatisticSummary]:
    """Measure what each head attends to, averaged over texts, with intervals.

    Special tokens are those that the tokenizer puts around a text. The Gaussian kernel has the
    variance that belongs to the scale of the first layer.

    Parameters
    ----------
    checkpoint, texts, context, batch_size, model_class, tokens
        As in :func:`~fourierkernels.diagnostics.heads.summarise_heads`; memory does not depend on
        the number of texts.
    names : sequence of str, optional
        Keys of :data:`~fourierkernels.diagnostics.maps.STATISTICS` and of :data:`OF_KEYS`; all by
        default.
    seed : int
        Of the bootstrap.

    Returns
    -------
    dict
        A summary of ``(L, H)`` a name.

    Raises
    ------
    ValueError
        For an unknown name, or a checkpoint or texts that cannot be used.
    """
    known = [*STATISTICS, *OF_KEYS]
    chosen = [check_choice("names", name, known) for name in (names or known)]
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = load_checkpoint(checkpoint, model_class=model_class)
    tokenizer, reading = load_tokenizer(checkpoint, tokens=tokens), Reading()
    windows = text_windows(checkpoint, texts, tokens=tokens, context=context, reading=reading)
    accumulator = ValueAccumulator(chosen, seed=seed)
    around = len(tokenizer.prefix), len(tokenizer.suffix)
    for heads in head_vectors(checkpoint, windows, batch_size=batch_size):
        check_known(reading, UNKNOWN_HINT)
        accumulator.add(_values(heads, chosen, around), number=heads.index)
    return accumulator.summary()


def _values(
    heads: WindowHeads, names: Sequence[str], around: tuple[int, int]
) -> dict[str, FloatArray]:
    n = heads.maps.shape[-1]
    special = np.arange(n) < around[0]
    special |= np.arange(n) >= n - around[1]
    of_maps = [name for name in names if name in STATISTICS]
    found = map_statistics(heads.maps, names=of_maps, special=special) if of_maps else {}
    return found | {name: OF_KEYS[name](heads) for name in names if name in OF_KEYS}
