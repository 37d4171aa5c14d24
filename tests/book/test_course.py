"""The key to the problem sets is right, no page shows it, and slides hold what a chapter has."""

import doctest
import re
from pathlib import Path

import pytest

from book import slides

ROOT = Path(__file__).parents[2]
KEY = ROOT / "book" / "problem_key.md"

CHAPTER = r"""# Waves

**Question.** What *passes*? See {cite:t}`parzen1962estimation`.

```{prf:theorem} A bound
:label: thm-01-bound

It is $|x| < 1$.
```

**Intuition.** A sum of bounded things.

## Summary

- First, $a < b$.
- Second.

## Exercises
"""
OUTPUTS = {
    "cells": [
        {"metadata": {}, "outputs": []},
        {
            "metadata": {"mystnb": {"figure": {"caption": "Two curves."}}},
            "outputs": [{"data": {"image/svg+xml": '<?xml version="1.0"?><svg id="one"></svg>'}}],
        },
    ]
}


def numbers(name: str) -> list[str]:
    return re.findall(r"^\*\*(\d\.\d)\*\*", (ROOT / "book" / name).read_text("utf-8"), re.MULTILINE)


def test_every_answer_of_the_key_is_what_the_package_computes() -> None:
    failed, tried = doctest.testfile(str(KEY), module_relative=False)
    assert failed == 0
    assert tried > 20


def test_every_problem_has_an_answer_in_the_key() -> None:
    assert numbers("problems.md") == numbers("problem_key.md")


def test_no_page_of_the_book_shows_the_key() -> None:
    assert "problem_key" not in (ROOT / "book" / "_toc.yml").read_text("utf-8")
    pages = [path for path in (ROOT / "book").glob("*.md") if path.name != KEY.name]
    assert not [page.name for page in pages if "{doc}`problem_key" in page.read_text("utf-8")]


def test_slides_hold_question_figure_statement_and_summary() -> None:
    question, figure, statement, summary = slides.slides(CHAPTER, OUTPUTS)
    assert "<h1>Waves</h1>" in question
    assert "<em>passes</em>" in question
    assert '<svg id="one"></svg><figcaption>Two curves.' in figure
    assert "<h2>A bound</h2>" in statement
    assert "A sum of bounded things." in statement
    assert summary.count("<li>") == 2
    assert "$a &lt; b$" in summary


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.md")), ids=lambda path: path.stem)
def test_slides_have_every_statement_of_a_chapter_with_its_text(path: Path) -> None:
    text = path.read_text("utf-8")
    titles = re.findall(r"^`{3,}\{prf:(?:theorem|proposition|lemma)\} *(.*)$", text, re.MULTILINE)
    _, *statements, _ = slides.slides(text, {"cells": []})
    found = [re.match(r"<h2>(.*?)</h2><p>\s*\S.{40}", page, re.DOTALL) for page in statements]
    assert [one and one[1] for one in found] == [slides.prose(title) for title in titles]


def test_a_chapter_without_outputs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "01_waves.md").write_text(CHAPTER, "utf-8")
    with pytest.raises(FileNotFoundError, match="build the book before"):
        slides.write(tmp_path, tmp_path / "01_waves.md")
