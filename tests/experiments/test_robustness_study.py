"""The study of robustness gives all networks the same draws, and compares them in pairs."""

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from scipy.stats import ttest_1samp
from study_modules import RESULTS, read_rows, study_module

from fourierkernels.diagnostics import Alphabet, corrupt
from fourierkernels.models import LanguageConfig, LanguageModel, load_model
from fourierkernels.studies import setup
from fourierkernels.studies.engine.run_setup import save_setup
from fourierkernels.studies.language.recall_text import recall_lines

STEEPEST = "steepest"
SMALL = {"vocabulary": 12, "dim": 16, "layers": 1, "heads": 2, "hidden": 32, "length": 32}


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("robustness") as module:
        yield module


def published() -> dict[tuple[str, ...], dict[str, str]]:
    names = ("part", "kernel", "measure", "corruption", "rate")
    return {tuple(row[name] for name in names): row for row in read_rows("robustness")}


def test_draws_follow_from_the_item_and_the_corruption(study: ModuleType) -> None:
    measuring = study.measures.__globals__["drawn"]
    first, again, other, next_one = (
        measuring(kind, item).random()
        for kind, item in (("noise", 3), ("noise", 3), ("deleted", 3), ("noise", 4))
    )
    assert first == again
    assert len({first, other, next_one}) == 3


def test_interval_is_over_seeds_and_items(study: ModuleType) -> None:
    """With effects of seeds alone it is the t interval of these, however many items there are."""
    rng = np.random.default_rng(0)
    shared = 100 * rng.normal(size=(12, 30))
    for sizes in ((12, 1), (1, 30)):
        effects = rng.normal(size=sizes)
        found = study.difference(shared + effects, shared, 1)
        assert found["difference"] == pytest.approx(effects.mean())
        width = effects.std(ddof=1) / np.sqrt(effects.size)
        width *= student.ppf(0.975, 11) if sizes[0] > 1 else 1.96
        assert (found["high"] - found["low"]) / 2 == pytest.approx(width, rel=1e-4)
    whole, corrected = (study.difference(shared + effects, shared, k) for k in (1, 20))
    assert corrected["low"] < whole["low"] < whole["high"] < corrected["high"]
    one = study.difference(effects, np.zeros(effects.shape), 1)  # one network: over windows alone
    expected = ttest_1samp(effects[0], 0.0).confidence_interval(0.95)
    assert (one["low"], one["high"]) == pytest.approx((expected.low, expected.high))
    assert one["smallest"] > (one["high"] - one["low"]) / 2


def test_first_kernel_is_what_the_others_are_compared_with(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    keys = [("loss", "none", 0.0), ("loss", "noise", 0.5), ("Lipschitz, layer 1", "none", 0.0)]
    kernels = ("softmax", "gaussian", "l = 4")
    measures = {k: {key: rng.normal(size=(2, 5)) for key in keys} for k in kernels}
    rows = study.table("recall", measures)
    assert len(rows) == 9
    for row in rows:
        own = measures[row["kernel"]][row["measure"], row["corruption"], row["rate"]]
        less = measures["softmax"][row["measure"], row["corruption"], row["rate"]]
        assert row["value"] == pytest.approx(own.mean())
        assert row["difference"] == pytest.approx(own.mean() - less.mean())
        assert row["comparisons"] == (4 if row["measure"] == "loss" else 2)


def small_model() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(LanguageConfig(**SMALL)).eval()


def test_words_that_count_alone_are_measured(study: ModuleType) -> None:
    model, rates = small_model(), {STEEPEST: (0.3,), "noise": (0.3,)}
    windows = torch.tensor([[6, 7, 8, 2, 9, 3, 0], [7, 6, 9, 3, 8, 2, 0]])
    counts = torch.isin(windows[:, 1:], torch.tensor([2, 3]))
    found = study.measures(model, windows, rates, counts.numpy())
    with torch.no_grad():
        log_p = model.log_probabilities(windows[:, :-1])
    right = log_p.gather(-1, windows[:, 1:, None])[..., 0]
    expected = [-float(own[at].mean()) for own, at in zip(right, counts, strict=True)]
    assert found["loss", "none", 0.0] == pytest.approx(expected, rel=1e-5)
    hits = log_p.argmax(-1) == windows[:, 1:]
    shares = [100 * float(own[at].float().mean()) for own, at in zip(hits, counts, strict=True)]
    assert found["accuracy", "none", 0.0].tolist() == shares
    worst, noisy = (found["loss rise", kind, 0.3] for kind in (STEEPEST, "noise"))
    assert (worst > np.abs(noisy)).all()  # of one size, that along the gradient raises it most
    gaps = [found["loss", k, 0.3] - found["loss", "none", 0.0] for k in (STEEPEST, "noise")]
    assert np.stack([worst, noisy]) == pytest.approx(np.stack(gaps), abs=1e-6)


def test_words_that_are_left_keep_their_targets(study: ModuleType) -> None:
    model, windows = small_model(), torch.arange(2, 26)[None] % 12
    counts = np.ones((1, windows.shape[1] - 1), dtype=bool)
    found = study.measures(model, windows, {"deleted": (0.2,)}, counts)
    drawn = study.measures.__globals__["drawn"]("deleted", 0)
    tokens = windows[0, :-1].numpy()
    left = corrupt(tokens, kind="deleted", rate=0.2, rng=drawn, alphabet=Alphabet(12, 1))
    assert 0 < len(left.places) < len(tokens)
    with torch.no_grad():
        log_p = model.log_probabilities(torch.from_numpy(left.values)[None])[0]
    loss = -log_p[torch.arange(len(log_p)), windows[0, 1:][left.places]].mean()
    assert found["loss", "deleted", 0.2] == pytest.approx([float(loss)], rel=1e-5)


def test_networks_of_the_recall_text_are_whole(study: ModuleType, tmp_path: Path) -> None:
    comparison = study.RecallComparison().quick(tmp_path)
    with pytest.raises(ValueError, match=r"folder must have the networks of .*, got none in"):
        study.recall_runs(tmp_path, comparison)
    for mixer, seed in (("softmax", 1), ("softmax", 2), ("none", 1), ("gaussian", 1)):
        run = tmp_path / "runs" / f"{mixer}-{seed}"
        run.mkdir(parents=True)
        steps = comparison.steps
        save_setup(run, setup("language", preset="mini", mixer=mixer, seed=seed, steps=steps), "")
    with pytest.raises(
        ValueError, match=r"same seeds, got {'gaussian': \[1\], 'none': \[1\], 'softmax': \[1, 2\]}"
    ):
        study.recall_runs(tmp_path, comparison)
    shutil.rmtree(tmp_path / "runs/softmax-2")
    assert list(study.recall_runs(tmp_path, comparison)) == ["softmax", "gaussian", "none"]


def test_published_networks_of_every_kernel_have_the_same_seeds() -> None:
    seeds = defaultdict(list)
    for row in read_rows("robustness_networks"):
        if row["part"] == "recall":
            seeds[row["kernel"]].append(int(row["seed"]))
    assert {"softmax", "gaussian", "l = 4", "linear", "none"} <= set(seeds)
    assert all(own == list(range(21, 45)) for own in seeds.values())


def test_kinds_of_words_are_those_of_the_recall_text(study: ModuleType) -> None:
    """A stand-in for a model has the loss that a word's own form gives away."""
    vocabulary = sorted({word for line in recall_lines("test") for word in line})
    words = ["<eos>", "<unk>", *vocabulary]
    windows, kinds = study.recall_windows(words, 32)
    text = [word for line in recall_lines("test") for word in (*line, "<eos>")]
    assert [words[i] for window in windows[:40] for i in window[:-1]] == text[: 40 * 32]
    assert (windows[:-1, -1] == windows[1:, 0]).all()
    forms = {"pairs": "=", "questions": "?", "ends": "<"}

    def loss(word: str) -> float:
        return next((i for i, form in enumerate(forms.values()) if form in word), 3)

    found = study.losses_by_kind(
        lambda tokens, targets: torch.tensor([[loss(words[i]) for i in row] for row in targets]),
        windows,
        kinds,
    )
    expected = {"pairs": 0, "questions": 1, "answers": 3, "ends": 2, study.UNREAD: 3}
    assert found == {f"loss of {kind}": value for kind, value in expected.items()}
    read = {words[i] for i in windows[5, :-1]}
    for place in np.flatnonzero(np.char.startswith(kinds[5], "answers")):
        name, value = words[windows[5, place]][0], words[windows[5, place + 1]]
        assert f"{name}={value}" in read or kinds[5, place] == study.UNREAD
    assert {"answers", study.UNREAD} <= set(kinds[:40].ravel())


def test_published_rows_of_the_twins_are_those_of_the_published_weights(study: ModuleType) -> None:
    """Clean losses; and nothing that was measured moved by less than nothing."""
    rows = published()
    lines = (RESULTS / "language_heads_test.txt").read_text(encoding="utf-8").splitlines()
    windows = torch.tensor([[int(word) for word in line.split()] for line in lines])
    model = load_model(RESULTS / "language_softmax/model.safetensors").float().eval()
    with torch.no_grad():
        loss = float(model(windows[:, :-1], windows[:, 1:]).mean())
    own = rows["language", "softmax", "loss", "none", "0.0"]
    assert float(own["value"]) == pytest.approx(loss, rel=1e-4)
    for (_, kernel, measure, _, _), row in rows.items():
        if kernel != "softmax":  # which has no difference from itself
            assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
        if measure in ("maps", "output"):
            assert 0 < float(row["value"]) < 1
