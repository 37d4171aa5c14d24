"""Attention heads of translation runs, on texts that are split as in training."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

from fourierkernels.checkpoints import load_checkpoint, load_tokenizer, read_items
from fourierkernels.foundation.run_folder import SUBWORDS
from fourierkernels.studies.translation.bpe import START, STOP, UNKNOWN, Bpe

TEXTS = ["7 ba du.", "12 gol ra <s> ti.", "§"]


def test_texts_are_split_as_in_training(translator: Path) -> None:
    tokenizer = load_tokenizer(load_checkpoint(translator, part="cross"))
    bpe = Bpe.load(translator / SUBWORDS)
    assert [tokenizer.encode(text) for text in TEXTS] == bpe.encode(TEXTS)
    assert (tokenizer.prefix, tokenizer.suffix) == ((START,), (STOP,))
    assert tokenizer.unknown == UNKNOWN
    assert UNKNOWN in tokenizer.encode("§")
    ids = bpe.encode(TEXTS[:1])[0]
    assert tokenizer.names(ids) == tuple(bpe.vocabulary.words[i] for i in ids)


def test_each_side_is_read_between_its_marks(translator: Path) -> None:
    source, target = Bpe.load(translator / SUBWORDS).encode(TEXTS[:2])
    checkpoint = load_checkpoint(translator, part="cross")
    tokenizer = load_tokenizer(checkpoint)
    pairs = list(read_items(checkpoint, [tuple(TEXTS[:2])], tokenizer=tokenizer))
    assert pairs == [([START, *source, STOP], [START, *target])]


def test_subwords_of_another_run_and_damaged_ones_are_refused(
    translator: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(translator, tmp_path / "run"))
    file = run / SUBWORDS
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"<s>"', '"<t>"'), encoding="utf-8")
    with pytest.raises(ValueError, match="must begin with <pad>, <s>, </s>, <unk>, got"):
        load_tokenizer(load_checkpoint(run, part="cross"))
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bpe\.json must be a file of subwords, got"):
        load_tokenizer(load_checkpoint(run, part="cross"))
