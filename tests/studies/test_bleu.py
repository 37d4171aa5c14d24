"""Scores are sacrebleu's, of a corpus, of its parts and of two systems."""

import numpy as np
import pytest

from fourierkernels.studies.translation.bleu import (
    Bleu,
    bleu_by_class,
    bleu_of,
    brevity_penalty,
    mean_over_classes,
    paired_bootstrap,
    sentence_counts,
    signature,
)

pytest.importorskip("sacrebleu")
REFERENCES = [
    "The cat sat on the mat.",
    "It is raining cats and dogs today, as it was yesterday!",
    "Yes.",
    "A file of this name is there already.",
]
TRANSLATIONS = [
    "The cat sat on a mat.",
    "It is raining today, as it was yesterday!",
    "No.",
    "A file of this name is already there.",
]


def test_corpus_score_is_that_of_sacrebleu() -> None:
    from sacrebleu.metrics import BLEU

    for chosen in ([0, 1, 2, 3], [2], [0, 2], [1, 3]):
        ours = bleu_of(sentence_counts(TRANSLATIONS, REFERENCES)[chosen])
        texts = [[side[i] for i in chosen] for side in (TRANSLATIONS, REFERENCES)]
        theirs = BLEU().corpus_score(texts[0], [texts[1]])
        assert ours.bleu == pytest.approx(theirs.score, abs=1e-12)
        assert ours.bleu_1 == pytest.approx(theirs.bp * theirs.precisions[0], abs=1e-12)
        assert ours.bleu_4 == pytest.approx(theirs.bp * theirs.precisions[3], abs=1e-12)
    assert "tok:13a" in signature()


def test_score_of_words_is_that_counted_by_hand() -> None:
    """Of "a b c x" and "a b c d e f": three of four words agree, four words for six."""
    counts = sentence_counts(["a b c x"], ["a b c d e f"])
    assert bleu_of(counts).bleu_1 == pytest.approx(100 * np.exp(1 - 6 / 4) * 3 / 4)
    assert brevity_penalty(counts) == pytest.approx(np.exp(1 - 6 / 4))
    assert brevity_penalty(sentence_counts(["a b c d e f"], ["a b c x"])) == 1


def test_bleu_lies_between_those_of_words_and_of_fours() -> None:
    found = bleu_of(sentence_counts(TRANSLATIONS, REFERENCES))
    assert found.bleu_4 < found.bleu < found.bleu_1


def test_mean_over_classes_is_that_of_the_report() -> None:
    """Table 2 of the report: its averages are means weighted by the numbers of sentences."""
    sizes = [4027, 14064, 21822, 26486, 27068, 24326, 19928, 15243, 11174, 7886]
    bleu = [2.3589, 7.5047, 17.0454, 23.9982, 28.5155, 32.2692, 35.2254, 37.2576, 38.366, 38.6439]
    rows = [Bleu(value, 0.0, 0.0, size) for value, size in zip(bleu, sizes, strict=True)]
    found = mean_over_classes(rows)
    assert round(found.bleu, 4) == 27.2218
    assert found.sentences == 172_024


def test_classes_are_scored_apart() -> None:
    counts = sentence_counts(TRANSLATIONS, REFERENCES)
    found = bleu_by_class(counts, np.array([1, 2, 0, 1]))
    assert list(found) == [0, 1, 2]
    assert found[1] == bleu_of(counts[[0, 3]])
    assert found[2] == bleu_of(counts[[1]])
    by_hand = (found[0].bleu + 2 * found[1].bleu + found[2].bleu) / 4
    assert mean_over_classes(list(found.values())).bleu == pytest.approx(by_hand)


def test_bootstrap_knows_a_better_system_from_an_equal_one() -> None:
    references = [f"{text} {i} {i * i} {i % 7}" for i in range(10) for text in REFERENCES]
    worse = [f"{text} {i} {i * i} {i % 5}" for i in range(10) for text in TRANSLATIONS]
    good, bad = (sentence_counts(texts, references) for texts in (references, worse))
    found = paired_bootstrap(good, bad, resamples=50, rng=np.random.default_rng(0))
    assert 0 < found.low < found.bleu < found.high
    assert found.share == 0
    assert found.bleu == pytest.approx(bleu_of(good).bleu - bleu_of(bad).bleu)
    same = paired_bootstrap(bad, bad, resamples=5, rng=np.random.default_rng(0))
    assert (same.bleu, same.low, same.high, same.share) == (0, 0, 0, 1)


def test_bootstrap_of_several_seeds_averages_their_differences() -> None:
    """Against a loop over the same draws that scores each seed by itself."""
    references = [f"{text} {i} {i * i} {i % 7}" for i in range(5) for text in REFERENCES]
    systems = [[f"{text} {i} {i % k}" for i in range(5) for text in TRANSLATIONS] for k in (3, 4)]
    ones = np.stack(
        [sentence_counts(references, references), sentence_counts(systems[0], references)]
    )
    others = np.stack([sentence_counts(texts, references) for texts in systems])
    found = paired_bootstrap(ones, others, resamples=30, level=0.8, rng=np.random.default_rng(3))
    rng, n, gaps = np.random.default_rng(3), len(references), []
    for _ in range(30):
        drawn = np.repeat(np.arange(n), rng.multinomial(n, np.full(n, 1 / n)))
        pairs = zip(ones, others, strict=True)
        gaps.append(np.mean([bleu_of(a[drawn]).bleu - bleu_of(b[drawn]).bleu for a, b in pairs]))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(gaps, [0.1, 0.9])))
    whole = [bleu_of(counts).bleu for counts in (*ones, *others)]
    assert found.bleu == pytest.approx((whole[0] + whole[1] - whole[2] - whole[3]) / 2)


def test_bad_comparisons_are_refused() -> None:
    counts, rng = sentence_counts(TRANSLATIONS, REFERENCES), np.random.default_rng(0)
    with pytest.raises(ValueError, match="must be of the same sentences"):
        paired_bootstrap(counts, counts[:2], rng=rng)
    with pytest.raises(ValueError, match="level must be between 0 and 1, got 2"):
        paired_bootstrap(counts, counts, level=2, rng=rng)
    with pytest.raises(ValueError, match="as many as references, 4, got 1"):
        sentence_counts(["a"], REFERENCES)
    with pytest.raises(ValueError, match="at least one sentence"):
        bleu_of(counts[:0])
