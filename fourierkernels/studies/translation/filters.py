"""What is left out of a corpus of pairs, and the table of how much that was.

[chen_attention]_ section 4.1 drops pairs longer than 50 and pairs whose lengths differ by more than
20. Both are lengths of encoded sentences, the only lengths that the section has; the count of table
1, 1.73 of 1.9 million, shows that longer sentences were dropped, not shortened.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.translation.pairs import LONGEST_LINE, Pair

DUPLICATE = "an exact copy of another pair"
CROSSING = "nearly the same as a pair of a held-out split"


@dataclass(frozen=True)
class Filter:
    """One row of :data:`TEXT_FILTERS`.

    Attributes
    ----------
    name : str
        What it leaves out, for the table.
    drops : callable
        From a pair to whether it is left out.
    """

    name: str
    drops: Callable[[Pair], bool]


# The first filter that drops a pair counts it.
TEXT_FILTERS = (
    Filter("an empty side", lambda pair: not (pair.source and pair.target)),
    Filter(
        f"a side of more than {LONGEST_LINE:,} characters",
        lambda pair: max(len(pair.source), len(pair.target)) > LONGEST_LINE,
    ),
    Filter("two identical sides", lambda pair: pair.source == pair.target),
)


@dataclass(frozen=True)
class LengthRule:
    """Which lengths after BPE are kept.

    Attributes
    ----------
    longest : int
        Most tokens of either side, without the marks of start and end.
    difference : int
        Largest difference of the numbers of tokens.
    """

    longest: int = 50
    difference: int = 20

    def __post_init__(self) -> None:
        check_integer("longest", self.longest)
        check_integer("difference", self.difference, least=0)

    def reason(self, source: int, target: int) -> str | None:
        """Return why a pair of so many tokens is left out; None if it is not."""
        if max(source, target) > self.longest:
            return f"a side of more than {self.longest} tokens"
        if abs(source - target) > self.difference:
            return f"sides that differ by more than {self.difference} tokens"
        return None


def sieve(
    pairs: Iterable[Pair], dropped: Counter[str], filters: Sequence[Filter] = TEXT_FILTERS
) -> Iterator[Pair]:
    """Yield the pairs that no filter drops, and count the others."""
    for pair in pairs:
        reason = next((row.name for row in filters if row.drops(pair)), None)
        if reason is None:
            yield pair
        else:
            dropped[reason] += 1


def filter_table(dropped: Mapping[str, Mapping[str, int]], kept: Mapping[str, int]) -> str:
    """Return a table of what was left out of each split and of what was kept, a line per filter.

    Examples
    --------
    >>> print(filter_table({"train": {"an empty side": 2}}, {"train": 10, "test": 1}))
        train     test
            2        0  an empty side
           10        1  kept
    """
    splits = list(dict.fromkeys([*dropped, *kept]))
    reasons = list(dict.fromkeys(reason for counts in dropped.values() for reason in counts))
    lines = ["".join(f"{split:>9}" for split in splits)]
    for reason in reasons:
        numbers = (dropped.get(split, {}).get(reason, 0) for split in splits)
        lines.append("".join(f"{number:>9}" for number in numbers) + f"  {reason}")
    lines.append("".join(f"{kept.get(split, 0):>9}" for split in splits) + "  kept")
    return "\n".join(lines)
