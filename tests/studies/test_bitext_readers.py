"""Readers of pairs: each layout is read as it is distributed, and bad files are one clear error."""

import gzip
import json
import re
import runpy
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from tiny_bitext import lines, write_lines

from fourierkernels.studies.translation import corpora
from fourierkernels.studies.translation.corpora import BITEXTS, open_bitext, read_bitext
from fourierkernels.studies.translation.iwslt import TEST_SETS
from fourierkernels.studies.translation.pairs import (
    LONGEST_LINE,
    TEXT_FILTERS,
    LengthRule,
    Pair,
    filter_table,
    sieve,
)
from fourierkernels.studies.translation.tmx import INCOMPLETE

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def read(folder: Path, split: str = "all", pair: str | None = None) -> list[Pair]:
    return list(open_bitext(folder, pair=pair)[1].pairs(split, Counter()))


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def test_line_n_is_the_translation_of_line_n(tmp_path: Path) -> None:
    write(tmp_path, text_en="\ufeffOne.\n Two  words\u2028here\n", text_it="Uno.\nDue\r\n")
    assert read(tmp_path) == [Pair("One.", "Uno."), Pair("Two words here", "Due")]
    assert read(tmp_path, pair="it-en")[0] == Pair("Uno.", "One.")


def test_direction_is_that_of_the_folder_or_of_the_alphabet(tmp_path: Path) -> None:
    names = {"x-it-en": ("it", "en"), "it-en": ("it", "en"), "x-de-it": ("en", "it")}
    for name, languages in names.items():
        folder = write(tmp_path / name, text_en="One\n", text_it="Uno\n")
        assert open_bitext(folder)[1].languages == languages
    folder = write(tmp_path / "x-it-en", text_de="Eins\n")
    assert open_bitext(folder)[1].languages == ("it", "en")


def test_packed_texts_are_read_as_plain_ones(tmp_path: Path) -> None:
    write(tmp_path, text_it="Uno\n", text_documents="page\n")
    (tmp_path / "text.en.gz").write_bytes(gzip.compress(b"One\n"))
    assert read(tmp_path) == [Pair("One", "Uno", "page")]


def test_named_splits_stay_and_other_files_are_read_together(tmp_path: Path) -> None:
    named = {
        f"{split}_{side}": f"{split}\n"
        for split in ("train", "valid", "test")
        for side in ("en", "it")
    }
    write(tmp_path / "named", **named)
    source = open_bitext(tmp_path / "named")[1]
    assert source.splits == ("train", "valid", "test")
    assert read(tmp_path / "named", "valid") == [Pair("valid", "valid")]
    write(tmp_path / "two", a_en="1\n", a_it="1\n", b_en="2\n", b_it="2\n")
    assert [pair.source for pair in read(tmp_path / "two")] == ["1", "2"]


def test_digest_changes_with_each_file_and_with_the_direction(tmp_path: Path) -> None:
    texts = {"text_en": "a\n", "text_it": "b\n", "text_documents": "c\n"}
    digests = {open_bitext(write(tmp_path, **texts))[1].digest}
    digests.add(open_bitext(tmp_path, pair="it-en")[1].digest)
    for name in texts:
        write(tmp_path, **texts)
        digests.add(open_bitext(write(tmp_path, **{name: "d\n"}))[1].digest)
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"text_en": "a\nb\nc\n", "text_it": "a\n"},
            r"text.it must have as many lines as .*text.en, 3, got 1",
        ),
        ({"text_en": "", "text_it": "a\nb\n"}, r"text.it must have as many lines as .*, 0, got 2"),
        (
            {"text_en": "a\n", "text_it": "a\n", "text_documents": ""},
            r"text.documents must have as many",
        ),
        ({"train_en": "a\n", "train_it": "a\n"}, r"must have valid.en, test.en beside train.en"),
        ({"a_en": "a\n", "a_it": "a\n", "b_en": "b\n"}, r"must have b.it, got a.en, a.it, b.en"),
        (
            {"a_en": "a\n", "a_it": "a\n", "a_de": "b\n"},
            r"pair must be named for .* it has de, en, it",
        ),
        ({"a_txt": "a\n"}, r"data must be a folder that a reader knows .* got .* with a.txt"),
        ({}, r"got .* with nothing in it"),
    ],
)
def test_bad_lines_are_one_clear_error(texts: dict[str, str], message: str, tmp_path: Path) -> None:
    write(tmp_path, **texts)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\ncaf\xe9\n", r"text.en must be UTF-8 text, got line 2"),
        (b"one\na\0b\n", r"text.en must be text, got a zero byte in line 2"),
    ],
)
def test_foreign_encoding_is_named_with_its_line(
    content: bytes, message: str, tmp_path: Path
) -> None:
    write(tmp_path, text_it="uno\ndue\n")
    (tmp_path / "text.en").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


PACKED = gzip.compress(b"One\n" * 9999)


# Packed bytes hold the second in which they were made: named, so that all processes collect alike.
@pytest.mark.parametrize("cut", [b"no gzip", PACKED[:-20]], ids=["no gzip", "no end"])
def test_packed_text_cut_off_is_refused(cut: bytes, tmp_path: Path) -> None:
    write(tmp_path, text_it="uno\n")
    (tmp_path / "text.en.gz").write_bytes(cut)
    with pytest.raises(ValueError, match=r"text.en.gz must be a whole gzip file, got"):
        read(tmp_path)


@pytest.mark.parametrize("pair", ["en", "en-", "-it", "en-en"])
def test_pair_must_be_two_languages(pair: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pair must be two languages, such as en-it, got"):
        open_bitext(tmp_path, pair=pair)


def test_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data must be a folder or one of drawn, got .*nowhere"):
        read_bitext(tmp_path / "nowhere")


def test_enormous_line_is_skipped_and_never_held(tmp_path: Path) -> None:
    """Thirty million bytes in one line, two million of memory."""
    write(tmp_path, text_it="uno\ndue\ntre\n")
    with (tmp_path / "text.en").open("w", encoding="utf-8") as out:
        out.write("one\n")
        for _ in range(30):
            out.write("é" * 500_000)
        out.write("\nthree\n")
    dropped: Counter[str] = Counter()
    tracemalloc.start()
    kept = list(sieve(read_lazily(tmp_path), dropped))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [pair.source for pair in kept] == ["one", "three"]
    assert dropped == {"a side of more than 10,000 characters": 1}
    assert peak < 2e6


def read_lazily(folder: Path):
    return open_bitext(folder)[1].pairs("all", Counter())


def test_limit_of_a_line_is_exact(tmp_path: Path) -> None:
    write(tmp_path, text_en=f"{'é' * LONGEST_LINE}\n{'€' * (LONGEST_LINE + 1)}", text_it="a\nb\n")
    dropped: Counter[str] = Counter()
    assert [pair.target for pair in sieve(read_lazily(tmp_path), dropped)] == ["a"]


def test_each_filter_counts_what_it_drops_and_the_first_one_counts() -> None:
    long = "a" * (LONGEST_LINE + 1)
    pairs = [Pair("", ""), Pair("a", ""), Pair(long, long), Pair("a", "a"), Pair("a", "b")]
    dropped: Counter[str] = Counter()
    assert list(sieve(pairs, dropped)) == [Pair("a", "b")]
    assert list(dropped.values()) == [2, 1, 1]
    assert list(dropped) == [row.name for row in TEXT_FILTERS]
    table = filter_table({"train": dropped}, {"train": 1})
    assert re.findall(r"\d+", table.replace("10,000", "")) == ["2", "1", "1", "1"]


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ((50, 50), None),
        ((30, 50), None),
        ((51, 51), "a side of more than 50 tokens"),
        ((50, 51), "a side of more than 50 tokens"),
        ((29, 50), "sides that differ by more than 20 tokens"),
        ((22, 1), "sides that differ by more than 20 tokens"),
    ],
)
def test_lengths_are_those_of_the_report(lengths: tuple[int, int], reason: str | None) -> None:
    assert LengthRule().reason(*lengths) == reason


TAGGED = """<url>http://x</url>
<keywords>a, b</keywords>
<talkid>{talk}</talkid>
<title>Title of {talk}</title>
<description>About It</description>
"""
LAST = "IWSLT14.TED.tst2012.de-en.en.xml"
XML = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><refset><doc docid="7" genre="lectures"><url>x</url>
<seg id="1"> It’s R&amp;D </seg>
<seg id="2"> Two </seg>
</doc></refset></mteval>
"""


@pytest.fixture
def iwslt(tmp_path: Path) -> Path:
    folder = tmp_path / "de-en"
    folder.mkdir()
    body = "".join(f"Sentence {n}.\n" for n in range(45))
    long = "Word " * 176 + "\n" + "One two three four\n" + "\n"
    short = "Word " * 100 + "\n" + "One two\n" + "\n"
    for side, rest in (("de", long), ("en", short)):
        text = TAGGED.format(talk=1) + body + rest + TAGGED.format(talk=2)
        (folder / f"train.tags.de-en.{side}").write_text(text)
        for name in TEST_SETS:
            (folder / f"IWSLT14.{name}.de-en.{side}.xml").write_text(XML)
    return tmp_path


def test_iwslt_is_prepared_as_published(iwslt: Path) -> None:
    """Tags off, lower case, 175 words, ratio 1.5, every 23rd pair that is left for validation."""
    dropped: Counter[str] = Counter()
    source = open_bitext(iwslt)[1]
    train = list(source.pairs("train", dropped))
    valid = list(source.pairs("valid", dropped))
    assert [pair.source for pair in train[:3]] == ["title of 1", "about it", "sentence 0."]
    assert [pair.source for pair in valid] == ["sentence 20.", "sentence 43."]
    assert len(train) + len(valid) == 45 + 4
    assert train[-1] == Pair("about it", "about it", "talk 2")
    assert sorted(dropped.values()) == [1, 1, 1]
    assert (source.languages, source.splits) == (("de", "en"), ("train", "valid", "test"))


def test_iwslt_tests_on_five_sets_in_lower_case(iwslt: Path) -> None:
    found = read(iwslt / "de-en", "test")
    assert len(found) == 2 * len(TEST_SETS)
    assert found[0] == Pair("it's r&d", "it's r&d", "7")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (LAST, None, r"must have IWSLT14.TED.tst2012.de-en.en.xml, got"),
        ("train.tags.de-en.de", None, "must have train.tags.de-en.de, got"),
        (LAST, XML.replace('id="2"', 'id="3"'), "must have the segments of .* 7 2, got 7 3"),
        (LAST, XML.replace("Two </seg>", ""), r"must have whole <seg> elements, got line 4"),
        (
            "IWSLT14.TED.dev2010.de-en.de.xml",
            "<html>",
            "must have the segments of .* none, got 7 1",
        ),
    ],
)
def test_bad_iwslt_is_one_clear_error(
    name: str, change: str | None, message: str, iwslt: Path
) -> None:
    file = iwslt / "de-en" / name
    file.unlink() if change is None else file.write_text(change)
    with pytest.raises(ValueError, match=message):
        [read(iwslt, split) for split in ("train", "test")]


def test_iwslt_has_no_other_languages(iwslt: Path) -> None:
    with pytest.raises(ValueError, match="pair must be de-en or en-de for IWSLT'14, got en-it"):
        open_bitext(iwslt, pair="en-it")


def test_tags_on_one_side_are_refused(iwslt: Path) -> None:
    file = iwslt / "de-en/train.tags.de-en.en"
    file.write_text(file.read_text().replace("<talkid>2</talkid>", "Two"))
    with pytest.raises(ValueError, match=r"must have the tags of .*talkid>2.*, got 'Two'"):
        read(iwslt, "train")


SGM = '<srcset setid="x"><DOC docid="{doc}">\n<seg id="1">{text} &quot;x&quot;</seg>\n</DOC>\n'


def test_wmt_trains_on_all_corpora_and_tests_on_the_last_set(tmp_path: Path) -> None:
    for year in (2012, 2013, 2014):
        for role, side in (("src", "de"), ("ref", "en"), ("src", "fr")):
            text = SGM.format(doc=year, text=side)
            (tmp_path / f"newstest{year}-{role}.{side}.sgm").write_text(text)
    folder = tmp_path / "training"
    write(folder, a_de__en_de="1\n", a_de__en_en="one\n")
    write(folder, b_de__en_de="2\n", b_de__en_en="two\n")
    assert read(tmp_path, "train") == [Pair("1", "one"), Pair("2", "two")]
    assert read(tmp_path, "valid") == [Pair('de "x"', 'en "x"', "2013")]
    assert read(tmp_path, "test", pair="en-de") == [Pair('en "x"', 'de "x"', "2014")]
    with pytest.raises(ValueError, match=r"pair must be one of de-en for .*, got en-it"):
        open_bitext(tmp_path, pair="en-it")
    for year in (2012, 2013):
        (tmp_path / f"newstest{year}-ref.en.sgm").unlink()
    with pytest.raises(ValueError, match="two test sets of de-en or none, got newstest2014"):
        open_bitext(tmp_path)


def test_wmt_without_test_sets_is_split_here(tmp_path: Path) -> None:
    write(tmp_path, acl_en__it_en="1\n", acl_en__it_it="uno\n")
    name, source = open_bitext(tmp_path)
    assert (name, source.splits) == ("wmt", ("all",))
    other = open_bitext(write(tmp_path, acl_en__it_documents="page\n"))[1]
    assert list(other.pairs("all", Counter())) == [Pair("1", "uno", "page")]
    assert other.digest != source.digest


TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="EN-GB"><seg>One <bpt i="1">&lt;b></bpt>bold</seg></tuv>
<tuv xml:lang="it"><seg>Uno
 &amp; due</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Alone</seg></tuv><tuv xml:lang="fr"><seg>Seul</seg></tuv></tu>
<tu><tuv lang="it"><seg>Tre</seg></tuv><tuv lang="en"><seg>Three</seg></tuv></tu>
</body></tmx>
"""
LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><tmx><seg>&b;</seg></tmx>'
FILE = '<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/hostname">]><tmx><seg>&a;</seg></tmx>'


@pytest.mark.parametrize("name", ["memory.tmx", "memory.tmx.gz"])
def test_units_of_translation_memories_are_read(name: str, tmp_path: Path) -> None:
    content = TMX.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    dropped: Counter[str] = Counter()
    found = list(open_bitext(tmp_path, pair="en-it")[1].pairs("all", dropped))
    assert found == [Pair("One bold", "Uno & due"), Pair("Three", "Tre")]
    assert dropped == {INCOMPLETE: 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LAUGHS, "must declare no entities, got 'a' in line 1"),
        (FILE, "must declare no entities, got 'a' in line 1"),
        (LAUGHS.replace("ENTITY a", "ENTITY % a"), "must declare no entities"),
        ("<tmx><tu></tmx>", "must be well-formed XML, got mismatched tag: line 1"),
        ("<tmx>", "must be well-formed XML, got no element found"),
        ("", "must be well-formed XML, got no element found"),
        ("<tmx><seg>&unknown;</seg></tmx>", "must be well-formed XML, got undefined entity"),
        ("<html></html>", "must be TMX, whose first element is tmx, got 'html'"),
        ('<?xml version="1.0" encoding="nonsense"?><tmx/>', "XML, got unknown encoding"),
    ],
)
def test_bad_translation_memories_are_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path, pair="en-it")


def test_wrong_bytes_in_a_translation_memory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_bytes(b"<tmx>\n<seg>caf\xe9 </seg></tmx>")
    with pytest.raises(ValueError, match=r"m.tmx must be .* not well-formed .*: line 2"):
        read(tmp_path, pair="en-it")


def test_translation_memory_needs_its_languages(tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(TMX)
    with pytest.raises(ValueError, match=r"pair must be named for .* of TMX"):
        open_bitext(tmp_path)


def test_translation_memory_is_a_stream(tmp_path: Path) -> None:
    """A segment of four million bytes, and as many after it, pass through two of memory."""
    unit = (
        '<tu><tuv xml:lang="en"><seg>One</seg></tuv><tuv xml:lang="it"><seg>Uno</seg></tuv></tu>\n'
    )
    with (tmp_path / "m.tmx").open("w") as out:
        out.write("<tmx>" + unit * 5_000)
        out.write(unit.replace("Uno", "Uno " * 1_000_000) + unit * 40_000 + "</tmx>")
    pairs = open_bitext(tmp_path, pair="en-it")[1].pairs("all", Counter())
    tracemalloc.start()
    longest = max(len(pair.target) for pair in islice(pairs, 5_010))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert longest > LONGEST_LINE
    assert peak < 2e6


def test_bitext_can_be_added_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path, lines(10))
    source = replace(BITEXTS["lines"].open(tmp_path, None), name="mine")
    row = replace(BITEXTS["lines"], recognises=lambda folder: True, open=lambda *given: source)
    monkeypatch.setattr(corpora, "BITEXTS", {"mine": row, **BITEXTS})
    assert open_bitext(tmp_path) == ("mine", source)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict]:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return runpy.run_path(str(EXPERIMENTS / "data_bitext.py"))  # type: ignore[return-value]


def test_paragraphs_are_aligned_by_id_and_pages_by_structure(script: dict) -> None:
    blocks = script["all_blocks"]
    english = blocks('<h1 id="hd_id1">A</h1><p id="par_id2">B<p id="par_id2">C<p id="par_id3">D')
    other = blocks('<p id="par_id2">b</p><div></div><p id="par_id2">c</p><h1 id="hd_id1">a</h1>')
    assert list(script["by_name"](english, other)) == [("A", "a"), ("B", "b"), ("C", "c")]
    assert list(script["by_structure"](english, other)) == []
    page = "<ul><li>{}<p>{}</p></li></ul><pre>code</pre><p></p>"
    sides = (blocks(page.format(*texts)) for texts in ("AB", "ab"))
    assert list(script["by_structure"](*sides)) == [("A", "a"), ("B", "b")]


def test_sentences_are_split_where_both_sides_have_as_many(script: dict) -> None:
    sentences = script["sentences"]
    assert list(sentences("It is. “So” be it! e.g. a", "Lo è. «Così» sia! ad es. a")) == [
        ("It is.", "Lo è."),
        ("“So” be it! e.g. a", "«Così» sia! ad es. a"),
    ]
    assert list(sentences("One. Two.", "Uno, due.")) == [("One. Two.", "Uno, due.")]


def test_corpus_of_the_script_can_be_read(script: dict, tmp_path: Path) -> None:
    script["main"].__globals__["sys"] = sys
    sys_argv, sys.argv = sys.argv, ["data_bitext.py", "--quick", "--output", str(tmp_path / "x")]
    try:
        script["main"]()
    finally:
        sys.argv = sys_argv
    facts = json.loads((tmp_path / "x/origin.json").read_text())
    assert facts["pairs"] == len(read(tmp_path / "x")) > 20
    assert facts["near-duplicates across splits"] == 0
