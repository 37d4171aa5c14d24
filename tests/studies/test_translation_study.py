"""The translation study is that of the report, learns, resumes and translates text as it is."""

import csv
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training_runs import error_of
from translation_runs import mini, mini_run, train_mini

pytest.importorskip("sacrebleu")

from fourierkernels.models import TRANSLATION_PRESETS, load_model, translation_loss
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.translation import study as translation
from fourierkernels.studies.translation.batches import PairUpdates
from fourierkernels.studies.translation.bleu import bleu_of, sentence_counts
from fourierkernels.studies.translation.classes import BatchRule, padded_length
from fourierkernels.studies.translation.corpora import read_bitext
from fourierkernels.studies.translation.manuals_comparison import ENCODERS
from fourierkernels.studies.translation.pair_files import PairFiles
from fourierkernels.studies.translation.text_translation import translate_lines
from fourierkernels.studies.translation.translate_command import load_translator
from fourierkernels.studies.translation.translation_measures import (
    bleu_rows,
    compare_translations,
    copied_split,
    deviations,
    read_translations,
    validation_sums,
)


@pytest.fixture(scope="module")
def files(corpus: Path, cache: Path) -> PairFiles:
    return read_bitext(corpus, size=120, folder=cache)


def test_recipe_of_the_report_is_as_it_says() -> None:
    preset = translation.PRESETS["base"]
    recipe = preset.recipe
    assert (preset.budget, preset.most_words, recipe.batch) == (15_000, 35_000, 4)
    assert (recipe.label_smoothing, recipe.betas, recipe.epsilon) == (0.1, (0.9, 0.98), 1e-9)
    assert recipe.learning_rate == pytest.approx(512**-0.5 * 4000**-0.5)
    pairs = [40315, 140751, 218451, 265180, 271525, 244069, 200129, 153377, 112679, 79755]
    rows = enumerate(pairs)  # table 1, of which eight tenths are for training
    epoch = sum(0.8 * n / (4 * BatchRule().size(place)) for place, n in rows)
    assert recipe.steps == 50 * int(epoch)


@pytest.mark.parametrize("mixer", ["attention", "dft_encoder", "dft_both"])
def test_models_of_the_report_have_its_sizes(mixer: str, files: PairFiles) -> None:
    vocabulary = replace(files.vocabulary, words=tuple(map(str, range(35_000))))
    data = replace(files, bpe=type("Stub", (), {"vocabulary": vocabulary})())
    with torch.device("meta"):
        model = translation.STUDY.build(translation.PRESETS["base"], data, ChosenMixer(mixer))
    config = model.config
    assert (config.layers, config.dim, config.hidden, config.dropout) == (6, 512, 2048, 0.1)
    assert config.source_lengths[:3] == tuple(padded_length(n) for n in (5, 10, 15))
    count = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert math.floor(count) == {"attention": 62, "dft_encoder": 55, "dft_both": 49}[mixer]


def test_encoders_of_manuals_are_of_one_size(files: PairFiles) -> None:
    vocabulary = replace(files.vocabulary, words=tuple(map(str, range(2_000))))
    data = replace(files, bpe=type("Stub", (), {"vocabulary": vocabulary})())
    sizes = {}
    for name, (placement, hidden) in ENCODERS.items():
        preset = translation.PRESETS["little"]
        model = translation.STUDY.build(preset, data, ChosenMixer(placement, {"hidden": hidden}))
        sizes[name] = sum(parameter.numel() for parameter in model.parameters())
    assert sizes == {"attention": 615_424, "DFT": 615_812, "none": 615_428, "linear": 615_416}


def test_loss_of_an_update_is_the_mean_over_its_target_tokens(files: PairFiles) -> None:
    """Whatever the processes and accumulated batches that share it."""
    preset, recipe = mini(), replace(mini().recipe, steps=3, batch=4)
    model = translation.STUDY.build(preset, files, ChosenMixer("dft_both")).eval()
    loss = translation.STUDY.objective(preset, files, recipe).loss
    updates = PairUpdates(files, steps=3, batch=4, rule=BatchRule(400), seed=0)
    for update in range(3):
        whole = updates.__getitems__(range(4 * update, 4 * update + 4))
        expected = translation_loss(model, whole["source"], whole["target"]).loss
        torch.testing.assert_close(loss(model, whole), expected)
        for parts in (2, 4):
            size = 4 // parts
            starts = range(4 * update, 4 * update + 4, size)
            shares = [updates.__getitems__(range(start, start + size)) for start in starts]
            mean = sum(loss(model, share) for share in shares) / parts
            torch.testing.assert_close(mean, expected)
    with pytest.raises(ValueError, match="must be of one update, got those of 2"):
        updates.__getitems__([3, 4])


def test_validation_sums_what_each_sentence_alone_has(files: PairFiles) -> None:
    model = translation.STUDY.build(mini(), files, ChosenMixer("dft_encoder")).eval()
    rules = (BatchRule(400), BatchRule(80))
    with torch.no_grad():
        whole, single = (validation_sums(model, files, "test", rule=rule) for rule in rules)
        halves = [
            validation_sums(model, files, "test", rule=rules[1], part=(i, 2)) for i in range(2)
        ]
    assert whole == pytest.approx(single, rel=1e-5)
    assert [sum(pair) for pair in zip(*halves, strict=True)] == pytest.approx(single, rel=1e-9)
    index = files.index("test")
    assert whole[1] == int(index["target"].sum()) + len(index)


@pytest.mark.parametrize("mixer", ["attention", "dft_both"])
def test_study_learns(mixer: str, corpus: Path, cache: Path, tmp_path: Path) -> None:
    changes = {"steps": 60, "evaluate_every": 30, "save_every": 60, "learning_rate": 1e-2}
    measured = train_mini(mini_run(corpus, mixer, **changes), tmp_path / "run", cache)
    with (tmp_path / "run/curve.csv").open() as file:
        curve = list(csv.DictReader(file))
    losses = [float(row["valid_loss"]) for row in curve if row["valid_loss"]]
    assert len(losses) == 2
    assert losses[1] < losses[0] < math.log(120)
    values = {(row.split, row.metric): row.value for row in measured}
    assert values["valid", "perplexity"] == pytest.approx(math.exp(min(losses)), rel=1e-4)
    accuracy = [float(row["valid_accuracy"]) for row in curve if row["valid_accuracy"]]
    assert values["valid", "token accuracy"] == pytest.approx(100 * accuracy[1])


def test_run_leaves_what_its_numbers_are_of(
    translator: Path, files: PairFiles, cache: Path
) -> None:
    config = json.loads((translator / "results.json").read_text())["config"]
    assert (config["sentences_measured"], config["beam"]) == (8, 4)
    assert config["languages"] == ["en", "it"]
    assert "tok:13a" in config["bleu"]
    rows = read_translations(translator, "test")
    assert len(rows) == 8
    counts = sentence_counts(*([row[c] for row in rows] for c in ("translation", "reference")))
    with (translator / "results.csv").open() as file:
        found = {(r["split"], r["metric"]): float(r["value"]) for r in csv.DictReader(file)}
    assert found["test", "BLEU"] == bleu_of(counts).bleu
    again = evaluate(translator, cache=cache, positions=8)
    assert {(row.split, row.metric): row.value for row in again} == found
    assert compare_translations(translator, translator, resamples=3).bleu == 0
    assert compare_translations([translator] * 2, [translator] * 2, resamples=3).high == 0
    with pytest.raises(ValueError, match="as many runs and at least one, got 2 and 1"):
        compare_translations([translator] * 2, translator)


def test_deviations_are_those_of_scores_of_drawn_sentences(
    translator: Path, files: PairFiles
) -> None:
    rows = read_translations(translator, "test")
    copies = copied_split(files, "test", positions=8)
    assert [row["translation"] for row in copies] == [row["source"] for row in rows]
    assert [row["reference"] for row in copies] == [row["reference"] for row in rows]
    rows = [*rows[:5], *({**row, "translation": row["reference"]} for row in rows[5:])]
    found = deviations(rows, resamples=30, rng=np.random.default_rng(1))
    rng, scores = np.random.default_rng(1), []
    for _ in range(30):
        own = [rows[place] for place in rng.integers(len(rows), size=len(rows))]
        scores.append({name: value for name, value, _ in bleu_rows(own)})
    for name in ("BLEU", "BLEU, mean of classes"):
        expected = np.std([each[name] for each in scores], ddof=1)
        assert found[name] == pytest.approx(expected)
        assert expected > 0


def test_published_numbers_stand_beside_the_report_s_corpus_alone(files: PairFiles) -> None:
    preset = replace(mini(), published=translation.PRESETS["base"].published)
    model = translation.STUDY.build(preset, files, ChosenMixer("dft_encoder"))
    wmt = replace(files, corpus="wmt")
    shown = [
        {r.metric: r.published for r in rows if r.published is not None}
        for rows in (
            translation.STUDY.measure(preset, files, "dft_encoder", model, splits=("test",)),
            translation.STUDY.measure(
                preset, wmt, "dft_encoder", model, splits=("test",), positions=3
            ),
            translation.STUDY.measure(preset, wmt, "dft_encoder", model, splits=("test",)),
        )
    ]
    assert shown[:2] == [{}, {}]
    assert shown[2]["BLEU, mean of classes"] == 27.2218


@pytest.mark.parametrize("mixer", ["attention", "dft_both"])
def test_translation_of_a_line_does_not_depend_on_the_others(
    mixer: str, files: PairFiles, corpus: Path
) -> None:
    torch.manual_seed(1)
    model = translation.STUDY.build(mini(), files, ChosenMixer(mixer)).double().eval()
    lines = (corpus / "text.en").read_text().splitlines()[:12]
    lines[3], lines[7] = "", "   "
    together = list(translate_lines(model, files.bpe, lines, beam=2))
    assert [together[3], together[7]] == ["", ""]
    assert sum(map(bool, together)) == 10
    assert list(translate_lines(model, files.bpe, lines[::-1], beam=2)) == together[::-1]
    alone = [next(translate_lines(model, files.bpe, [line], beam=2)) for line in lines]
    assert alone == together


def test_lines_are_read_as_they_are_needed(files: PairFiles) -> None:
    model = translation.STUDY.build(mini(), files, ChosenMixer("attention")).eval()
    read = []

    def endless() -> Iterator[str]:
        while True:
            read.append(1)
            yield ""

    found = translate_lines(model, files.bpe, endless())
    assert [next(found) for _ in range(3)] == ["", "", ""]
    assert len(read) < 1000


def test_long_lines_are_cut_off_with_a_warning(files: PairFiles) -> None:
    model = translation.STUDY.build(mini(), files, ChosenMixer("dft_both")).eval()
    told: list[tuple[int, int, int]] = []
    lines = ["du", "du " * 100]
    found = list(translate_lines(model, files.bpe, lines, beam=1, warn=lambda *t: told.append(t)))
    assert len(found) == 2
    assert told == [(2, len(files.bpe.encode([lines[1].strip()])[0]), 30)]


def test_plan_is_of_a_whole_update(corpus: Path, cache: Path, files: PairFiles) -> None:
    torch.set_num_threads(1)
    found = plan(mini_run(corpus), cache=cache)
    updates = PairUpdates(files, steps=1, batch=1, rule=BatchRule(400), seed=0)
    assert found.epochs == pytest.approx(12 / updates.updates_per_epoch)
    assert found.seconds > 0
    assert updates.probe(4)[1] > 1


def test_options_are_those_of_a_placement(files: PairFiles) -> None:
    options = {"attention_layers": 1, "source_lengths": "own"}
    config = translation.STUDY.build(mini(), files, ChosenMixer("dft_both", options)).config
    assert (config.attention_layers, config.source_lengths) == (1, "own")
    own = {"mixer_options": {"zero_padding": False}}
    config = translation.STUDY.build(mini(), files, ChosenMixer("dft_both", own)).config
    assert config.mixer_options == {"zero_padding": False}
    assert list(translation.STUDY.mixers()) == list(TRANSLATION_PRESETS)
    with pytest.raises(TypeError, match=r"option of placement dft_both must be .*power"):
        setup("translation", mixer=ChosenMixer("dft_both", {"power": 2}))
    with pytest.raises(TypeError, match="mixer_options must be names and values in braces, got 3"):
        setup("translation", mixer=ChosenMixer("dft_both", {"mixer_options": 3}))


def test_another_corpus_is_refused_by_its_subwords(
    translator: Path, cache: Path, tmp_path: Path
) -> None:
    from tiny_bitext import lines, write_lines

    other = write_lines(tmp_path / "other-en-it", lines(120, longest=4, seed=5))
    message = error_of(lambda: evaluate(translator, data=other, cache=cache))
    assert f"data must have the vocabulary of {translator}" in message


def test_missing_folder_is_told_with_where_it_is_had() -> None:
    message = error_of(lambda: translation.STUDY.read(translation.PRESETS["base"], None))
    assert (
        "data must be a folder of sentences and their translations for this preset: --data"
        in message
    )


def test_missing_sacrebleu_is_told_before_the_training(
    corpus: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    message = error_of(lambda: train_mini(mini_run(corpus), tmp_path / "run", cache))
    assert message == "MissingExtra: BLEU needs sacrebleu: pip install 'fourierkernels[train]'"
    assert not (tmp_path / "run").exists()


def test_model_without_its_subwords_is_refused(translator: Path, tmp_path: Path) -> None:
    for name in ("study.json", "model.safetensors"):
        (tmp_path / name).write_bytes((translator / name).read_bytes())
    message = error_of(lambda: load_translator(tmp_path))
    assert "subwords must be a file" in message
    model, bpe = load_translator(translator / "model.safetensors")
    assert model.config == load_model(translator / "model.safetensors").config
    assert len(bpe) == model.config.vocabulary


def test_a_fixed_reader_advances_by_the_ratio_of_the_lengths_of_the_corpus(
    files: PairFiles,
) -> None:
    tokens, index = files.tokens("train"), files.index("train")
    assert len(tokens) == sum(int(n) + int(m) for _, n, m in index)
    ratio = sum(int(n) for _, n, _ in index) / sum(int(m) for _, _, m in index)
    assert files.length_ratio == pytest.approx(ratio, rel=1e-12)
    build, preset = translation.STUDY.build, translation.PRESETS["tiny"]
    reader = build(preset, files, ChosenMixer("hard_gaussian_reader")).decoder[0].reader
    assert (reader.ratio, reader.centres) == (round(ratio, 4), (-1, 0, 1))
    ratio_2 = ChosenMixer("hard_gaussian_reader", {"reader_options": {"ratio": 2.0}})
    assert build(preset, files, ratio_2).decoder[0].reader.ratio == 2.0
