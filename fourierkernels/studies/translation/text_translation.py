"""Lines of text through a translation model: encoded, searched in batches, decoded, in order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from fourierkernels.models import TranslationModel, translate
from fourierkernels.studies.texts.source import single_blanks

if TYPE_CHECKING:
    from fourierkernels.studies.translation.bpe import Bpe

_WINDOW = 256  # lines that are read ahead
_BATCH_TOKENS = {"cpu": 1024}
_MANY = 16_384  # elsewhere

# Given the number of a line, from 1, its subwords and the most that are read.
Warn = Callable[[int, int, int], None]


def translate_lines(
    model: TranslationModel,
    bpe: "Bpe",
    lines: Iterable[str],
    *,
    beam: int = 4,
    length_penalty: float = 0.6,
    warn: Warn | None = None,
) -> Iterator[str]:
    """Yield the translation of each line, in their order; an empty line stays empty.

    A few hundred lines are read ahead, never all. A line of more subwords than the model reads is
    cut off there.

    Parameters
    ----------
    beam, length_penalty
        As for :func:`~fourierkernels.models.beam_search`.
    warn : callable, optional
        Called for each line that is cut off.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule.
    """
    rest, first = iter(lines), 1
    while texts := [single_blanks(line) for line in islice(rest, _WINDOW)]:
        sources = bpe.encode(texts)
        for number, source in enumerate(sources, start=first):
            if warn is not None and len(source) > room(model):
                warn(number, len(source), room(model))
        found = translated(model, filter(None, sources), beam=beam, length_penalty=length_penalty)
        yield from (bpe.decode(next(found)) if source else "" for source in sources)
        first += len(texts)


def translated(
    model: TranslationModel, sources: Iterable[list[int]], *, beam: int, length_penalty: float
) -> Iterator[list[int]]:
    """Yield the subwords of the translations of subwords without marks."""
    config, most = model.config, room(model)
    marked = ([config.start_id, *source[:most], config.end_id] for source in sources)
    device = model.embedding.weight.device.type
    return translate(
        model,
        marked,
        beam=beam,
        length_penalty=length_penalty,
        batch_tokens=_BATCH_TOKENS.get(device, _MANY),
        window=_WINDOW,
    )


def room(model: TranslationModel) -> int:
    """Return the most subwords of a source, beside the marks of start and end."""
    return model.config.length - 2
