"""The attention modules of a model of transformers, and for which models a kernel can attend.

A module can be served if it calls transformers' attention interface, and if its scores are a
function of query and key alone. Some models add to their scores what is not, cap them, or choose
the keys by another network: the formula would then be another, and such a model is refused. What a
module hands to the interface stands in its code, so it is refused before it is changed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType

from torch import nn
from transformers import PreTrainedModel

INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # what modules look up that follow the interface
_HEADS = ("num_heads", "num_attention_heads", "n_heads")
_HEAD_DIM = ("head_dim", "attention_head_size", "head_size")


def attention_modules(model: PreTrainedModel) -> list[nn.Module]:
    """Return the modules that call the interface; refuse a model where attention bypasses it."""
    followers = [module for module in model.modules() if _follows_interface(module)]
    for module in model.modules():
        name = type(module).__name__
        inner = any(_follows_interface(child) for child in module.modules())
        if not inner and (name.endswith("Attention") or isinstance(module, nn.MultiheadAttention)):
            raise ValueError(
                "model must call attention through transformers' AttentionInterface, "
                f"got {type(model).__name__} whose {name} does not"
            )
    if not followers:
        raise ValueError(
            "model must call attention through transformers' AttentionInterface, "
            f"got {type(model).__name__}, which has no such module"
        )
    return followers


def _follows_interface(module: nn.Module) -> bool:
    """Whether a method of its class looks the interface up, as transformers itself decides."""
    if isinstance(module, PreTrainedModel):  # it checks names of implementations
        return False
    return any(INTERFACE in function.__code__.co_names for function in methods_of(type(module)))


def methods_of(cls: type) -> Iterator[FunctionType]:
    """Yield the methods of a class and its ancestors, and what their decorators wrap."""
    for ancestor in cls.__mro__:
        for member in vars(ancestor).values():
            while isinstance(member, FunctionType):
                yield member
                member = getattr(member, "__wrapped__", None)


def head_sizes(module: nn.Module) -> tuple[int, int]:
    """Return heads H and head features D of an attention module."""
    return _size(module, _HEADS), _size(module, _HEAD_DIM)


def _size(module: nn.Module, names: tuple[str, ...]) -> int:
    """Return heads or head features of an attention module, from itself or its configuration."""
    for owner in (module, module.config):
        for name in names:
            if isinstance(getattr(owner, name, None), int):
                return int(getattr(owner, name))
    raise ValueError(
        f"model must give the {names[0]} of its attention, on the module or in its configuration, "
        f"got {type(module).__name__} without it"
    )


@dataclass(frozen=True)
class ScoreTerm:
    """A keyword of the interface that changes scores beyond what a kernel can express.

    Attributes
    ----------
    effect : str
        What a module with it does, as a predicate.
    in_use : callable
        From a module whose code names the keyword to whether it is in use.
    """

    effect: str
    in_use: Callable[[nn.Module], bool] = lambda module: True


def _has(name: str) -> Callable[[nn.Module], bool]:
    return lambda module: getattr(module, name, None) is not None


# By the keyword of transformers' interface. Conformers have a bias for relative positions only.
SCORE_TERMS = {
    "position_bias": ScoreTerm(
        "adds a position bias to its scores",
        lambda module: getattr(module, "position_embeddings_type", "relative") is not None,
    ),
    "softcap": ScoreTerm("caps its scores", _has("attn_logit_softcapping")),
    "s_aux": ScoreTerm("has a sink beside its keys", _has("sinks")),
    "sinks": ScoreTerm("has a sink beside its keys"),
    "indices": ScoreTerm("chooses its keys by an index"),
    "block_indices": ScoreTerm("chooses its keys by an index"),
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
        for keyword in sorted(_keywords(type(module)) & SCORE_TERMS.keys()):
            term = SCORE_TERMS[keyword]
            if term.in_use(module):
                raise ValueError(
                    "model must weigh keys by query and key alone, as a kernel does, got "
                    f"{type(model).__name__} whose {type(module).__name__} {term.effect} "
                    f"({keyword})"
                )


def _keywords(cls: type) -> set[str]:
    """Return the strings in the code of the methods that look the interface up."""
    strings: set[str] = set()
    for function in methods_of(cls):
        if INTERFACE in function.__code__.co_names:
            strings |= _strings(function)
    return strings


def _strings(function: FunctionType) -> set[str]:
    constants = function.__code__.co_consts
    tuples = (part for part in constants if isinstance(part, tuple))
    every = [*constants, *(name for part in tuples for name in part)]
    return {name for name in every if isinstance(name, str)}
