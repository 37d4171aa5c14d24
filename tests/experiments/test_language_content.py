"""Maps of the twins that are replaced are those that the study names, and nothing else changes."""

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from study_modules import read_rows, study_module

from fourierkernels.models import LanguageModel, language_config


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("language_content") as module:
        yield module


@pytest.fixture(params=["softmax", "fourier"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    torch.manual_seed(0)
    size = {"vocabulary": 9, "cutoffs": (), "dim": 8, "layers": 2, "hidden": 8, "heads": 2}
    config = language_config("small", mixer=request.param, length=8, dropout=0.0, **size)
    return LanguageModel(config).double().eval()


@pytest.fixture
def windows() -> torch.Tensor:
    return torch.randint(9, (3, 7), generator=torch.Generator().manual_seed(1))


def test_own_maps_in_their_place_change_nothing(
    study: ModuleType, model: LanguageModel, windows: torch.Tensor
) -> None:
    before = study.losses(model, windows)
    with study.replaced_maps(model, dict.fromkeys(study.attention_of(model), lambda maps: maps)):
        within = study.losses(model, windows)
    assert within == pytest.approx(before, rel=1e-12)
    assert study.losses(model, windows).tolist() == before.tolist()


def test_mean_maps_of_one_window_are_its_own_and_of_several_their_mean(
    study: ModuleType, model: LanguageModel, windows: torch.Tensor
) -> None:
    single = [study.mean_maps(model, window[None]) for window in windows]
    assert list(single[0]) == study.attention_of(model)
    assert len(single[0]) == 2
    before = study.losses(model, windows)
    with study.replaced_maps(model, study.as_replacements(single[0])):
        own, *others = study.losses(model, windows)
    assert own == pytest.approx(before[0], rel=1e-12)
    assert (abs(others - before[1:]) > 1e-10).all()  # far beyond rounding
    for name, whole in study.mean_maps(model, windows).items():
        mean = torch.stack([each[name] for each in single]).mean(dim=0)
        torch.testing.assert_close(whole, mean)


def test_dealt_rows_keep_their_weights_and_see_nothing_new(study: ModuleType) -> None:
    maps = torch.softmax(
        torch.randn(1, 2, 6, 6).masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf), -1
    )
    dealt = study.dealt_maps(maps, torch.Generator().manual_seed(3))
    assert torch.equal(dealt.triu(1), torch.zeros_like(dealt))
    assert torch.equal(dealt.sort(dim=-1)[0], maps.sort(dim=-1)[0])
    assert not torch.equal(dealt, maps)
    assert torch.equal(study.uniform_maps(maps)[0, 0, 3], torch.tensor([0.25] * 4 + [0.0] * 2))


def test_content_pays_in_the_committed_twins() -> None:
    rows = {(row["network"], row["maps"]): row for row in read_rows("language_content")}
    assert len(rows) == 8
    for network in ("language_softmax", "language_fourier"):
        assert float(rows[network, "mean"]["low"]) > 0


def test_share_is_one_of_one_text_and_the_correlation_of_two(
    study: ModuleType, model: LanguageModel, windows: torch.Tensor
) -> None:
    same = study.shares_of(model, windows[:1].expand(3, -1))
    assert list(same.values()) == pytest.approx([1.0, 1.0])
    for name, share in study.shares_of(model, windows[:2]).items():
        maps = [study.mean_maps(model, window[None])[name] for window in windows[:2]]
        first, second = (each - study.uniform_maps(each) for each in maps)
        mean = (first.square().sum() + second.square().sum()) / 2
        assert share == pytest.approx(float((first * second).sum() / mean))


def test_rows_of_layers_add_up_to_all_layers(
    study: ModuleType, model: LanguageModel, windows: torch.Tensor
) -> None:
    means = study.mean_maps(model, windows)
    rows = {(row["layer"], row["replaced"]): row for row in study.layer_rows(model, means, windows)}
    assert len(rows) == 4
    whole = {row["maps"]: row for row in study.rows_of(model, means, windows)}["mean"]
    assert rows[2, "and below"]["loss"] == pytest.approx(whole["loss"], rel=1e-12)
    assert rows[1, "and below"]["rise"] == rows[1, "alone"]["rise"]
    assert abs(rows[2, "alone"]["loss"] - whole["loss"]) > 1e-11  # far beyond rounding


def test_content_pays_most_in_the_last_layer_of_the_twins() -> None:
    rows = {
        (row["network"], row["layer"], row["replaced"]): row
        for row in read_rows("language_content_layers")
    }
    assert len(rows) == 24
    for network in ("language_softmax", "language_fourier"):
        alone = [float(rows[network, str(layer), "alone"]["rise"]) for layer in range(1, 7)]
        assert max(alone) == alone[-1] > 2 * sum(alone[:3])
        assert float(rows[network, "3", "and below"]["low"]) > 0
