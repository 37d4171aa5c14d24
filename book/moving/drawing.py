"""A drawing with parts that change: written as SVG for any setting, and as data for the script.

A :class:`Drawing` is a list of parts. A fixed part is markup. A changing part has, for every
setting of the sliders it depends on, the values of its attributes or its text; so the static
picture and the moving one come from the same numbers, and the script draws nothing by itself.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from fourierkernels.plotting.svg import Picture, element

TEXT = "text"  # in the place of an attribute: what stands inside the element
Settings = Sequence[int]


@dataclass(frozen=True)
class Control:
    """A slider over settings that are known beforehand.

    Attributes
    ----------
    name : str
        Unique in its figure.
    label, hint : str
        What it is, and what it does, in a few words.
    values : tuple of str
        Each setting as it is shown and spoken, with its unit.
    start : int
        The setting of the static picture.
    """

    name: str
    label: str
    hint: str
    values: tuple[str, ...]
    start: int = 0


class Over(NamedTuple):
    """Values over the settings of some controls, by their numbers; the last runs fastest."""

    values: Sequence[str]
    controls: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Part:
    """An element of which some attributes, or the text, change."""

    name: str
    tag: str
    fixed: Mapping[str, str]
    changes: Mapping[str, Over]


@dataclass
class Drawing(Picture):
    """A picture, its sliders, and a sentence for each setting.

    Attributes
    ----------
    name : str
        That of the registry.
    controls : tuple of Control
    sentences : list of str
        What is to be seen at each setting, the last control fastest.
    """

    controls: tuple[Control, ...]
    sentences: Sequence[str] = ()

    @property
    def start(self) -> tuple[int, ...]:
        """The setting of the static picture."""
        return tuple(control.start for control in self.controls)

    @property
    def settings(self) -> list[tuple[int, ...]]:
        """All settings, the last control fastest."""
        return list(product(*(range(len(control.values)) for control in self.controls)))

    def change(self, tag: str, fixed: Mapping[str, str], **changes: Over) -> None:
        """Add an element that changes; ``stroke_width`` stands for ``stroke-width``.

        Raises
        ------
        ValueError
            If there is not one value for each setting.
        """
        for key, (values, controls) in changes.items():
            wanted = math.prod(len(self.controls[k].values) for k in controls)
            if len(values) != wanted:
                raise ValueError(f"{key} must have {wanted} values, got {len(values)}")
        given = {key.replace("_", "-"): over for key, over in changes.items()}
        self.parts.append(Part(f"{self.prefix}-{len(self.parts)}", tag, fixed, given))

    def place(self, controls: Iterable[int], settings: Settings) -> int:
        """Return where a setting is in values over these controls."""
        at = 0
        for k in controls:
            at = at * len(self.controls[k].values) + settings[k]
        return at

    def svg(self, settings: Settings | None = None) -> str:
        """Return the picture at one setting, the first one shown if none is given."""
        chosen = self.start if settings is None else settings
        drawn = [
            part if isinstance(part, str) else self._markup(part, chosen) for part in self.parts
        ]
        return self.framed(drawn)

    def sentence(self, settings: Settings | None = None) -> str:
        """Return what is to be seen at a setting, in words."""
        chosen = self.start if settings is None else settings
        return self.sentences[self.place(range(len(self.controls)), chosen)]

    def data(self) -> str:
        """Return what the script needs, as JSON that may stand inside an HTML page."""
        moving = [part for part in self.parts if isinstance(part, Part)]
        content = {
            "controls": [control.values for control in self.controls],
            "parts": {part.name: part.changes for part in moving},
            "sentences": list(self.sentences),
        }
        written = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return written.replace("<", "\\u003c")

    def _markup(self, part: Part, settings: Settings) -> str:
        now = {
            key: values[self.place(controls, settings)]
            for key, (values, controls) in part.changes.items()
        }
        content = now.pop(TEXT, "")
        return element(part.tag, {"id": part.name, **part.fixed, **now}, content)
