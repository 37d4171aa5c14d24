"""Classes of length, and the number of pairs in a batch of each.

[chen_attention]_ section 4.1 puts pairs into ten classes by the length of the English sentence
after BPE, 0-5, 6-10, …, 46-50 (table 1), and pads all sentences of a class to one length. Section
4.4 has batches of B pairs with (L + 20) B = 15,000, since a source of L tokens may have a target of
L + 20: 600, 500, 428, 375, 333, 300, 272, 250, 230 and 214 of them.
"""

from dataclasses import dataclass

from fourierkernels.foundation.validation import check_integer

WIDTH = 5
BUDGET, OFFSET = 15_000, 20
ENDS = 2  # the marks of start and end around a sentence


def padded_length(n: int) -> int:
    """Return the length to which a source of n tokens is padded, its two marks included.

    A DFT sees padding. The length therefore depends on the sentence alone and not on its batch, in
    training and in translation, also of sentences longer than any in training.

    Parameters
    ----------
    n : int
        Tokens of the sentence without marks.

    Examples
    --------
    >>> [padded_length(n) for n in (0, 1, 5, 6, 50, 51)]
    [7, 7, 7, 12, 52, 57]
    """
    return upper_length(length_class(n)) + ENDS


def length_class(n: int) -> int:
    """Return the class of a source of n tokens without marks, from 0."""
    return max(check_integer("n", n, least=0) - 1, 0) // WIDTH


def upper_length(place: int) -> int:
    """Return the L of a class."""
    return (place + 1) * WIDTH


@dataclass(frozen=True)
class BatchRule:
    """The batch size B of a class, the largest with (L + offset) B <= budget.

    Examples
    --------
    >>> [BatchRule().size(place) for place in range(10)]
    [600, 500, 428, 375, 333, 300, 272, 250, 230, 214]
    """

    budget: int = BUDGET
    offset: int = OFFSET

    def __post_init__(self) -> None:
        check_integer("budget", self.budget)
        check_integer("offset", self.offset, least=0)

    def size(self, place: int) -> int:
        """Return B.

        Raises
        ------
        ValueError
            If the budget is less than one pair.
        """
        cost = self.cost(place)
        if self.budget < cost:
            raise ValueError(
                f"budget must be at least {cost} for sources of {cost - self.offset} tokens, "
                f"got {self.budget}"
            )
        return self.budget // cost

    def cost(self, place: int) -> int:
        """Return what a pair of a class counts, L + offset."""
        return upper_length(place) + self.offset
