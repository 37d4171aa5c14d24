"""How large the network of a config is, said before it is built.

Parameters are counted from the few hyperparameters that nearly all of them follow from. It is an
estimate, and a network is refused only where that exceeds the memory that may be used.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fourierkernels.checkpoints.memory import available_memory, in_bytes

_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "hidden_sizes")
_INNER = ("intermediate_size", "d_ff", "n_inner", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim")
_WORDS = ("vocab_size", "vocabulary", "vocabulary_size")
_GROUPS = "num_hidden_groups"  # layers of ALBERT that share their weights
_FLOAT32 = 4
_MODULES = 30_000  # bytes of the Python objects of a layer, however narrow it is


def check_size(config: Mapping[str, Any], name: str) -> None:
    """Refuse a config whose network would not fit into memory.

    Parameters
    ----------
    config : mapping
        Hyperparameters as a config.json has them; those of parts of the network may lie inside.
    name : str
        Of the file or folder, for the message.

    Raises
    ------
    ValueError
        With the hyperparameters, the bytes, and what may be used.
    """
    free = available_memory()
    for part in _parts(config):
        layers, width, inner, words = _sizes(part)
        shared = min(layers, _most(part, (_GROUPS,)) or layers)
        weights = shared * (4 * width**2 + 2 * width * inner) + words * width
        needed = _FLOAT32 * weights + _MODULES * layers
        if needed > free:
            raise ValueError(
                f"config of {name} must be that of a network that fits into memory, got "
                f"{layers} layers of {width} features and {words} words, about "
                f"{in_bytes(needed)}, of {in_bytes(free)} that may be used"
            )


def _parts(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a config and those of the parts of its network; deeper than that there are none."""
    yield config
    yield from (part for part in config.values() if isinstance(part, Mapping))


def _sizes(part: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return layers, their features, those of their feed-forward networks, and words."""
    layers = [name for name in part if "layer" in name or name == "depth"]
    width = _most(part, _WIDTHS)
    return _most(part, layers), width, _most(part, _INNER) or 4 * width, _most(part, _WORDS)


def _most(part: Mapping[str, Any], names: Any) -> int:
    """Return the largest whole number under some names; 0 if there is none."""
    found = [part.get(name) for name in names]
    values = [one for value in found for one in (value if isinstance(value, list) else [value])]
    return max((one for one in values if type(one) is int), default=0)
