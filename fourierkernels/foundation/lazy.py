"""Public names that are loaded on first use (PEP 562), so that importing a package stays light."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from fourierkernels.foundation.extras import needed_for


def loaded_on_first_use(
    package: str, homes: Mapping[str, str], *, modules: Sequence[str] = (), extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        Each public name and the module that defines it.
    modules : sequence of str, optional
        Dotted names of modules that are public by their last part.
    extra : str, optional
        The extra to name where a module is missing, if the package needs more than the smallest.

    Examples
    --------
    >>> find, names = loaded_on_first_use("fractions", {"sqrt": "math"})
    >>> find("sqrt")(9.0), "sqrt" in names()
    (3.0, True)
    """
    public = {module.rpartition(".")[2]: module for module in modules}

    def find(name: str) -> Any:
        if name not in homes and name not in public:
            return at_its_new_home(package, name)
        with needed_for(package, extra=extra):
            module = import_module(public.get(name) or homes[name])
        return module if name in public else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *public})

    return find, names


# Names and modules of the previous version and their present places, set by the package's face.
MOVED: dict[str, str] = {}


def forward(moved: Mapping[str, str]) -> None:
    """Redirect old names of modules and of their members to new ones, with a FutureWarning."""
    if not MOVED:
        # First, because the path of a moved package would load its modules again by old names.
        sys.meta_path.insert(0, _MovedModules())
    MOVED.update(moved)


def at_its_new_home(package: str, name: str) -> Any:
    """Return what a package offered under this name in the previous version, and warn once."""
    old = f"{package}.{name}"
    if old not in MOVED:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    warnings.warn(f"{old} is now {MOVED[old]}", FutureWarning, stacklevel=3)
    value = _named(MOVED[old])
    setattr(sys.modules[package], name, value)
    return value


def _named(whole: str) -> Any:
    """Return what a module has under the last part of a dotted name, else the module named so."""
    package, _, name = whole.rpartition(".")
    try:
        return getattr(import_module(package), name)
    except AttributeError:
        return import_module(whole)


class _MovedModules(MetaPathFinder, Loader):
    """Import a module of the previous version from its present place."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        place = _place_now(name)
        return ModuleSpec(name, self) if place and find_spec(place) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name in MOVED:  # for a module within it, the package has warned
            warnings.warn(f"{spec.name} is now {MOVED[spec.name]}", FutureWarning, stacklevel=2)
        module = import_module(_place_now(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the specification of the module, which ran when it was imported."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def _place_now(name: str) -> str:
    """Return the present place of a module of the previous version; empty if it has none."""
    package, rest = name, ""
    while package and package not in MOVED:
        package, _, last = package.rpartition(".")
        rest = f".{last}{rest}"
    return MOVED[package] + rest if package else ""
