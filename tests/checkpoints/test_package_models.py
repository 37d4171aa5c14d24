"""This package's models out of their files: how each is run on what it reads."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from batches import IDS, PAIRS, check_batches, recorded_calls
from tiny_models import arena, decision, series
from tiny_models_of_ours import encoder, language, translation, vision
from torch import nn

from fourierkernels.checkpoints.load import Checkpoint
from fourierkernels.mixing import PaddingIgnoredWarning

MORE_PAIRS = [*PAIRS, ([4, 4], [1, 5, 6])]


@pytest.fixture(autouse=True)
def _weights_are_the_same_each_time() -> Iterator[None]:
    """Draw weights from a seed: one draw in two hundred magnifies rounding beyond the tolerance.

    Fourier weights near zeros of the sine, layer upon layer, do so. In such a draw the last bit of
    the weights moves a map by 1.5e-9, the batch by 1.2e-9.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("mixer", ["softmax", "gaussian", "fourier"])
@pytest.mark.parametrize("build", [language, encoder])
def test_batches_of_texts_give_what_each_gives_alone(
    build: Callable[[str], nn.Module], mixer: str, saved: Callable[..., Checkpoint]
) -> None:
    checkpoint = saved(build(mixer))
    assert (checkpoint.reads, checkpoint.limit, checkpoint.vocabulary) == ("tokens", 12, 14)
    assert len({checkpoint.batch_key(item) for item in IDS}) == 1
    check_batches(checkpoint, IDS)


@pytest.mark.parametrize("mixer", ["softmax", "fourier"])
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_batches_of_pairs_give_what_each_gives_alone(
    part: str, mixer: str, saved: Callable[..., Checkpoint]
) -> None:
    model = translation(mixer=mixer, decoder_mixer=mixer, reader=mixer)
    checkpoint = saved(model, part=part)
    items: list[Any] = IDS if part == "encoder" else PAIRS
    assert checkpoint.reads == ("tokens" if part == "encoder" else "pairs")
    assert checkpoint.start == (() if part == "encoder" else (1,))
    assert len(recorded_calls(checkpoint, items[:1])) == 2
    check_batches(checkpoint, items)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("model", "part", "items"),
    [
        (lambda: language(positions="from_the_end"), None, [*IDS, [1, 2]]),
        (lambda: encoder("fnet", attention_layers=1), None, [*IDS, [1, 2]]),
        (lambda: translation("dft_encoder"), "cross", MORE_PAIRS),
    ],
    ids=["positions from the end", "hybrid", "DFT encoder"],
)
def test_networks_that_mix_padding_in_read_texts_of_one_length_together(
    model: Callable[[], nn.Module],
    part: str | None,
    items: list[Any],
    saved: Callable[..., Checkpoint],
) -> None:
    checkpoint = saved(model(), part=part)
    assert len({checkpoint.batch_key(item) for item in items}) > 1
    check_batches(checkpoint, items)


@pytest.mark.filterwarnings("ignore::fourierkernels.mixing.PaddingIgnoredWarning")
def test_mixing_padding_in_would_change_the_maps(saved: Callable[..., Checkpoint]) -> None:
    assert issubclass(PaddingIgnoredWarning, UserWarning)
    checkpoint = saved(encoder("fnet", attention_layers=1))
    padded, alone = recorded_calls(checkpoint, IDS[:2])[0], recorded_calls(checkpoint, IDS[1:2])[0]
    assert float((padded.maps[1, :, :2, :2] - alone.maps[0]).abs().max()) > 1e-3


@pytest.mark.parametrize("mixer", ["softmax", "fourier"])
def test_images_in_a_batch_give_what_each_gives_alone(
    mixer: str, pictures: list[Path], saved: Callable[..., Checkpoint]
) -> None:
    checkpoint = saved(vision(mixer))
    assert (checkpoint.reads, checkpoint.limit, checkpoint.vocabulary) == ("images", None, None)
    check_batches(checkpoint, pictures)


def test_patches_have_places_and_the_class_token_stands_in_the_middle(
    pictures: list[Path], saved: Callable[..., Checkpoint]
) -> None:
    checkpoint = saved(vision(distilled=True))
    names, keys = checkpoint.labels(pictures[0])
    patches = ("patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1")
    assert names == keys == ("class", "extra 1", *patches)
    assert checkpoint.special is not None
    assert checkpoint.special(pictures[0]).tolist() == [True, True, False, False, False, False]
    expected = [[0.5, 0.5], [0.5, 0.5], [0, 0], [0, 1], [1, 0], [1, 1]]
    np.testing.assert_array_equal(checkpoint.positions, expected)
    assert checkpoint.with_tokenizer(None) is checkpoint  # images have none


def test_grey_images_are_read_by_networks_of_one_channel(
    pictures: list[Path], saved: Callable[..., Checkpoint]
) -> None:
    assert len(recorded_calls(saved(vision(channels=1)), pictures)) == 2
    with pytest.raises(ValueError, match="channels must be 1 or 3 to read images, got 2"):
        saved(vision(channels=2))


def test_scores_of_words_are_computed_when_asked_for(saved: Callable[..., Checkpoint]) -> None:
    checkpoint = saved(language())
    output = checkpoint.run([[3, 4, 5]])
    expected = checkpoint.model.log_probabilities(torch.tensor([[3, 4, 5]]))
    assert torch.equal(output.logits, expected)
    assert output.last_hidden_state.shape == (1, 3, 16)


@pytest.mark.parametrize(
    ("model", "mixed"),
    [
        (lambda: encoder("fnet"), "DFTMixer"),
        (lambda: language("none"), "nothing"),
        (lambda: vision("random"), "FixedMixer|DenseMixer"),
    ],
)
def test_models_without_attention_are_refused(
    model: Callable[[], nn.Module], mixed: str, saved: Callable[..., Checkpoint]
) -> None:
    with pytest.raises(ValueError, match=rf"have attention, got none in .* mixed by ({mixed})"):
        saved(model())


@pytest.mark.parametrize("build", [arena, decision, series])
def test_models_that_read_other_things_are_refused(
    build: Callable[[str], nn.Module], saved: Callable[..., Checkpoint]
) -> None:
    model = build("softmax")
    read = "Encoder, .*LanguageModel, .*VisionTransformer"
    refused = f"got '{type(model).__name__}', which heads does not read"
    with pytest.raises(ValueError, match=rf"model that heads reads \({read}\), {refused}"):
        saved(model)


def test_part_is_for_translation_models(saved: Callable[..., Checkpoint]) -> None:
    with pytest.raises(ValueError, match=r"part must be left out .* got 'cross' for LanguageModel"):
        saved(language(), part="cross")
