"""A sum that torch.einsum is asked for, read as a product of matrices."""

from collections.abc import Sequence
from string import ascii_letters

from torch import Tensor

Order = tuple[int, ...]  # of dimensions, for Tensor.permute


def as_product(
    equation: str, dimensions: Sequence[int], first: int | None = None
) -> tuple[int, list[Order]] | None:
    """Return how a sum of two operands becomes ``left @ right = result``.

    Parameters
    ----------
    equation : str
        As "bhid,bhjd->bhij"; the result must be named.
    dimensions : sequence of int
        How many the two operands and the result have.
    first : int, optional
        Which operand, 0 or 1, is to be `left`; by default the one whose own dimension comes first
        in the result. Dimensions that all three have keep its order, or that of the result.

    Returns
    -------
    tuple of int and list of tuple, or None
        Which operand is `left`, and how left, right and result are to be permuted: to
        ``(..., n, k)``, ``(..., k, m)`` and ``(..., n, m)``. None if the sum is no such product.

    Examples
    --------
    >>> as_product("bihd,bjhd->bhij", (4, 4, 4))
    (0, [(0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 2, 3)])
    >>> as_product("...jd,...id->...ij", (3, 3, 3))
    (1, [(0, 1, 2), (0, 2, 1), (0, 1, 2)])
    """
    terms = _terms(equation, dimensions)
    if terms is None:
        return None
    for left in (0, 1) if first is None else (first,):
        like = terms[2] if first is None else terms[first]
        orders = _orders(terms[left], terms[1 - left], terms[2], like)
        if orders is not None and (first is not None or orders[2][-2] < orders[2][-1]):
            return left, orders
    return None


def with_own_heads(
    equation: str, operands: Sequence[Tensor], first: int | None = None
) -> tuple[str, Sequence[Tensor]]:
    """Repeat the operand that several heads share, if there is one, so that each has its own.

    Parameters
    ----------
    first : int, optional
        Which operand is known to be the weights.

    Examples
    --------
    >>> import torch
    >>> q, k = torch.zeros(2, 3, 5, 4), torch.zeros(2, 6, 4)
    >>> equation, (_, keys) = with_own_heads("bhid,bjd->bhij", (q, k))
    >>> equation, tuple(keys.shape)
    ('bhid,hbjd->bhij', (3, 2, 6, 4))
    """
    result = equation.partition("->")[2].strip()
    terms = _terms(equation, [*(part.ndim for part in operands), _count(equation, operands)])
    if terms is None or not result:
        return equation, operands
    for own in (0, 1) if first is None else (first,):
        order = terms[2] if first is None else terms[own]
        extra = [x for x in order if x in terms[own] and x in terms[2] and x not in terms[1 - own]]
        if len(extra) == 2:  # heads, and queries beside the keys
            shared = operands[1 - own]
            size = operands[own].shape[terms[own].index(extra[0])]
            both = [operands[own], shared.expand(size, *shared.shape)]
            names = [terms[own], extra[0] + terms[1 - own]]
            places = (own, 1 - own)
            return f"{names[places[0]]},{names[places[1]]}->{terms[2]}", [both[k] for k in places]
    return equation, operands


def _count(equation: str, operands: Sequence[Tensor]) -> int:
    """Return how many dimensions the result of a sum has; dots stand for those of an operand."""
    given, _, result = equation.replace(" ", "").partition("->")
    if "..." not in result:
        return len(result)
    dotted = next(k for k, term in enumerate(given.split(",")) if "..." in term)
    term = given.split(",")[dotted]
    return len(result) - 3 + operands[dotted].ndim - (len(term) - 3)


def _terms(equation: str, dimensions: Sequence[int]) -> list[str] | None:
    """Return a letter for each dimension of two operands and the result; dots become letters."""
    terms = equation.replace(" ", "").replace("->", ",").split(",")
    if "->" not in equation or len(terms) != 3:
        return None
    spare = "".join(letter for letter in ascii_letters if letter not in equation)
    return [
        term.replace("...", spare[: count - len(term.replace("...", ""))])
        for term, count in zip(terms, dimensions, strict=True)
    ]


def _orders(left: str, right: str, result: str, like: str) -> list[Order] | None:
    a, b, c = map(set, (left, right, result))
    alone = [(a & c) - b, (a & b) - c, (b & c) - a]
    if any(len(letters) != 1 for letters in alone):
        return None
    n, k, m = (letters.pop() for letters in alone)
    batch = [letter for letter in like if letter in a & b & c]
    pairs = [(left, [*batch, n, k]), (right, [*batch, k, m]), (result, [*batch, n, m])]
    if any(sorted(term) != sorted(wanted) for term, wanted in pairs):
        return None  # a diagonal, or a sum over one operand alone
    return [tuple(term.index(letter) for letter in wanted) for term, wanted in pairs]


def contracts(equation: str, operands: Sequence[Tensor]) -> bool:
    """Tell whether a sum of two operands adds up over a dimension that both have."""
    return len(operands) == 2 and len(terms_of(equation)) == 3 and bool(summed(equation))


def summed(equation: str) -> set[str]:
    """Return the dimensions that both operands of a sum have and its result has not.

    >>> sorted(summed("...ij, ...jk -> ...ik"))
    ['j']
    """
    left, right, made = map(set, terms_of(equation))
    return (left & right) - made - {"."}


def terms_of(equation: str) -> list[str]:
    """Return the terms of a sum, that of its result last where it has one.

    >>> terms_of("ij, jk -> ik")
    ['ij', 'jk', 'ik']
    """
    return equation.replace(" ", "").replace("->", ",").split(",")
