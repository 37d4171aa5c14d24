"""Fourier and Gaussian attention in the models of Hugging Face, by name.

Importing this module registers ``attn_implementation="fourierkernels"`` and
``"fourierkernels_gaussian"`` with the attention and mask interfaces of transformers, for every
model that calls attention through them. Options live in the configuration, under the same names:

* ``config.fourierkernels``: radius, power, eps, radius_shape, learn_radius, allow_signed;
* ``config.fourierkernels_gaussian``: sigma.

:func:`add_fourier_attention` sets them, with a radius to train on each attention module;
:func:`load_fourier_attention` reads such a model back.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.utils import output_capturing

from fourierkernels.attention.fourier import fourier_attention
from fourierkernels.attention.gaussian import fused_gaussian_attention, gaussian_attention
from fourierkernels.attention.radius import RADIUS_SHAPES, add_log_radius
from fourierkernels.attention.validation import check_eps, check_power
from fourierkernels.validation import check_choice, check_number

FOURIER, GAUSSIAN = "fourierkernels", "fourierkernels_gaussian"
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # what modules look up that follow the interface
_REFUSED = ("softcap", "s_aux", "position_bias", "cache")  # what would change the formula
_HEADS = ("num_heads", "num_attention_heads", "n_heads")
_HEAD_DIM = ("head_dim", "attention_head_size")
Model = TypeVar("Model", bound=PreTrainedModel)


@dataclass(frozen=True)
class FourierOptions:
    """What a configuration says of :class:`~fourierkernels.attention.FourierAttention`."""

    radius: float = 2.0
    power: int = 4
    eps: float = 0.0
    radius_shape: str = "scalar"
    learn_radius: bool = False
    allow_signed: bool = False

    def __post_init__(self) -> None:
        check_number("radius", self.radius, above=0.0)
        check_power(self.power, allow_signed=self.allow_signed)
        check_eps(self.eps)
        check_choice("radius_shape", self.radius_shape, list(RADIUS_SHAPES))


@dataclass(frozen=True)
class GaussianOptions:
    """What a configuration says of Gaussian attention: σ, by default that of the softmax scale."""

    sigma: float | None = None

    def __post_init__(self) -> None:
        if self.sigma is not None:
            check_number("sigma", self.sigma, above=0.0)


def fourier_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return outputs ``(B, N, H, D_v)`` and, where they are recorded, weights ``(B, H, N, M)``.

    The signature is that of transformers' attention interface. `scaling` is the softmax's and is
    not used: the radius takes its place.
    """
    options = FourierOptions(**_options(module, FOURIER))
    if options.learn_radius and not hasattr(module, "log_radius"):
        raise ValueError(
            "model must have the radii that its configuration says are learnt: load it by "
            f"load_fourier_attention, got a {type(module).__name__} without log_radius"
        )
    radius: Tensor | float = options.radius
    if hasattr(module, "log_radius"):
        log_radius: Tensor = module.log_radius  # type: ignore[assignment]
        radius = log_radius.to(torch.promote_types(query.dtype, torch.float32)).exp()
    key, value, mask, causal = _prepare(
        module, query, key, value, attention_mask, is_causal, kwargs
    )
    attend = partial(
        fourier_attention,
        query,
        key,
        value,
        radius,
        power=options.power,
        eps=options.eps,
        attn_mask=mask,
        is_causal=causal,
        dropout_p=dropout,
        allow_signed=options.allow_signed,
    )
    if _recorded(kwargs):
        output, weights = attend(return_weights=True)
        return output.transpose(1, 2).contiguous(), weights
    return attend().transpose(1, 2).contiguous(), None


def gaussian_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """As :func:`fourier_attention_forward`, with weights exp(-|q - k|²/(2σ²)).

    Without a σ in the configuration it is scaling^(-1/2): softmax attention for keys of one norm.
    """
    sigma = GaussianOptions(**_options(module, GAUSSIAN)).sigma
    if sigma is None:
        sigma = query.shape[-1] ** 0.25 if scaling is None else scaling**-0.5
    key, value, mask, causal = _prepare(
        module, query, key, value, attention_mask, is_causal, kwargs
    )
    options: dict[str, Any] = {
        "sigma": sigma,
        "attn_mask": mask,
        "is_causal": causal,
        "dropout_p": dropout,
    }
    if _recorded(kwargs):
        output, weights = gaussian_attention(query, key, value, return_weights=True, **options)
        return output.transpose(1, 2).contiguous(), weights
    output = fused_gaussian_attention(query, key, value, **options)
    return output.transpose(1, 2).contiguous(), None


def register() -> None:
    """Make both names known to transformers; importing this module has done it."""
    AttentionInterface.register(FOURIER, fourier_attention_forward)
    AttentionInterface.register(GAUSSIAN, gaussian_attention_forward)
    for name in (FOURIER, GAUSSIAN):
        AttentionMaskInterface.register(name, sdpa_mask)  # boolean, True attends, or None


def add_fourier_attention(
    model: PreTrainedModel,
    *,
    radius: float = 2.0,
    power: int = 4,
    eps: float = 0.0,
    radius_shape: str = "scalar",
    learn_radius: bool = True,
    allow_signed: bool = False,
) -> None:
    """Turn all attention of `model` into Fourier attention, with a radius on each module.

    Each attention module gets a parameter ``log_radius`` (a buffer if `learn_radius` is False):
    optimisers built afterwards find it and ``save_pretrained`` saves it. Options are those of
    :class:`~fourierkernels.attention.FourierAttention`; the paper starts R at 2 for language and 1
    for images. The other weights are kept, but they were not trained for these.

    Raises
    ------
    ValueError
        If an option breaks its rule, or attention of the model bypasses transformers' interface;
        the model is then as it was.

    Examples
    --------
    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    >>> model = BertModel(BertConfig(vocab_size=10, num_hidden_layers=1, **sizes))
    >>> add_fourier_attention(model, radius=1.0)
    >>> [name for name, _ in model.named_parameters() if "radius" in name]
    ['encoder.layer.0.attention.self.log_radius']
    """
    options = FourierOptions(radius, power, eps, radius_shape, learn_radius, allow_signed)
    modules = _attention_modules(model)
    sizes = [(_size(module, _HEADS), _size(module, _HEAD_DIM)) for module in modules]
    _remove_radii(modules)
    for module, (heads, dim) in zip(modules, sizes, strict=True):
        weight = next(module.parameters())
        add_log_radius(
            module,
            radius,
            shape=radius_shape,
            heads=heads,
            dim=dim,
            learn=learn_radius,
            device=weight.device,
            dtype=torch.promote_types(weight.dtype, torch.float32),
        )
    _configure(model, modules, FOURIER, asdict(options))


def add_gaussian_attention(model: PreTrainedModel, *, sigma: float | None = None) -> None:
    """Turn all attention of `model` into Gaussian attention, exp(-|q - k|²/(2σ²)).

    Parameters
    ----------
    sigma : float or None
        σ; by default each module's own softmax scale to the power -1/2, D^(1/4) as a rule.

    Raises
    ------
    ValueError
        As :func:`add_fourier_attention`.
    """
    options = GaussianOptions(sigma)
    modules = _attention_modules(model)
    _remove_radii(modules)
    _configure(model, modules, GAUSSIAN, asdict(options))


def load_fourier_attention(model_class: type[Model], source: str | Path, **options: Any) -> Model:
    """Load what ``save_pretrained`` wrote of a model with Fourier attention, radii included.

    A model is built with its radii before its tensors are read, so a missing one is reported by
    transformers as any other. A checkpoint saved with another attention has none: for that, load
    it as usual and call :func:`add_fourier_attention`.

    Parameters
    ----------
    model_class : type
        As ``BertModel``.
    source : str or Path
        Folder or name.
    **options
        Of ``from_pretrained``.

    Raises
    ------
    ValueError
        If the configuration has no options of Fourier attention.
    """

    def build(self: PreTrainedModel, config: Any, *inputs: Any, **keywords: Any) -> None:
        model_class.__init__(self, config, *inputs, **keywords)
        saved = getattr(config, FOURIER, None)
        if saved is None:
            raise ValueError(
                f"source must hold a configuration with options under {FOURIER!r}, got none"
            )
        add_fourier_attention(self, **saved)

    wide = {"log_radius", *(getattr(model_class, "_keep_in_fp32_modules_strict", None) or ())}
    facts = {
        "__init__": build,
        "__module__": model_class.__module__,
        "_keep_in_fp32_modules_strict": wide,
    }
    with_radii: type[Model] = type(model_class.__name__, (model_class,), facts)
    model: Model = with_radii.from_pretrained(source, **options)
    model.__class__ = model_class
    return model


# ---- what arrives from a model ------------------------------------------------------------------


def _options(module: nn.Module, name: str) -> dict[str, Any]:
    options: dict[str, Any] = getattr(module.config, name, None) or {}
    return options


def _prepare(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool | None,
    kwargs: dict[str, Any],
) -> tuple[Tensor, Tensor, Tensor | None, bool]:
    """Return key and value with all heads, the mask, and whether time is still to be masked."""
    for name in _REFUSED:
        if kwargs.get(name) is not None:
            raise ValueError(
                f"{name} must be None: it has no counterpart in kernel attention, "
                f"got one from {type(module).__name__}"
            )
    groups = query.shape[1] // key.shape[1]  # grouped-query attention
    if groups > 1:
        key, value = (side.repeat_interleave(groups, dim=1) for side in (key, value))
    if mask is not None and mask.is_floating_point():  # a mask of the user's own
        mask = mask.masked_fill(mask <= torch.finfo(mask.dtype).min, -torch.inf)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return key, value, mask, bool(causal) and mask is None and query.shape[2] > 1


def _recorded(kwargs: dict[str, Any]) -> bool:
    """Whether the caller wants the weights; not all models pass ``output_attentions`` on."""
    if kwargs.get("output_attentions"):
        return True
    if torch.compiler.is_compiling():  # the collector cannot be traced
        return False
    collected = output_capturing._active_collector.get() or {}
    return any(name.endswith("attentions") for name in collected)


# ---- the modules of a model ---------------------------------------------------------------------


def _attention_modules(model: PreTrainedModel) -> list[nn.Module]:
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
    return any(_INTERFACE in function.__code__.co_names for function in _methods(type(module)))


def _methods(cls: type) -> Iterator[FunctionType]:
    for ancestor in cls.__mro__:
        for member in vars(ancestor).values():
            while isinstance(member, FunctionType):
                yield member
                member = getattr(member, "__wrapped__", None)


def _size(module: nn.Module, names: tuple[str, ...]) -> int:
    """Return heads or head features of an attention module, from itself or its configuration."""
    for owner in (module, module.config):
        for name in names:
            if isinstance(getattr(owner, name, None), int):
                return int(getattr(owner, name))
    raise ValueError(
        f"model must tell the {names[0]} of its attention, got {type(module).__name__} without"
    )


def _remove_radii(modules: list[nn.Module]) -> None:
    for module in modules:
        if hasattr(module, "log_radius"):
            del module.log_radius


def _configure(
    model: PreTrainedModel, modules: list[nn.Module], name: str, options: dict[str, Any]
) -> None:
    """Write the options into the configuration of the model and of each of its parts."""
    model.set_attn_implementation(name)
    owners: list[Any] = [model.config, *(module.config for module in modules)]
    for config in {id(owner): owner for owner in owners}.values():
        setattr(config, name, dict(options))


register()
