"""The vocabulary of a training text: its words, most frequent first."""

from collections import Counter
from collections.abc import Iterable, Sequence

from fourierkernels.foundation.validation import check_integer
from fourierkernels.foundation.words import END, UNKNOWN, Vocabulary


def count_words(
    lines: Iterable[Sequence[str]], *, least_count: int = 1, most: int | None = None
) -> Vocabulary:
    """Return the vocabulary of a training text: ``<eos>``, then its words by falling frequency.

    Words of equal frequency keep the order in which they first come, as in the published code
    (``src/utils/vocabulary.py`` of https://github.com/IDSIA/lmtool-fwp). If words may be
    left out, by either limit, ``<unk>`` stands for them and comes second.

    Parameters
    ----------
    lines : iterable of sequences of str
        The words of each line, without ``<eos>``.
    least_count : int
        Rarer words are left out.
    most : int, optional
        Size of the vocabulary with ``<eos>`` and ``<unk>``.

    Raises
    ------
    ValueError
        If there are no words.

    Examples
    --------
    >>> count_words([["b", "a"], ["b"]]).words
    ('<eos>', 'b', 'a')
    >>> count_words([["b", "a"], ["b"]], least_count=2).words
    ('<eos>', '<unk>', 'b')
    """
    check_integer("least_count", least_count)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    if not counts:
        raise ValueError("training text must have words, got none")
    kept = [word for word, count in counts.most_common() if count >= least_count]
    kept = [word for word in kept if word != END]
    if least_count == 1 and most is None:
        return Vocabulary((END, *kept))
    room = None if most is None else check_integer("most", most, least=3) - 2
    kept = [word for word in kept if word != UNKNOWN][:room]
    return Vocabulary((END, UNKNOWN, *kept))
