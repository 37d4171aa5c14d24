"""Masked pre-training is that of the paper, learns, resumes, and measures what it says."""

import csv
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_documents import masked_run, read_tiny, train_tiny, write_documents
from torch.nn import functional
from training_runs import Call, error_of

from fourierkernels.checkpoints import load_checkpoint, load_tokenizer
from fourierkernels.checkpoints.vocabularies import piece_tokenizer
from fourierkernels.mixing import MIXERS
from fourierkernels.models import load_model
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.masked import study as masked
from fourierkernels.studies.masked.document_files import DocumentFiles
from fourierkernels.studies.masked.masking import NOTHING
from fourierkernels.studies.masked.measurement import Measurement, masked_sums, predictions
from fourierkernels.studies.masked.pieces import PADDING
from fourierkernels.studies.masked.presets import (
    LOSS,
    METRICS,
    PAIR_ACCURACY,
    PRESETS,
    TABLE_2,
    WORD_ACCURACY,
    WORD_LOSS,
)

# [leethorp2021fnet]_ table 2, as printed.
PRINTED = """
BERT-Base 1.76 1.48 0.28 0.68 0.86
Linear-Base 2.12 1.78 0.35 0.62 0.83
FNet-Base 2.45 2.06 0.40 0.58 0.80
Random-Base 5.02 4.48 0.55 0.26 0.70
FF-only-Base 7.54 6.85 0.69 0.13 0.50
FNet-Hybrid-Base 2.13 1.79 0.34 0.63 0.84
BERT-Large 1.49 1.23 0.25 0.72 0.88
Linear-Large 1.91 1.60 0.31 0.65 0.85
FNet-Large 2.11 1.75 0.36 0.63 0.82
"""
NAMES = {"BERT": "softmax", "FF-only": "none", "FNet-Hybrid": "fnet_hybrid"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("documents"))


@pytest.fixture(scope="module")
def data(folder: Path, cache: Path) -> DocumentFiles:
    return read_tiny(folder, cache, size=150, length=64)


@pytest.fixture(scope="module")
def run(folder: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was not interrupted, of FNet."""
    output = tmp_path_factory.mktemp("masked") / "run"
    train_tiny(masked_run(folder), output, cache)
    return output


@pytest.fixture(scope="module")
def bert(folder: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("masked") / "bert"
    train_tiny(masked_run(folder, "softmax"), output, cache)
    return output


def model_of(data: DocumentFiles, mixer: str, **options: Any) -> torch.nn.Module:
    torch.manual_seed(1)
    return masked.STUDY.build(PRESETS["tiny"], data, ChosenMixer(mixer, options)).eval()


def by_name(rows: list[Measured]) -> dict[tuple[str, str], Measured]:
    return {(row.split, row.metric): row for row in rows}


def test_presets_have_the_published_table() -> None:
    rows = [line.split() for line in PRINTED.split("\n") if line]
    assert len(rows) == sum(map(len, TABLE_2.values()))
    for name, *printed in rows:
        kind, _, size = name.rpartition("-")
        found = PRESETS[size.lower()].published[NAMES.get(kind, kind.lower())]
        scales = (1, 1, 1, 100, 100)
        assert list(found) == list(METRICS)
        values = [scale * float(x) for scale, x in zip(scales, printed, strict=True)]
        assert list(found.values()) == pytest.approx(values)
        total, words, pairs = values[:3]
        assert total == pytest.approx(words + pairs, abs=0.0101)  # each is rounded


def test_presets_of_the_paper_have_its_recipe() -> None:
    for name, dim, layers in (("base", 768, 12), ("large", 1024, 24)):
        preset = PRESETS[name]
        recipe, config = preset.recipe, masked._config(preset)
        assert (config.dim, config.layers, config.hidden, config.length) == (
            dim,
            layers,
            4 * dim,
            512,
        )
        assert (recipe.steps, recipe.batch, recipe.learning_rate) == (1_000_000, 256, 1e-4)
        assert (recipe.warmup, recipe.schedule, recipe.optimiser) == (10_000, "linear", "adamw")
        assert (preset.most_words, recipe.clip, config.start_std) == (32_000, None, 0.02)
        other = PRESETS[f"{name}_high_rate"]  # section 4.1.3: the better of two base rates
        assert other.recipe == replace(recipe, learning_rate=1e-3)
        assert (other.model, other.published) == (preset.model, preset.published)
    assert PRESETS["base_swapped"].wrong == "swapped"
    assert PRESETS["base"].wrong == "other_document"


def test_small_model_learns_what_the_frequencies_of_subwords_do_not_tell(
    cache: Path, tmp_path: Path
) -> None:
    """A document has one word, again and again, so that any other place tells what is masked."""
    words = ("alpha", "bravo", "charly", "delta", "echo", "foxtrot")
    for name, count in (("train", 60), ("valid", 12), ("test", 12)):
        texts = ("\n".join([" ".join([words[i % 6]] * 4)] * 8) for i in range(count))
        (tmp_path / f"{name}.txt").write_text("\n\n".join(texts) + "\n")
    few = {"steps": 120, "batch": 16, "evaluate_every": 120, "save_every": 120, "warmup": 10}
    run = masked_run(tmp_path, "softmax", learning_rate=1e-2, **few)
    found = by_name(train_tiny(run, tmp_path / "run", cache))
    files = read_tiny(tmp_path, cache, size=150, length=64)
    shares = np.bincount(files.tokens("test"), minlength=len(files.pieces)) + 1e-9
    shares /= shares.sum()
    entropy = -(shares * np.log(shares)).sum()
    assert found["test", WORD_LOSS].value < 0.8 * entropy < math.log(len(files.pieces))
    assert found["test", WORD_ACCURACY].value > 150 * shares.max()
    assert found["test", LOSS].value == pytest.approx(
        found["test", WORD_LOSS].value + found["test", "next-segment loss"].value
    )


def test_results_are_found_again_and_say_what_was_read(
    run: Path, data: DocumentFiles, cache: Path
) -> None:
    with (run / "results.csv").open() as file:
        found = {(r["split"], r["metric"]): float(r["value"]) for r in csv.DictReader(file)}
    again = {key: row.value for key, row in by_name(evaluate(run, cache=cache)).items()}
    assert found == again
    assert len(found) == 2 * len(METRICS)
    config = json.loads((run / "results.json").read_text())["config"]
    assert (config["corpus"], config["subwords"]) == ("text-documents", len(data.pieces))
    assert config["documents"] == dict(data.documents) == {"train": 30, "valid": 5, "test": 6}
    assert config["wrong_next_segment"] == "other_document"
    assert config["even_masked_loss"] == pytest.approx(math.log(len(data.pieces)))
    with (run / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["valid_loss"]]
    best = min(rows, key=lambda row: float(row["valid_loss"]))
    held = by_name(evaluate(run, cache=cache, splits=("valid",)))
    assert 100 * float(best["valid_masked_accuracy"]) == pytest.approx(
        held["valid", WORD_ACCURACY].value
    )
    assert 100 * float(best["valid_next_accuracy"]) == pytest.approx(
        held["valid", PAIR_ACCURACY].value
    )
    assert float(best["valid_loss"]) == pytest.approx(held["valid", LOSS].value, rel=1e-5)


def test_loss_is_the_sum_of_the_means_over_words_and_pairs(data: DocumentFiles) -> None:
    recipe = replace(PRESETS["tiny"].recipe, batch=4)
    model = model_of(data, "softmax")
    goal = masked.STUDY.objective(PRESETS["tiny"], data, recipe)
    batches = masked.STUDY.batches(PRESETS["tiny"], data, recipe)
    whole = batches.__getitems__(range(4))
    found = predictions(model, whole)
    known = whole["words"] != NOTHING
    words = -functional.log_softmax(found.words, -1).gather(
        -1, whole["words"].clamp(min=0)[..., None]
    )
    pairs = functional.cross_entropy(found.next_sentence, whole["wrong"])
    loss = goal.loss(model, whole).item()
    assert loss == pytest.approx((words[..., 0][known].mean() + pairs).item())
    parts = [goal.loss(model, batches.__getitems__([place])).item() for place in range(4)]
    assert sum(parts) / 4 == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize(("mixer", "least", "most"), [("softmax", 0, 1e-6), ("fnet", 1e-4, 1)])
def test_only_mixers_without_a_mask_read_padding(
    mixer: str, least: float, most: float, data: DocumentFiles
) -> None:
    """Another vector at padded places changes FNet, and BERT not at all."""
    model = model_of(data, mixer)
    (batch,) = Measurement(data, "test", wrong="other_document").batches(1000)
    with torch.no_grad():
        before = masked_sums(model, Measurement(data, "test", wrong="other_document"))
        model.encoder.words.weight[PADDING] = torch.linspace(-1, 1, 64)
        after = masked_sums(model, Measurement(data, "test", wrong="other_document"))
    assert (batch["tokens"] == PADDING).any()
    assert least <= abs(before.pair_loss - after.pair_loss) <= most


def test_hybrid_has_attention_in_its_last_layers(data: DocumentFiles) -> None:
    config = model_of(data, "fnet_hybrid", attention_layers=1).encoder.config
    assert (config.mixer, config.attention_layers) == ("fnet", 1)
    assert masked.STUDY.mixers()[-1] == "fnet_hybrid"
    with pytest.raises(TypeError, match="option of mixer fnet must be one of"):
        setup("masked", mixer=ChosenMixer("fnet", {"attention_layers": 1}))
    assert "attention_layers must be at most 2, got 3" in error_of(
        lambda: model_of(data, "fnet_hybrid", attention_layers=3)
    )


def test_every_mixer_of_an_encoder_has_a_model(data: DocumentFiles) -> None:
    (batch,) = Measurement(data, "test", wrong="swapped", most=2).batches(2)
    for mixer in masked.STUDY.mixers():
        found = predictions(model_of(data, mixer), batch)
        assert found.words.isfinite().all()
    assert {"softmax", "fnet", "linear", "random", "none"} <= set(masked.STUDY.mixers()) & set(
        MIXERS
    )


def test_published_numbers_stand_beside_c4_alone(data: DocumentFiles) -> None:
    preset = replace(PRESETS["tiny"], published=PRESETS["base"].published)
    model = model_of(data, "fnet")
    assert not any(row.published for row in masked.STUDY.measure(preset, data, "fnet", model))
    part = replace(data, corpus="c4")
    assert not any(row.published for row in masked.STUDY.measure(preset, part, "fnet", model))
    read = preset.recipe.steps * preset.recipe.batch
    c4 = replace(part, spans={**part.spans, "train": read})
    found = by_name(masked.STUDY.measure(preset, c4, "fnet", model))
    assert (found["test", LOSS].published, found["test", WORD_ACCURACY].published) == (2.45, 58)
    few = masked.STUDY.measure(preset, c4, "fnet", model, positions=3)
    assert {row.positions for row in few if row.metric == LOSS} == {3}
    assert not any(row.published for row in few)


def test_other_subwords_are_refused(run: Path, tmp_path: Path, cache: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("train", "valid", "test"):
        text = "\n\n".join(f"something else {i}\nand more of it {i}" for i in range(20))
        (other / f"{name}.txt").write_text(text)
    message = error_of(lambda: evaluate(run, data=other, cache=cache))
    assert f"data must have the vocabulary of {run}" in message
    message = error_of(lambda: train_tiny(masked_run(other), run, cache, resume=True))
    assert "data must be those the run in" in message


def test_data_that_are_not_named_and_starts_are_refused() -> None:
    assert "data must be named for this preset" in error_of(
        lambda: masked.STUDY.read(PRESETS["base"], None)
    )
    assert "start must be in the folder of a training run" in error_of(
        lambda: setup("masked", start=Path("nowhere"), mixer="fnet")
    )


def test_command_trains_plans_and_evaluates(folder: Path, tmp_path: Path, call: Call) -> None:
    output = tmp_path / "run"
    study = ("train", "masked", "--data", folder, "--mixer", "fnet_hybrid", "--preset", "mini")
    hybrid = (*study, "--mixer-option", "attention_layers=1")
    status, out, err = call(*hybrid, "--plan")
    assert (status, err) == (0, "")
    assert re.search(r"training text +│ [\d,]+ subwords of text", out)
    assert call(*hybrid, "--output", output, "--limit-steps", 2)[0] == 0
    status, out, err = call("evaluate", output, "--split", "test", "--positions", 4)
    assert (status, err) == (0, "")
    assert re.search(r"test +│ masked accuracy \(%\) +│ [\d.]+ +│", out)
    flat = re.sub(r"\s+", " ", call("train", "masked", "--list")[1])
    assert "allenai/c4" in flat


def test_heads_of_bert_are_measured_and_fnet_is_refused(
    bert: Path, run: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    status, out, err = call("heads", bert, "--no-baseline")
    assert (status, err) == (0, "")
    assert f"checkpoint: {bert}\n" in out
    status, _, err = call("heads", run)
    assert status == 2
    assert "checkpoint must have attention, got none in PretrainingEncoder" in err
    (bert.parent / "text").write_text("the cat sees a dog\n")
    status, out, err = call("heads", bert, "--text", bert.parent / "text", "--no-baseline")
    assert (status, err) == (0, "")


def test_text_becomes_the_subwords_of_the_run(bert: Path, data: DocumentFiles) -> None:
    tokenizer = load_tokenizer(load_checkpoint(bert))
    ids = list(tokenizer.encode("the cat [MASK]"))
    assert ids == data.pieces.encode(["the cat [MASK]"])[0]
    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.mask) == ((4,), (5,), 6)
    assert "must have the 9 subwords of the network" in error_of(
        lambda: piece_tokenizer(bert / "spiece.model", size=9)
    )


def test_sequences_left_for_other_commands_are_whole(run: Path, data: DocumentFiles) -> None:
    rows = (run / "test.ids").read_text().splitlines()
    assert len(rows) == min(64, data.spans["test"])
    ids = [int(number) for number in rows[0].split()]
    assert (ids[0], ids[-1], ids.count(5)) == (4, 5, 2)
    assert len(ids) <= data.length


def test_damaged_subwords_of_a_run_are_told(run: Path, tmp_path: Path, cache: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    (copy / "spiece.model").write_bytes(b"cut off")
    facts = json.loads((copy / "study.json").read_text())
    (copy / "study.json").write_text(json.dumps(facts | {"digest": "another"}))
    assert "must be a file of SentencePiece" in error_of(lambda: evaluate(copy, cache=cache))


def test_saved_model_is_that_of_the_study(run: Path) -> None:
    model = load_model(run / "model.safetensors")
    assert model.encoder.config.mixed_padding
    assert model.output.weight is model.encoder.words.weight
