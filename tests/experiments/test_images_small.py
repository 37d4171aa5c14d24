"""The small table of image classifiers compares like with like."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel
from study_modules import RESULTS, study_module


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("images_small") as module:
        yield module


@pytest.mark.parametrize("images", ["digits", "fashion"])
def test_every_kernel_has_the_same_starts_seeds_and_updates(study: ModuleType, images: str) -> None:
    given = defaultdict(list)
    for own in study.networks(study.SETTINGS[images]):
        assert own.preset == images
        given[own.kernel].append((own.sharpness, own.seed, own.steps))
    assert len(given) == 3
    assert len({tuple(found) for found in given.values()}) == 1


def test_sharper_start_is_the_radius_of_the_paper(study: ModuleType) -> None:
    _, options = study.kernel_options("l = 4", max(study.Settings().sharpness))
    assert options["radius"] == pytest.approx(1.0)


def test_differences_are_paired_by_seed_and_corrected(study: ModuleType) -> None:
    rng, settings = np.random.default_rng(0), study.Settings()
    metrics = [f"{s} {m}" for s in study.SPLITS for m in ("top-1", "cross-entropy")]
    rows: list[dict[str, Any]] = [
        {"kernel": own.kernel, "sharpness": own.sharpness, "seed": own.seed}
        | {metric: float(rng.normal()) for metric in metrics}
        for own in study.networks(settings)
    ]
    found = study.summaries(rows[::-1], settings)
    assert len(found) == 3 * 2 * 2
    for line in found:
        values = {
            name: [
                row[f"{line['split']} top-1"]
                for row in rows
                if (row["kernel"], row["sharpness"]) == (name, line["sharpness"])
            ]
            for name in (line["kernel"], "softmax")
        }
        assert line["top-1"] == pytest.approx(np.mean(values[line["kernel"]]))
        if line["kernel"] != "softmax":
            test = ttest_rel(values[line["kernel"]], values["softmax"])
            ends = test.confidence_interval(1 - 0.05 / 4)
            assert (line["top-1 low"], line["top-1 high"]) == pytest.approx((ends.low, ends.high))


def test_networks_of_fashion_read_the_files_that_are_fetched(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with study_module("data_images", threads=False) as fetching:
        monkeypatch.setattr(fetching, "COUNTS", {"train": 80, "t10k": 10})
        fetching.write_blank(tmp_path / "blank")
    own = study.Network("gaussian", 1.0, 1, 1, "fashion")
    row = study.train_network(own, tmp_path / "blank")
    assert 0 <= row["test top-1"] <= 100
    assert row["preset"] == "fashion"


def test_published_table_of_fashion_follows_from_its_networks(study: ModuleType) -> None:
    networks, published = (read(name) for name in study.NAMES["fashion"])
    settings = study.SETTINGS["fashion"]
    texts = {"kernel", "preset", "options", "radii"}
    rows = [
        {name: value if name in texts else float(value) for name, value in row.items()}
        for row in networks
    ]
    found = study.summaries(rows, settings)
    assert len(found) == len(published) == 6
    for ours, theirs in zip(found, published, strict=True):
        for name in ("top-1", "top-1 low", "top-1 high", "cross-entropy"):
            assert ours[name] == pytest.approx(float(theirs[name]), rel=1e-9)
    assert all(row["test cross-entropy"] < np.log(10) / 2 for row in rows)


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
