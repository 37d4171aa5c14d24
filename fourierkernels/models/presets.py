"""A model's configuration: from a preset, and to the configuration of its blocks."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from fourierkernels.foundation.validation import check_choice
from fourierkernels.models.blocks import BlockConfig

_Config = TypeVar("_Config")


def choose_preset(name: str, presets: Mapping[str, _Config], **changes: Any) -> _Config:
    """Return a preset by its name, with changes.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists them.
    TypeError
        If a change names no field of the preset.
    """
    preset = presets[check_choice("preset", name, list(presets))]
    return replace(preset, **changes)  # type: ignore[type-var]


def block_config(config: Any, **changes: Any) -> BlockConfig:
    """Return the hyperparameters of the blocks of a model.

    Parameters
    ----------
    config : dataclass
        The model's. Fields named as those of :class:`~fourierkernels.models.blocks.BlockConfig`
        are taken from it.
    **changes
        Fields that the model names differently or fixes.
    """
    own = {field.name for field in fields(config)}
    shared = {
        field.name: getattr(config, field.name)
        for field in fields(BlockConfig)
        if field.name in own
    }
    return BlockConfig(**{**shared, **changes})
