"""Whatever goes wrong is one line, and no name in a file reaches the terminal as a command."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file, save_file
from tiny_checkpoints import WORDS

from fourierkernels import cli
from fourierkernels.diagnostics import HeadProfile
from fourierkernels.foundation.console import made_visible, visible
from fourierkernels.report import HeadReport, heads_command

Tiny = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b1A\u202e"


class UnforeseenError(Exception):
    """Nothing of this package is called so."""


class PanicException(BaseException):
    """As tokenizers raises it."""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PanicException("oh"), "error: PanicException: oh (FK_TRACEBACK=1 shows where)\n"),
        (UnforeseenError("one\ntwo"), "error: UnforeseenError: one (FK_TRACEBACK=1 shows where)\n"),
        (KeyError("x"), "error: KeyError: 'x' (FK_TRACEBACK=1 shows where)\n"),
        (RecursionError("deep"), "error: RecursionError: deep (FK_TRACEBACK=1 shows where)\n"),
        (AssertionError(), "error: AssertionError: (FK_TRACEBACK=1 shows where)\n"),
        (MemoryError("9 GB"), "error: memory must suffice, got none left: 9 GB\n"),
        (
            RuntimeError("can't allocate memory: 9 GB"),
            "error: memory must suffice, got none left: can't allocate memory: 9 GB\n",
        ),
        (ValueError("a\nb"), "error: a b\n"),
    ],
)
def test_any_exception_is_one_line(
    error: BaseException,
    line: str,
    run: Run,
    tiny: Tiny,
    texts: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(heads_command, "choose_inputs", fail)
    assert run(tiny("bert"), "--text", texts) == (2, "", line)
    monkeypatch.setenv("FK_TRACEBACK", "1")
    status, _, err = run(tiny("bert"), "--text", texts)
    assert status == 2
    assert err.startswith("Traceback ")
    assert err.endswith(line)


def test_what_a_network_raises_on_a_text_is_one_line_that_names_it(
    run: Run, tiny: Tiny, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.bert.modeling_bert import BertLayer

    def fail(*args: object, **options: object) -> None:
        raise IndexError("index out of range in self\nmore")

    monkeypatch.setattr(BertLayer, "forward", fail)
    status, out, err = run(tiny("bert"), "--text", texts, "--tokens", "whitespace")
    assert (status, out) == (2, "")
    assert err == (
        "error: network must run on its inputs, but BertModel fails on texts of up to 8 tokens: "
        "IndexError: index out of range in self\n"
    )


DEEP = "[" * 10_000 + "]" * 10_000
JSON = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "vocab.json",
]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", JSON)
def test_json_nested_ten_thousand_deep_ends_in_a_report_or_in_one_line(
    name: str, whole: bool, own: Tiny, run: Run, texts: Path
) -> None:
    folder = own("bert")
    content = (folder / name).read_text() if (folder / name).is_file() else "{}"
    text = DEEP if whole else json.dumps({**json.loads(content), "x": 0})[:-2] + DEEP + "}"
    (folder / name).write_text(text)
    status, _, err = run(folder, "--text", texts, "--no-baseline")
    assert status in {0, 2}
    assert err.count("\n") == (status == 2)
    assert err == "" or err.startswith("error: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["modules.json", "preprocessor_config.json", "study.json"])
def test_other_json_nested_deep_is_refused_in_one_line(
    name: str, tiny: Tiny, run: Run, tmp_path: Path, own: Tiny, texts: Path
) -> None:
    folder = own("vit")
    (folder / name).write_text(DEEP)
    if name != "preprocessor_config.json":
        (folder / "config.json").unlink()
    status, out, err = run(folder, "--images", tmp_path)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")


# Control characters


def test_control_characters_are_written_out_and_the_rest_stays() -> None:
    assert visible("\x1b[31m\x9b\u202e\x07 a\tb\né 中 \U0001f600") == (
        r"\x1b[31m\x9b\u202e\x07 a" + "\tb\né 中 \U0001f600"
    )


def test_console_keeps_its_own_colours_and_tables() -> None:
    console = Console(force_terminal=True, color_system="standard", width=60)
    table = Table("name")
    table.add_row(f"[red]x[/red]{ESCAPE}y")
    for made in (console, made_visible(Console(force_terminal=True, width=60))):
        with made.capture() as captured:
            made.print(table)
            made.print(f"a{ESCAPE}b", markup=False, soft_wrap=True)
        text = captured.get()
        assert ("\x1b[2J" in text) == (made is console)
        assert "\x1b[31m" in text  # red is rich's own
        assert "┃" in text


def hostile(folder: Path) -> None:
    """Put escapes into the names of tokens and of a tensor."""
    words = [f"{word}{ESCAPE}" if word in "ab" else word for word in WORDS]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    tensors = load_file(folder / "model.safetensors")
    tensors[f"{ESCAPE}extra"] = torch.ones(2)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def escapes(text: str) -> list[str]:
    return [letter for letter in text if letter != "\n" and visible(letter) != letter]


def test_names_in_a_checkpoint_do_not_reach_the_terminal(
    own: Tiny, run: Run, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own("bert")
    hostile(folder)
    place = folder.rename(folder.with_name(os.fsdecode(f"named{ESCAPE}".encode())))
    for options in (
        ("--tokens", "whitespace"),
        ("--metric", ESCAPE),
        ("--part", ESCAPE),
        ("--model-class", ESCAPE),
        ("--tokenizer", ESCAPE),
    ):
        _, out, err = run(place, "--text", texts, "--no-baseline", *options)
        assert out or err
        assert escapes(out + err) == [], options


def test_tensors_of_a_file_do_not_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    save_file({f"{ESCAPE}weight": torch.ones(2, 2)}, tmp_path / "w.safetensors")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "ids.txt").write_text("1 2\n")
    for name in ("BertModel", "torch.nn:Identity", "LanguageModel"):
        options = ("--model-class", name, "--config", tmp_path / "config.json")
        status, out, err = run(tmp_path / "w.safetensors", "--ids", tmp_path / "ids.txt", *options)
        assert (status, out) == (2, "")
        assert escapes(err) == []
        assert err.count("\n") == 1


def test_report_is_printed_without_commands_by_print_and_by_the_console() -> None:
    profile = HeadProfile(layers=(f"layer{ESCAPE}",), unread=f"softmax in {ESCAPE}")
    report = HeadReport(ESCAPE, {"trained": profile})
    assert escapes(str(report)) == []
    assert r"\x1b[2J" in str(report)
    assert cli.visible(ESCAPE).isascii()
