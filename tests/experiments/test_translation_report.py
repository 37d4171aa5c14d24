"""The tables of the translation report compare runs of the same sentences, seed by seed."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from study_modules import RESULTS, study_module

pytest.importorskip("sacrebleu")

from fourierkernels import head_report
from fourierkernels.foundation.files import file_digest
from fourierkernels.foundation.run_folder import BEST
from fourierkernels.models import TRANSLATION_PRESETS, load_model
from fourierkernels.studies.engine.run_setup import load_setup
from fourierkernels.studies.translation.bleu import bleu_of, sentence_counts
from fourierkernels.studies.translation.text_translation import translate_lines
from fourierkernels.studies.translation.translate_command import load_translator
from fourierkernels.studies.translation.translation_measures import (
    bleu_rows,
    compare_translations,
    write_translations,
)

WORDS = [f"word{n}" for n in range(12)]


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("translation_report") as module:
        yield module


def sentences(wrong: int) -> list[dict[str, str]]:
    """Return sentences of two classes, every so many words of a translation another word."""
    found = []
    for n in range(4, 12):
        reference = [WORDS[(i * n) % 12] for i in range(n)]
        translation = ["no" if i % wrong == 0 else word for i, word in enumerate(reference)]
        texts = {"source": f"s{n}", "reference": " ".join(reference)}
        place = {"class": "0-5" if n < 6 else "6-10"}
        found.append(place | texts | {"translation": " ".join(translation)})
    return found


def write_run(runs: Path, model: str, seed: int, wrong: int) -> dict[str, Any]:
    """Write the translations of a run and return its row."""
    folder = runs / f"{model}-{seed}"
    folder.mkdir()
    write_translations(folder, "test", sentences(wrong))
    tokens = {"test perplexity": 10.0 + wrong, "test token accuracy": 50.0 + seed - wrong}
    scores = {name: value for name, value, _ in bleu_rows(sentences(wrong))}
    return {"model": model, "seed": seed, **tokens, **scores}


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """Three seeds of two models and one of a third."""
    wrongs = {("attention", seed): 6 + seed for seed in range(3)}
    wrongs |= {("dft_both", seed): 3 + seed for seed in range(3)} | {("fourier", 1): 5}
    return [write_run(tmp_path, *name, wrong) for name, wrong in wrongs.items()]


def test_every_model_has_a_placement_and_its_options_are_known(study: ModuleType) -> None:
    settings = study.Settings("tiny", 10)
    for name, row in study.MODELS.items():
        assert row.placement in TRANSLATION_PRESETS
        if row.teacher is not None:
            continue
        run = study.Run(name, 5, settings, Path("data"), Path("runs")).setup()
        assert (run.mixer.name, run.recipe.seed) == (row.placement, 5)
    assert set(study.MAIN) <= set(study.MODELS)


def test_all_models_get_the_same_budget(study: ModuleType) -> None:
    settings = study.Settings("tiny", 10)
    names = [name for name, row in study.MODELS.items() if row.teacher is None]
    runs = [study.Run(name, 0, settings, Path("d"), Path("r")).setup() for name in names]
    assert len({(run.preset, run.recipe) for run in runs}) == 1


def test_a_row_of_a_class_is_of_all_seeds(study: ModuleType, rows: list[dict[str, Any]]) -> None:
    counts = {name: n for name, _, n in bleu_rows(sentences(3))}
    found = study.class_rows(rows, counts, "tiny")
    assert [row["lengths"] for row in found[:4]] == ["corpus", "0-5", "6-10", "mean of classes"]
    both = {row["lengths"]: row for row in found if row["model"] == "dft_both"}
    own = [row["BLEU-4 6-10"] for row in rows if row["model"] == "dft_both"]
    assert both["6-10"]["BLEU-4"] == pytest.approx(np.mean(own))
    assert (both["6-10"]["BLEU-4 least"], both["6-10"]["BLEU-4 most"]) == (min(own), max(own))
    assert both["0-5"]["sentences"] + both["6-10"]["sentences"] == both["corpus"]["sentences"] == 8
    weighted = 2 * both["0-5"]["BLEU"] + 6 * both["6-10"]["BLEU"]
    assert both["mean of classes"]["BLEU"] == pytest.approx(weighted / 8)
    assert both["0-5"]["BLEU of the report"] == ""


def test_the_report_s_numbers_stand_beside_ours(study: ModuleType) -> None:
    assert study.report("tiny", "dft_encoder", "BLEU 46-50") == 38.6439
    assert study.report("tiny", "dft_encoder", "BLEU-1, mean of classes") == 35.6272
    assert study.report("tiny", "attention", "BLEU, mean of classes") == 28.1
    assert study.report("tiny", "dft_both", "BLEU") == ""


def test_differences_are_paired_by_seed_and_corrected_for_their_number(
    study: ModuleType,
    rows: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study, "RESAMPLES", 200)
    folders = {(r["model"], r["seed"]): tmp_path / f"{r['model']}-{r['seed']}" for r in rows}
    both, fourier = study.differences(list(reversed(rows)), folders)[::-1]
    assert (both["model"], both["seeds"], fourier["seeds"]) == ("dft_both", 3, 1)
    assert both["comparisons"] == fourier["comparisons"] == 2
    ours, theirs = (
        [row["BLEU"] for row in rows if row["model"] == name] for name in ("dft_both", "attention")
    )
    assert both["BLEU"] == pytest.approx(np.mean(ours) - np.mean(theirs))
    expected = ttest_rel(ours, theirs).confidence_interval(1 - 0.05 / 2)
    assert both["BLEU low, seeds"] == pytest.approx(expected.low)
    pairs = [[folders[name, seed] for seed in range(3)] for name in ("dft_both", "attention")]
    wide = compare_translations(*pairs, resamples=200, level=1 - 0.05 / 2)
    assert both["BLEU low, sentences"] == pytest.approx(wide.low)
    assert both["nats per token"] == pytest.approx(
        np.mean([math.log((13 + s) / (16 + s)) for s in range(3)])
    )
    assert math.isnan(fourier["BLEU low, seeds"])  # one seed has no spread
    assert fourier["BLEU low, sentences"] < fourier["BLEU"]


def test_tables_without_attention_have_no_differences(
    study: ModuleType, rows: list[dict[str, Any]]
) -> None:
    assert study.differences([row for row in rows if row["model"] == "fourier"], {}) == []


def test_a_study_is_resumed_and_its_finished_runs_are_read(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "RESAMPLES", 20)
    chosen = [("dft_both_distilled", 0), ("attention", 0), ("dft_both", 0)]
    first, facts = study.study(tmp_path, None, study.QUICK, chosen[1:2], 1)
    kept = (tmp_path / "attention-0/report.json").stat().st_mtime_ns
    (tmp_path / "dft_both-0").mkdir()  # interrupted before its first file
    tables, _ = study.study(tmp_path, None, study.QUICK, chosen, 1)
    assert (tmp_path / "attention-0/report.json").stat().st_mtime_ns == kept
    runs = tables["translation_report_runs"]
    assert runs[0] == first["translation_report_runs"][0]
    assert [row["model"] for row in runs] == ["attention", "dft_both", "dft_both_distilled"]
    taught, _ = load_setup(tmp_path / "dft_both_distilled-0")
    assert taught.teacher.digest == file_digest(tmp_path / "attention-0" / BEST)
    assert runs[1]["parameters"] == runs[2]["parameters"]
    assert {row["sentences"] for row in runs} == {3}  # all that the example has
    assert runs[0]["parameters"] > runs[1]["parameters"]
    assert all(row["training_seconds"] > 0 for row in runs)
    assert facts["beam"] == 4
    again, _ = study.study(tmp_path, None, study.QUICK, [], 1)
    assert repr(again) == repr(tables)  # a spread of one seed is NaN
    other = study.Settings("tiny", 4, {**study.QUICK.recipe, "steps": 3})
    with pytest.raises(ValueError, match="runs must be a folder of runs of these settings"):
        study.study(tmp_path, tmp_path / "corpus", other, [], 1)


KEPT = RESULTS / "translation_report_attention"
needs_kept = pytest.mark.skipif(not KEPT.is_dir(), reason="no trained model is committed")


def kept_lines(name: str, count: int) -> list[str]:
    return (KEPT / f"{name}.txt").read_text(encoding="utf-8").splitlines()[:count]


@needs_kept
def test_the_kept_model_is_small_and_names_no_place() -> None:
    assert (KEPT / "model.safetensors").stat().st_size < 4e6
    assert {p.dtype for p in load_model(KEPT / "model.safetensors").parameters()} == {torch.float16}
    assert json.loads((KEPT / "study.json").read_text(encoding="utf-8"))["data"] is None


@needs_kept
def test_the_kept_model_translates_better_than_chance() -> None:
    """Its 8 shortest sentences; words of the references are found in their translations."""
    model, bpe = load_translator(KEPT)
    model.float().eval()
    found = list(translate_lines(model, bpe, kept_lines("source", 8)))
    expected = kept_lines("target", 8)
    own, shifted = (
        bleu_of(sentence_counts(found, references)).bleu_1
        for references in (expected, expected[1:] + expected[:1])
    )
    assert own > shifted


@needs_kept
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_heads_of_the_kept_model_are_read_in_each_part(part: str) -> None:
    sources, targets = kept_lines("source", 3), kept_lines("target", 3)
    inputs = sources if part == "encoder" else list(zip(sources, targets, strict=True))
    report = head_report(KEPT, inputs, part=part, baseline=False, examples=1)
    summary = report.summaries()["trained"]
    assert summary.mean.shape == (2,)
    assert (summary.mean > 0).all()
    words = report.first.examples[0].keys if part == "cross" else report.first.examples[0].queries
    assert "".join(words[1:-1] if part != "decoder" else words[1:]).strip("▁")
