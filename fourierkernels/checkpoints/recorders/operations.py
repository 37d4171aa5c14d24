"""The operations of torch that an account tells apart, by name."""

from functools import lru_cache
from typing import Any, NamedTuple

from torch import Tensor

# Operations by name: which of their arguments are the factors.
PRODUCTS = {
    "mm": 0, "bmm": 0, "matmul": 0, "linear": 0, "mv": 0, "dot": 0, "vdot": 0,
    "addmm": 1, "baddbmm": 1, "addbmm": 1, "addmv": 1,
    "_grouped_mm": 0, "_scaled_mm": 0, "_int_mm": 0,
}  # fmt: skip
PARTS = {"tensordot", "inner", "bilinear", "chain_matmul", "linalg_multi_dot", "linalg_vecdot"}
SOFTMAX = {
    "softmax", "_softmax", "_safe_softmax", "special_softmax", "log_softmax", "_log_softmax",
}  # fmt: skip
SUMS = {"sum", "mean", "nansum"}
RUNNING = {"cumsum", "cumsum_"}
REDUCED = {
    "any", "all", "amax", "amin", "max", "min", "var", "std", "logsumexp", "prod", "norm",
    "linalg_vector_norm", "nll_loss_forward", "nll_loss_nd", "cross_entropy_loss", "nll_loss",
}  # fmt: skip
LAYERS = {
    "convolution", "conv1d", "conv2d", "conv3d", "_convolution", "mkldnn_convolution",
    "native_layer_norm", "layer_norm", "native_group_norm", "group_norm", "rms_norm",
    "_fused_rms_norm", "native_batch_norm", "batch_norm", "cudnn_batch_norm",
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit",
}  # fmt: skip
FUSED = ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")
SAMPLED = {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"}
GATHERED = SAMPLED | {
    "gather", "index", "index_select", "take_along_dim", "take", "masked_select",
}  # fmt: skip
SCATTERED = {
    "index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_",
    "index_put", "index_put_", "_index_put_impl_", "segment_reduce", "index_reduce",
}  # fmt: skip
MOVED = {"roll", "flip", "pad", "constant_pad_nd"}
ORDERED = {"topk", "sort", "argsort"}  # several are chosen, as neighbours and keys to be read are
RANKED = {"topk", "sort", "argsort", "argmax", "argmin"}
REPEATED = {"repeat", "repeat_interleave", "clone"}
JOINED = {"cat", "concat", "concatenate", "stack", "hstack"}
DIVIDED = {"div", "div_", "true_divide", "divide"}
TIMES = {"mul", "mul_", "multiply", "multiply_"}
BLENDED = {"lerp", "lerp_"}
ADDED = {"add", "add_", "addcmul", "addcmul_"}
DIFFERENCES = {"sub", "subtract", "rsub"}
DISTANCES = {"cdist", "_cdist_forward", "_euclidean_dist"}
CAST = {"to", "_to_copy", "type_as", "bucketize", "searchsorted"}
BAGS = {"embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"}
COMPARED = DIFFERENCES | {  # any numbers
    "eq", "ne", "bitwise_xor", "__xor__", "logical_xor", "minimum", "maximum", "remainder",
    "bitwise_and", "__and__", "bitwise_or", "__or__",
}  # fmt: skip
FLOORED = {"floor", "trunc", "ceil", "round"}
REMAINDERS = {"remainder", "fmod"}
ACTIVE = {
    "tanh", "sigmoid", "relu", "gelu", "silu", "elu", "leaky_relu", "softplus", "hardtanh", "mish",
}  # fmt: skip
TOLD = {"any", "all"}
NORMS = {"norm", "linalg_vector_norm"}
VIEWS = {
    "view", "_unsafe_view", "transpose", "t", "permute", "expand", "slice", "select", "unsqueeze",
    "squeeze", "split", "split_with_sizes", "chunk", "unbind", "detach", "alias", "unflatten", "mT",
    "numpy_T", "as_strided", "narrow", "diagonal", "unfold", "movedim", "swapaxes", "lift_fresh",
}  # fmt: skip


class Step(NamedTuple):
    """An operation that was run: its name, its arguments, what came out, and in which module."""

    name: str
    args: Any
    given: dict[str, Any]
    results: list[Tensor]
    where: str

    @property
    def result(self) -> Tensor:
        """The first tensor that came out."""
        return self.results[0]


@lru_cache(maxsize=1024)
def told_of(function: Any) -> tuple[str, tuple[tuple[int, str], ...], bool]:
    """Return an operation's name, place and name of what it writes to, if it is attention in one.

    What it writes to may be given by name, as `out` is.
    """
    given = [
        (k, argument.name, argument.alias_info)
        for k, argument in enumerate(function._schema.arguments)
    ]
    written = tuple((k, name) for k, name, alias in given if alias and alias.is_write)
    name = function.overloadpacket.__name__
    return name, written, is_fused(name)


@lru_cache(maxsize=1024)
def is_fused(name: str) -> bool:
    """Tell whether an operation is attention in one."""
    return name.lstrip("_").startswith(FUSED)
