"""Placements of mixers in the translation model, its sizes, and their counts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import V, tokens, translation

from fourierkernels import models
from fourierkernels.mixing import SoftmaxMixer
from fourierkernels.mixing.mixer import ReadingMixer
from fourierkernels.models import TRANSLATION_PRESETS, TRANSLATION_SIZES
from fourierkernels.models.blocks import BlockConfig
from fourierkernels.models.configs import place_mixers
from fourierkernels.models.translation_sizes import FAMILIES


def count(preset: str, **changes: Any) -> int:
    with torch.device("meta"):
        config = models.translation_config(preset, **changes)
        return models.count_parameters(models.TranslationModel(config))


def kinds(model: models.TranslationModel) -> list[list[str]]:
    stacks = (model.encoder, model.decoder)
    return [[type(block.mixer).__name__ for block in stack] for stack in stacks]


@pytest.mark.parametrize("preset", TRANSLATION_PRESETS)
def test_every_placement_runs_steps_and_is_read_back(preset: str, tmp_path: Path) -> None:
    model = translation(preset, decoder_layers=3).double().eval()
    source, target = tokens(2, 6, vocabulary=V), tokens(2, 5, vocabulary=V, seed=1)
    source[1, 4:] = 0
    expected, state = model(source, target), model.start(source)
    for t in range(5):
        found, state = model.step(target[:, t : t + 1], state)
        torch.testing.assert_close(found, expected[:, t], rtol=1e-11, atol=1e-11)
    models.save_model(model, tmp_path / "m.safetensors")
    again = models.load_model(tmp_path / "m.safetensors")
    assert again.config == model.config
    assert torch.equal(again(source, target), expected)


READERS = {"fourier": "FourierMixer", "hard_gaussian_reader": "HardGaussianMixer"}


@pytest.mark.parametrize("preset", TRANSLATION_PRESETS)
def test_decoder_reads_the_encoder_by_attention_unless_it_is_named_otherwise(preset: str) -> None:
    model = translation(preset)
    assert all(isinstance(block.reader, ReadingMixer) for block in model.decoder)
    expected = READERS.get(preset, "SoftmaxMixer")
    assert {type(block.reader).__name__ for block in model.decoder} == {expected}


def test_a_fixed_reader_moves_what_it_reads_by_its_place_and_by_nothing_else() -> None:
    """One word of the source reaches each target place with the weights of the definition."""
    model = translation("hard_gaussian_reader", decoder_layers=1).double().eval()
    reader = model.decoder[0].reader
    assert reader.centres == (-1, 0, 1)
    memory = torch.eye(7, 16, dtype=torch.float64)[None]  # source place j is feature j
    with torch.no_grad():
        for projection in (reader.value_projection, reader.output_projection):
            projection.weight.copy_(torch.eye(16))
            projection.bias.zero_()
    read = reader.read(torch.randn(1, 5, 16).double(), reader.memory(memory))
    for i in range(5):
        away = torch.arange(7) - i
        for head, centre in enumerate((-1, 0)):  # two heads of eight features
            own = slice(8 * head, min(8 * head + 8, 7))
            w = (-0.5 * (away - centre).double().square()).softmax(dim=0)[own]
            torch.testing.assert_close(read[0, i, own], w)


def test_a_fixed_reader_is_searched_alone_as_in_a_batch() -> None:
    model = translation("hard_gaussian_reader", reader_options={"ratio": 0.8}).double().eval()
    source = tokens(2, 6, vocabulary=V)
    source[1, 4:] = 0
    together = models.beam_search(model, source, beam=3)
    alone = models.beam_search(model, source[1:, :4], beam=3)
    torch.testing.assert_close(together.scores[1], alone.scores[0])
    best = alone.tokens[:1, 0]
    steps = best.shape[1] - 1
    log_p = model(source[1:, :4], best[:, :-1]).log_softmax(dim=-1)
    total = log_p.gather(-1, best[:, 1:, None]).sum()
    torch.testing.assert_close(total / ((5 + steps) / 6) ** 0.6, alone.scores[0, 0])


def test_a_family_stands_where_its_name_says() -> None:
    soft, dft, causal = ["SoftmaxMixer"], ["DFTMixer"], ["CausalDFTMixer"]
    expected = {
        "dft_encoder": [dft * 2, soft * 3],
        "dft_decoder": [soft * 2, causal * 3],
        "dft_both": [dft * 2, causal * 3],
        "dft_last2": [dft * 2, causal + soft * 2],
    }
    for preset, places in expected.items():
        assert kinds(translation(preset, decoder_layers=3)) == places
    assert len(TRANSLATION_PRESETS) == 3 + sum(4 if f.decoder else 1 for f in FAMILIES.values())


def test_every_layer_can_have_its_own_mixer_with_its_own_options(tmp_path: Path) -> None:
    model = translation(
        "attention",
        decoder_layers=3,
        decoder_mixer=("causal_dft", "hard_gaussian", "fourier"),
        decoder_options={"hard_gaussian": {"centres": (-2, 0)}, "fourier": {"power": 6}},
        mixer=("dft", "softmax"),
        mixer_options={"dft": {"zero_padding": True}},
        source_lengths=(4, 9),
    )
    assert kinds(model)[1] == ["CausalDFTMixer", "HardGaussianMixer", "FourierMixer"]
    assert model.decoder[1].mixer.centres == (-2, 0)
    assert model.decoder[2].mixer.kernel.power == 6
    models.save_model(model, tmp_path / "m.safetensors")
    again = models.load_model(tmp_path / "m.safetensors")
    assert again.config == model.config
    assert kinds(again) == kinds(model)


def test_a_reader_takes_the_options_of_a_mixer_of_its_name_or_its_own() -> None:
    fourier = {"decoder_mixer": "fourier", "decoder_options": {"power": 6}, "reader": "fourier"}
    kept = translation("attention", **fourier, decoder_attention_layers=1)
    assert [block.reader.kernel.power for block in kept.decoder] == [6, 6]
    own = translation("attention", **fourier, reader_options={"power": 2})
    assert [block.reader.kernel.power for block in own.decoder] == [2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_mixer": ("softmax",)}, "one for each of 2 layers, got 1"),
        ({"decoder_attention_layers": 3}, "attention_layers must be at most 2, got 3"),
        (
            {"mixer": ("dft", "none"), "mixer_options": {"fnet": {}}},
            "options must be of the mixers dft, none, by their names, got 'fnet'",
        ),
    ],
)
def test_misplaced_mixers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        translation("attention", **changes)


def test_layers_share_what_is_not_their_mixer() -> None:
    placed = place_mixers(BlockConfig(8, 16, heads=2), ["dft", "none"], {}, layers=2)
    assert {layer.heads for layer in placed} == {2}


def test_unknown_sizes_and_presets_are_listed() -> None:
    with pytest.raises(ValueError, match="size must be one of base, big, iwslt, small, tiny"):
        models.translation_config("attention", size="huge")
    with pytest.raises(ValueError, match=r"preset must be one of attention, .*dft_last2"):
        models.translation_config("dft")


# --- counts ----------------------------------------------------------------------------------

ATTENTION = 4 * (512**2 + 512)


def test_published_counts_of_base_and_big() -> None:
    """Vaswani et al., Table 3: 65 and 213 million with 37,000 words; ours count 63 and 214."""
    millions = {size: count("attention", size=size, vocabulary=37_000) / 1e6 for size in _TABLE_3}
    for size, published in _TABLE_3.items():
        assert millions[size] == pytest.approx(published, rel=0.035)


_TABLE_3 = {"base": 65, "big": 213}


def test_count_of_the_iwslt_size_is_six_layers_of_each_kind() -> None:
    feed_forward, norm = 2 * 512 * 1024 + 1024 + 512, 2 * 512
    encoder = ATTENTION + feed_forward + 2 * norm
    decoder = 2 * ATTENTION + feed_forward + 3 * norm
    assert count("attention", size="iwslt", vocabulary=10) - 5120 == 6 * (encoder + decoder)


def test_placements_save_what_their_mixers_do_without() -> None:
    """Six layers of a side each: a DFT saves attention, Gaussians the half; radii and gains add."""
    full, changes = count("attention", length=50), {"length": 50}
    saved = {
        preset: (full - count(preset, **changes)) / (6 * ATTENTION)
        for preset in ("dft_encoder", "dft_decoder", "none_both", "dft_last2", "random_both")
    }
    assert saved == {
        "dft_encoder": 1.0,
        "dft_decoder": 1.0,
        "none_both": pytest.approx(2.0 + 12 * 1024 / 6 / ATTENTION),  # and two norms
        "dft_last2": pytest.approx(10 / 6),
        "random_both": 2.0,
    }
    assert full - count("hard_gaussian_both", **changes) == 6 * ATTENTION
    assert full - count("hard_gaussian_reader", **changes) == 3 * ATTENTION
    assert count("fourier_both", **changes) - full == 12  # one radius per layer
    assert count("fourier", **changes) - full == 18
    assert count("parametrised_both", **changes) - count("dft_both", **changes) == 12 * 2 * 50


@pytest.mark.parametrize("size", TRANSLATION_SIZES)
def test_heads_divide_the_features_of_every_size(size: str) -> None:
    config = models.translation_config("attention", size=size)
    assert config.dim % config.heads == 0


# --- the mask after the softmax ----------------------------------------------------------------


def late(**changes: Any) -> models.TranslationModel:
    own = {"decoder_options": {"mask": "after"}, **changes}
    return translation("attention", **own).double().eval()


def test_steps_of_a_late_mask_are_the_last_of_a_pass_over_the_beginning() -> None:
    model, source = late(), tokens(3, 6, vocabulary=V)
    target = tokens(3, 7, vocabulary=V, seed=1)
    state, gaps = model.start(source), []
    assert not model.cached
    whole = model(source, target)
    for t in range(7):
        found, state = model.step(target[:, t : t + 1], state)
        expected = model(source, target[:, : t + 1])[:, -1]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        gaps.append((found - whole[:, t]).abs().max().item())
    assert gaps[-1] < 1e-12  # nothing is later
    assert min(gaps[:-1]) > 1e-3  # training has seen what is to be written


def test_a_late_mask_sees_no_padding_and_is_searched() -> None:
    model, source, target = late(), tokens(2, 6, vocabulary=V), tokens(2, 5, vocabulary=V, seed=1)
    padded = torch.nn.functional.pad(target, (0, 3))
    torch.testing.assert_close(model(source, padded)[:, :5], model(source, target))
    together = models.beam_search(model, source, beam=3)
    alone = models.beam_search(model, source[1:], beam=3)
    torch.testing.assert_close(together.scores[1], alone.scores[0])


def test_a_late_mask_in_one_layer_leaves_the_others_their_own(tmp_path: Path) -> None:
    model = late(
        decoder_mixer=("causal_dft", "softmax"), decoder_options={"softmax": {"mask": "after"}}
    )
    assert [block.sees_later for block in model.decoder] == [False, True]
    assert isinstance(model.decoder[0].reader, SoftmaxMixer)  # whose mask is before
    source, target = tokens(2, 6, vocabulary=V), tokens(2, 5, vocabulary=V, seed=1)
    padded = torch.nn.functional.pad(target, (0, 3))
    torch.testing.assert_close(model(source, padded)[:, :5], model(source, target))
    models.save_model(model, tmp_path / "m.safetensors")
    assert not models.load_model(tmp_path / "m.safetensors").cached
