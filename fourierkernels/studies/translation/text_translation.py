"""Lines of text through a translation model: encoded, searched in batches, decoded, in order."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from fourierkernels.models import TranslationModel, translate
from fourierkernels.studies.texts.source import single_blanks

if TYPE_CHECKING:
    from fourierkernels.studies.translation.bpe import Bpe

_MARKS = 2  # of start and end
_WINDOW = 256  # lines that are read ahead
_BATCH_TOKENS = {"cpu": 1024}
_MANY = 16_384  # elsewhere


@dataclass(frozen=True)
class Search:
    """How a translation is searched for; as the report does by default.

    Beam 4 is of [chen_attention]_ section 5.2, the penalty of [vaswani2017attention]_ section 6.1.

    Attributes
    ----------
    beam, length_penalty, divisor
        As for :func:`~fourierkernels.models.beam_search`.
    longest : int or None
        Most subwords that are written; as many as the model can write if None.
    """

    beam: int = 4
    length_penalty: float = 0.6
    divisor: str = "gnmt"
    longest: int | None = None

    def changed(self, beam: int | None, length_penalty: float | None) -> "Search":
        """Return it with another beam or penalty, where they are given."""
        return replace(
            self,
            beam=self.beam if beam is None else beam,
            length_penalty=self.length_penalty if length_penalty is None else length_penalty,
        )


_REPORT = Search()


# Given the number of a line, from 1, its subwords and the most that are read.
Warn = Callable[[int, int, int], None]


def translate_lines(
    model: TranslationModel,
    bpe: "Bpe",
    lines: Iterable[str],
    *,
    beam: int | None = None,
    length_penalty: float | None = None,
    search: Search = _REPORT,
    warn: Warn | None = None,
) -> Iterator[str]:
    """Yield the translation of each line, in their order; an empty line stays empty.

    A few hundred lines are read ahead, never all. A line of more subwords than the model reads is
    cut off there.

    Parameters
    ----------
    beam, length_penalty
        As for :func:`~fourierkernels.models.beam_search`; those of `search` by default.
    search : Search
        How translations are searched for.
    warn : callable, optional
        Called for each line that is cut off.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule.
    """
    rest, first, how = iter(lines), 1, search.changed(beam, length_penalty)
    while texts := [single_blanks(line) for line in islice(rest, _WINDOW)]:
        sources = bpe.encode(texts)
        for number, source in enumerate(sources, start=first):
            if warn is not None and len(source) > room(model):
                warn(number, len(source), room(model))
        found = translated(model, filter(None, sources), how)
        yield from (bpe.decode(next(found)) if source else "" for source in sources)
        first += len(texts)


def translated(
    model: TranslationModel, sources: Iterable[list[int]], search: Search
) -> Iterator[list[int]]:
    """Yield the subwords of the translations of subwords without marks."""
    config, most = model.config, room(model)
    marked = ([config.start_id, *source[:most], config.end_id] for source in sources)
    device = model.embedding.weight.device.type
    return translate(
        model,
        marked,
        beam=search.beam,
        length_penalty=search.length_penalty,
        divisor=search.divisor,
        longest=None if search.longest is None else min(search.longest, most) + _MARKS,
        batch_tokens=_BATCH_TOKENS.get(device, _MANY),
        window=_WINDOW,
    )


def room(model: TranslationModel) -> int:
    """Return the most subwords of a source, beside the marks of start and end."""
    return model.config.length - _MARKS
