"""Recorder of this package's attention: layers and mixers, which share one multi-head core."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fourierkernels.attention.multihead import MultiheadCore
from fourierkernels.checkpoints.recorders.call import Recorder, attention_call
from fourierkernels.checkpoints.recorders.heard import Heard


def _record(module: Any, name: str, calls: Heard) -> Callable[[], None]:
    """Record outputs as they are; weights that were not asked for are computed for the record."""
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        with calls.quiet.kept():
            output, weights = original(query, key, value, **options)
            maps = weights
            if maps is None:
                asked = {**options, "dropout_p": 0.0, "return_weights": True}
                maps = original(query, key, key, **asked)[1]
        calls.append(attention_call(name, maps, (query, key, value), output, None))
        return output, weights

    vars(module)["attend"] = attend
    return lambda: vars(module).pop("attend")


CORE = Recorder("fourierkernels", lambda module: isinstance(module, MultiheadCore), _record)
