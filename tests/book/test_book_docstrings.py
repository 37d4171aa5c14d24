"""Docstrings and signatures of the package become sound pages."""

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from sphinx.util.typing import stringify_annotation

from book._extensions import docstrings

CITATION = docstrings.citation_pattern(["parzen1962estimation"])


def test_keys_are_read_from_the_bibliography() -> None:
    text = "% @comment\n@article{a1962b,\n title={x}}\n@book{ c1963d ,\n title={y}}"
    assert docstrings.bibliography_keys(text) == ["a1962b", "c1963d"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("|K(s)| is below |s|^r.", r"\|K(s)| is below \|s\|^r."),
        ("x : int | None", "x : int | None"),
        ("``|x|`` and `|x|`", "``|x|`` and `|x|`"),
        ("[parzen1962estimation]_, eq. 2", ":cite:t:`parzen1962estimation`, eq. 2"),
        ("Source: parzen1962estimation.", "Source: :cite:t:`parzen1962estimation`."),
        (":cite:t:`parzen1962estimation`", ":cite:t:`parzen1962estimation`"),
        ("nothing to do", "nothing to do"),
    ],
)
def test_line_says_what_its_author_meant(written: str, meant: str) -> None:
    assert docstrings.translate(written, CITATION) == meant


def test_examples_stay_as_they_are() -> None:
    lines = [">>> print(abs(x))", "|x|", "", "|x|"]
    translated = list(docstrings.translate_docstring(lines, CITATION))
    assert translated == [">>> print(abs(x))", "|x|", "", r"\|x|"]


@pytest.mark.parametrize("mode", ["smart", "fully-qualified-except-typing"])
@pytest.mark.parametrize(
    ("annotation", "short"),
    [
        (ArrayLike, "ArrayLike"),
        (ArrayLike | None, "ArrayLike | None"),
        (float | ArrayLike, "float | ArrayLike"),
        (NDArray[np.float64], "NDArray[float64]"),
        (tuple[NDArray[np.float64], int], "tuple[NDArray[float64], int]"),
        (int | None, "int | None"),
    ],
)
def test_numpy_aliases_keep_their_names(annotation: object, short: str, mode: str) -> None:
    assert docstrings.shorten_types(stringify_annotation(annotation, mode)) == short


def test_nearest_package_is_asked_first_for_a_name() -> None:
    assert list(docstrings.public_names("fourierkernels.theory.density_error.Mise")) == [
        "fourierkernels.theory.Mise",
        "fourierkernels.Mise",
    ]
