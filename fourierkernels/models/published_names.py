"""Names and shapes of the tensors of the FourierFormer authors' language models, and ours.

[nguyen2022fourierformer]_; github.com/minhtannguyen/FourierFormer_NeurIPS, folder
wikitext103/lmtool-fwms, whose softmax model has the names of github.com/IDSIA/lmtool-fwp too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fourierkernels.models.language_sizes import LanguageConfig

WORDS, TIED = "word_emb.emb_layers.0.weight", "crit.out_layers.0.weight"
CLUSTERS, RATES = "crit.cluster_weight", "pos_emb.inv_freq"


def _as_it_is(tensor: Tensor) -> Sequence[Tensor]:
    return (tensor,)


def _last_first(tensor: Tensor) -> Sequence[Tensor]:
    """Return clusters in the order of their bands; the published code counts them from the end."""
    return (tensor.flip(0),)


def log_radius(tensor: Tensor) -> Sequence[Tensor]:
    """Return log R, one number or one per feature; the sign of R does not matter.

    Raises
    ------
    ValueError
        If an R is 0 or not finite.
    """
    wrong = tensor[(tensor == 0) | ~tensor.isfinite()]
    if len(wrong):
        raise ValueError(f"paramR must be finite and not 0, got {wrong[0].item()}")
    return (tensor.abs().log(),)


@dataclass(frozen=True)
class Part:
    """A tensor of the published model.

    Attributes
    ----------
    shape : tuple of int
        Its shape.
    ours : tuple of str
        Names of what becomes of it; none if nothing does.
    change : callable
        From the tensor to one tensor per name.
    needed : bool
        Whether a file must have it.
    """

    shape: tuple[int, ...]
    ours: tuple[str, ...] = ()
    change: Callable[[Tensor], Sequence[Tensor]] = _as_it_is
    needed: bool = True


def published_parts(config: LanguageConfig) -> dict[str, Part]:
    """Return every tensor that the published model of a configuration has, by its name there."""
    ends = (*config.cutoffs, config.vocabulary)
    sizes = [high - low for low, high in zip((0, *ends), ends, strict=False)]
    bands, tables = range(len(sizes)), (config.vocabulary, config.dim)

    def split(tensor: Tensor) -> Sequence[Tensor]:
        return torch.split(tensor, sizes)

    parts = {
        WORDS: Part(tables, tuple(f"embedding.bands.{i}.weight" for i in bands), split),
        TIED: Part(tables, needed=False),
        "crit.out_layers.0.bias": Part(
            tables[:1], tuple(f"softmax.bias.{i}" for i in bands), split
        ),
        RATES: Part(((config.dim + 1) // 2,), needed=False),
    }
    if config.cutoffs:
        count = len(config.cutoffs)
        parts[CLUSTERS] = Part((count, config.dim), ("softmax.clusters.weight",), _last_first)
        parts["crit.cluster_bias"] = Part((count,), ("softmax.clusters.bias",), _last_first)
    for layer in range(config.layers):
        parts |= _layer_parts(config, f"layers.{layer}.", f"blocks.{layer}.")
    return parts


def _layer_parts(config: LanguageConfig, theirs: str, ours: str) -> dict[str, Part]:
    square, wide = (config.dim, config.dim), (config.hidden, config.dim)
    parts = {
        f"dec_attn.{letter}_net.weight": Part(square, (f"mixer.{name}_projection.weight",))
        for letter, name in zip("qkvo", ("query", "key", "value", "output"), strict=True)
    }
    if config.mixer == "fourier":
        shape = config.mixer_options["radius_shape"]
        count = 1 if shape == "scalar" else config.dim // config.heads
        parts["dec_attn.paramR"] = Part((count,), ("mixer.log_radius",), log_radius)
    else:
        del parts["dec_attn.k_net.weight"], parts["dec_attn.v_net.weight"]
        both = ("mixer.key_projection.weight", "mixer.value_projection.weight")
        parts["dec_attn.kv_net.weight"] = Part(
            (2 * config.dim, config.dim), both, lambda tensor: tensor.chunk(2)
        )
    for dense, name, shape in (
        ("0", "widen", wide),
        ("3", "narrow", wide[::-1]),
    ):
        parts[f"pos_ff.CoreNet.{dense}.weight"] = Part(shape, (f"feed_forward.{name}.weight",))
        parts[f"pos_ff.CoreNet.{dense}.bias"] = Part(shape[:1], (f"feed_forward.{name}.bias",))
    for norm, name in (("dec_attn", "around_mixer"), ("pos_ff", "around_feed_forward")):
        for kind in ("weight", "bias"):
            parts[f"{norm}.layer_norm.{kind}"] = Part((config.dim,), (f"{name}.norm.{kind}",))
    return {
        theirs + name: Part(part.shape, tuple(ours + one for one in part.ours), part.change)
        for name, part in parts.items()
    }


def check_parts(parts: Mapping[str, Part], tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not exactly those of a published model.

    Raises
    ------
    ValueError
        With the names of all that are missing, unexpected or misshapen.
    """
    needed = {name for name, part in parts.items() if part.needed}
    shapes = {name: tuple(tensors[name].shape) for name in parts.keys() & tensors.keys()}
    problems = {
        "missing": needed - tensors.keys(),
        "unexpected": tensors.keys() - parts.keys(),
        "misshapen": {
            f"{name} of shape {shape} for {parts[name].shape}"
            for name, shape in shapes.items()
            if shape != parts[name].shape
        },
    }
    if any(problems.values()):
        text = "; ".join(f"{kind}: {', '.join(sorted(n))}" for kind, n in problems.items() if n)
        raise ValueError(f"checkpoint must hold the tensors of the published model, got {text}")
