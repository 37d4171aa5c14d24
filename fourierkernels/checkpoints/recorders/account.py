"""The account of a pass: every product of weights with values must be one of the recorded calls.

Operations are watched at torch's dispatcher, below all functions and modules, where scripted,
vectorised and fused attention meet. Attention is a product of two computed tensors (or weights over
positions) that meets values in another product; its result has to be the outputs of a call. What is
not, is named.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.departures import NESTED, departure, is_nested_attention
from fourierkernels.checkpoints.recorders.facts import READ, Fact
from fourierkernels.checkpoints.recorders.flow import place_of, tensors_in
from fourierkernels.checkpoints.recorders.following import Following
from fourierkernels.checkpoints.recorders.operations import PARTS, VIEWS, Step, told_of
from fourierkernels.checkpoints.recorders.replay import settle
from fourierkernels.checkpoints.recorders.weighing import Found


class Account(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the tensors of a pass from products of computed tensors to where they meet values.

    Parameters
    ----------
    recorded : RecordedCalls
        Nothing is followed while its `unseen` lasts: a recorder computes.
    where : callable
        Returns the name of the module that is being run; None outside of the model.
    found : callable
        Is given what the recorders above do not see: the name of an operation, its arguments and
        what came out.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch to call this class as it is: no compiler runs while it does."""
        return False

    def __init__(
        self,
        recorded: RecordedCalls,
        where: Callable[[], str | None],
        found: Found,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorded, self.where = recorded, where
        self.flow = recorded.flow
        self.following = Following(recorded.flow, found)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), given: Any = None
    ) -> Any:
        given = given or {}
        where = self.where()
        if self.recorded.unseen.depth or where is None:
            return function(*args, **given)
        if isinstance(function, HigherOrderOperator):
            return self._higher(function, args, given, where)
        name, written, fused = told_of(function)
        if args and isinstance(args[0], Tensor) and args[0].is_nested:
            return self._nested(name, function, args, given, where)
        if name in VIEWS:
            return function(*args, **given)
        if name in PARTS and (parts := self._in_parts(function, args, given)) is not NotImplemented:
            return parts
        self._save(args[k] if k < len(args) else given.get(parameter) for k, parameter in written)
        result = function(*args, **given)
        self._depart(where, function, args, given, result)
        if fused:
            names = (argument.name for argument in function._schema.arguments)
            given = {**dict(zip(names, args, strict=False)), **given}
        # A tensor to write to is no operand, unless in place.
        made = {parameter for _, parameter in written}
        self.take(name, args, {k: x for k, x in given.items() if k not in made}, result, where)
        return result

    def _depart(self, where: str, function: Any, args: Any, given: Any, result: Any) -> None:
        """Name an operation that cannot be followed, unless it is a recorder's."""
        reason = departure(function, args, given, result, self.flow)
        if reason is not None and not self.recorded.suspension.depth:
            self.recorded.unread.setdefault(where, reason)

    def _nested(self, name: str, function: Any, args: Any, given: Any, where: str) -> Any:
        """Name what may be attention in nested tensors; what comes out of them was computed."""
        result = function(*args, **given)
        if is_nested_attention(name, args):
            self.recorded.unread.setdefault(where, NESTED)
        for tensor in tensors_in([result]):
            if not tensor.is_nested:
                self.flow.set(tensor, Fact(READ, ("nested", place_of(tensor))))
        return result

    def _in_parts(self, function: Any, args: Any, given: Any) -> Any:
        with self:
            return function.decompose(*args, **given)

    def _higher(self, function: Any, args: Any, given: Any, where: str) -> Any:
        result = function(*args, **given)
        if str(function) == "flex_attention":
            self.following.meet(where, result[0], *args[:3])
        return result

    def _save(self, written: Iterable[Any]) -> None:
        """Keep the numbers of recorded tensors whose memory is about to be overwritten."""
        for tensor in tensors_in(written):
            self.recorded.keep(place_of(tensor))

    def take(self, name: str, args: Any, given: Any, result: Any, where: str) -> None:
        """Take in an operation by name, with its arguments and what came out."""
        results = [
            tensor for tensor in tensors_in([result]) if not (tensor.is_meta or tensor.is_nested)
        ]
        if not results:
            return
        self.following.take(Step(name, args, given, results, where))

    def finish(self, *, replayed: bool) -> None:
        """Name what met values and is no recorded call, and weights that met none."""
        settle(self.recorded, self.flow.meetings, self.following.origins, replayed=replayed)
        self.following.handlers.clear()  # which refer to it, and it to the tensors of the pass
