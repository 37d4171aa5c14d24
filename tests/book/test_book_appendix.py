"""The appendix says what is there: commands, terms and symbols."""

import functools
import re
from pathlib import Path

import pytest

from book import reproduces
from book._extensions.generated import TEXTS
from fourierkernels.studies.engine.reproduce_command import all_tables

ROOT = reproduces.ROOT
RESULTS = ROOT / "experiments" / "results"
GLOSSARY = (ROOT / "book" / "glossary.md").read_text("utf-8")
TERMS = re.findall(r"^(\S.*)\n((?:  .*\n)+)", GLOSSARY.partition("{glossary}\n")[2], re.MULTILINE)
NOTATION, ELSEWHERE = (ROOT / "book" / "notation.md").read_text("utf-8").split("(notation-else")
SYMBOLS = re.findall(r"^\* - (.+)$", NOTATION, re.MULTILINE)
CODE = re.compile(r"^(`{3,})\{code-cell\}.*?^\1$", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$([^$\n]+)\$")
OTHERWISE = re.findall(r"^\* - \$(.+)\$\n  - .+\n  - ([\d, ]+)$", ELSEWHERE, re.MULTILINE)
REPRODUCTION = functools.cache(reproduces.reproduction)


def test_every_committed_result_has_its_command() -> None:
    made = {name for script in reproduces.scripts() for name in script.files()}
    committed = {path.name for path in RESULTS.iterdir() if path.is_file()}
    assert committed - made == set()


@pytest.mark.parametrize("script", reproduces.scripts(), ids=lambda script: script.name)
def test_every_command_runs_a_script_that_is_there(script: reproduces.Script) -> None:
    command, *table = script.name.split()
    if command == "reproduce":
        assert (all_tables()[table[0]].time or "–") == script.time
    else:
        assert (ROOT / "experiments" / script.name).is_file()
    kind = "benchmarks" if script.name.startswith("benchmarks/") else "studies"
    assert f"`{script.command}`\n: {script.question}" in REPRODUCTION(kind)


def test_an_unknown_kind_of_command_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be 'studies' or 'benchmarks', got 'all'"):
        reproduces.reproduction("all")


@pytest.mark.parametrize(("term", "meaning"), TERMS, ids=[term for term, _ in TERMS])
def test_every_term_names_a_chapter_that_is_there(term: str, meaning: str) -> None:
    chapters = re.findall(r"\{doc\}`chapter (\d+) <\.\./notebooks/(\w+)>`", meaning)
    assert chapters, term
    for number, name in chapters:
        assert (ROOT / "notebooks" / f"{name}.md").is_file()
        assert int(name[:2]) == int(number)


def test_terms_are_in_order_and_each_is_there_once() -> None:
    terms = [term.lower().replace("é", "e") for term, _ in TERMS]
    assert len(terms) > 40
    assert terms == sorted(set(terms))


def test_one_symbol_has_one_row() -> None:
    symbols = [symbol for symbol in SYMBOLS if symbol != "Symbol"]
    assert len(symbols) == len(set(symbols))


@pytest.mark.parametrize(("letter", "chapters"), OTHERWISE, ids=[row[0] for row in OTHERWISE])
def test_a_chapter_that_uses_a_letter_otherwise_has_it(letter: str, chapters: str) -> None:
    symbol = re.compile(re.escape(letter) if letter.startswith("\\") else rf"\b{letter}(?=\b|_)")
    for number in chapters.split(", "):
        chapter = next((ROOT / "notebooks").glob(f"{int(number):02d}_*.md")).read_text("utf-8")
        assert any(symbol.search(m) for m in FORMULA.findall(CODE.sub("", chapter)))


def test_a_radius_is_never_a_roughness() -> None:
    for path in (ROOT / "notebooks").glob("*.md"):
        assert not re.search(r"R\((?:p'|g\))", path.read_text("utf-8")), path.name


def test_appendix_pages_are_in_the_contents_and_on_the_start_page() -> None:
    contents = (ROOT / "book" / "_toc.yml").read_text("utf-8")
    start = (ROOT / "book" / "index.md").read_text("utf-8")
    for name in ("claims", "reproduces", "glossary", "notation"):
        assert f"file: book/{name}" in contents
        assert re.search(rf"{{doc}}`(?:[^`]+<)?{name}>?`", start)


def test_generated_texts_are_written_where_pages_ask_for_them() -> None:
    asked = [
        words.split()
        for path in (ROOT / "book").glob("*.md")
        for words in re.findall(r"^```\{generated\} (.+)$", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert {name for name, *_ in asked} == set(TEXTS)
    assert all(TEXTS[name](*rest).strip() for name, *rest in asked)


def test_pages_are_files() -> None:
    for name in re.findall(r"file: (\S+)", (ROOT / "book" / "_toc.yml").read_text("utf-8")):
        assert Path(ROOT / f"{name}.md").is_file()
