"""Fourier and Gaussian attention in the models of Hugging Face, by name.

Importing this module registers ``attn_implementation="fourierkernels"`` and
``"fourierkernels_gaussian"`` with the attention and mask interfaces of transformers, for every
model that calls attention through them. Options live in the configuration, under the same names:

* ``config.fourierkernels``: radius, power, eps, radius_shape, learn_radius, allow_signed,
  radius_parameter;
* ``config.fourierkernels_gaussian``: sigma.

:func:`add_fourier_attention` sets them, with a radius to train on each attention module;
:func:`load_fourier_attention` reads such a model back.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from fourierkernels.attention.interface import FOURIER, GAUSSIAN, IMPLEMENTATIONS
from fourierkernels.attention.kernel import RADIUS_PARAMETERS, RadiusParameter, RadiusShape
from fourierkernels.attention.served import attention_modules, check_served, head_sizes
from fourierkernels.foundation.validation import check_choice

Model = TypeVar("Model", bound=PreTrainedModel)


def add_fourier_attention(
    model: PreTrainedModel,
    *,
    radius: float = 2.0,
    power: int = 4,
    eps: float = 0.0,
    radius_shape: RadiusShape = "scalar",
    learn_radius: bool = True,
    allow_signed: bool = False,
    radius_parameter: RadiusParameter = "log",
) -> None:
    """Turn all attention of `model` into Fourier attention, with a radius on each module.

    Each attention module gets a parameter ``log_radius``, or ``signed_radius`` if R is trained
    directly (a buffer if `learn_radius` is False): optimisers built afterwards find it and
    ``save_pretrained`` saves it. Options are those of
    :class:`~fourierkernels.attention.FourierAttention`; the paper starts R at 2 for language and 1
    for images. The other weights are kept, but they were not trained with Fourier attention.

    Raises
    ------
    ValueError
        If an option breaks its rule, attention of the model bypasses transformers' interface, or
        it is more than a weight for each query and key: T5 and its kin add a position bias, Gemma
        2 caps its scores, gpt-oss has a sink, DeepSeek's sparse attention chooses keys by an index
        (:data:`fourierkernels.attention.served.SCORE_TERMS`). The model is then as it was.

    Examples
    --------
    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    >>> model = BertModel(BertConfig(vocab_size=10, num_hidden_layers=1, **sizes))
    >>> add_fourier_attention(model, radius=1.0)
    >>> [name for name, _ in model.named_parameters() if "radius" in name]
    ['encoder.layer.0.attention.self.log_radius']
    """
    add_attention(
        model,
        FOURIER,
        radius=radius,
        power=power,
        eps=eps,
        radius_shape=radius_shape,
        learn_radius=learn_radius,
        allow_signed=allow_signed,
        radius_parameter=radius_parameter,
    )


def add_gaussian_attention(model: PreTrainedModel, *, sigma: float | None = None) -> None:
    """Turn all attention of `model` into Gaussian attention, exp(-|q - k|²/(2σ²)).

    Parameters
    ----------
    sigma : float or None
        σ; by default each module's own softmax scale to the power -1/2, D^(1/4) as a rule.

    Raises
    ------
    ValueError
        As for :func:`add_fourier_attention`.
    """
    add_attention(model, GAUSSIAN, sigma=sigma)


def add_attention(model: PreTrainedModel, name: str, **options: Any) -> None:
    """Turn all attention of `model` into one of the registered implementations.

    Parameters
    ----------
    name : str
        A key of :data:`~fourierkernels.attention.interface.IMPLEMENTATIONS`.
    **options
        Options of that implementation.

    Raises
    ------
    ValueError
        As for :func:`add_fourier_attention`, or if the name is unknown.
    """
    row = IMPLEMENTATIONS[check_choice("name", name, list(IMPLEMENTATIONS))]
    checked = row.options(**options)
    modules = attention_modules(model)
    check_served(model, modules)
    if row.equip is not None:
        for module in modules:
            head_sizes(module)  # a model that does not tell them is refused before it is changed
    for module in modules:
        for parametrisation in RADIUS_PARAMETERS.values():
            if hasattr(module, parametrisation.name):
                delattr(module, parametrisation.name)
        if row.equip is not None:
            row.equip(module, checked)
    _configure(model, modules, name, asdict(checked))


def load_fourier_attention(model_class: type[Model], source: str | Path, **options: Any) -> Model:
    """Load what ``save_pretrained`` wrote of a model with Fourier attention, radii included.

    A model is built with its radii before its tensors are read, so a missing one is reported by
    transformers as any other. A checkpoint saved with another attention has none: for that, load
    it as usual and call :func:`add_fourier_attention`. One radius for all had the shape ``()`` in
    earlier versions: such a checkpoint is read at a second attempt, and its radii become ``(1,)``.

    Parameters
    ----------
    model_class : type
        For instance ``BertModel``.
    source : str or Path
        Folder or name.
    **options
        Options of ``from_pretrained``.

    Raises
    ------
    ValueError
        If the configuration has no options of Fourier attention.
    """
    try:
        return _load(model_class, source, (1,), **options)
    except RuntimeError:  # transformers' error for tensors of other shapes than the model's
        model = _load(model_class, source, (), **options)
        for module in attention_modules(model):
            _reshape(module, (1,))
        return model


def _load(
    model_class: type[Model],
    source: str | Path,
    shape: tuple[int, ...],
    **options: Any,
) -> Model:
    """Load a model; `shape` is that of one radius for all in its file."""

    def build(self: PreTrainedModel, config: Any, *inputs: Any, **keywords: Any) -> None:
        model_class.__init__(self, config, *inputs, **keywords)
        saved = getattr(config, FOURIER, None)
        if saved is None:
            raise ValueError(
                f"source must hold a configuration with options under {FOURIER!r}, got none"
            )
        add_fourier_attention(self, **saved)
        for module in attention_modules(self):
            _reshape(module, shape)

    radii = (row.name for row in RADIUS_PARAMETERS.values())
    wide = {*radii, *(getattr(model_class, "_keep_in_fp32_modules_strict", None) or ())}
    facts = {
        "__init__": build,
        "__module__": model_class.__module__,
        "_keep_in_fp32_modules_strict": wide,
    }
    with_radii: type[Model] = type(model_class.__name__, (model_class,), facts)
    model: Model = with_radii.from_pretrained(source, **options)
    model.__class__ = model_class
    return model


def _reshape(module: nn.Module, shape: tuple[int, ...]) -> None:
    """Give one radius for all another shape; a parameter stays one, and a buffer too."""
    for row in RADIUS_PARAMETERS.values():
        tensor: Tensor | None = getattr(module, row.name, None)
        if tensor is not None and tensor.numel() == 1:
            tensor.data = tensor.data.reshape(shape)


def _configure(
    model: PreTrainedModel, modules: list[nn.Module], name: str, options: dict[str, Any]
) -> None:
    """Write the options into the configuration of the model and of each of its parts."""
    model.set_attn_implementation(name)
    owners: list[Any] = [model.config, *(module.config for module in modules)]
    for config in {id(owner): owner for owner in owners}.values():
        setattr(config, name, dict(options))
