"""The tensors of torch.nn.MultiheadAttention under the names of the layers here."""

from torch import Tensor, nn


def weights_of(module: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Return the tensors of torch's layer under the names of ours."""
    names = ("query", "key", "value")
    if module._qkv_same_embed_dim:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    state = {f"{n}_projection.weight": w for n, w in zip(names, weights, strict=True)}
    state["output_projection.weight"] = module.out_proj.weight
    if module.in_proj_bias is not None:
        thirds = module.in_proj_bias.chunk(3)
        state |= {f"{n}_projection.bias": b for n, b in zip(names, thirds, strict=True)}
        state["output_projection.bias"] = module.out_proj.bias
    if module.bias_k is not None and module.bias_v is not None:
        state |= {"bias_key": module.bias_k.flatten(), "bias_value": module.bias_v.flatten()}
    return state
