"""Every chapter leaves the book as a notebook that JupyterLab shows and the package runs."""

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from book.chapters import Chapter
from book.downloads import extras, files, installation, make, notebook, unpack
from book.labels import Book
from book.lint import FENCE, MYST_ROLE
from book.plain import MARKUP, Plain

ROOT = Path(__file__).parents[2]
BOOK = Book(ROOT)
SMALL = "06_sinc_powers"

HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
---

"""
PAGE = """# Density

**Question.** See {doc}`02_b`, {eq}`eq-01-a` and {numref}`fig-01-a`.

```{code-cell} python3
---
tags: [hide-input]
mystnb:
  figure:
    name: fig-01-a
    caption: The kernel of {cite:t}`parzen1962estimation`, $\\E X$.
---
read_rows("rates.csv")
```

## One

(sec-one)=
### Part

$$
\\E X = \\sinc(1)
$$ (eq-01-a)

```{prf:theorem} A bound of $\\E X$
:label: thm-01-a

Then

$$
a
= b .
$$
```

```{prf:proof}
By {prf:ref}`thm-01-a` and {ref}`sec-one`, `{not} a role`,
{cite}`parzen1962estimation,davis1975mean`.
```

````{exercise} Level 1: a number
:label: ex-01-a

Compute {py:func}`~fourierkernels.theory.optimal_radius`, a {term}`radius`.

```{dropdown} Hint
Use {ref}`the exercise <ex-01-a>`.
```
````

````{solution-start} ex-01-a
:class: dropdown
````

It is {math}`1`.

````{solution-end}
````

:::{note}
A remark.
:::
"""


@pytest.fixture
def small(tmp_path: Path) -> Book:
    """A book of two chapters, with the settings of this one."""
    contents = {
        "book/_toc.yml": "parts: [{chapters: [{file: notebooks/01_a}, {file: notebooks/02_b}]}]",
        "book/_config.yml": (ROOT / "book" / "_config.yml").read_text("utf-8"),
        "book/references.bib": (ROOT / "book" / "references.bib").read_text("utf-8"),
        "notebooks/01_a.md": HEAD + PAGE,
        "notebooks/02_b.md": f"{HEAD}# Rates\n\n```{{code-cell}}\nprint(r'$\\MISE$')\n```\n",
        "notebooks/data/a.txt": "text",
        "experiments/results/rates.csv": "a\n1\n",
    }
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return Book(tmp_path)


def rewrite(book: Book, text: str) -> Path:
    path = book.chapters[0]
    path.write_text(HEAD + text, "utf-8")
    return path


def source(book: Book, number: int = 0) -> str:
    return "\n\n".join(cell.source for cell in notebook(book.chapters[number], book).cells)


def test_roles_become_the_words_that_the_book_shows(small: Book) -> None:
    text = source(small)
    assert "See “Rates”, (1.1) and Fig. 1.1." in text
    assert "By Theorem 1.1 and Part, `{not} a role`,\n> [Parzen, 1962; Davis, 1975]." in text
    assert "Compute `optimal_radius()`, a radius." in text
    assert "Use the exercise." in text
    assert "It is $1$." in text


def test_directives_become_quotations_and_folds(small: Book) -> None:
    text = source(small)
    assert "> **Theorem 1.1** (A bound of $\\operatorname{E} X$)\n>\n> Then" in text
    assert "> $$ a = b . $$\n" in text  # on its own lines the marks would be part of it
    assert "**Exercise 1.1** (Level 1: a number)" in text
    assert "<details>\n<summary>Hint</summary>\n\nUse the exercise.\n\n</details>" in text
    assert "**Solution to Exercise 1.1**" in text
    assert "> **Note**\n>\n> A remark." in text


def test_mathematics_needs_no_macros_and_keeps_its_numbers(small: Book) -> None:
    assert "$$\n\\operatorname{E} X = \\operatorname{sinc}(1) \\tag{1.1}\n$$" in source(small)


def test_a_moving_figure_is_counted_and_told(small: Book) -> None:
    moving = "```{moving} radius\n:name: fig-01-moving\n\nThe $\\E$\nof it.\n```\n\n"
    cell = PAGE[PAGE.index("```{code-cell}") : PAGE.index("## One")]
    after = "{numref}`fig-01-moving`, {numref}`fig-01-a`"
    path = rewrite(small, f"# T\n\n{moving}{cell}{after}\n")
    text = "\n".join(cell.source for cell in notebook(path, small).cells)
    assert "*On the page “T” of the book stands a figure with sliders.*" in text
    assert "**Fig. 1.1** The $\\operatorname{E}$ of it." in text
    assert "**Fig. 1.2** The kernel" in text
    assert "Fig. 1.1, Fig. 1.2" in text


def test_macros_are_defined_where_a_cell_prints_them(small: Book) -> None:
    assert "\\newcommand{\\MISE}{\\operatorname{MISE}}" in source(small, 1)
    assert "newcommand" not in source(small, 0)


def test_a_figure_is_followed_by_its_caption_and_hides_its_code(small: Book) -> None:
    cells = notebook(small.chapters[0], small).cells
    [at] = [at for at, cell in enumerate(cells) if cell.cell_type == "code"]
    assert cells[at].metadata["jupyter"] == {"source_hidden": True}
    assert cells[at + 1].source == (
        "**Fig. 1.1** The kernel of Parzen [1962], $\\operatorname{E} X$."
    )


def test_works_cited_are_listed(small: Book) -> None:
    last = notebook(small.chapters[0], small).cells[-1].source
    assert last.startswith("**Works cited**")
    assert "Davis" in last
    assert "Parzen" in last


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# T\n\n{eq}`eq-none`\n", "no label 'eq-none'"),
        ("# T\n\n{doc}`05_none`\n", "notebooks/05_none.md"),
        ("# T\n\n{cite}`nobody2000nothing`\n", "no entry 'nobody2000nothing'"),
        ("# T\n\n{color}`red`\n", "no plain Markdown for '{color}`red`'"),
        ("# T\n\n```{mermaid}\na\n```\n", "no plain Markdown for {mermaid}"),
        ("# T\n\n```{note}\na\n", "a block does not end"),
        ("# T\n\n$$\na\n", "a displayed equation does not end"),
    ],
)
def test_what_cannot_be_translated_is_an_error(small: Book, text: str, message: str) -> None:
    path = rewrite(small, text)
    with pytest.raises(ValueError, match=re.escape(message)):
        notebook(path, small)


def test_archive_holds_the_files_that_cells_read(small: Book, tmp_path: Path) -> None:
    made = make(small.chapters[0], small, tmp_path)
    with zipfile.ZipFile(made) as archive:
        assert archive.namelist() == ["01_a.ipynb", "results/rates.csv"]
        assert archive.read("results/rates.csv") == b"a\n1\n"
    assert make(small.chapters[1], small, tmp_path).name == "02_b.ipynb"


def test_a_directory_and_a_linked_file_come_along(small: Book) -> None:
    (small.root / "notebooks" / "data" / "set").mkdir()
    (small.root / "notebooks" / "data" / "set" / "b.txt").write_text("b")
    cell = '```{code-cell} python3\nnotebook.data("set")\n```\n'
    path = rewrite(small, f"# T\n\n{{download}}`data/a.txt`\n\n{cell}")
    assert list(files(Chapter(path), small.root)) == ["data/a.txt", "data/set/b.txt"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('result("none.csv")', "reads 'none.csv', which is not in experiments/results"),
        ('read_rows(f"{x}.csv")', "must stand there as it is"),
        ("data()", "must stand there as it is"),
    ],
)
def test_files_that_cannot_be_brought_fail(small: Book, code: str, message: str) -> None:
    path = rewrite(small, f"# T\n\n```{{code-cell}} python3\n{code}\n```\n")
    with pytest.raises(ValueError, match=message):
        files(Chapter(path), small.root)


def test_the_same_chapter_gives_the_same_bytes(small: Book, tmp_path: Path) -> None:
    digests = {
        hashlib.sha256(make(small.chapters[0], small, tmp_path).read_bytes()).hexdigest()
        for _ in range(2)
    }
    assert len(digests) == 1


def test_a_notebook_that_is_there_stays(small: Book, tmp_path: Path) -> None:
    assert unpack(small.chapters[0], small, tmp_path)
    written = tmp_path / "01_a.ipynb"
    assert nbformat.read(written, as_version=4).cells[0].source.startswith("# 1. Density")
    written.write_text("of the reader")
    assert not unpack(small.chapters[0], small, tmp_path)
    assert written.read_text() == "of the reader"


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("import numpy", "pip install '.[plot]'"),
        ("read_frame('rates.csv')", "pip install '.[plot,data]'"),
        ("from fourierkernels.theory import symbolic", "pip install '.[plot,symbolic]'"),
        ("from fourierkernels import models", "pip install '.[experiments]'"),
        ("import torch\nimport rxnfp", "make env"),
    ],
)
def test_the_command_installs_what_the_code_needs(small: Book, code: str, command: str) -> None:
    path = rewrite(small, f"# T\n\n```{{code-cell}} python3\n{code}\n```\n")
    assert installation(Chapter(path)) == command


@pytest.mark.parametrize("path", BOOK.chapters, ids=lambda path: path.stem)
def test_every_chapter_becomes_plain_markdown(path: Path) -> None:
    made = notebook(path, BOOK)
    nbformat.validate(made)
    assert made.cells[0].source.startswith(f"# {BOOK.number(path)}. ")
    for cell in made.cells:
        if cell.cell_type != "markdown":
            continue
        prose = re.sub(
            r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", cell.source, flags=re.M | re.S)
        )
        for pattern in (MYST_ROLE, MARKUP, FENCE):
            assert pattern.search(prose) is None, cell.source
        assert prose.count("$$") % 2 == 0


@pytest.mark.parametrize("path", BOOK.chapters, ids=lambda path: path.stem)
def test_every_chapter_brings_its_files(path: Path) -> None:
    assert extras(Chapter(path))
    assert all(file.is_file() for file in files(Chapter(path), ROOT).values())


def test_labels_are_translated_alone(small: Book) -> None:
    plain = Plain(small, small.chapters[0])
    assert plain.markdown("{numref}`figure %s <fig-01-a>`") == "figure 1.1"


@pytest.mark.slow
def test_a_download_runs_outside_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is the installed one: neither the checkout nor the path leads to its files."""
    [path] = [path for path in BOOK.chapters if path.stem == SMALL]
    made = make(path, BOOK, tmp_path)
    if made.suffix == ".zip":
        with zipfile.ZipFile(made) as archive:
            archive.extractall(tmp_path)
    monkeypatch.setenv("FK_FAST", "1")
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix, "share", "jupyter")))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", f"{SMALL}.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(tmp_path / f"{SMALL}.ipynb", as_version=4)
    assert any(cell.get("outputs") for cell in executed.cells)
