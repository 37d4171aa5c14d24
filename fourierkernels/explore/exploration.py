"""What every exploration shares: settings, a picture, a sentence, pointer and keys.

An exploration computes numbers from its settings and draws them. It knows nothing of notebooks:
:mod:`fourierkernels.explore.widget` shows it there, and without a notebook its picture is an SVG.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, fields, replace
from importlib.util import find_spec
from typing import Any, ClassVar, Generic, Self, TypeVar

from fourierkernels.explore.settings import Setting
from fourierkernels.foundation.validation import check_choice
from fourierkernels.plotting.svg import Panel, Picture

State = TypeVar("State")
Result = TypeVar("Result")
_KEPT = 64  # results that took longer, of settings that may come back


class Exploration(ABC, Generic[State, Result]):
    """Settings that can be moved, read and set, and a picture of what follows from them.

    In JupyterLab it shows sliders and a picture that follows them; elsewhere the picture alone.

    Attributes
    ----------
    settings : tuple of Slider or Choice
        What can be moved, in the order of the controls.
    state : dataclass
        The values now; change them by :meth:`set`.
    """

    name: ClassVar[str]
    settings: tuple[Setting, ...]

    def __init__(self, state: State) -> None:
        self._state = state
        self._result: tuple[State, Result] | None = None  # with the settings that gave it
        self._later: dict[Hashable, Any] = {}
        self._watchers: list[Callable[[], None]] = []

    @property
    def state(self) -> State:
        """The settings now."""
        return self._state

    def set(self, **changes: Any) -> Self:
        """Change settings by name.

        Raises
        ------
        ValueError, TypeError
            For a setting that there is not, or a value that it cannot have; nothing is changed.

        Returns
        -------
        The exploration itself.
        """
        names = [field.name for field in fields(self._state)]  # type: ignore[arg-type]
        known = {setting.name: setting for setting in self.settings}
        for name, value in changes.items():
            check_choice("setting", name, names)
            if name in known:
                changes[name] = known[name].check(value)
        changes = self.completed(changes)
        return self._to(self.checked(replace(self._state, **changes)))  # type: ignore[type-var]

    def completed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return changes with what follows from them; by default as they are."""
        return changes

    def checked(self, state: State) -> State:
        """Return settings that fit together, or refuse them; by default as they are."""
        return state

    @property
    def result(self) -> Result:
        """The numbers that the picture shows."""
        state, kept = self._state, self._result
        if kept is None or kept[0] != state:  # another thread may still compute for older settings
            kept = self._result = (state, self.compute(state))
        return kept[1]

    @abstractmethod
    def compute(self, state: State) -> Result:
        """Return what follows from settings, fast enough to follow a slider."""

    @abstractmethod
    def picture(self) -> Picture:
        """Return the picture of the settings as they are."""

    @abstractmethod
    def sentence(self) -> str:
        """Return what is to be seen, in words, with the numbers."""

    def panels(self) -> Mapping[str, Panel]:
        """Return the panels of the picture on which the pointer acts, by name."""
        return {}

    def point(self, panel: str, x: float, y: float, *, pressed: bool) -> None:
        """Act on the pointer, held down at a place of a panel; `pressed` where that begins."""

    def press(self, key: str) -> None:
        """Act on a key of the picture: "ArrowLeft", "ArrowRight", "ArrowUp" or "ArrowDown"."""

    def prepare(self) -> None:
        """Do once what a first move would wait for; called beside the notebook, by default none."""

    def later_key(self) -> Hashable | None:
        """Return what a computation that takes longer depends on, or None if nothing is to come."""
        return None

    def compute_later(self, state: State) -> Any:
        """Return what takes too long to follow a slider; called beside the notebook."""

    @property
    def later(self) -> Any:
        """What :meth:`compute_later` found for these settings; None while it is not known."""
        key = self.later_key()
        return None if key is None else self._later.get(key)

    def finish(self) -> Self:
        """Compute at once what would be computed beside the notebook.

        Returns
        -------
        The exploration itself.
        """
        key = self.later_key()
        if key is not None and key not in self._later:
            self.keep(key, self.compute_later(self._state))
        return self

    def keep(self, key: Hashable, found: Any) -> None:
        """Keep what took longer, and show it."""
        while len(self._later) >= _KEPT:
            self._later.pop(next(iter(self._later)))
        self._later[key] = found
        self._tell()

    def svg(self) -> str:
        """Return the picture as a whole SVG element."""
        return self.picture().svg()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call a function after each change."""
        self._watchers.append(watcher)

    def _to(self, state: State) -> Self:
        if state != self._state:
            self._state = state
            self._tell()
        return self

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher()

    def __repr__(self) -> str:
        """Return the settings, and the sentence on what they give."""
        values = ", ".join(f"{name}={value!r}" for name, value in asdict(self._state).items())  # type: ignore[call-overload]
        return f"explore.{self.name}({values})\n{self.sentence()}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return what a notebook shows: controls where they are installed, and the picture."""
        # A still is an image, which knows no theme: on a dark page its axes need paper.
        paper = self.svg().replace("<svg ", '<svg style="background: #fff; color: #1b1b1b" ', 1)
        still = {"image/svg+xml": paper, "text/plain": repr(self)}
        if find_spec("anywidget") is None or find_spec("ipywidgets") is None:
            note = "Sliders need ipywidgets: pip install 'fourierkernels[explore]'"
            return {**still, "text/plain": f"{still['text/plain']}\n{note}"}
        from fourierkernels.explore.widget import bundle

        return {**bundle(self), **still}
