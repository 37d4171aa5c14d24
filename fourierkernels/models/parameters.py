"""Parameters of a model: their initial values and their number.

Each model starts as the code that was published with it, named in its module; what that code
leaves to its framework starts as there (PyTorch's own values, or :func:`lecun_normal_` for Flax).
"""

import re

from torch import nn


def initialise(model: nn.Module, *, std: float = 0.02, norm_std: float = 0.0) -> None:
    """Draw dense layers and embeddings from N(0, std²), biases zero, as BERT and GPT-2 do.

    LayerNorms start at 1, or at N(1, norm_std²) as in the code of transformer-xl.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm) and norm_std:
            nn.init.normal_(module.weight, mean=1.0, std=norm_std)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx].data)


def initialise_uniformly(model: nn.Module, *, embedding_std: float) -> None:
    """Draw dense layers uniformly by fan (Xavier), biases zero, embeddings from N(0, std²)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=embedding_std)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx].data)


def draw_again(model: nn.Module, names: str, *, std: float) -> None:
    """Draw from N(0, std²) the parameters whose whole name matches a regular expression.

    Raises
    ------
    ValueError
        If there is none.
    """
    matching = [p for name, p in model.named_parameters() if re.fullmatch(names, name)]
    if not matching:
        raise ValueError(f"names must match a parameter of {type(model).__name__}, got {names!r}")
    for parameter in matching:
        nn.init.normal_(parameter, std=std)


def count_parameters(model: nn.Module) -> int:
    """Return the number of trained parameters; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
