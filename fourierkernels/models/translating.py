"""Translation of many sentences: read in windows, searched in batches of like length, in order.

A sentence's translation does not depend on its batch, so batches are made as suits the machine.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_integer
from fourierkernels.models.inputs import read_ids
from fourierkernels.models.search import beam_search
from fourierkernels.models.translation import TranslationModel

Sentence = Sequence[int] | Tensor


def translate(
    model: TranslationModel,
    sources: Iterable[Sentence],
    *,
    beam: int = 4,
    length_penalty: float = 0.6,
    divisor: str = "gnmt",
    longest: int | None = None,
    batch_tokens: int = 2048,
    window: int = 1024,
) -> Iterator[list[int]]:
    """Yield the best translation of each source, in their order.

    Memory is bounded: at most `window` sources are read ahead, sorted by length and searched in
    batches.

    Parameters
    ----------
    model : TranslationModel
        In evaluation mode; otherwise dropout stays on.
    sources : iterable of ids
        Each a sequence of integers or a tensor ``(n,)``, without padding; any number, also
        generated one by one.
    beam, length_penalty, divisor, longest
        As for :func:`beam_search`.
    batch_tokens : int
        Most source tokens in a batch, padding counted; a longer sentence goes alone.
    window : int
        Most sources read before the first of them is yielded.

    Yields
    ------
    list of int
        Ids of the translation without start, end and padding.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule, a source is empty or holds no ids of the model, or the model
        gives NaN; the message counts sources from 0.

    Examples
    --------
    >>> from fourierkernels.models.translation_sizes import translation_config
    >>> model = TranslationModel(translation_config("dft_both", size="tiny", vocabulary=20)).eval()
    >>> len(list(translate(model, [[3, 4, 5], [6]], longest=5)))
    2
    """
    sizes = (check_integer("batch_tokens", batch_tokens), check_integer("window", window))
    options: dict[str, object] = {
        "beam": check_integer("beam", beam),
        "longest": longest,
        "keep": 1,
    }
    options |= {"length_penalty": length_penalty, "divisor": divisor}
    return _stream(model, iter(sources), *sizes, options)


def _stream(
    model: TranslationModel,
    sources: Iterator[Sentence],
    batch_tokens: int,
    window: int,
    options: dict[str, object],
) -> Iterator[list[int]]:
    first = 0
    while read := [
        read_ids(f"sources[{first + i}]", source).cpu()
        for i, source in enumerate(islice(sources, window))
    ]:
        translations: dict[int, list[int]] = {}
        for batch in like_lengths([len(ids) for ids in read], batch_tokens):
            words = _search(model, [read[i] for i in batch], options)
            translations |= zip(batch, words, strict=True)
        first += len(read)
        yield from (translations[i] for i in range(len(read)))


def like_lengths(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Return batches of places, longest sentences first, of at most `batch_tokens` with padding.

    Examples
    --------
    >>> like_lengths([2, 9, 3, 8], 18)
    [[1, 3], [2, 0]]
    """
    batches: list[list[int]] = []
    room = 0
    for place in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not room:
            batches.append([])
            room = max(1, batch_tokens // lengths[place])
        batches[-1].append(place)
        room -= 1
    return batches


def _search(
    model: TranslationModel, sources: Sequence[Tensor], options: dict[str, object]
) -> list[list[int]]:
    config, device = model.config, model.embedding.weight.device
    padded = torch.nn.utils.rnn.pad_sequence(
        list(sources), batch_first=True, padding_value=config.padding_id
    )
    best = beam_search(model, padded.to(device), **options)  # type: ignore[arg-type]
    return [_words(row, config.end_id, config.padding_id) for row in best.tokens[:, 0].tolist()]


def _words(row: list[int], end_id: int, padding_id: int) -> list[int]:
    """Return what stands between the start and the end or the padding."""
    last = next((i for i, word in enumerate(row[1:], 1) if word in (end_id, padding_id)), len(row))
    return row[1:last]
