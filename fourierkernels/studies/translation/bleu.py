"""BLEU of a corpus, of its length classes, and of two systems side by side.

sacrebleu splits the sentences into words, counts n-grams and computes the score
[post2018call]_; here its counts are kept for each sentence, so that any part of a corpus is scored
without reading it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.extras import require
from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.foundation.words import UNKNOWN
from fourierkernels.studies.texts.plain import words_of

ORDERS = 4
_MISSED = "\ufffd"  # in the place of an unknown word of a reference, which no translation has
# A row per sentence: words of the translation, words of the reference, n-grams that agree for n =
# 1 to 4, n-grams of the translation.
Counts = NDArray[np.int64]  # (n, 2 + 2 · 4)


@dataclass(frozen=True)
class Bleu:
    """Scores of a set of sentences, in percent.

    Attributes
    ----------
    bleu : float
        sacrebleu's corpus BLEU, the geometric mean of the four precisions times the brevity
        penalty.
    bleu_1, bleu_4 : float
        The precision of words and of 4-grams alone, times the same penalty. [chen_attention]_ does
        not define its BLEU1 and BLEU4; in each row of its Table 2 the BLEU lies between them, as a
        mean of these does and as the cumulative BLEU-4, which is the BLEU itself, would not.
    sentences : int
        How many there are.
    """

    bleu: float
    bleu_1: float
    bleu_4: float
    sentences: int


@dataclass(frozen=True)
class Difference:
    """How much better one system is than another.

    Attributes
    ----------
    bleu : float
        BLEU of the first less that of the second.
    low, high : float
        Interval of the bootstrap.
    share : float
        Resamples in which the first is not better.
    """

    bleu: float
    low: float
    high: float
    share: float


def check_sacrebleu() -> None:
    """Raise ImportError if sacrebleu is missing, before a training whose end needs it."""
    require("sacrebleu", "BLEU")


def signature() -> str:
    """Return what sacrebleu says of how the scores are computed, its version included."""
    check_sacrebleu()
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    metric.corpus_score(["a"], [["a"]])  # counts the references, which the signature names
    return str(metric.get_signature().format())


def sentence_counts(
    translations: Sequence[str], references: Sequence[str], *, tokenize: str = "13a"
) -> Counts:
    """Return the counts of each sentence, ``(n, 10)``.

    Parameters
    ----------
    tokenize : str
        How sacrebleu splits sentences into words; "none" at blanks alone.

    Raises
    ------
    ValueError
        If there are not as many translations as references.
    ImportError
        If sacrebleu is missing.

    Examples
    --------
    >>> sentence_counts(["the cat sat"], ["the cat sat down"])  # doctest: +SKIP
    array([[3, 4, 3, 2, 1, 0, 3, 2, 1, 0]])
    """
    check_sacrebleu()
    from sacrebleu.metrics import BLEU

    if len(translations) != len(references):
        raise ValueError(
            f"translations must be as many as references, {len(references)}, "
            f"got {len(translations)}"
        )
    metric = BLEU(
        effective_order=True, tokenize=tokenize, force=True
    )  # of the counts alone; a single sentence asks for it
    found = np.zeros((len(references), 2 + 2 * ORDERS), dtype=np.int64)
    for row, translation, reference in zip(found, translations, references, strict=True):
        score = metric.sentence_score(translation, [reference])
        row[:] = (score.sys_len, score.ref_len, *score.counts, *score.totals)
    return found


def bleu_of(counts: Counts) -> Bleu:
    """Return the scores of the sentences with these counts.

    Raises
    ------
    ValueError
        If there are none.
    """
    if not len(counts):
        raise ValueError("counts must be of at least one sentence, got none")
    bleu, penalty, precisions = _score(counts.sum(axis=0))
    return Bleu(bleu, penalty * precisions[0], penalty * precisions[-1], len(counts))


def brevity_penalty(counts: Counts) -> float:
    """Return the factor by which the scores of sentences are less for being too short, at most 1.

    Examples
    --------
    >>> brevity_penalty(sentence_counts(["a b c d"], ["a b c d"]))  # doctest: +SKIP
    1.0
    """
    return _score(counts.sum(axis=0))[1]


def tokenised_bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU of the words and punctuation marks of sentences, in percent.

    So ``fairseq-generate --remove-bpe`` scores (``fairseq_cli/generate.py`` and
    ``fairseq/scoring/bleu.py`` of https://github.com/facebookresearch/fairseq), whose words are
    those of Moses' tokenizer; here they are those of
    :func:`~fourierkernels.studies.texts.plain.words_of`. Nothing is smoothed, and an unknown word
    of a reference is right nowhere.

    Examples
    --------
    >>> tokenised_bleu(["it's a cat, isn't it?"], ["it's a cat, isn't it?"])  # doctest: +SKIP
    100.0
    """
    known = [text.replace(UNKNOWN, _MISSED) for text in references]
    split = ([" ".join(words_of(text)) for text in texts] for texts in (translations, known))
    counts = sentence_counts(*split, tokenize="none")
    return _score(counts.sum(axis=0), smoothing="none")[0]


def bleu_by_class(counts: Counts, classes: NDArray[np.int64]) -> dict[int, Bleu]:
    """Return the scores of each length class that has sentences, by its place."""
    return {int(place): bleu_of(counts[classes == place]) for place in np.unique(classes)}


def mean_over_classes(scores: Sequence[Bleu]) -> Bleu:
    """Return the mean of the scores of classes, weighted by their sentences.

    The averages of [chen_attention]_, Table 2, are these, 27.22 of BLEU: not BLEU of the corpus.

    Examples
    --------
    >>> mean_over_classes([Bleu(10, 20, 5, 1), Bleu(30, 40, 25, 3)])
    Bleu(bleu=25.0, bleu_1=35.0, bleu_4=20.0, sentences=4)
    """
    whole = sum(score.sentences for score in scores)

    def mean(name: str) -> float:
        return float(sum(getattr(score, name) * score.sentences for score in scores) / whole)

    return Bleu(mean("bleu"), mean("bleu_1"), mean("bleu_4"), whole)


def paired_bootstrap(
    one: Counts,
    other: Counts,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> Difference:
    """Return the difference of two systems on the same sentences, with its interval.

    Sentences are drawn with replacement, the same for both systems, and the quantiles of the
    differences of corpus BLEU are the interval [koehn2004statistical]_.

    Parameters
    ----------
    one, other : ndarray, shape (n, 10) or (s, n, 10)
        Counts of the systems, of the same sentences in the same order. Of systems that were trained
        from s seeds, the mean difference of BLEU from the same seed is resampled.
    level : float
        Coverage of the interval, between 0 and 1.

    Raises
    ------
    ValueError
        If they are of different sentences, or an option breaks its rule.
    """
    if one.shape != other.shape or not np.array_equal(one[..., 1], other[..., 1]):
        raise ValueError("one and other must be of the same sentences, got others")
    one, other = (counts.reshape(-1, *counts.shape[-2:]) for counts in (one, other))
    if not 0 < check_number("level", level) < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    found = np.empty(check_integer("resamples", resamples))
    even = np.full(one.shape[1], 1 / one.shape[1])
    for i in range(resamples):
        drawn = rng.multinomial(one.shape[1], even)  # how often each sentence is drawn
        found[i] = _mean_gap(drawn @ one, drawn @ other)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2]).tolist()
    whole = _mean_gap(one.sum(axis=1), other.sum(axis=1))
    return Difference(whole, low, high, float((found <= 0).mean()))


def _mean_gap(ones: Counts, others: Counts) -> float:
    """Return the mean difference of BLEU of sums of counts, ``(s, 10)``."""
    return float(np.mean([_score(a)[0] - _score(b)[0] for a, b in zip(ones, others, strict=True)]))


def _score(sums: NDArray[np.int64], smoothing: str = "exp") -> tuple[float, float, list[float]]:
    """Return BLEU, its brevity penalty and its precisions, as sacrebleu computes them."""
    from sacrebleu.metrics import BLEU

    translated, expected, *ngrams = sums.tolist()
    agree, total = ngrams[:ORDERS], ngrams[ORDERS:]
    score = BLEU.compute_bleu(agree, total, translated, expected, smooth_method=smoothing)
    return float(score.score), float(score.bp), list(score.precisions)
