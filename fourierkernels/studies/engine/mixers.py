"""The mixer of a run with its options, from the command, a comparison or a file to the model."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fourierkernels.mixing.registry import MIXERS
from fourierkernels.studies.engine.recipe import Preset

_HEAD_SIZE = 16  # features of a head in all small presets


@dataclass(frozen=True)
class ChosenMixer:
    """A mixer, or a placement of several, with its options.

    The study compares them with what it has, when a run is set up.

    Attributes
    ----------
    name : str
        One of those of the study.
    options : mapping
        By their names, as JSON has them; those of a preset are beneath them, see :meth:`over`.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", dict(self.options))  # of nobody else

    def over(self, preset: Preset) -> "ChosenMixer":
        """Return it with the options that a preset has for it beneath its own.

        Examples
        --------
        >>> preset = Preset("", {}, None, mixer_options={"gaussian": {"sigma": 2.0, "bias": True}})
        >>> ChosenMixer("gaussian", {"sigma": 1.0}).over(preset).options
        {'sigma': 1.0, 'bias': True}
        """
        return replace(self, options={**preset.mixer_options.get(self.name, {}), **self.options})

    def padded(self) -> "ChosenMixer":
        """Return it with zeros in the place of padding, if it cannot leave padding out."""
        has_zeros = "zero_padding" in (MIXERS[self.name].options or {})
        zeros = {"zero_padding": True} if has_zeros else {}
        return replace(self, options={**zeros, **self.options})


def read_options(given: Iterable[str]) -> dict[str, Any]:
    """Return options given as NAME=VALUE; a value is JSON or else a string.

    Raises
    ------
    ValueError
        If one has no name or no value, or is named twice.

    Examples
    --------
    >>> read_options(["power=2", "radius_shape=head"])
    {'power': 2, 'radius_shape': 'head'}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValueError(f"mixer-option must be NAME=VALUE, got {text!r}")
        if name in found:
            raise ValueError(f"mixer-option must name each option once, got {name} twice")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def mixer_of_kernel(kernel: str, sharpness: float) -> ChosenMixer:
    """Return the mixer of a kernel with a sharpness s, as contenders are compared at.

    >>> mixer_of_kernel("l = 4", 1.0).options
    {'power': 4, 'radius': 0.4330127018922193, 'allow_signed': False}
    """
    root = math.sqrt(_HEAD_SIZE)
    if kernel == "softmax":
        return ChosenMixer("softmax", {"scale": sharpness / root})
    if kernel == "gaussian":
        return ChosenMixer("gaussian", {"sigma": math.sqrt(root / sharpness)})
    power = int(kernel.removeprefix("l = "))
    radius = math.sqrt(3 * sharpness / (power * root))
    options = {"power": power, "radius": radius, "allow_signed": power % 2 == 1}
    return ChosenMixer("fourier", options)
