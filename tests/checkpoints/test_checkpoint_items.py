"""What checkpoints tell of their inputs, and that batches give what items give alone.

Targets begin as the model was trained: against shift_tokens_right and generate.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from batches import IDS, PAIRS, check_batches, recorded_calls

from fourierkernels.checkpoints.inputs import read_items
from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.diagnostics.networks.samples import head_samples

Tiny = Callable[[str], Path]
PARTED = [
    (kind, part) for kind in ("t5", "bart", "marian") for part in ("encoder", "decoder", "cross")
]
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


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "albert", "llama", "t5"])
def test_padded_batches_of_tokens_give_what_each_text_gives_alone(kind: str, tiny: Tiny) -> None:
    check_batches(load_checkpoint(tiny(kind)), IDS)


@pytest.mark.parametrize(("kind", "part"), PARTED)
def test_padded_batches_of_pairs_give_what_each_pair_gives_alone(
    kind: str, part: str, tiny: Tiny
) -> None:
    checkpoint = load_checkpoint(tiny(kind), part=part)
    items: list[Any] = IDS if part == "encoder" else PAIRS
    assert checkpoint.reads == ("tokens" if part == "encoder" else "pairs")
    check_batches(checkpoint, items)


@pytest.mark.parametrize(("kind", "part"), PARTED)
def test_part_of_an_encoder_decoder_has_its_calls_only(kind: str, part: str, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny(kind), part=part)
    calls = recorded_calls(checkpoint, IDS[:1] if part == "encoder" else PAIRS[:1])
    assert len(calls) == 3
    n, m = {"encoder": (7, 7), "decoder": (7, 7), "cross": (7, 7)}[part]
    assert [call.maps.shape[2:] for call in calls] == [(n, m)] * 3
    later = [bool(np.triu(call.maps.numpy(), k=1).any()) for call in calls]
    assert later == [part != "decoder"] * 3


@pytest.mark.parametrize("kind", ["t5", "bart", "marian"])
def test_cross_maps_have_target_queries_and_source_keys(kind: str, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny(kind), part="cross")
    item = ([3, 4, 5, 6], [1, 2])
    assert checkpoint.spans(item) == (2, 4)
    assert checkpoint.labels(item) == (("1", "2"), ("3", "4", "5", "6"))
    assert [call.maps.shape[2:] for call in recorded_calls(checkpoint, [item])] == [(2, 4)] * 3


def test_targets_begin_with_what_the_decoder_starts_from(tiny: Tiny) -> None:
    assert load_checkpoint(tiny("t5"), part="cross").start == (0,)
    assert load_checkpoint(tiny("bart"), part="decoder").start == (2,)
    assert load_checkpoint(tiny("bart")).start == ()


def test_part_is_for_encoder_decoders(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match=r"part must be left out .* got 'decoder' for BertModel"):
        load_checkpoint(tiny("bert"), part="decoder")
    with pytest.raises(ValueError, match="part must be one of"):
        load_checkpoint(tiny("t5"), part="reader")


def test_tokenizer_gives_labels_and_special_tokens(tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny("bert"))
    assert checkpoint.labels([2, 4, 3]) == (("2", "4", "3"),) * 2
    assert checkpoint.special([2, 4, 3]) is None
    for tokens in ("auto", "whitespace"):
        named = checkpoint.with_tokenizer(load_tokenizer(checkpoint, tokens=tokens))
        assert named.labels([2, 4, 3]) == (("[CLS]", "a", "[SEP]"),) * 2
        assert named.special([2, 4, 1, 3]).tolist() == [True, False, False, True]
    bare = checkpoint.with_tokenizer(load_tokenizer(checkpoint, tokens="ids"))
    assert (bare.labels([2]), bare.special([2])) == ((("2",), ("2",)), None)


def test_special_tokens_of_cross_attention_are_those_of_the_source(tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny("t5"), part="cross")
    named = checkpoint.with_tokenizer(load_tokenizer(checkpoint, tokens="whitespace"))
    assert named.special(([4, 3], [2, 2, 4])).tolist() == [False, True]


@pytest.mark.parametrize("kind", ["longformer", "windows"])
def test_attention_in_windows_is_refused(
    kind: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut out of windows, maps would be those of other texts."""
    checkpoint = load_checkpoint(tiny("bert" if kind == "windows" else kind))
    if kind == "windows":  # texts in two halves, as if they were two texts
        whole = type(checkpoint).forward
        halves = [row[i : i + 2] for row in ([1, 2, 3, 4], [5, 6, 7, 8]) for i in (0, 2)]
        monkeypatch.setattr(type(checkpoint), "forward", lambda self, batch: whole(self, halves))
    with pytest.raises(ValueError, match=r"checkpoint must (attend from every|have attention)"):
        list(head_samples(checkpoint, [[1, 2, 3, 4], [5, 6, 7, 8]]))


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
