"""Which models of transformers a kernel can attend for: what else goes into their scores.

A kernel weighs a key by its distance from the query. Some models add to their scores what is no
function of the two, cap them, or choose the keys by another network: the formula would then be
another, and their first pass is refused. What a module hands to transformers' attention interface
stands in its code, so that a model can be refused before it is changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType

from torch import nn

from fourierkernels.attention.followers import INTERFACE, methods_of


@dataclass(frozen=True)
class Term:
    """What a module may hand to the interface that a kernel has no place for.

    Attributes
    ----------
    said : str
        What it does, after the name of the module.
    given : callable
        From a module whose code names it, whether it is in use.
    """

    said: str
    given: Callable[[nn.Module], bool] = lambda module: True


def _has(name: str) -> Callable[[nn.Module], bool]:
    return lambda module: getattr(module, name, None) is not None


# By the keyword of transformers' interface. Conformers have a bias for relative positions only.
TERMS = {
    "position_bias": Term(
        "adds a position bias to its scores",
        lambda module: getattr(module, "position_embeddings_type", "relative") is not None,
    ),
    "softcap": Term("caps its scores", _has("attn_logit_softcapping")),
    "s_aux": Term("has a sink beside its keys", _has("sinks")),
    "sinks": Term("has a sink beside its keys"),
    "indices": Term("chooses its keys by an index"),
    "block_indices": Term("chooses its keys by an index"),
}


def check_served(model: nn.Module, modules: Iterable[nn.Module]) -> None:
    """Refuse a model whose attention is more than a weight for each pair of query and key.

    Parameters
    ----------
    modules : iterable of nn.Module
        Its attention modules.

    Raises
    ------
    ValueError
        Naming the model, the first such module and what it does.
    """
    for module in modules:
        for keyword in sorted(_keywords(type(module)) & TERMS.keys()):
            if TERMS[keyword].given(module):
                raise ValueError(
                    "model must weigh keys by query and key alone, as a kernel does, got "
                    f"{type(model).__name__} whose {type(module).__name__} {TERMS[keyword].said} "
                    f"({keyword})"
                )


def _keywords(cls: type) -> set[str]:
    """Return the strings in the code of the methods that look the interface up."""
    found: set[str] = set()
    for function in methods_of(cls):
        if INTERFACE in function.__code__.co_names:
            found |= _strings(function)
    return found


def _strings(function: FunctionType) -> set[str]:
    constants = function.__code__.co_consts
    tuples = (part for part in constants if isinstance(part, tuple))
    every = [*constants, *(name for part in tuples for name in part)]
    return {name for name in every if isinstance(name, str)}
