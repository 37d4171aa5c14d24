"""Tokens and windows, without any framework."""

import tracemalloc
from pathlib import Path

import pytest

from fourierkernels.checkpoints.input_files import read_texts
from fourierkernels.checkpoints.tokens import (
    SPLITTERS,
    InputCounts,
    Tokenizer,
    check_known,
    cut_windows,
    encode_texts,
    ids_tokenizer,
)
from fourierkernels.checkpoints.vocabularies import list_tokenizer

FRAMED = Tokenizer(
    encode=lambda text: [ord(letter) - 97 for letter in text],
    prefix=(90,),
    suffix=(91, 92),
    unknown=23,
)


def windows(texts: list[str], size: int | None, *, running: bool = False) -> list[list[int]]:
    encoded = encode_texts(texts, FRAMED, vocabulary=100, counts=InputCounts())
    return list(cut_windows(encoded, FRAMED, size=size, running=running, counts=InputCounts()))


def test_special_tokens_stand_around_every_window_of_a_long_text() -> None:
    expected = [[90, 0, 1, 91, 92], [90, 2, 3, 91, 92], [90, 4, 91, 92]]
    assert windows(["abcde"], 5) == expected


def test_text_that_fits_is_one_window_and_an_empty_one_is_none() -> None:
    assert windows(["ab", "", "c"], 5) == [[90, 0, 1, 91, 92], [90, 2, 91, 92]]
    assert windows(["abcdef"], None) == [[90, 0, 1, 2, 3, 4, 5, 91, 92]]


def test_running_windows_join_texts_and_have_exactly_the_size() -> None:
    expected = [[90, 0, 1, 91, 92], [90, 2, 3, 91, 92]]
    assert windows(["a", "bc", "de"], 5, running=True) == expected


@pytest.mark.parametrize("room", [1, 7, 64])
def test_running_windows_are_cut_without_a_second_copy_of_a_long_text(room: int) -> None:
    """A copy of the rest for every window would be quadratic in the text."""
    text = list(range(100_000))
    bare = Tokenizer(encode=list)
    tracemalloc.start()
    cut = cut_windows([text], bare, size=room, running=True, counts=InputCounts())
    found = sum(len(window) for window in cut)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == len(text) - len(text) % room
    assert peak < 1.5 * 8 * len(text)  # bytes of one reference an id, and spare room


def test_window_must_exceed_the_special_tokens() -> None:
    with pytest.raises(ValueError, match="context must exceed the 3 special tokens, got 3"):
        windows(["a"], 3)


def test_texts_tokens_unknown_and_windows_are_counted() -> None:
    counts = InputCounts()
    encoded = encode_texts(["ax", "xxb"], FRAMED, vocabulary=100, counts=counts)
    list(cut_windows(encoded, FRAMED, size=5, running=False, counts=counts))
    assert counts == InputCounts(texts=2, tokens=5, unknown=3, windows=3)
    assert counts.unknown_share == 0.6
    with pytest.raises(ValueError, match="got 60% of 5 tokens unknown; try another tokenizer"):
        check_known(counts)


@pytest.mark.parametrize("text", ["7", "-1"])
def test_id_outside_the_vocabulary_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=rf"lie in 0..6, .* got {text}"):
        list(encode_texts([text], ids_tokenizer(), vocabulary=7, counts=InputCounts()))


def test_words_are_no_ids() -> None:
    with pytest.raises(
        ValueError, match="ids must be integers separated by white space, got '3 four'"
    ):
        ids_tokenizer().encode("3 four")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("CC(=O)Cl", ["C", "C", "(", "=", "O", ")", "Cl"]),
        ("[Pd+2].Br>>c1ccc%12", ["[Pd+2]", ".", "Br", ">>", "c", "1", "c", "c", "c", "%12"]),
        ("CWC", ["C", "W", "C"]),
    ],
)
def test_smiles_fall_into_atoms_bonds_and_brackets(text: str, tokens: list[str]) -> None:
    import re

    assert re.findall(SPLITTERS["smiles"], text) == tokens


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_listed_tokens_become_their_line_numbers(splitter: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\nC\nO\n")
    tokenizer = list_tokenizer(tmp_path / "vocab.txt", splitter)
    text = "COW" if splitter == "characters" else "C O W"  # elsewhere, white space is no token
    assert tokenizer.encode(text) == [3, 4, 0]
    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.unknown) == ((1,), (2,), 0)


def test_list_must_exist_and_know_the_unknown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a list of tokens, got no file"):
        list_tokenizer(tmp_path / "vocab.txt", "smiles")
    (tmp_path / "vocab.txt").write_text("a\nb")
    with pytest.raises(ValueError, match=r"vocab.txt must hold \[UNK\], got 2 others"):
        list_tokenizer(tmp_path / "vocab.txt", "smiles")


def test_empty_lines_are_skipped_counted_and_the_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\ufeffone\n\n  \ntwo words \n", encoding="utf-8")
    texts = read_texts(path)
    assert (texts.n_texts, texts.n_skipped, len(texts)) == (2, 2, 2)
    assert list(texts) == list(texts) == ["one", "two words"]


def test_marks_of_utf_8_inside_joined_files_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "joined.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\xef\xbb\xbf\n\xef\xbb\xbftwo\n")
    texts = read_texts(path)
    assert (list(texts), len(texts), texts.n_skipped) == (["one", "two"], 2, 1)
    assert list(read_texts(path, blank_lines=True)) == ["one", "", "two"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\n \n", "at least one text, got 2 empty lines"), (b"ok\n\xff\n", "UTF-8, got line 2")],
)
def test_files_without_text_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts(path)


def test_missing_file_of_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="text file must exist, got"):
        read_texts(tmp_path / "none.txt")


def test_sentences_of_the_package_are_read_by_name_unless_a_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(read_texts("sentences")) == len(read_texts(Path("sentences"))) == 60
    Path("sentences").write_text("mine\n", encoding="utf-8")
    assert list(read_texts("sentences")) == ["mine"]
