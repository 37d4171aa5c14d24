"""Axes of a moving figure: those of any picture, and the line that shows where a slider is."""

from collections.abc import Sequence
from dataclasses import dataclass

from book.moving.drawing import Drawing, Over
from fourierkernels.plotting import svg
from fourierkernels.plotting.svg import INK, number


@dataclass(frozen=True)
class Panel(svg.Panel):
    """A rectangle of the drawing with two scales."""

    def ruler(self, drawing: Drawing, values: Sequence[float], control: int = 0) -> None:
        """Draw the upright line that shows where a slider is."""
        top, base = number(self.top), number(self.top + self.height)
        steps = [f"M{number(self.across(value))} {top}V{base}" for value in values]
        drawing.change("path", {"stroke": INK, "stroke-width": "1.5"}, d=Over(steps, (control,)))
