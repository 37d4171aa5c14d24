"""An exploration in a notebook: controls above, the picture that follows them, a sentence below."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock, get_ident
from typing import Any

from fourierkernels.explore.settings import Choice, Setting, Slider
from fourierkernels.foundation.extras import needed_for

with needed_for("an exploration that moves", extra="explore"):
    import anywidget
    import ipywidgets
    import traitlets

_STEPS = 240  # of a slider, from end to end
_ONE_AT_A_TIME = ThreadPoolExecutor(max_workers=1, thread_name_prefix="explore")


class PictureWidget(anywidget.AnyWidget):
    """A picture that says where the pointer is held down, and which arrow key was pressed."""

    _esm = Path(__file__).with_name("picture.js")
    _css = Path(__file__).with_name("picture.css")
    svg = traitlets.Unicode().tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    pointed = traitlets.Bool().tag(sync=True)  # whether the pointer does anything
    answered = traitlets.Int().tag(sync=True)  # number of the last message that was acted on


class View:
    """Controls, picture and sentence of one ``Exploration``; either side may change the other."""

    def __init__(self, exploration: Any) -> None:
        self._exploration = exploration
        self._controls = {each.name: _control(each) for each in exploration.settings}
        self._showing, self._shown_by = RLock(), 0  # one thread at a time, and which
        self._picture = PictureWidget(pointed=bool(exploration.panels()))
        for name, control in self._controls.items():
            control.observe(lambda change, name=name: self._moved(name, change["new"]), "value")
        self._picture.on_msg(self._heard)
        exploration.watch(self.show)
        self.widget = ipywidgets.VBox([*self._controls.values(), self._picture])
        self.show()
        _ONE_AT_A_TIME.submit(exploration.prepare)

    def show(self) -> None:
        """Show the settings as they are, and begin what takes longer."""
        with self._showing:  # what is shown last is what is so, whichever thread began first
            self._show_settings()
            self._picture.svg = self._exploration.svg()
            self._picture.sentence = self._exploration.sentence()
        key = self._exploration.later_key()
        if key is not None and self._exploration.later is None:
            _ONE_AT_A_TIME.submit(self._finish, key, self._exploration.state)

    def _show_settings(self) -> None:
        self._shown_by = get_ident()  # what this thread sets, no reader has moved
        try:
            for setting in self._exploration.settings:
                self._controls[setting.name].value = getattr(self._exploration.state, setting.name)
        finally:
            self._shown_by = 0

    def _moved(self, name: str, value: Any) -> None:
        if self._shown_by != get_ident():
            setting = next(each for each in self._exploration.settings if each.name == name)
            if isinstance(setting, Slider):  # powers of ten end a rounding before or after
                value = min(max(value, setting.low), setting.high)
            try:
                self._exploration.set(**{name: int(value) if _is_whole(setting) else value})
            except ValueError:  # settings that do not fit together: nothing was changed
                self.show()
                raise

    def _finish(self, key: Any, state: Any) -> None:
        """Compute what takes longer, unless the reader has moved on."""
        if key == self._exploration.later_key() and self._exploration.later is None:
            self._exploration.keep(key, self._exploration.compute_later(state))

    def _heard(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("kind") == "key":
            self._exploration.press(str(content["key"]))
        else:
            self._point(float(content["x"]), float(content["y"]), pressed=bool(content["pressed"]))
        self._picture.answered = int(content["number"])

    def _point(self, across: float, down: float, *, pressed: bool) -> None:
        for name, panel in self._exploration.panels().items():
            if panel.holds(across, down):
                self._exploration.point(name, *panel.number_at(across, down), pressed=pressed)
                return


def _is_whole(setting: Setting) -> bool:
    return isinstance(setting, Slider) and setting.whole


def bundle(exploration: Any) -> dict[str, Any]:
    """Return the representation of the view that a notebook with widgets shows."""
    made = View(exploration).widget._repr_mimebundle_()
    found: dict[str, Any] = made[0] if isinstance(made, tuple) else made
    return {kind: value for kind, value in found.items() if "widget" in kind}


def _control(setting: Setting) -> Any:
    look = {"style": {"description_width": "8em"}, "layout": {"width": "min(100%, 36em)"}}
    if isinstance(setting, Choice):
        return ipywidgets.Dropdown(options=setting.options, description=setting.label, **look)
    return _slider(setting, {"description": setting.label, "continuous_update": True, **look})


def _slider(setting: Slider, look: dict[str, Any]) -> Any:
    if setting.whole:
        return ipywidgets.IntSlider(
            value=int(setting.low), min=int(setting.low), max=int(setting.high), **look
        )
    if setting.log:
        low, high = math.log10(setting.low), math.log10(setting.high)
        step = (high - low) / _STEPS
        return ipywidgets.FloatLogSlider(
            value=setting.low, min=low, max=high, step=step, readout_format=".3g", **look
        )
    step = (setting.high - setting.low) / _STEPS
    return ipywidgets.FloatSlider(
        value=setting.low,
        min=setting.low,
        max=setting.high,
        step=step,
        readout_format=".3g",
        **look,
    )
