"""What the report measures of a translation model: loss, accuracy, and BLEU by length.

[chen_attention]_ section 5: perplexity and accuracy of the next token (Figure 3), BLEU on the test
sentences by length class, and its mean over the classes (Tables 2 and 3).
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.foundation.files import write_table
from fourierkernels.models import TranslationModel, translation_loss
from fourierkernels.models.losses import perplexity
from fourierkernels.studies.translation.bleu import (
    Bleu,
    Counts,
    Difference,
    bleu_by_class,
    bleu_of,
    brevity_penalty,
    mean_over_classes,
    paired_bootstrap,
    sentence_counts,
    tokenised_bleu,
)
from fourierkernels.studies.translation.classes import WIDTH, BatchRule, length_class, upper_length
from fourierkernels.studies.translation.presets import BREVITY, TOKENISED
from fourierkernels.studies.translation.text_translation import Search, room, translated

if TYPE_CHECKING:
    from fourierkernels.studies.translation.pair_files import PairFiles

_REPORT = Search()
_COLUMNS = ("class", "source", "reference", "translation")
_SCORES = (("BLEU", "bleu"), ("BLEU-1", "bleu_1"), ("BLEU-4", "bleu_4"))
_EVALUATED = 2_000  # budget of a batch without gradients, on a CPU
_MANY = 60_000  # elsewhere
_Tokens = list[list[int]]  # of sentences


def numbers_of(
    model: TranslationModel,
    data: "PairFiles",
    split: str,
    *,
    positions: int | None = None,
    folder: Path | None = None,
    search: Search = _REPORT,
) -> Iterator[tuple[str, float, int]]:
    """Yield the name, the value and the count of each number of a model on a split.

    Parameters
    ----------
    positions : int, optional
        Sentences that are translated, evenly spread over their lengths; all by default.
    folder : Path, optional
        Where the translations are left, ``translations-SPLIT.csv``.
    search : Search
        How they are searched for.
    """
    yield from _by_tokens(model, data, split)
    sentences = translate_split(model, data, split, positions=positions, search=search)
    if folder is not None:
        write_translations(folder, split, sentences)
    yield from bleu_rows(sentences)
    yield BREVITY, brevity_penalty(_counted(sentences)[0]), len(sentences)
    columns = ([row[name] for row in sentences] for name in ("translation", "reference"))
    yield TOKENISED, tokenised_bleu(*columns), len(sentences)


def validation_sums(
    model: TranslationModel,
    data: "PairFiles",
    split: str,
    *,
    rule: BatchRule,
    part: tuple[int, int] = (0, 1),
) -> tuple[float, int, int]:
    """Return the sum of -log p over a split, the target tokens, and those that are most probable.

    Of sentences that are longer than what the model reads, what it reads.

    Parameters
    ----------
    part : tuple of int
        Number of this process and of all processes.
    """
    from fourierkernels.studies.translation.batches import one_pass

    device = model.embedding.weight.device
    total, tokens, correct = 0.0, 0, 0
    for batch in one_pass(data, split, rule=rule, part=part, longest=room(model)):
        sums = translation_loss(
            model, batch["source"].to(device), batch["target"].to(device), smoothing=0.0
        )
        total += float(sums.cross_entropy.double())
        tokens, correct = tokens + int(sums.tokens), correct + int(sums.correct)
    return total, tokens, correct


def translate_split(
    model: TranslationModel,
    data: "PairFiles",
    split: str,
    *,
    positions: int | None = None,
    search: Search = _REPORT,
) -> list[dict[str, str]]:
    """Return sentences of a split with their translations: class, source, reference, translation.

    Parameters
    ----------
    positions : int, optional
        How many, evenly spread over the lengths.
    """
    sources, references = _chosen(data, split, positions)
    return _sentences(data, sources, references, translated(model, sources, search))


def copied_split(
    data: "PairFiles", split: str, *, positions: int | None = None
) -> list[dict[str, str]]:
    """Return what :func:`translate_split` does, each sentence itself as its translation."""
    sources, references = _chosen(data, split, positions)
    return _sentences(data, sources, references, sources)


def bleu_rows(sentences: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, float, int]]:
    """Yield the name of each score, its value and the number of sentences.

    "BLEU", of the corpus, then of each class, then the mean over the classes; so for BLEU-1 and
    BLEU-4, see :class:`~fourierkernels.studies.translation.bleu.Bleu`.
    """
    counts, classes = _counted(sentences)
    by_class = bleu_by_class(counts, classes)
    scores: dict[str, Bleu] = {"": bleu_of(counts)}
    scores |= {f" {class_name(place)}": score for place, score in by_class.items()}
    scores[", mean of classes"] = mean_over_classes(list(by_class.values()))
    for name, field in _SCORES:
        for ending, score in scores.items():
            yield f"{name}{ending}", getattr(score, field), score.sentences


def deviations(
    sentences: Sequence[Mapping[str, str]], *, resamples: int = 1000, rng: np.random.Generator
) -> dict[str, float]:
    """Return how much scores deviate over sentences, which are drawn with replacement.

    Of BLEU of the corpus, of its mean over the classes, and of the brevity penalty.
    """
    counts, classes = _counted(sentences)
    names = ("BLEU", "BLEU, mean of classes", BREVITY)
    found = np.empty((resamples, len(names)))
    for row in found:
        drawn = rng.integers(len(counts), size=len(counts))
        own = counts[drawn]
        by_class = bleu_by_class(own, classes[drawn])
        row[:] = (
            bleu_of(own).bleu,
            mean_over_classes([*by_class.values()]).bleu,
            brevity_penalty(own),
        )
    return dict(zip(names, found.std(axis=0, ddof=1).tolist(), strict=True))


def compare_translations(
    one: Path | Sequence[Path],
    other: Path | Sequence[Path],
    *,
    split: str = "test",
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Return how much better the translations of one run are than those of another.

    Parameters
    ----------
    one, other : Path or sequence of Path
        Folders of runs on the same corpus; of several, as many of each, whose differences are
        averaged: the first of one less the first of the other, and so on.
    level : float
        Coverage of the interval.

    Raises
    ------
    ValueError
        If one has no translations, or they are of other sentences, or there are not as many of one
        as of the other.
    """
    ours, theirs = ([side] if isinstance(side, Path) else list(side) for side in (one, other))
    if len(ours) != len(theirs) or not ours:
        raise ValueError(
            f"one and other must be as many runs and at least one, got {len(ours)} and "
            f"{len(theirs)}"
        )
    folders = [*ours, *theirs]
    runs = [read_translations(folder, split) for folder in folders]
    texts = [[(row["source"], row["reference"]) for row in run] for run in runs]
    for folder, own in zip(folders, texts, strict=True):
        if own != texts[0]:
            raise ValueError(f"{folder} must have the sentences of {folders[0]}, got others")
    counts = np.stack([_counted(run)[0] for run in runs])
    half = len(ours)
    rng = np.random.default_rng(seed)
    return paired_bootstrap(counts[:half], counts[half:], resamples=resamples, level=level, rng=rng)


def write_translations(folder: Path, split: str, sentences: Sequence[Mapping[str, str]]) -> None:
    """Write sentences as a table into the folder of a run."""
    write_table(_table(folder, split), sentences, _COLUMNS)


def read_translations(folder: Path, split: str) -> list[dict[str, str]]:
    """Return the sentences of a run.

    Raises
    ------
    ValueError
        If it has none.
    """
    path = _table(folder, split)
    if not path.is_file():
        raise ValueError(f"{folder} must be the folder of a translation run, got no {path.name}")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != _COLUMNS:
            raise ValueError(f"{path} must have columns {', '.join(_COLUMNS)}, got others")
        return list(reader)


def class_name(place: int) -> str:
    """Return the name of a length class, as the report's Table 1 has it.

    Examples
    --------
    >>> class_name(0), class_name(9)
    ('0-5', '46-50')
    """
    upper = upper_length(place)
    return f"{upper - WIDTH + 1 if place else 0}-{upper}"


def _chosen(data: "PairFiles", split: str, positions: int | None) -> tuple[_Tokens, _Tokens]:
    """Return the sources and references of some pairs."""
    tokens, index = data.tokens(split), data.index(split)
    chosen = index[_spread(len(index), positions)].tolist()
    sources = [tokens[start : start + n].tolist() for start, n, _ in chosen]
    return sources, [tokens[start + n : start + n + m].tolist() for start, n, m in chosen]


def _sentences(
    data: "PairFiles", sources: _Tokens, references: _Tokens, found: Iterable[list[int]]
) -> list[dict[str, str]]:
    texts = (map(data.bpe.decode, part) for part in (sources, references, found))
    names = (class_name(length_class(len(source))) for source in sources)
    return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(names, *texts, strict=True)]


def _by_tokens(
    model: TranslationModel, data: "PairFiles", split: str
) -> Iterator[tuple[str, float, int]]:
    training = model.training
    on_cpu = model.embedding.weight.device.type == "cpu"
    model.eval()
    try:
        with torch.inference_mode():
            rule = BatchRule(_EVALUATED if on_cpu else _MANY)
            total, tokens, correct = validation_sums(model, data, split, rule=rule)
    finally:
        model.train(training)
    yield "perplexity", perplexity(total, tokens), tokens
    yield "token accuracy", 100 * correct / tokens, tokens


def _counted(sentences: Sequence[Mapping[str, str]]) -> tuple[Counts, NDArray[np.int64]]:
    """Return n-gram counts of sentences ``(n, 10)`` and their length classes ``(n,)``."""
    columns = [[row[name] for row in sentences] for name in ("translation", "reference")]
    uppers = [int(row["class"].partition("-")[2]) for row in sentences]
    return sentence_counts(columns[0], columns[1]), np.array(uppers, dtype=np.int64) // WIDTH - 1


def _spread(n: int, most: int | None) -> NDArray[np.int64]:
    """Return at most so many places of n, evenly spread."""
    count = n if most is None else min(most, n)
    return np.linspace(0, n - 1, count).round().astype(np.int64)


def _table(folder: Path, split: str) -> Path:
    return folder / f"translations-{split}.csv"
