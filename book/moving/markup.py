"""A moving figure as HTML: the static picture, what moves it, and its numbers."""

from html import escape

from book.moving.drawing import Control, Drawing
from fourierkernels.plotting.svg import element


def figure_html(drawing: Drawing) -> str:
    """Return the picture with its sliders, which stay hidden until the script has started.

    Without the script, and on paper, the picture at the starting setting is all there is.
    """
    sliders = "".join(slider(drawing, control) for control in drawing.controls)
    status = {"class": "moving-status", "role": "status", "aria-live": "polite"}
    return (
        '<div class="moving">'
        f"{drawing.svg()}"
        f'<div class="moving-controls" hidden>{sliders}'
        f"{element('div', status, drawing.sentence())}</div>"
        f'<script type="application/json">{drawing.data()}</script>'
        "</div>"
    )


def slider(drawing: Drawing, control: Control) -> str:
    """Return one slider with its label, its value and what it does.

    The value is hidden from screen readers, for `aria-valuetext` says it.
    """
    name = f"{drawing.prefix}-{control.name}"
    shown = control.values[control.start]
    return (
        '<div class="moving-control">'
        f'<label for="{name}">{escape(control.label)}</label>'
        f'<span class="moving-value" aria-hidden="true">{escape(shown)}</span>'
        f'<input type="range" id="{name}" min="0" max="{len(control.values) - 1}" step="1" '
        f'value="{control.start}" aria-valuetext="{escape(shown)}" aria-describedby="{name}-hint">'
        f'<small id="{name}-hint">{escape(control.hint)}</small>'
        "</div>"
    )
