"""What was recorded of a model's attention, and where attention was seen but not understood."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from fourierkernels.checkpoints.recorders.call import AttentionCall

_SHOWN = 3  # modules named in an error


class Quiet:
    """Whether another recorder is at work, so that the functions it sees are not read twice."""

    def __init__(self) -> None:
        self.depth = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep quiet as long as this lasts."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


class Heard(list[AttentionCall]):
    """Calls of attention in order.

    Attributes
    ----------
    unread : dict
        Name of a module with a softmax that looks like attention, to the reason why what it
        computes was not understood.
    quiet : Quiet
        Kept by a recorder around what it reads itself.
    slab : int
        How many queries are computed at once where a recorder need not hold whole maps; 0 if all
        maps are held.
    """

    def __init__(
        self,
        calls: Iterable[AttentionCall] = (),
        unread: dict[str, str] | None = None,
        *,
        slab: int = 0,
    ) -> None:
        super().__init__(calls)
        self.unread = {} if unread is None else unread
        self.slab = slab
        self.quiet = Quiet()

    def nothing(self, model: nn.Module) -> str:
        """Return why there is nothing to measure: the end of an error's sentence."""
        others = f" of this part beside {len(self)} calls of others" if self else ""
        found = f"got none{others} in {type(model).__name__}"
        if not self.unread:
            return found
        return f"{found}: {unread_sentence(self.unread)}"


def unread_sentence(unread: dict[str, str]) -> str:
    """Return one sentence on the modules whose attention was not understood, reason by reason.

    Examples
    --------
    >>> unread_sentence({"a.0": "its weights are changed", "a.1": "its weights are changed"})
    'softmax seen in a.0 and a.1, not understood because its weights are changed'
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in unread.items():
        by_reason.setdefault(reason, []).append(name or "the model itself")
    return "; ".join(
        f"softmax seen in {_listed(names)}, not understood because {reason}"
        for reason, names in by_reason.items()
    )


def _listed(names: list[str]) -> str:
    shown, more = names[:_SHOWN], len(names) - _SHOWN
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
