"""The attention modules of a model of transformers: those that call its attention interface."""

from collections.abc import Iterator
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
