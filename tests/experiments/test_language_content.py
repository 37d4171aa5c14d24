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
    with study.replaced_maps(model, single[0]):
        own, *others = study.losses(model, windows)
    assert own == pytest.approx(before[0], rel=1e-12)
    assert (abs(others - before[1:]) > 1e-10).all()  # far beyond rounding
    like = torch.zeros(1, 2, 6, 6, dtype=torch.float64)
    for name, whole in study.mean_maps(model, windows).items():
        mean = torch.stack([each[name](like) for each in single]).mean(dim=0)
        torch.testing.assert_close(whole(like), mean)


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
