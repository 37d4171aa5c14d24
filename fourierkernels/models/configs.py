"""Configurations of models: presets, and the blocks with the mixer that stands in each."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.models.blocks import NO_OPTIONS, BlockConfig, check_attention_layers


class Presets:
    """Presets of a configuration, a dataclass that inherits from this."""

    presets: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Return a preset by its name, with changes.

        Raises
        ------
        ValueError
            If there is no such preset; the message lists them.
        TypeError
            If a change names no field of the preset.
        """
        chosen: Self = cls.presets[check_choice("preset", name, list(cls.presets))]
        return replace(chosen, **changes)  # type: ignore[type-var]


def block_config(config: Any, **changes: Any) -> BlockConfig:
    """Return the hyperparameters of a model's blocks.

    Parameters
    ----------
    config : dataclass
        The model's. Fields named as those of :class:`~fourierkernels.models.blocks.BlockConfig`
        are taken from it.
    **changes
        Fields that the model names differently or fixes.
    """
    names = {field.name for field in fields(config)} & {field.name for field in fields(BlockConfig)}
    return BlockConfig(**{**{name: getattr(config, name) for name in names}, **changes})


Mixers = str | Sequence[str]


def place_mixers(
    config: BlockConfig,
    mixers: Mixers,
    options: Mapping[str, Any],
    *,
    layers: int,
    attention_layers: int = 0,
) -> list[BlockConfig]:
    """Return the hyperparameters of each layer.

    Parameters
    ----------
    config : BlockConfig
        What all layers share.
    mixers : str or sequence of str
        One mixer for all layers, or one for each.
    options : mapping
        Options of the one mixer; of several, from their names to options.
    attention_layers : int
        Last layers that have softmax attention instead.

    Raises
    ------
    ValueError
        If there are not as many mixers as layers, or options of a mixer that is not there.

    Examples
    --------
    >>> shared = BlockConfig(8, 16, causal=True)
    >>> placed = place_mixers(shared, "causal_dft", {}, layers=3, attention_layers=1)
    >>> [layer.mixer for layer in placed]
    ['causal_dft', 'causal_dft', 'softmax']
    """
    check_integer("layers", layers)
    kept = check_attention_layers(attention_layers, layers)
    names = [mixers] * layers if isinstance(mixers, str) else list(mixers)
    if len(names) != layers:
        raise ValueError(f"mixer must be one or one for each of {layers} layers, got {len(names)}")
    placed = [(name, options_of(name, mixers, options)) for name in names]
    placed[layers - kept :] = [("softmax", NO_OPTIONS)] * kept
    return [
        replace(config, mixer=name, mixer_options=mixer_options) for name, mixer_options in placed
    ]


def options_of(name: str, mixers: Mixers, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a mixer among those that stand in a stack; none if it does not.

    Raises
    ------
    ValueError
        If one of several mixers is given options and is not there.
    """
    if isinstance(mixers, str):
        return options if name == mixers else NO_OPTIONS
    unknown = sorted(set(options) - set(mixers))
    if unknown:
        raise ValueError(
            f"options must be of the mixers {', '.join(sorted(set(mixers)))}, by their names, "
            f"got {unknown[0]!r}"
        )
    chosen: Mapping[str, Any] = options.get(name, NO_OPTIONS)
    return chosen
