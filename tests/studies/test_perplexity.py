"""Perplexities: compared with one window at a time, and with models whose perplexity is known."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fourierkernels.models import LanguageModel, language_config
from fourierkernels.studies.language.perplexity import perplexities, plain_loss, sliding_loss

WORDS, LENGTH = 30, 8


@pytest.fixture
def text() -> np.ndarray:
    return np.random.default_rng(0).integers(0, WORDS, 100).astype(np.uint16)


def model(**changes: object) -> LanguageModel:
    torch.manual_seed(0)
    sizes = {"vocabulary": WORDS, "dim": 16, "layers": 2, "heads": 2, "hidden": 16}
    options = {"cutoffs": (10,), "length": LENGTH, "positions": "from_the_end", **changes}
    made = LanguageModel(language_config("small", **sizes, **options)).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made


def one_by_one(network: LanguageModel, text: np.ndarray) -> list[float]:
    """``eval_sliding_window.py`` of lmtool-fwp: window by window, all of the first, then ends."""
    tokens = torch.from_numpy(text.astype(np.int64))
    found: list[float] = []
    for start in range(len(text) - LENGTH):
        window = tokens[start : start + LENGTH + 1]
        losses = network(window[None, :-1], window[None, 1:])[0]
        found += losses.tolist() if start == 0 else [losses[-1].item()]
    return found


@pytest.mark.parametrize("mixer", ["softmax", "fourier"])
def test_sliding_window_is_that_of_the_published_loop(mixer: str, text: np.ndarray) -> None:
    network = model(mixer=mixer)
    with torch.inference_mode():
        total, count = sliding_loss(network, text, length=LENGTH)
        more = sliding_loss(network, text, length=LENGTH, positions=1000)  # than there are
        expected = one_by_one(network, text)
    assert count == len(expected)
    assert total == pytest.approx(sum(expected), rel=1e-10)
    assert more == (total, count)


@pytest.mark.parametrize("positions", [5, 91])
def test_few_windows_are_spread_over_the_whole_text(positions: int, text: np.ndarray) -> None:
    """Each counts by its last word: the first, the last, and those between at equal steps."""
    network = model()
    with torch.inference_mode():
        total, count = sliding_loss(network, text, length=LENGTH, positions=positions)
        last = one_by_one(network, text)[LENGTH - 1 :]
    places = np.linspace(0, len(last) - 1, positions).round().astype(int)
    assert count == positions
    assert total == pytest.approx(np.asarray(last)[places].sum(), rel=1e-10)


def test_whole_text_but_its_first_word_is_predicted(text: np.ndarray) -> None:
    counts = {name: count for name, _, count in perplexities(model(), text, length=LENGTH)}
    assert counts == {"plain perplexity": 99, "sliding perplexity": 99}


def test_plain_perplexity_is_of_segments_without_context(text: np.ndarray) -> None:
    network = model()
    tokens = torch.from_numpy(text.astype(np.int64))
    with torch.inference_mode():
        parts = [
            network(tokens[None, i : i + LENGTH][:, : 99 - i], tokens[None, i + 1 : i + LENGTH + 1])
            for i in range(0, 99, LENGTH)
        ]
        expected = sum(part.sum().item() for part in parts)
        total, count = plain_loss(network, text, length=LENGTH)
    assert count == 99
    assert total == pytest.approx(expected, rel=1e-10)


def test_parts_of_processes_add_up(text: np.ndarray) -> None:
    network, big = model(), np.tile(text, 260)
    with torch.inference_mode():
        whole = plain_loss(network, big, length=LENGTH)
        parts = [plain_loss(network, big, length=LENGTH, part=(i, 3)) for i in range(3)]
    assert sum(count for _, count in parts) == whole[1]
    assert min(count for _, count in parts) > 0
    assert sum(total for total, _ in parts) == pytest.approx(whole[0], rel=1e-12)


def test_even_guess_has_the_vocabulary_as_its_perplexity(text: np.ndarray) -> None:
    network = model(cutoffs=())
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    values = [value for _, value, _ in perplexities(network, text, length=LENGTH)]
    assert values == pytest.approx([WORDS, WORDS])


def test_model_is_left_in_its_mode(text: np.ndarray) -> None:
    network = model().train()
    assert all(math.isfinite(value) for _, value, _ in perplexities(network, text, length=LENGTH))
    assert network.training


def test_text_shorter_than_a_window_is_refused(text: np.ndarray) -> None:
    with pytest.raises(ValueError, match="text must be longer than a window of 8, got 8 words"):
        sliding_loss(model(), text[:8], length=LENGTH)


def test_perplexity_of_a_huge_loss_is_infinite(text: np.ndarray) -> None:
    """Once math.exp failed, after the whole training."""
    network = model(mixer="softmax")
    with torch.no_grad():
        network.blocks[-1].around_feed_forward.norm.weight.mul_(1e6)
    found = {name: value for name, value, _ in perplexities(network, text, length=LENGTH)}
    assert found == {"plain perplexity": math.inf, "sliding perplexity": math.inf}
