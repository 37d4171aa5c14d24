"""Language models of the code that the FourierFormer authors published, from its state dicts.

[nguyen2022fourierformer]_; github.com/minhtannguyen/FourierFormer_NeurIPS, folder
wikitext103/lmtool-fwms, whose softmax model has the names of github.com/IDSIA/lmtool-fwp too. What
the shapes do not say is that of a preset: the number of heads (unless every feature has a radius),
the length, the cutoffs, the power and what is added to the denominator.

Some options of that code leave no trace in a state dict, and are taken to be as its README has
them: LayerNorm after the sum (no ``--pre_lnorm``), positions (no ``--no_pos``), and softmax where
keys and values share a matrix (``--attn_type 2``; 4 and 6, other attentions, have the same names).
Refused, because their tensors differ: vectors of words of another size (``--d_embed``,
``--div_val``), a softmax of its own (``--not_tied``) and all other kinds of attention.

Checked against that code itself (commit 5b5d66f, and the softmax model of lmtool-fwp at 0159201)
with random weights in double precision, at small sizes and at those of "small": log-probabilities
agree to 2.1e-14, attention maps to 1.1e-14. Its CUDA extension was replaced by the formula with the
R that is saved; where there is one R for all features, the extension itself reads the numbers
behind it too. The repository has no trained weights to compare with.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.models.language import (
    LANGUAGE_PRESETS,
    LanguageConfig,
    LanguageModel,
    language_config,
)
from fourierkernels.models.tensor_files import load_exactly

EPS = 1e-6
PRESETS = ("small", "medium")
_RADIUS = r"layers\.\d+\.dec_attn\.paramR"


def published_config(
    tensors: Mapping[str, Tensor],
    *,
    preset: str = "small",
    heads: int | None = None,
    length: int | None = None,
    cutoffs: Sequence[int] | None = None,
    power: int | None = None,
    eps: float | None = None,
) -> LanguageConfig:
    """Return the hyperparameters of a published model, read off its tensors where they say them.

    Parameters
    ----------
    preset : {"small", "medium"}
        Of what no shape says, unless it is named here.
    heads, length : int, optional
        8, unless each feature has a radius, which tells; 256 or 384.
    cutoffs : sequence of int, optional
        Those of WikiText-103 where there are clusters.
    power, eps : optional
        Of Fourier attention: 4, and 1e-6 added to the denominator.

    Raises
    ------
    ValueError
        If tensors that say the sizes are missing, layers are not numbered from 0, the cutoffs do
        not fit the vocabulary, or a power or eps is named for softmax attention.
    """
    usual = LANGUAGE_PRESETS[check_choice("preset", preset, list(PRESETS))]
    words = _matrix(tensors, WORDS)
    sizes = {"heads": heads, "length": length}
    sizes |= {name: check_integer(name, n) for name, n in sizes.items() if n is not None}
    known = _mixer(tensors, words.shape[1], {"power": power, "eps": eps})
    known |= {name: value for name, value in sizes.items() if value is not None}
    return language_config(
        preset,
        vocabulary=words.shape[0],
        dim=words.shape[1],
        layers=_count_layers(tensors),
        hidden=_matrix(tensors, "layers.0.pos_ff.CoreNet.0.weight").shape[0],
        cutoffs=_check_cutoffs(
            (usual.cutoffs if CLUSTERS in tensors else ()) if cutoffs is None else cutoffs,
            words.shape[0],
        ),
        positions="from_the_end",
        **known,
    )


def published_model(tensors: Mapping[str, Tensor], config: LanguageConfig) -> LanguageModel:
    """Return a model with the tensors of a published one, in their dtype and evaluation mode.

    Positions are sines and cosines at the rates that the file holds, as there.

    Raises
    ------
    ValueError
        If tensors are missing, unexpected or misshapen, all of which are listed by their published
        names; if the softmax has word vectors of its own; if a radius is 0 or not finite.
    """
    parts = published_parts(config)
    check_parts(parts, tensors)
    if TIED in tensors and not torch.equal(tensors[TIED], tensors[WORDS]):
        raise ValueError(
            f"{TIED} must be {WORDS}, as in models with tied weights, got other numbers"
        )
    ours: dict[str, Tensor] = {}
    for name, part in parts.items():
        if part.ours:
            ours |= zip(part.ours, part.change(tensors[name]), strict=True)
    model = LanguageModel(config).to(tensors[WORDS].dtype)
    load_exactly(model, ours)
    if RATES in tensors:
        model.positions = _positions(config.length, tensors[RATES]).to(model.positions)
    return model.eval()


def _positions(length: int, rates: Tensor) -> Tensor:
    """Return sines, then cosines, of positions times rates ``(E/2,)``, in the rates' precision."""
    angles = torch.outer(torch.arange(length, dtype=rates.dtype), rates)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def _mixer(tensors: Mapping[str, Tensor], dim: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mixer with its options and, if every feature has a radius, the heads."""
    named = {name: value for name, value in given.items() if value is not None}
    radii = [tensor for name, tensor in tensors.items() if re.fullmatch(_RADIUS, name)]
    if not radii:
        if named:
            raise ValueError(f"{min(named)} must be left out for softmax attention, got {named}")
        return {"mixer": "softmax"}
    count = radii[0].numel()
    options = {"eps": EPS, "radius_shape": "feature" if count > 1 else "scalar", **named}
    heads = {"heads": dim // count} if count > 1 and dim % count == 0 else {}
    return {"mixer": "fourier", "mixer_options": options, **heads}


def _check_cutoffs(cutoffs: Sequence[int], vocabulary: int) -> tuple[int, ...]:
    ends = tuple(check_integer("cutoffs", end) for end in cutoffs)
    if list(ends) != sorted(set(ends)) or (ends and ends[-1] >= vocabulary):
        raise ValueError(
            f"cutoffs must increase and lie below the vocabulary, {vocabulary} words, got {ends}; "
            "a config may name others (--config)"
        )
    return ends


def _matrix(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ValueError(
            f"checkpoint must hold the tensors of the published model, got missing: {name}"
        )
    matrix = tensors[name]
    if matrix.ndim != 2 or not matrix.is_floating_point():
        raise ValueError(
            f"{name} must be a matrix of floating-point numbers, got {matrix.dtype} of shape "
            f"{tuple(matrix.shape)}"
        )
    return matrix


def _count_layers(tensors: Mapping[str, Tensor]) -> int:
    numbers = {match[1] for name in tensors if (match := re.match(r"layers\.(\d+)\.", name))}
    if numbers != {str(number) for number in range(len(numbers))}:
        raise ValueError(
            f"layers must be numbered from 0 without gaps, got {', '.join(sorted(numbers))}"
        )
    return len(numbers)


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
        Our names of the tensors made of it; none if it is dropped.
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
        theirs + name: Part(part.shape, tuple(ours + suffix for suffix in part.ours), part.change)
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
