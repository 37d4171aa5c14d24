"""Public names that are loaded on first use (PEP 562), so that importing a package stays light."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from fourierkernels.extras import needed_for


def loaded_on_first_use(
    package: str, homes: Mapping[str, str], *, extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        Each public name and the module that defines it. A module of the package is its own home.
    extra : str, optional
        The extra to name where a module is missing, if the package needs more than the smallest.

    Examples
    --------
    >>> find, names = loaded_on_first_use("fractions", {"sqrt": "math"})
    >>> find("sqrt")(9.0), "sqrt" in names()
    (3.0, True)
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_for(package, extra=extra):
            module = import_module(homes[name])
        return module if homes[name] == f"{package}.{name}" else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
