"""The options of token mixers, read from the signatures of their classes."""

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

_GIVEN = ("heads", "length", "causal")  # arguments of every mixer, given by the model


def own_options(layer: type, *fixed: str) -> dict[str, Any]:
    """Return the options of a mixer's class, with their defaults.

    Parameters
    ----------
    layer : type
        A class whose ``__init__`` may hand further options on to the next class.
    *fixed : str
        Options that a row of the table has set.

    Examples
    --------
    >>> from fourierkernels.mixing.fourier import DFTMixer
    >>> own_options(DFTMixer, "norm")
    {'method': 'fft', 'real_part': 'last', 'zero_padding': False}
    """
    found: dict[str, Any] = {}
    for kind in layer.__mro__:
        if "__init__" not in vars(kind):
            continue
        parameters = signature(vars(kind)["__init__"]).parameters.values()
        known = {p.name: p.default for p in parameters if p.kind is Parameter.KEYWORD_ONLY}
        found = {**known, **found}
        if not any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
            break
    return {name: value for name, value in found.items() if name not in (*_GIVEN, *fixed)}


def check_own_options(mixer: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse options that a mixer does not have, and flags that are neither true nor false.

    Raises
    ------
    TypeError
        The mixer, the option and those that it has are named.
    """
    for name, value in given.items():
        if name not in known:
            own = f"one of {', '.join(sorted(known))}" if known else "absent: it has none"
            raise TypeError(f"option of mixer {mixer} must be {own}, got {name!r}")
        if isinstance(known[name], bool) and not isinstance(value, bool):
            raise TypeError(f"{name} of mixer {mixer} must be true or false, got {value!r}")
