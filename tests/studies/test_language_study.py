"""The language study is that of the paper, and learns."""

import csv
import json
import math
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from training_runs import error_of, short_run, train_here, write_texts

from fourierkernels.foundation.words import Vocabulary
from fourierkernels.models import count_parameters
from fourierkernels.models.saved import load_model
from fourierkernels.studies.engine import planning
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.language import study as language
from fourierkernels.studies.language.corpora import read_corpus
from fourierkernels.studies.registry import STUDIES
from fourierkernels.studies.texts.token_files import TokenFiles


@pytest.fixture
def text(texts: Path, cache: Path) -> TokenFiles:
    return read_corpus(texts, most=5000, folder=cache)


def paper_text(text: TokenFiles) -> TokenFiles:
    words = Vocabulary(tuple(map(str, range(267_735))))
    return replace(text, vocabulary=words, corpus="wikitext-103")


@pytest.mark.parametrize(
    ("preset", "dim", "length", "steps", "batch"),
    [("small", 128, 256, 500_000, 96), ("medium", 256, 384, 400_000, 56)],
)
def test_presets_of_the_paper_have_its_values(
    preset: str, dim: int, length: int, steps: int, batch: int, text: TokenFiles
) -> None:
    row = language.PRESETS[preset]
    recipe = row.recipe
    assert (recipe.steps, recipe.batch, recipe.warmup) == (steps, batch, 2_000)
    assert (recipe.learning_rate, recipe.clip, recipe.optimiser) == (2.5e-4, 0.25, "adam")
    with torch.device("meta"):
        config = language.STUDY.build(row, paper_text(text), ChosenMixer("fourier")).config
    assert (config.layers, config.heads, config.hidden) == (16, 8, 2048)
    assert (config.dim, config.length) == (dim, length)
    assert config.cutoffs == (20_000, 40_000, 200_000)
    assert (config.positions, config.norm, config.dropout) == ("from_the_end", "post", 0.1)
    assert config.mixer_options["eps"] == 1e-6


def test_published_numbers_stand_beside_the_paper_s_text_alone(text: TokenFiles) -> None:
    preset = replace(language.PRESETS["tiny"], published=language.PRESETS["small"].published)
    model = language.STUDY.build(preset, text, ChosenMixer("softmax"))
    rows = language.STUDY.measure(preset, text, "softmax", model)
    assert all(row.published is None for row in rows)
    rows = language.STUDY.measure(preset, replace(text, corpus="wikitext-103"), "softmax", model)
    assert [row.published for row in rows] == [None, 33.15, None, 34.29]
    few = language.STUDY.measure(
        preset, replace(text, corpus="wikitext-103"), "softmax", model, positions=9
    )
    assert all(row.published is None for row in few)


def test_smoothed_loss_is_a_mean_with_an_even_guess(text: TokenFiles) -> None:
    model = language.STUDY.build(language.PRESETS["tiny"], text, ChosenMixer("softmax")).eval()
    batch = {"tokens": torch.tensor([[3, 5, 4]]), "targets": torch.tensor([[5, 4, 2]])}
    scores = model.log_probabilities(batch["tokens"])
    share = torch.full_like(scores, 0.1 / scores.shape[-1])
    share.scatter_add_(-1, batch["targets"][..., None], torch.full((1, 3, 1), 0.9))
    expected = -(share * scores).sum(-1).mean()
    torch.testing.assert_close(language.smoothed_loss(model, batch, 0.1), expected)
    plain = language.smoothed_loss(model, batch, 0.0)
    torch.testing.assert_close(plain, model(batch["tokens"], batch["targets"]).mean())


@pytest.mark.parametrize("mixer", ["softmax", pytest.param("fourier", marks=pytest.mark.slow)])
def test_model_learns_more_than_the_frequency_of_words(
    mixer: str, texts: Path, text: TokenFiles, cache: Path, tmp_path: Path
) -> None:
    run = short_run(texts, mixer=mixer, steps=100, batch=8, learning_rate=3e-3, evaluate_every=100)
    measured = train_here(run, tmp_path / "run", cache)
    counts = Counter(text.tokens("train").tolist())
    total = sum(counts.values()) + len(text.vocabulary)
    losses = [-math.log((counts[word] + 1) / total) for word in text.tokens("valid").tolist()]
    unigram = math.exp(sum(losses) / len(losses))
    by_name = {(row.split, row.metric): row.value for row in measured}
    assert by_name["valid", "plain perplexity"] < unigram


def test_best_model_and_its_numbers_are_left_in_the_folder(
    finished: Path, texts: Path, cache: Path
) -> None:
    with (finished / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    again = evaluate(finished, cache=cache, positions=language.PRESETS["tiny"].positions)
    assert [float(row["value"]) for row in rows] == [row.value for row in again]
    assert [row.value for row in evaluate(finished / "model.safetensors", cache=cache)] == [
        row.value for row in evaluate(finished / "checkpoint-12", cache=cache)
    ]
    config = json.loads((finished / "results.json").read_text())["config"]
    assert config["parameters"] == count_parameters(load_model(finished / "model.safetensors"))
    assert (config["steps"], config["corpus"]) == (12, "text")
    ids = (finished / "test.ids").read_text().splitlines()
    assert {len(line.split()) for line in ids[:-1]} == {32}


def test_another_text_is_refused_by_its_vocabulary(
    finished: Path, cache: Path, tmp_path: Path
) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("other words here\n" * 30)
    message = error_of(lambda: evaluate(finished, data=tmp_path, cache=cache))
    assert "data must have the vocabulary of" in message
    assert "got one of 5 words that differs from word 2 on" in message


@pytest.mark.parametrize("split", ["valid", "test"])
def test_text_too_short_to_be_measured_is_refused_before_the_training(
    split: str, cache: Path, tmp_path: Path
) -> None:
    texts = write_texts(tmp_path / "manual")
    (texts / f"{split}.txt").write_text("a few words\n")
    run = short_run(texts)
    with pytest.raises(ValueError, match=f"{split} text must be longer than a window of 32"):
        plan(run, cache=cache)
    with pytest.raises(ValueError, match=f"{split} text must be longer than a window of 32"):
        train_here(run, tmp_path / "run", cache)
    assert not list((tmp_path / "run").glob("checkpoint-*"))


def test_run_of_other_settings_is_not_resumed(finished: Path, texts: Path, cache: Path) -> None:
    changes = {"mixer": "fourier", "seed": 5}
    for name, value in changes.items():
        run = short_run(texts, **{name: value})
        message = error_of(lambda run=run: train_here(run, finished, cache, resume=True))
        assert f"{name} must be that of the run in" in message
        assert len(message) < 200 + len(str(finished))
    message = error_of(lambda: train_here(short_run(texts), finished, cache))
    assert "output must be a new folder, or resumed (--resume)" in message


def test_resuming_nothing_is_refused(texts: Path, cache: Path, tmp_path: Path) -> None:
    run = short_run(texts)
    message = error_of(lambda: train_here(run, tmp_path, cache, resume=True))
    assert "must be the folder of a training run, got no study.json" in message


@pytest.mark.parametrize(
    ("content", "rule"),
    [("{", "must describe a training run"), ('{"format": 9}', "must have format 1")],
)
def test_damaged_setup_is_refused(content: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(content)
    assert rule in error_of(lambda: evaluate(tmp_path))


def test_half_precision_trains(texts: Path, cache: Path, tmp_path: Path) -> None:
    run = short_run(texts, precision="bfloat16", steps=4)
    measured = train_here(run, tmp_path / "run", cache)
    assert all(math.isfinite(row.value) for row in measured)
    weights = load_model(tmp_path / "run/model.safetensors").parameters()
    assert {weight.dtype for weight in weights} == {torch.float32}


def test_plan_counts_the_parameters_of_the_model(
    texts: Path, text: TokenFiles, cache: Path
) -> None:
    torch.set_num_threads(1)
    found = plan(short_run(texts), cache=cache)
    model = language.STUDY.build(language.PRESETS["tiny"], text, ChosenMixer("softmax"))
    assert found.parameters == count_parameters(model)
    assert found.tokens == text.counts["train"]
    assert found.epochs == pytest.approx(12 * 4 * 32 / text.counts["train"], rel=0.02)
    assert found.memory > 16 * found.parameters
    assert found.seconds > 0
    assert len(dict(found.rows())) == 5


def test_plan_is_the_time_of_all_steps_without_what_only_the_first_calls_cost(
    texts: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that a sequence moves by 1 ms, on the way back by 2.

    Each of the first three passes moves it by 200 ms more.
    """
    plain, clock, calls = language.smoothed_loss, [0.0], []

    def back(count: int, _: torch.Tensor) -> None:
        clock[0] += 2e-3 * count

    def timed(model: torch.nn.Module, batch: Any, *rest: Any) -> torch.Tensor:
        calls.append(1)
        count = len(batch["tokens"])
        clock[0] += 1e-3 * count + (0.2 if len(calls) < 4 else 0.0)
        loss = plain(model, batch, *rest)
        loss.register_hook(partial(back, count))
        return loss

    monkeypatch.setattr(planning.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(language, "smoothed_loss", timed)
    found = plan(short_run(texts, steps=10, batch=16), cache=cache)
    assert found.seconds == pytest.approx(10 * 16 * (1e-3 + 2e-3))


@pytest.mark.parametrize("token", [1e-6, 1e-3])
def test_plan_counts_loading_validations_and_the_sliding_window(
    token: float, texts: Path, text: TokenFiles, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that a token of a validation moves, and the reading of the text by two seconds."""
    plain, read, clock = language.plain_loss, planning.read_data, [0.0]

    def timed(*given: Any, **options: Any) -> tuple[float, int]:
        total, count = plain(*given, **options)
        clock[0] += token * count
        return total, count

    def slow(*given: Any, **options: Any) -> Any:
        clock[0] += 2.0
        return read(*given, **options)

    monkeypatch.setattr(planning.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(language, "plain_loss", timed)
    monkeypatch.setattr(planning, "read_data", slow)
    found = plan(short_run(texts, steps=10, evaluate_every=4), cache=cache)
    valid, test = (text.counts[split] for split in ("valid", "test"))
    assert found.loading == 2.0
    # Three validations, of which a share is timed; as many tokens as windows of 32 have.
    assert found.validating == pytest.approx(3 * (valid - 1) * token, rel=0.05)
    windows = min(valid - 32, 2_000) + min(test - 32, 2_000)
    measured = (valid + test + 32 * windows) * token
    assert found.measuring == pytest.approx(measured, rel=0.05)
    assert found.total == found.loading + found.seconds + found.validating + found.measuring
    assert dict(found.rows())["time"].endswith("%)")


def test_run_remembers_the_whole_path_of_its_text(
    texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(texts.parent)
    assert setup("language", data=texts.name).data == str(texts.resolve())
    assert setup("language", data="python").data == "python"


def test_unknown_names_are_listed() -> None:
    for given, rule in (
        (
            {"study": "speech"},
            f"study must be one of {', '.join(STUDIES)}, got 'speech'",
        ),
        (
            {"preset": "huge"},
            "preset must be one of mini, tiny, recall, little, twin, small, medium, got 'huge'",
        ),
        ({"mixer": "fnet"}, "mixer must be one of softmax, .*, got 'fnet'"),
    ):
        with pytest.raises(ValueError, match=rule):
            setup(**{"study": "language", **given})


def test_paper_presets_need_data_to_be_named() -> None:
    with pytest.raises(ValueError, match="data must be named for this preset: --data FOLDER"):
        language.STUDY.read(language.PRESETS["small"], None)
