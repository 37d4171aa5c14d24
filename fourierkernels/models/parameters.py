"""Parameters of a model: their initial values and their number."""

from torch import nn


def initialise(model: nn.Module, *, std: float = 0.02) -> None:
    """Draw dense layers and embeddings from N(0, std²), biases zero, as BERT and GPT-2 do."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.zeros_(module.bias)
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


def count_parameters(model: nn.Module) -> int:
    """Return the number of trained parameters; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
