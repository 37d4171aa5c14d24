"""Modules that the extras of this package install, and the message for a missing one.

The extras themselves, with their requirements, are in pyproject.toml. Those that build on others
bring theirs too, so a module has one row here: the smallest extra with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

EXTRAS = {
    "matplotlib": "plot",
    "contourpy": "plot",
    "pandas": "data",
    "pyarrow": "files",
    "sympy": "symbolic",
    "torch": "torch",
    "transformers": "heads",
    "safetensors": "heads",
    "huggingface_hub": "heads",
    "PIL": "heads",
    "accelerate": "train",
    "tokenizers": "train",
    "sentencepiece": "train",
    "sacrebleu": "train",
    "gymnasium": "control",
    "mujoco": "control",
    "h5py": "control",
    "tensorboard": "tensorboard",
    "dask": "cluster",
    "distributed": "cluster",
    "ipywidgets": "explore",
    "anywidget": "explore",
    "traitlets": "explore",
    "IPython": "",  # in none: pip installs it by name
    "matplotlib_inline": "",
    "timm": "",
}
# What an extra of a whole command brings besides its own.
_ALSO = {"heads": {"data", "plot", "torch"}, "train": {"data", "plot", "torch", "heads"}}
_PACKAGES = {"PIL": "pillow", "distributed": "dask"}  # where pip's name is another


class MissingExtra(ImportError):  # noqa: N818 - what is missing is no error of the program
    """A module of an extra is missing; the message says how to install it."""


def require(module: str, what: str, *, extra: str = "") -> None:
    """Refuse what needs a module that is not installed, before there is any work.

    Parameters
    ----------
    what : str
        The subject of the sentence.
    extra : str, optional
        The extra of all that the subject does, which is named if it brings the module; otherwise,
        and by default, the smallest that does.

    Raises
    ------
    MissingExtra

    Examples
    --------
    >>> require("math", "rounding")
    """
    if find_spec(module) is None:
        raise missing(module, what, extra=extra)


@contextmanager
def needed_for(what: str, *, extra: str = "") -> Iterator[None]:
    """Turn the failed import of a module of an extra into the sentence that names the extra.

    Parameters are those of :func:`require`. Where one block stands in another, the outermost one
    whose `extra` brings the module has the last word, as it knows all that will be needed.

    Examples
    --------
    >>> try:
    ...     with needed_for("drawing"):
    ...         raise ModuleNotFoundError(name="matplotlib")
    ... except MissingExtra as error:
    ...     print(error)
    drawing needs matplotlib: pip install 'fourierkernels[plot]'
    """
    try:
        yield
    except (ModuleNotFoundError, MissingExtra) as error:
        module = error.name or ""  # with a dot, it is a part of a package that is there
        said = isinstance(error, MissingExtra) and not (extra and _brings(extra, module))
        if said or module not in EXTRAS:
            raise
        raise missing(module, what, extra=extra) from error


def missing(module: str, what: str, *, extra: str = "") -> MissingExtra:
    """Return the error on a module that is missing, for :func:`require`'s parameters."""
    package = _PACKAGES.get(module, module)
    chosen = extra if _brings(extra, module) else EXTRAS.get(module)
    source = f"'fourierkernels[{chosen}]'" if chosen else package
    return MissingExtra(f"{what} needs {package}: pip install {source}", name=module)


def _brings(extra: str, module: str) -> bool:
    return EXTRAS.get(module) in {extra, *_ALSO.get(extra, ())}
