"""Importance and pruning curves of a checkpoint: which loss, which items, what comes out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiles
import pytest
import torch
import transformers
from tiny_checkpoints import SIZES, WORDS, save_tiny
from torch.nn.functional import cross_entropy

from fourierkernels.checkpoints import load_checkpoint, load_tokenizer
from fourierkernels.diagnostics.networks.losses import LOSSES, choose_loss

Tiny = Callable[[str], Path]
TEXTS = ["a b c d e", "f g a", "h i j a b c", "d c b", "e f g h", "b b a"]
BERT = {**SIZES, "num_attention_heads": 4, "max_position_embeddings": 32}


@pytest.fixture
def with_head(tmp_path: Path) -> Callable[[str], Path]:
    """A tiny network with the head for its task, saved; config.json names its class."""

    def save(kind: str) -> Path:
        gpt2 = transformers.GPT2Config(
            n_embd=16, n_head=4, n_layer=2, n_positions=32, vocab_size=14, eos_token_id=1
        )
        t5 = transformers.T5Config(
            d_model=16,
            d_kv=4,
            num_heads=4,
            num_layers=2,
            d_ff=16,
            vocab_size=14,
            decoder_start_token_id=0,
        )
        torch.manual_seed(0)
        model = {
            "gpt2": lambda: transformers.GPT2LMHeadModel(gpt2),
            "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**BERT)),
            "t5": lambda: transformers.T5ForConditionalGeneration(t5),
        }[kind]()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 3 if parameter.ndim == 2 else 1
        model.save_pretrained(tmp_path / kind)
        (tmp_path / kind / "vocab.txt").write_text("\n".join([*WORDS[:-1], "[MASK]"]))
        return tmp_path / kind

    return save


@pytest.mark.parametrize(("kind", "loss"), [("gpt2", "next_token"), ("bert", "masked_token")])
def test_loss_is_that_of_the_class_in_the_configuration(
    kind: str, loss: str, with_head: Callable[[str], Path]
) -> None:
    options = {"tokens": "whitespace"} if kind == "bert" else {"tokens": "ids"}
    texts = TEXTS[:2] * 2 if kind == "bert" else ["1 2 3", "4 5 6 7", "8 9", "3 2 1"]
    found = profiles.pruning(with_head(kind), texts, count=2, steps=2, **options)
    assert found.loss == loss
    assert found.importance.values.shape == (3 if kind == "bert" else 2, 4)
    assert found.importance.n_batches == 2


def test_next_token_loss_is_that_of_the_library(with_head: Callable[[str], Path]) -> None:
    checkpoint = load_checkpoint(with_head("gpt2"), model_class="GPT2LMHeadModel")
    items = [[1, 2, 3, 4], [5, 6]]
    loss, batches = choose_loss(checkpoint).make(checkpoint, None, items, 0)
    for ids, batch in zip(items, batches, strict=True):
        tensor = torch.tensor([ids])
        expected = checkpoint.model(input_ids=tensor, labels=tensor).loss
        torch.testing.assert_close(loss(checkpoint.model, batch), expected)
    with pytest.raises(ValueError, match="2 tokens to predict the next, got 1"):
        LOSSES["next_token"].make(checkpoint, None, [[1]], 0)


def test_next_token_loss_of_a_pair_is_that_of_the_library(
    with_head: Callable[[str], Path],
) -> None:
    folder = with_head("t5")
    checkpoint = load_checkpoint(folder, model_class="T5ForConditionalGeneration", part="cross")
    source, target = [3, 4, 5], [0, 6, 7, 8]  # the decoder starts with 0
    loss, batches = choose_loss(checkpoint).make(checkpoint, None, [(source, target)], 0)
    labels = torch.tensor([target[1:]])
    expected = checkpoint.model(input_ids=torch.tensor([source]), labels=labels).loss
    torch.testing.assert_close(loss(checkpoint.model, batches[0]), expected)


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_only_the_part_that_was_asked_for_loses_heads(
    part: str, with_head: Callable[[str], Path]
) -> None:
    pairs = [("1 2 3", "4 5 6"), ("7 8", "9 10"), ("3 3 4", "5 1"), ("2 1", "6 7")]
    found = profiles.pruning(with_head("t5"), pairs, part=part, tokens="ids", count=2, steps=2)
    assert found.importance.values.shape == (2, 4)
    kind = "EncDecAttention" if part == "cross" else "SelfAttention"
    assert all(name.startswith("decoder") and kind in name for name in found.importance.layers)


def test_masked_token_loss_sees_no_masked_token(with_head: Callable[[str], Path]) -> None:
    checkpoint = load_checkpoint(with_head("bert"), model_class="BertForMaskedLM")
    tokenizer = load_tokenizer(checkpoint, tokens="whitespace")
    ids = [2, 4, 5, 6, 7, 8, 9, 10, 3]
    loss, batches = choose_loss(checkpoint).make(checkpoint, tokenizer, [ids], 0)
    hidden, places, targets = batches[0]
    assert tokenizer.mask == 13
    assert len(places) == 1
    assert [hidden[place] for place in places] == [13]
    assert targets == [ids[place] for place in places]
    assert not {0, 8} & set(places)  # special tokens are not to be guessed
    scores = checkpoint.model(input_ids=torch.tensor([hidden])).logits[0]
    expected = cross_entropy(scores[places], torch.tensor(targets))
    torch.testing.assert_close(loss(checkpoint.model, batches[0]), expected)
    assert batches == choose_loss(checkpoint).make(checkpoint, tokenizer, [ids], 0)[1]


def test_states_loss_is_zero_with_every_head_and_only_masking_reads_it(tiny: Tiny) -> None:
    found = profiles.pruning(
        tiny("bert"), TEXTS, method="masking", tokens="whitespace", count=3, steps=3
    )
    assert found.loss == "states"
    assert found.curve.losses[0] == 0
    assert found.importance.values.min() > 0
    with pytest.raises(ValueError, match="method must be masking for the loss states"):
        profiles.pruning(tiny("bert"), TEXTS, method="gradient", tokens="whitespace")


def test_curves_are_of_other_items_and_end_where_no_head_is_left(tiny: Tiny) -> None:
    options = {"method": "masking", "tokens": "whitespace", "count": 2, "steps": 4}
    found = profiles.pruning(tiny("bert"), TEXTS, **options)
    # Items 0 and 2 are for the importance, 1 and 3 for the curves; the rest are not read.
    same = profiles.pruning(tiny("bert"), [TEXTS[0], TEXTS[5], TEXTS[2], TEXTS[4]], **options)
    np.testing.assert_array_equal(same.importance.values, found.importance.values)
    assert not np.array_equal(same.curve.losses, found.curve.losses)
    assert found.curve.losses[-1] == pytest.approx(found.at_random.losses[-1], rel=1e-5)
    assert not np.array_equal(found.curve.order, found.at_random.order)


def test_masking_needs_a_mask_token_and_two_items(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="loss must be states without a mask token"):
        profiles.pruning(tiny("bert"), TEXTS, loss="masked_token", tokens="whitespace")
    with pytest.raises(ValueError, match="at least 2 items for importance, got 1"):
        profiles.pruning(tiny("bert"), TEXTS[:1], method="masking", tokens="whitespace")
    with pytest.raises(ValueError, match="loss must be one of auto, next_token"):
        profiles.pruning(tiny("bert"), TEXTS, loss="charm", tokens="whitespace")


def test_loss_of_a_head_that_the_weights_lack_is_refused(tiny: Tiny) -> None:
    options = {"model_class": "BertForMaskedLM", "tokens": "whitespace"}
    with pytest.raises(ValueError, match=r"the head for masked_token, got \d+ .* first cls"):
        profiles.pruning(tiny("bert"), TEXTS, **options)
    found = profiles.pruning(
        tiny("bert"), TEXTS, loss="states", method="masking", count=1, **options
    )
    assert found.importance.values.shape == (3, 4)


@pytest.mark.parametrize("config", ["[1]", '{"a":', '{"architectures": 3, "model_type": "bert"}'])
def test_broken_configuration_is_one_clear_error(config: str, own: Tiny) -> None:
    folder = own("bert")
    (folder / "config.json").write_text(config)
    with pytest.raises(ValueError, match=r"config\.json|method must be masking|must fit"):
        profiles.pruning(folder, TEXTS, tokens="whitespace")


def test_random_folder_class_is_not_taken_from_the_configuration(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "bert", "bert")
    text = (folder / "config.json").read_text().replace('"BertModel"', '"NoSuchModel"')
    (folder / "config.json").write_text(text)
    found = profiles.pruning(folder, TEXTS, method="masking", tokens="whitespace", count=1, steps=1)
    assert found.loss == "states"
