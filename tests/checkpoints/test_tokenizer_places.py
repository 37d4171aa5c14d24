"""Tokenizers that are named, found one folder up, or lists of characters."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from tiny_checkpoints import WORDS
from tiny_models_of_ours import encoder
from tokenizers import Tokenizer as Fast
from tokenizers import models, pre_tokenizers

from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
from fourierkernels.checkpoints.vocabularies import list_tokenizer, read_token_list
from fourierkernels.models import save_model

Tiny = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bare(own: Tiny) -> Path:
    """A network without the files of a tokenizer, two folders deep."""
    folder = own("bert")
    (folder / "vocab.txt").rename(folder.parent / "words.txt")
    inner = folder.parent / "run" / "checkpoint"
    inner.parent.mkdir()
    folder.rename(inner)
    return inner


def test_tokenizer_one_folder_up_is_read_and_said(bare: Path) -> None:
    (bare.parent / "vocab.txt").write_text("\n".join(WORDS))
    tokenizer = load_tokenizer(load_checkpoint(bare))
    assert tokenizer.encode("a b") == [4, 5]
    assert (tokenizer.prefix, tokenizer.suffix) == ((2,), (3,))
    assert (
        tokenizer.note == f"tokenizer: found in {bare.parent}, not in the folder of the checkpoint"
    )


def test_tokenizer_two_folders_up_is_not_looked_for(bare: Path) -> None:
    (bare.parent.parent / "vocab.txt").write_text("\n".join(WORDS))
    with pytest.raises(ValueError, match=r"must hold a tokenizer .* got none in checkpoint: name"):
        load_tokenizer(load_checkpoint(bare))


def test_own_tokenizer_goes_before_the_one_above_without_a_note(own: Tiny) -> None:
    folder = own("bert")
    (folder.parent / "vocab.txt").write_text("\n".join(reversed(WORDS)))
    for tokens in ("auto", "whitespace"):
        tokenizer = load_tokenizer(load_checkpoint(folder), tokens=tokens)
        assert (tokenizer.encode("a"), tokenizer.note) == ([4], "")


def test_note_is_printed_with_the_report(bare: Path, texts: Path, run: Run) -> None:
    (bare.parent / "vocab.txt").write_text("\n".join(WORDS))
    for options in ((), ("--tokens", "whitespace")):
        status, out, err = run(bare, "--text", texts, "--no-baseline", *options)
        assert (status, err) == (0, "")
        assert out.startswith(f"tokenizer: found in {bare.parent}, not in ")


def save_fast(file: Path) -> None:
    """Write a tokenizer.json whose ids are those of the words in turn."""
    ids = {word: number for number, word in enumerate(WORDS)}
    fast = Fast(models.WordLevel(ids, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.save(str(file))


@pytest.mark.parametrize("name", ["tokenizer.json", "mine.json"])
def test_named_tokenizer_json_is_read(name: str, bare: Path, tmp_path: Path) -> None:
    save_fast(tmp_path / name)
    loaded = load_checkpoint(bare, tokenizer=tmp_path / name)
    assert load_tokenizer(loaded).encode("a b") == [4, 5]
    assert load_tokenizer(loaded.with_random_weights()).encode("a b") == [4, 5]


def test_named_folder_and_list_are_read(bare: Path, tmp_path: Path, run: Run, texts: Path) -> None:
    folder = tmp_path / "apart"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    for place in (folder, folder / "vocab.txt", str(tmp_path / "words.txt")):
        loaded = load_checkpoint(bare, tokenizer=place)
        for tokens in ("auto", "whitespace"):
            assert load_tokenizer(loaded, tokens=tokens).encode("a b") == [4, 5]
    status, out, err = run(bare, "--text", texts, "--tokenizer", folder, "--no-baseline")
    assert (status, err) == (0, "")
    assert "tokenizer: " not in out


def test_settings_beside_a_usual_name_are_those_of_the_tokenizer(
    bare: Path, tmp_path: Path
) -> None:
    """BERT makes capitals small unless its settings say otherwise."""
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS, "A"]))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    loaded = load_checkpoint(bare, tokenizer=tmp_path / "vocab.txt")
    assert load_tokenizer(loaded).encode("A a") == [14, 4]


def test_tokenizer_serves_a_file_of_weights_of_ours(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "m.safetensors"
    save_model(encoder(), file)
    save_fast(tmp_path / "tokenizer.json")
    for options in ({}, {"tokenizer": tmp_path / "tokenizer.json"}):
        tokenizer = load_tokenizer(load_checkpoint(file, **options))
        assert tokenizer.encode("a b") == [4, 5]
        assert bool(tokenizer.note) == (not options)


def test_what_is_no_tokenizer_is_refused_before_anything_is_loaded(
    tmp_path: Path, own: Tiny
) -> None:
    folder = own("bert")
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.bin").write_text("")
    (folder / "model.safetensors").write_bytes(b"")
    for place, message in (
        (tmp_path / "none", "tokenizer must be an existing folder or a .json, .txt, .model file"),
        (tmp_path / "a.bin", "tokenizer must be an existing folder or a .json, .txt, .model file"),
        (tmp_path / "empty", r"tokenizer must be a folder with one of tokenizer\.json, "),
    ):
        with pytest.raises(ValueError, match=message):
            load_checkpoint(folder, tokenizer=place)


# Characters


@pytest.fixture
def gpt(tmp_path: Path) -> Path:
    """A model of characters as a training script leaves it: no word for what is unknown."""
    config = transformers.GPT2Config(
        n_embd=8, n_head=2, n_layer=1, n_positions=16, vocab_size=4, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2Model(config).save_pretrained(tmp_path / "gpt")
    (tmp_path / "gpt" / "vocab.txt").write_text(" \na\nb\nc")
    return tmp_path / "gpt"


def test_characters_are_tokens_only_when_asked_for(gpt: Path) -> None:
    loaded = load_checkpoint(gpt)
    tokenizer = load_tokenizer(loaded, tokens="characters")
    assert tokenizer.encode("ab c") == [1, 2, 0, 3]
    assert tokenizer.names([0, 3]) == (" ", "c")
    with pytest.raises(ValueError, match=r"tokenizer of gpt cannot be read; .*characters"):
        load_tokenizer(loaded)


def test_unknown_character_is_named(gpt: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("abba\nabz\n")
    status, _, err = run(gpt, "--text", tmp_path / "t.txt", "--tokens", "characters")
    assert status == 2
    assert err == "error: characters must be in vocab.txt, which has no [UNK], got 'z'\n"
    (tmp_path / "t.txt").write_text("abba\ncab a\n")
    status, out, err = run(gpt, "--text", tmp_path / "t.txt", "--tokens", "characters")
    assert (status, err) == (0, "")
    assert "n: 4 to 5 query tokens" in out


def test_list_of_tokens_is_read_from_json_in_both_forms(tmp_path: Path) -> None:
    file = tmp_path / "vocab.json"
    for content in ({"b": 1, "a": 0, "[UNK]": 2}, ["a", "b", "[UNK]"]):
        file.write_text(json.dumps(content))
        assert read_token_list(file) == ("a", "b", "[UNK]")
        assert list_tokenizer(file, "characters").encode("bax") == [1, 0, 2]


@pytest.mark.parametrize(
    "content",
    ['{"a": 0, "b": 2}', '{"a": 0, "b": 0}', '{"a": "0"}', '{"a": true}', "[1, 2]", "3", "["],
)
def test_damaged_list_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(content)
    with pytest.raises(ValueError, match=r"^vocab.json must [^\n]*$"):
        read_token_list(tmp_path / "vocab.json")


def test_words_of_a_language_model_leave_no_room_for_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("a\n<eos>\n")
    torch.save({}, tmp_path / "m.pt")
    with pytest.raises(
        ValueError, match="tokenizer must be left out for a language model of words"
    ):
        load_checkpoint(
            tmp_path / "m.pt",
            vocabulary=tmp_path / "vocab.txt",
            tokenizer=tmp_path / "vocab.txt",
        )


# Bytes and characters, for which there is no file


def test_byt5_reads_bytes_without_a_file_of_tokens(tmp_path: Path, run: Run, texts: Path) -> None:
    config = transformers.T5Config(
        d_model=16, d_kv=4, num_heads=4, num_layers=2, d_ff=16, vocab_size=384
    )
    transformers.T5Model(config).save_pretrained(tmp_path / "byt5")
    transformers.ByT5Tokenizer().save_pretrained(tmp_path / "byt5")
    tokenizer = load_tokenizer(load_checkpoint(tmp_path / "byt5"))
    assert tokenizer.encode("ab") == [ord("a") + 3, ord("b") + 3]
    assert (tokenizer.suffix, tokenizer.note) == ((1,), "")
    status, _, err = run(tmp_path / "byt5", "--text", texts, "--no-baseline")
    assert (status, err) == (0, "")


def test_canine_counts_no_tokens_and_reads_characters(tmp_path: Path) -> None:
    config = transformers.CanineConfig(
        hidden_size=16, num_hidden_layers=1, intermediate_size=16, num_attention_heads=2
    )
    assert not hasattr(config, "vocab_size")
    transformers.CanineModel(config).save_pretrained(tmp_path / "canine")
    transformers.CanineTokenizer().save_pretrained(tmp_path / "canine")
    checkpoint = load_checkpoint(tmp_path / "canine")
    assert checkpoint.vocabulary == 0x110000
    assert load_tokenizer(checkpoint).encode("a\u4e2d") == [ord("a"), 0x4E2D]


def test_network_that_counts_no_tokens_otherwise_is_refused(tmp_path: Path) -> None:
    config = transformers.PerceiverConfig(
        d_latents=16,
        d_model=16,
        num_latents=4,
        num_blocks=1,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    )
    transformers.PerceiverModel(config).save_pretrained(tmp_path / "perceiver")
    with pytest.raises(ValueError, match=r"^checkpoint must [^\n]*Perceiver"):
        load_checkpoint(tmp_path / "perceiver")


def test_ids_are_displayed_as_the_tokens_of_a_named_tokenizer(bare: Path, tmp_path: Path) -> None:
    save_fast(tmp_path / "tokenizer.json")
    loaded = load_checkpoint(bare, tokenizer=tmp_path / "tokenizer.json")
    tokenizer = load_tokenizer(loaded, tokens="ids")
    assert tokenizer.encode("4 5") == [4, 5]
    assert tokenizer.names([4, 5]) == ("a", "b")
    assert load_tokenizer(load_checkpoint(bare), tokens="ids").names([4]) == ("4",)


def test_network_that_reads_images_leaves_no_room_for_a_tokenizer(
    own: Tiny, tmp_path: Path
) -> None:
    save_fast(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="tokenizer must be left out for a network that reads ima"):
        load_checkpoint(own("vit"), tokenizer=tmp_path / "tokenizer.json")
