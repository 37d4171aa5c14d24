"""Targets begin as the model was trained: against shift_tokens_right and generate."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from fourierkernels.checkpoints.inputs import read_items
from fourierkernels.checkpoints.load import load_checkpoint
from fourierkernels.checkpoints.tokens import Tokenizer

t = transformers
SIDES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 8))
}
BART = {"d_model": 8, **SIDES, "vocab_size": 20, "max_position_embeddings": 32, "pad_token_id": 1}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
LANGUAGE, EOS, BOS = 15, 2, 0
TARGET = [5, 6, 7]

#: Configuration, what the tokenizer puts around a target, and the module of shift_tokens_right.
FAMILIES: dict[str, tuple[Any, tuple[tuple[int, ...], tuple[int, ...]], str]] = {
    "bart": (t.BartConfig(**BART), ((BOS,), (EOS,)), "bart"),
    "mbart": (t.MBartConfig(**BART), ((), (EOS, LANGUAGE)), "mbart"),
    "mbart50": (
        t.MBartConfig(**BART, decoder_start_token_id=EOS),
        ((LANGUAGE,), (EOS,)),
        "mbart",
    ),
    "plbart": (t.PLBartConfig(**BART), ((), (EOS, LANGUAGE)), "plbart"),
    "m2m_100": (t.M2M100Config(**BART), ((LANGUAGE,), (EOS,)), "m2m_100"),
    "marian": (
        t.MarianConfig(**{**BART, "pad_token_id": 19}, decoder_start_token_id=19, eos_token_id=0),
        ((), (0,)),
        "marian",
    ),
    "pegasus": (
        t.PegasusConfig(**{**BART, "pad_token_id": 0}, eos_token_id=1),
        ((), (1,)),
        "pegasus",
    ),
    "blenderbot": (t.BlenderbotConfig(**BART), ((), (EOS,)), "blenderbot"),
    "t5": (t.T5Config(**T5, decoder_start_token_id=0), ((), (1,)), ""),
    "mt5": (t.MT5Config(**T5, decoder_start_token_id=0), ((), (1,)), ""),
}


def shifted(model: Any, module: str, labels: list[int]) -> list[int]:
    """Return what transformers makes the decoder read in training."""
    if not module:
        return model._shift_right(torch.tensor([labels]))[0].tolist()
    home = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    config = model.config
    more = () if module in ("mbart", "plbart") else (config.decoder_start_token_id,)
    ids = torch.tensor([labels, labels])  # one row alone loses its dimension there
    return home.shift_tokens_right(ids, config.pad_token_id, *more)[0].tolist()


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    def save(name: str, **changes: Any) -> Path:
        config = FAMILIES[name][0]
        torch.manual_seed(0)
        model = t.AutoModelForSeq2SeqLM.from_config(config)
        for key, value in changes.items():
            setattr(model.generation_config, key, value)
        model.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


def decoded(folder: Path, target: tuple[tuple[int, ...], tuple[int, ...]] | None) -> list[int]:
    checkpoint = load_checkpoint(folder, part="cross", random_weights=True)
    tokenizer = Tokenizer(encode=lambda text: [int(i) for i in text.split()], target=target)
    ((_, ids),) = read_items(checkpoint, [("3 4", " ".join(map(str, TARGET)))], tokenizer=tokenizer)
    return ids


@pytest.mark.parametrize("name", FAMILIES)
def test_targets_are_read_as_in_training(name: str, folder: Any) -> None:
    _, framing, module = FAMILIES[name]
    path = folder(name)
    model = t.AutoModelForSeq2SeqLM.from_pretrained(path)
    labels = [*framing[0], *TARGET, *framing[1]]
    read = 1 + len(framing[0]) + len(TARGET)  # mBART reads the end of the sentence after it
    assert decoded(path, framing) == shifted(model, module, labels)[:read]


@pytest.mark.parametrize("name", ["bart", "m2m_100", "mbart50", "pegasus"])
def test_forced_first_ids_are_those_that_generation_begins_with(name: str, folder: Any) -> None:
    path = folder(name, forced_bos_token_id=9)
    model = t.AutoModelForSeq2SeqLM.from_pretrained(path)
    made = model.generate(torch.tensor([[3, 4]]), max_new_tokens=2, do_sample=False, num_beams=1)
    start = load_checkpoint(path, part="decoder").start
    assert list(start) == made[0, :2].tolist()
    assert decoded(path, ((8,), (EOS,))) == [*start, *TARGET]  # the model knows better


def test_start_of_the_configuration_counts_where_no_file_names_one(folder: Any) -> None:
    path = folder("bart")
    (path / "generation_config.json").unlink()
    assert load_checkpoint(path, part="decoder").start == (2,)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 10_000])
def test_broken_generation_settings_are_refused(text: str, folder: Any) -> None:
    path = folder("bart")
    (path / "generation_config.json").write_text(text)
    with pytest.raises(ValueError, match=r"generation_config.json must be a JSON object, got"):
        load_checkpoint(path, part="decoder")


def test_unknown_language_is_noted_where_no_id_is_forced(folder: Any) -> None:
    tokenizer = Tokenizer(encode=lambda text: [], target=None)
    whole = load_checkpoint(folder("m2m_100"), part="decoder")
    (note,) = whole.with_tokenizer(tokenizer).notes
    assert note.startswith("targets are read without the code of their language")
    assert whole.with_tokenizer(Tokenizer(encode=lambda text: [])).notes == ()
    forced = load_checkpoint(folder("m2m_100", forced_bos_token_id=LANGUAGE), part="decoder")
    assert forced.with_tokenizer(tokenizer).notes == ()


def test_encoder_has_no_start(folder: Any) -> None:
    assert load_checkpoint(folder("bart")).start == ()


def test_start_for_each_text_of_a_batch_is_left_to_the_tokenizer(folder: Any) -> None:
    path = folder("bart", decoder_start_token_id=[1, 2])
    assert load_checkpoint(path, part="decoder").start == ()
