"""``fourierkernels translate``, and the commands of training on pairs of sentences."""

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_bitext import lines
from training_runs import Call
from translation_runs import mini

from fourierkernels.studies.translation import study as translation
from fourierkernels.studies.translation.corpora import BITEXTS
from fourierkernels.studies.translation.text_translation import translate_lines
from fourierkernels.studies.translation.translate_command import load_translator

pytest.importorskip("sacrebleu")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.en").write_text("7 ba du.\n\n12 gol ra ti.\n", encoding="utf-8")
    return tmp_path / "text.en"


def test_file_standard_input_and_packed_file_are_translated_alike(
    call: Call, translator: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = call("translate", translator, text)
    assert (status, err) == (0, "")
    lines = out.split("\n")
    assert len(lines) == 4
    assert (bool(lines[0]), lines[1], bool(lines[2]), lines[3]) == (True, "", True, "")
    packed = text.with_suffix(".gz")
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert call("translate", translator, packed)[1] == out
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes()), encoding="utf-8")
    )
    assert call("translate", translator)[1] == out
    output = text.with_name("out.it")
    assert call("translate", translator, text, "--output", output) == (0, "", "")
    assert output.read_text(encoding="utf-8") == out


def test_enormous_line_is_one_warning(call: Call, translator: Path, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("ba\n" + "du " * 50_000 + "\nba\n" + "du " * 90 + "\n")
    status, out, err = call("translate", translator, tmp_path / "long", "--beam", 1)
    assert (status, out.count("\n"), err.count("\n")) == (0, 4, 1)
    assert err.startswith("warning: line 2 has ")
    assert "the model reads the first 30" in err
    lines = out.split("\n")
    assert lines[0] == lines[2]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("nowhere", "text"), "file must exist, got text"),
        (("nowhere",), "checkpoint must be in the folder of a training run, got nowhere"),
        (("nowhere", "--output", "no/such/file"), "output must be in an existing folder"),
    ],
)
def test_bad_arguments_are_one_line(
    call: Call,
    arguments: tuple[str, ...],
    rule: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = call("translate", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {rule}")


def test_a_byte_order_mark_is_no_text(call: Call, translator: Path, tmp_path: Path) -> None:
    """As in training, where it is not read either: the same lines have the same translations."""
    text = "12 bal gen.\n\n7 dora bal gen dora bal.\n"
    found = []
    for name, content in (("plain", text), ("marked", "\ufeff" + text.replace("7", "\ufeff7"))):
        (tmp_path / name).write_text(content, encoding="utf-8")
        status, out, err = call("translate", translator, tmp_path / name)
        assert status == 0, err
        found.append(out)
    assert found[0] == found[1]
    read: list[str] = []
    model, bpe = load_translator(translator)
    spy = SimpleNamespace(encode=lambda ts: read.extend(ts) or bpe.encode(ts), decode=bpe.decode)
    list(translate_lines(model, spy, ["\ufeffone  two"], beam=1))  # type: ignore[arg-type]
    assert read == ["one two"]


def test_bad_text_and_language_model_are_one_line(
    call: Call, translator: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_bytes(b"ba\n\xff\xfe\n")
    output = tmp_path / "out"
    status, _, err = call("translate", translator, tmp_path / "text", "--output", output)
    assert (status, err.count("\n")) == (2, 1)
    assert "must be UTF-8 text, got line 2" in err
    assert not output.exists()
    from fourierkernels.models import LanguageModel, language_config, save_model

    config = language_config("small", vocabulary=9, cutoffs=(), dim=8, layers=1, hidden=8)
    (tmp_path / "study.json").write_bytes((translator / "study.json").read_bytes())
    save_model(LanguageModel(config), tmp_path / "model.safetensors")
    status, _, err = call("translate", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert "checkpoint must be of a translation model, got a LanguageModel in" in err


def test_trained_model_is_measured_again(call: Call, translator: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    status, out, err = call(
        "evaluate", translator, "--split", "test", "--positions", 8, "--output", table
    )
    assert status == 0, err
    assert "BLEU, mean of classes" in out
    rows = (translator / "results.csv").read_text().splitlines()
    assert table.read_text().splitlines() == [row for row in rows if not row.startswith("valid")]


def test_list_and_plan_know_pairs_of_sentences(call: Call, corpus: Path, tmp_path: Path) -> None:
    text = " ".join(call("train", "translation", "--list")[1].split())
    for name, row in BITEXTS.items():
        assert f"{name}: {row.title}" in text
    assert "translation: Translation" in text
    assert "--beam" in call("translate", "--help")[1]
    options = ("translation", "--preset", "mini", "--mixer", "dft_both", "--data", corpus)
    status, out, err = call("train", *options, "--plan")
    assert status == 0, err
    assert "translation, mini, dft_both" in out
    for arguments, rule in (
        (("translation", "--mixer", "dft_both"), "data must be a folder of sentences"),
        ((*options, "--mixer-option", "power=2"), "option of placement dft_both must be one of"),
        (("translation", "--mixer", "fnet"), "mixer must be one of attention, fourier"),
    ):
        status, _, err = call("train", *arguments, "--output", tmp_path / "run")
        assert (status, err.count("\n")) == (2, 1)
        assert rule in err


def write_three_languages(folder: Path) -> Path:
    """Write line-aligned files of three languages, of which no two are meant."""
    folder.mkdir()
    columns = zip(
        *((one, two, one.swapcase()) for one, two, _ in lines(200, longest=5)), strict=True
    )
    for ending, column in zip(("en", "it", "de"), columns, strict=True):
        (folder / f"text.{ending}").write_text("\n".join(column) + "\n", encoding="utf-8")
    return folder


def write_memory(folder: Path) -> Path:
    folder.mkdir()
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="it"><seg>{}</seg></tuv></tu>'
    body = "".join(unit.format(one, two) for one, two, _ in lines(200, longest=5))
    (folder / "memory.tmx").write_text(f"<tmx><body>{body}</body></tmx>", encoding="utf-8")
    return folder


@pytest.mark.parametrize("write", [write_three_languages, write_memory])
def test_a_pair_of_several_languages_is_trained(
    write: Callable[[Path], Path], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named once: what reads the run again knows the pair."""
    few = replace(mini().recipe, steps=2, evaluate_every=2, save_every=2, log_every=2, warmup=1)
    monkeypatch.setitem(translation.PRESETS, "mini", replace(mini(), recipe=few))
    monkeypatch.setenv("FOURIERKERNELS_CACHE", str(tmp_path / "cache"))
    data, run = write(tmp_path / "data"), tmp_path / "run"
    options = ("train", "translation", "--preset", "mini", "--mixer", "attention", "--data", data)
    status, _, err = call(*options, "--output", run)
    assert (status, err.count("\n")) == (2, 1)
    assert "pair must be named" in err
    assert call(*options, "--pair", "en-it", "--plan")[0] == 0
    status, _, err = call(*options, "--pair", "en-it", "--output", run)
    assert status == 0, err
    assert json.loads((run / "results.json").read_text())["config"]["languages"] == ["en", "it"]
    assert call("evaluate", run, "--split", "test")[0] == 0
    status, _, err = call(*options, "--pair", "it-en", "--output", run, "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert call(*options, "--output", run, "--resume")[0] == 0
    status, _, err = call("train", "language", "--pair", "en-it", "--output", tmp_path / "other")
    assert "error: study must be one of translation for a pair, got 'language'" in err


def test_other_studies_need_neither_sacrebleu_nor_subwords() -> None:
    code = (
        "import sys; sys.modules.update(sacrebleu=None, tokenizers=None)\n"
        "from fourierkernels.studies import STUDIES, setup\n"
        "import fourierkernels.models\n"
        "print(setup('language').preset, len(STUDIES['translation'].mixers()) > 3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("tiny True\n", "")
