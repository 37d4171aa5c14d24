"""Public names that are loaded on first use (PEP 562), so that importing a package stays light."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
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


# Names and modules of the version before, each with its place now; the package's face fills it.
MOVED: dict[str, str] = {}


def at_its_new_home(package: str, name: str) -> Any:
    """Return what a package had under this name in the version before, and warn of it."""
    old = f"{package}.{name}"
    if old not in MOVED:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    warnings.warn(f"{old} is now {MOVED[old]}", FutureWarning, stacklevel=3)
    return named(MOVED[old])


def named(whole: str) -> Any:
    """Return the module of a dotted name, or what a module has under its last part."""
    package, _, name = whole.rpartition(".")
    try:
        return import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise
        return getattr(import_module(package), name)


class _MovedModules(MetaPathFinder, Loader):
    """Imports a module of the version before as the module that it is now."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        warnings.warn(f"{spec.name} is now {MOVED[spec.name]}", FutureWarning, stacklevel=2)
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own specification back: it ran when it was imported."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def forward(moved: Mapping[str, str]) -> None:
    """Let old names of modules and of their members lead to new ones, with a FutureWarning."""
    if not MOVED:
        sys.meta_path.append(_MovedModules())
    MOVED.update(moved)
