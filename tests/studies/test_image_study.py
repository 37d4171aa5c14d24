"""The image study is that of the paper, learns, resumes to the bit and measures as it says."""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_runs import mini, mini_run, train_images, write_classes
from torch import nn
from training_runs import Call, error_of

from fourierkernels import head_report
from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.models import count_parameters
from fourierkernels.models.saved import load_model
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.recipe import SCHEDULES
from fourierkernels.studies.engine.run import evaluate
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.images import study as images
from fourierkernels.studies.images.batches import read_batch
from fourierkernels.studies.images.labelled import LabelledImages
from fourierkernels.studies.images.sets import IMAGE_SETS, read_labelled


@pytest.fixture(scope="module")
def digits() -> LabelledImages:
    return read_labelled("digits")


@pytest.fixture(scope="module", autouse=True)
def _mini() -> Iterator[None]:
    images.PRESETS["mini"] = mini()
    yield
    del images.PRESETS["mini"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was not interrupted; not to be changed."""
    output = tmp_path_factory.mktemp("images") / "run"
    train_images(mini_run(), output)
    return output


def imagenet(digits: LabelledImages) -> LabelledImages:
    counts = {"train": 1_281_167, "valid": 50_000}
    labels = {split: np.zeros(n, np.int64) for split, n in counts.items()}
    names = tuple(map(str, range(1000)))
    return replace(digits, vocabulary=names, labels=labels, channels=3, side=None)


@pytest.mark.parametrize("mixer", ["softmax", "fourier", "gaussian"])
@pytest.mark.parametrize(("preset", "heads"), [("deit_tiny", 3), ("deit_tiny_4_heads", 4)])
def test_models_of_the_paper_have_its_sizes(
    preset: str, heads: int, mixer: str, digits: LabelledImages
) -> None:
    with torch.device("meta"):
        model = images.STUDY.build(images.PRESETS[preset], imagenet(digits), ChosenMixer(mixer))
    config = model.config
    assert (config.layers, config.dim, config.hidden, config.heads) == (12, 192, 768, heads)
    assert (config.tokens, config.classes, config.channels) == (197, 1000, 3)
    assert (config.drop_path, config.dropout, config.norm_eps) == (0.1, 0.0, 1e-6)
    assert config.std == 0.02
    radii = 12 * (mixer == "fourier")
    assert count_parameters(model) == 5_717_416 + radii  # DeiT's own count, and one R per layer


def test_fourier_models_of_the_paper_start_as_published(digits: LabelledImages) -> None:
    options = images.PRESETS["deit_tiny"].mixer_options["fourier"]
    start = {"power": 4, "radius": 1.0, "radius_shape": "scalar", "eps": 1e-6}
    assert options == start | {"radius_parameter": "direct"}


@pytest.mark.parametrize("preset", images.PRESETS)
def test_every_preset_builds_and_describes_itself(preset: str, digits: LabelledImages) -> None:
    row = images.PRESETS[preset]
    with torch.device("meta"):
        model = images.STUDY.build(row, digits, ChosenMixer("fourier", {"radius": 0.5}))
    assert model.config.classes == 10
    assert len(row.summary) > 20
    assert row.recipe.optimiser == "adamw"


def test_recipe_of_deit_is_as_published() -> None:
    row = images.PRESETS["deit_tiny"]
    recipe, does = row.recipe, row.augmentation
    assert (recipe.steps, recipe.batch, recipe.warmup) == (375_300, 1024, 6255)
    assert recipe.learning_rate == pytest.approx(5e-4 * 1024 / 512)
    assert (recipe.weight_decay, recipe.label_smoothing, recipe.clip) == (0.05, 0.1, None)
    assert does is not None
    assert (does.mixup, does.cutmix, does.erase, does.distortion) == (0.8, 1.0, 0.25, 9.0)
    assert (does.repeats, does.group, does.least_area, does.flip) == (3, 256, 0.08, 0.5)


def deit_rate(epoch: int) -> float:
    """The rate of an epoch in the loop of DeiT: that which timm gives the one before."""
    before = max(epoch - 1, 0)
    if before < 5:
        return 1e-6 + before * (1e-3 - 1e-6) / 5
    return 1e-5 + 0.5 * (1e-3 - 1e-5) * (1 + math.cos(math.pi * before / 300))


@pytest.mark.parametrize("epoch", [0, 1, 2, 5, 6, 7, 150, 299])
def test_rates_are_those_of_the_published_loop(epoch: int) -> None:
    recipe = images.PRESETS["deit_tiny"].recipe
    for done in (1251 * epoch, 1251 * epoch + 1250):
        factor = SCHEDULES["deit"](done, recipe.warmup, recipe.steps)
        assert recipe.learning_rate * factor == pytest.approx(deit_rate(epoch), rel=1e-12)


def test_positions_class_token_and_vectors_do_not_decay(digits: LabelledImages) -> None:
    row = images.PRESETS["digits"]
    model = images.STUDY.build(row, digits, ChosenMixer("fourier"))
    groups = create_optimiser(nn.Sequential(model), row.recipe).param_groups
    kept = {id(p) for p in groups[1]["params"]}
    assert [group["weight_decay"] for group in groups] == [0.05, 0.0]
    for name, parameter in model.named_parameters():
        free = parameter.ndim < 2 or name in ("prefix", "positions")
        assert (id(parameter) in kept) == free, name


# --- measures ---------------------------------------------------------------------------------


def likely_hits(logits: list[float], label: int, k: int) -> float:
    """The share of the orders of equal logits in which the label is among the first k."""
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    ties = [place for place, i in enumerate(order) if logits[i] == logits[label]]
    return sum(place < k for place in ties) / len(ties)


def test_hits_are_those_of_a_sorted_list_with_ties_in_random_order() -> None:
    logits = torch.randint(0, 4, (60, 7), generator=torch.Generator().manual_seed(0)).float()
    labels = torch.arange(60) % 7
    for k in (1, 2, 5, 7, 9):
        expected = [
            likely_hits(row, int(label), k)
            for row, label in zip(logits.tolist(), labels, strict=True)
        ]
        assert images.hits(logits, labels, k).tolist() == pytest.approx(expected)


def test_what_is_no_number_is_no_hit() -> None:
    nan = float("nan")
    logits = torch.tensor([[nan, nan, nan], [1.0, nan, 0.0], [nan, 2.0, 1.0]])
    assert images.hits(logits, torch.tensor([0, 0, 1]), 1).tolist() == [0.0, 0.0, 0.0]
    assert images.hits(torch.zeros(1, 10), torch.tensor([3]), 1).tolist() == pytest.approx([0.1])


def test_sums_do_not_depend_on_batches_or_processes(
    digits: LabelledImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = images.STUDY.build(images.PRESETS["digits"], digits, ChosenMixer("fourier"))
    given = (model, images.PRESETS["digits"], digits, "valid")
    whole = images.STUDY.sums(*given, range(179))
    parts = [images.STUDY.sums(*given, range(i, 179, 3)) for i in range(3)]
    assert [sum(column) for column in zip(*parts, strict=True)] == pytest.approx(whole, rel=1e-6)
    monkeypatch.setattr(images.STUDY, "at_a_time", 7)
    assert images.STUDY.sums(*given, range(179)) == pytest.approx(whole, rel=1e-6)
    batch = read_batch(digits, "valid", range(179), 8)
    logits = model(batch["images"]).double()
    losses = nn.functional.cross_entropy(logits, batch["labels"], reduction="sum")
    right = (logits.argmax(dim=1) == batch["labels"]).sum()
    assert whole[:2] == pytest.approx((losses.item(), right.item()))


def test_few_images_are_spread_over_the_split(
    digits: LabelledImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie in the order of their classes in a folder."""
    assert images.measured_places(1000, 10) == list(range(0, 1000, 100))
    read: list[int] = []
    plain = images.ImageStudy.examples

    def examples(*given: Any) -> Any:
        read.extend(given[-1])
        return plain(*given)

    monkeypatch.setattr(images.ImageStudy, "examples", examples)
    rows = images.STUDY.measure(
        images.PRESETS["digits"],
        digits,
        "softmax",
        images.STUDY.build(images.PRESETS["digits"], digits, ChosenMixer("softmax")),
        splits=("test",),
        positions=20,
    )
    assert [(row.metric, row.positions) for row in rows] == [
        ("top-1", 20),
        ("top-5", 20),
        ("cross-entropy", 20),
    ]
    assert read == images.measured_places(digits.counts["test"], 20)


def test_top_5_is_left_out_of_five_classes_and_missing_splits_are_told(tmp_path: Path) -> None:
    data = read_labelled(write_classes(tmp_path / "x", {"train": 1, "val": 1}))
    row = images.PRESETS["digits"]
    model = images.STUDY.build(row, data, ChosenMixer("softmax"))
    metrics = [(r.split, r.metric) for r in images.STUDY.measure(row, data, "softmax", model)]
    assert metrics == [("valid", "top-1"), ("valid", "cross-entropy")]
    message = error_of(lambda: images.STUDY.measure(row, data, "softmax", model, splits=("test",)))
    assert "split must be one of train, valid for these images, got test" in message


def test_published_numbers_stand_beside_imagenet_alone(digits: LabelledImages) -> None:
    row, data = images.PRESETS["deit_tiny"], imagenet(digits)
    assert images.published(row, data, "softmax", "valid") == {"top-1": 72.23, "top-5": 91.13}
    assert images.published(row, data, "fourier", "valid")["top-1"] == 73.25
    assert images.published(row, data, "softmax", "train") == {}
    assert images.published(row, data, "gaussian", "valid") == {}
    assert images.published(row, digits, "softmax", "valid") == {}


# --- runs -------------------------------------------------------------------------------------


def test_study_learns_the_digits(tmp_path: Path) -> None:
    """Half of the loss of an even guess, log 10, in a third of the preset's updates."""
    run = setup("images", mixer="softmax", steps=100, warmup=10, evaluate_every=100, save_every=100)
    measured = train_images(run, tmp_path / "run")
    values = {(row.split, row.metric): row.value for row in measured}
    assert values["valid", "cross-entropy"] < math.log(10) / 2
    assert values["test", "top-1"] > 60
    assert values["test", "top-5"] > values["test", "top-1"]


@pytest.mark.slow
def test_fourier_attention_learns_the_digits(tmp_path: Path) -> None:
    measured = train_images(setup("images", mixer="fourier"), tmp_path / "run")
    values = {(row.split, row.metric): row.value for row in measured}
    assert values["test", "top-1"] > 80


def test_run_leaves_its_numbers_and_what_they_are_of(finished: Path) -> None:
    with (finished / "results.csv").open() as file:
        rows = {(r["split"], r["metric"]): float(r["value"]) for r in csv.DictReader(file)}
    again = evaluate(finished)
    assert {(row.split, row.metric): row.value for row in again} == rows
    assert {metric for _, metric in rows} == {"top-1", "top-5", "cross-entropy"}
    config = json.loads((finished / "results.json").read_text())["config"]
    assert config["classes"] == 10
    assert config["images"] == {"train": 1439, "valid": 179, "test": 179}
    assert config["augmentation"]["mixup"] == 0.8
    assert "words" not in config
    assert config["parameters"] == count_parameters(load_model(finished / "model.safetensors"))
    assert (finished / "classes.txt").read_text().splitlines() == list("0123456789")
    with (finished / "curve.csv").open() as file:
        assert all(0 <= float(r["valid_accuracy"] or 0) <= 1 for r in csv.DictReader(file))


def test_images_of_other_classes_or_sizes_are_refused(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = write_classes(tmp_path / "x", {"train": 1, "val": 1})
    message = error_of(lambda: evaluate(finished, data=few))
    assert f"data must have the 10 classes of {finished / 'classes.txt'}, got 3 in x" in message
    message = error_of(lambda: images.STUDY.read(images.PRESETS["fashion"], "digits"))
    assert "must have images of 28 x 28 pixels, which this preset reads, got 8 x 8" in message
    message = error_of(lambda: images.STUDY.read(images.PRESETS["deit_tiny"], None))
    assert "data must be a folder of images for this preset: --data FOLDER" in message


def test_plan_speaks_of_images() -> None:
    torch.set_num_threads(1)
    found = plan(mini_run())
    rows = dict(found.rows())
    assert rows["classes"] == "10 classes"
    assert rows["training images"].startswith("1,439 images, read ")
    assert found.epochs == pytest.approx(8 * 16 / 1439)


def test_heads_of_a_run_read_images_as_its_training_did(
    finished: Path, digits: LabelledImages, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for place in range(3):
        digits.open("test", place).save(folder / f"{place}.png")
    checkpoint = load_checkpoint(finished)
    logits = checkpoint.run(sorted(folder.iterdir()))
    own = load_model(finished / "model.safetensors").eval()
    expected = own(read_batch(digits, "test", range(3), 8)["images"])
    torch.testing.assert_close(logits, expected)
    head_report(finished, folder, baseline=False, statistics="none")


def test_photographs_of_any_size_become_a_measured_model(call: Call, tmp_path: Path) -> None:
    """From a folder of classes by the command line, and its heads."""
    data, output = write_classes(tmp_path / "x", {"train": 6, "val": 2, "test": 2}), tmp_path / "r"
    options = ("--preset", "mini", "--data", data, "--mixer", "softmax", "--limit-steps", 1)
    status, out, err = call("train", "images", *options, "--output", output)
    assert status == 2
    assert "at least the 32 training images of an update, got 18" in err
    images.PRESETS["mini"] = replace(
        mini(), recipe=replace(mini().recipe, steps=2, batch=16, evaluate_every=2, save_every=2)
    )
    status, out, err = call("train", "images", *options, "--output", output)
    assert status == 0, err
    assert "top-1" in out
    status, out, err = call("evaluate", output, "--split", "test")
    assert status == 0, err
    assert "valid" not in out
    rules = json.loads((output / "preprocessor_config.json").read_text())
    assert (rules["size"], rules["crop_size"]) == (
        {"shortest_edge": 9},
        {"height": 8, "width": 8},
    )
    status, out, err = call("heads", output, "--images", data / "test", "--no-baseline")
    assert status == 0, err
    assert "layer" in out


def test_list_tells_where_images_are_had(call: Call) -> None:
    text = " ".join(call("train", "images", "--list")[1].split())
    for name, row in IMAGE_SETS.items():
        assert f"{name}: {row.title}" in text
    assert "images: Image classification" in text
    assert "dataset-fashion-mnist" in text
