"""Each rule for chapters finds its defect, and every chapter of the book keeps all of them."""

from pathlib import Path

import pytest

from book.chapters import RULES, Chapter, check, main

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.md"))

FIGURE = """```{code-cell} python3
---
tags: [hide-input]
mystnb:
  figure:
    name: fig-01-kernel
---
ax.plot(x)
ax.set_title("The curve rises")
```
"""


def exercise(title: str, *, hint: bool = True, label: str = "ex-01-a", solved: bool = True) -> str:
    lines = [f"````{{exercise}} {title}", f":label: {label}", "", "Do it.", ""]
    lines += ["```{dropdown} Hint", "Like this.", "```"] if hint else []
    lines += ["````", ""]
    lines += [f"````{{solution-start}} {label}", "````", "", "````{solution-end}", "````"] * solved
    return "\n".join(lines) + "\n"


EXERCISES = "".join(
    exercise(f"Level {level}: {text}", label=f"ex-01-{level}")
    for level, text in enumerate(("a number", "a figure", "break the bound"), 1)
)
SOUND = (
    f"# Title\n\n**Question.** What?\n\n{FIGURE}\n## One\n\n```{{code-cell}} python3\nx = 1\n```\n"
)


def chapter(tmp_path: Path, text: str) -> Chapter:
    path = tmp_path / "01_title.md"
    path.write_text(text)
    return Chapter(path)


def found(tmp_path: Path, rule: str, text: str) -> str:
    return "; ".join(RULES[rule](chapter(tmp_path, text)))


def cell(code: str, settings: str = "") -> str:
    return f"```{{code-cell}} python3\n{settings}{code}\n```\n"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_keeps_the_rules(path):
    assert check(path) == []


def test_a_sound_chapter_has_no_findings(tmp_path):
    path = tmp_path / "01_title.md"
    path.write_text(SOUND + EXERCISES)
    assert check(path) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SOUND.replace("**Question.**", "Question."), r"no paragraph begins"),
        (SOUND.replace(FIGURE, ""), "no figure"),
        (SOUND.replace("What?", "word " * 130), "words before the first figure"),
        (SOUND.replace("_title(", "_label("), "a title that states its finding"),
        (SOUND.replace("ax.plot(x)", "ax.plot(x)\nax.legend()"), "and no legend"),
    ],
)
def test_openings(tmp_path, text, expected):
    assert expected in found(tmp_path, "opening", text)


def test_visible_cells_are_short_and_narrow(tmp_path):
    assert "16 lines" in found(tmp_path, "cell_sizes", cell("\n".join("x = 1" for _ in range(16))))
    assert "90 columns" in found(tmp_path, "cell_sizes", cell("x" * 90))
    assert not found(tmp_path, "cell_sizes", cell("x" * 90, ":tags: [hide-input]\n\n"))


def test_a_chapter_is_short(tmp_path):
    assert not found(tmp_path, "length", "word " * 4_999)
    assert "5,000 words" in found(tmp_path, "length", "word " * 5_000)


def test_a_lesson_has_three_tables_at_most(tmp_path):
    printed, written = cell("table(head, rows)"), "| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
    assert not found(tmp_path, "tables", 2 * printed + written)
    assert "4 tables" in found(tmp_path, "tables", 2 * printed + 2 * written)


def test_code_that_draws_is_hidden(tmp_path):
    assert "shows its code" in found(
        tmp_path, "plotting_code", FIGURE.replace("hide-input", "other")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EXERCISES.replace("Level 2", "Level 1"), "begins with Level 2"),
        (EXERCISES.replace("break", "try"), "breaks an assumption"),
        (EXERCISES + exercise("A title", label="ex-01-4"), "without a level"),
        (EXERCISES + exercise("Level 1: more", label="ex-01-4", hint=False), "without a hint"),
        (
            EXERCISES + exercise("Level 1: more", label="ex-01-4", solved=False),
            "without a solution",
        ),
    ],
)
def test_exercises(tmp_path, text, expected):
    assert expected in found(tmp_path, "exercises", text)


def test_exercises_go_from_level_one_to_three(tmp_path):
    assert not found(tmp_path, "exercise_order", EXERCISES)
    late = EXERCISES + exercise("Level 2: late", label="ex-01-4")
    assert "in the order of their levels" in found(tmp_path, "exercise_order", late)


@pytest.mark.parametrize(
    "text", [":label: thm-02-a", "    name: fig-02-a", ":name: fig-02-a", "$$ (eq-02-a)"]
)
def test_labels_carry_the_number_of_their_chapter(tmp_path, text):
    assert "a label of another chapter" in found(tmp_path, "labels", text + "\n")
    assert not found(tmp_path, "labels", text.replace("02", "01") + "\n")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def table(header, rows): ...", "defined again"),
        ('open("../experiments/results/a.csv")', "a path of the checkout"),
        ('read_rows(f"{name}.csv")', "must stand there"),
    ],
)
def test_files_and_tables_have_one_home(tmp_path, code, expected):
    assert expected in found(tmp_path, "one_home", cell(code))


def test_the_command_says_how_much_it_found(tmp_path, capsys):
    path = tmp_path / "01_title.md"
    path.write_text(SOUND)
    assert main([str(path)]) == 1
    assert "finding(s)" in capsys.readouterr().out
    assert main([]) == 2
