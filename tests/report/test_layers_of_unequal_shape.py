"""Networks whose layers differ in shape, and measures that do not apply: shown, never refused."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.diagnostics import head_distances, head_samples, head_statistics
from fourierkernels.report import HeadReport, head_report

Tiny = Callable[[str], Path]
HEADS = [1, 2, 4]


def saved(config: Any, folder: Path) -> Path:
    torch.manual_seed(3)
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    files = [folder / f"{number}.png" for number in range(3)]
    for file in files:
        Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(file)
    return files


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[1, 1, 1], num_heads=HEADS, window_size=4
    )
    return saved(config, tmp_path_factory.mktemp("windows"))


@pytest.fixture(scope="module")
def pyramid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = transformers.PvtConfig(
        image_size=32,
        hidden_sizes=[8, 16, 16, 16],
        depths=[1] * 4,
        num_attention_heads=[1, 2, 4, 4],
        sequence_reduction_ratios=[4, 2, 1, 1],
        mlp_ratios=[2] * 4,
    )
    return saved(config, tmp_path_factory.mktemp("pyramid"))


@pytest.fixture(scope="module")
def report(windows: Path, images: list[Path]) -> HeadReport:
    return head_report(windows, list(map(str, images)))


def test_windows_have_the_distances_of_their_rows(
    windows: Path, images: list[Path], report: HeadReport
) -> None:
    checkpoint, sums = load_checkpoint(windows), [np.zeros((heads, heads)) for heads in HEADS[1:]]
    for sample in head_samples(checkpoint, images):
        for layer, total in zip(sample.by_layer[1:], sums, strict=True):
            rows = layer.whole("maps")
            assert rows.shape == (layer.heads, layer.windows * 16, 16)
            total += head_distances(rows) / len(images)
    summary = report.summaries()["trained"]
    assert summary.heads == HEADS
    assert np.isnan(summary.mean).tolist() == [True, False, False]
    for found, expected in zip(summary.by_layer[1:], sums, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert summary.layer_average == pytest.approx(summary.mean[1:].mean())


def test_statistics_of_windows_are_means_over_them(
    windows: Path, images: list[Path], report: HeadReport
) -> None:
    names = ["entropy", "own_token", "previous_token", "local"]
    totals = {name: np.zeros(2) for name in names}
    for sample in head_samples(load_checkpoint(windows), images):
        layer = sample.by_layer[1]
        for window in range(layer.windows):
            found = head_statistics(layer.part("maps", window), names=names)
            for name in names:
                totals[name] += found[name] / layer.windows / len(images)
    for name, total in totals.items():
        mean = report.first.statistics[name].mean
        np.testing.assert_allclose(mean[1, :2], total, rtol=1e-12)
        assert np.isnan(mean).sum() == 3 + 2


def test_report_says_the_shapes_and_what_has_no_distances(
    report: HeadReport, tmp_path: Path
) -> None:
    said = str(report)
    assert "1: 1 head, 16 windows of 16 × 16 tokens; 2: 2 heads, 4 windows of 16 × 16" in said
    assert "averages of layers are over different shapes; layers of one head have no" in said
    assert said.count("one head") == 1 + len(report.summaries())
    report.save(tmp_path)
    numbers = json.loads((tmp_path / "heads.json").read_text())
    assert numbers["shapes"] == [[1, 16, 16, 16], [2, 4, 16, 16], [4, 1, 16, 16]]
    distances = numbers["networks"]["trained"]["frobenius_per_sqrt_n"]["distances"]
    assert [len(layer) for layer in distances] == HEADS
    with (tmp_path / "heads.csv").open() as file:
        assert {row["layer"] for row in csv.DictReader(file)} == {"2", "3"}
    with (tmp_path / "statistics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["statistic"] == "entropy"]
    assert [(row["layer"], row["head"]) for row in rows[:4]] == [
        ("1", "1"),
        ("2", "1"),
        ("2", "2"),
        ("3", "1"),
    ]
    assert (tmp_path / "heads.html").stat().st_size > 10_000


def test_pooled_keys_leave_out_statistics_of_the_same_tokens(
    pyramid: Path, images: list[Path]
) -> None:
    found = head_report(pyramid, list(map(str, images)), baseline=False)
    assert found.first.shapes == ((1, 1, 64, 4), (2, 1, 16, 4), (4, 1, 4, 4), (4, 1, 2, 2))
    assert {"entropy", "first_token"} <= found.first.statistics.keys()
    assert "own_token" not in found.first.statistics


def test_other_network_of_windows_is_compared(windows: Path, images: list[Path]) -> None:
    found = head_report(windows, list(map(str, images)), baseline=False, against=windows)
    difference = found.difference()
    assert difference is not None
    assert difference.average == 0.0
    assert np.isnan(difference.layers).tolist() == [True, False, False]
    assert "nan" not in str(found)


@pytest.fixture(scope="module")
def sinks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows sum to less than one: a part of the weight goes to a sink that is no token."""
    config = transformers.GptOssConfig(
        vocab_size=14,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        num_local_experts=2,
        num_experts_per_tok=1,
        max_position_embeddings=32,
        layer_types=["full_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    return saved(config, tmp_path_factory.mktemp("sinks"))


def test_what_needs_probabilities_is_left_out_with_the_reason(sinks: Path) -> None:
    texts = ["3 4 5 6 7 8", "9 10 11"]
    metrics = ["jensen_shannon", "frobenius_per_sqrt_n", "cosine"]
    with pytest.warns(UserWarning, match="rows of attention maps sum to less than one"):
        found = head_report(sinks, texts, tokens="ids", metrics=metrics, permutations=2)
    assert found.metrics == ["frobenius_per_sqrt_n", "cosine"]
    assert (found.first.statistics, found.first.null) == ({}, None)
    kinds = [reason.partition(":")[0] for reason in found.first.left_out]
    positions = [f"control position of {name}" for name in found.metrics]
    roles = ["roles", "same and induction"]
    assert kinds == ["jensen_shannon", "statistics", "permutations", *roles, *positions]
    assert "left out: jensen_shannon: maps must have rows that are probabilities" in str(found)


def test_nothing_but_what_does_not_apply_is_refused(sinks: Path) -> None:
    asked: dict[str, Any] = {"tokens": "ids", "statistics": "none", "examples": 0}
    with pytest.raises(ValueError, match="must have rows that are probabilities for jensen_shan"):
        head_report(sinks, ["3 4 5 6"], metrics=["jensen_shannon"], **asked)


def test_one_head_has_statistics_and_no_distances(tiny: Tiny) -> None:
    found = head_report(tiny("one_head"), ["a b c", "d e"], tokens="whitespace")
    assert found.metrics == []
    assert "entropy" in found.first.statistics
    assert "left out: frobenius_per_sqrt_n: maps must have at least 2 heads" in str(found)


def test_statistic_without_a_meaning_does_not_stop_the_others(tiny: Tiny) -> None:
    found = head_report(
        tiny("bart"),
        [("a b c", "d e")],
        part="cross",
        tokens="whitespace",
        statistics=["distance", "entropy"],
    )
    assert list(found.first.statistics) == ["entropy"]
    assert found.first.left_out == (
        "same and induction: random tokens need a network that reads token ids, got one of pairs",
        "control position of frobenius_per_sqrt_n: positions need queries that are the keys, "
        "without windows",
        "distance: it has no meaning for this network and these inputs",
    )
