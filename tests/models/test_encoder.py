"""The encoders of the FNet paper: published counts, hybrid, padding, heads."""

import pytest
import torch
from tiny_models import V, encoder_config, tokens

from fourierkernels import models
from fourierkernels.mixing import DFTMixer, PaddingIgnoredWarning, SoftmaxMixer

# Lee-Thorp et al. (2021), Table 5: millions of parameters of pre-training.
TABLE_5 = {
    "large": (372, 302, 271),
    "base": (136, 118, 108),
    "512x12": (72, 72, 72),
    "512x8": (59, 59, 59),
    "mini": (46, 46, 46),
    "256x4": (20, 20, 20),
    "micro": (18, 18, 18),
    "128x2": (9, 9, 9),
}
# Below "base" the three columns of the table are one number, BERT's. Counted from the text they
# differ: a mixing layer has 4E² + 4E, N² + E² and no parameters, so that FNet is smaller, and
# Linear larger once N = 512 is more than about √3 E.
COUNTED = TABLE_5 | {
    "512x12": (72, 65, 59),
    "512x8": (59, 55, 51),
    "mini": (46, 44, 42),
    "256x4": (20, 20, 19),
    "micro": (18, 18, 18),
    "128x2": (9, 9, 9),
}


def millions(preset: str) -> float:
    """Millions of parameters, the output matrix over the words counted once more as the table's."""
    with torch.device("meta"):
        model = models.PretrainingEncoder(models.encoder_config(preset, tied_output=False))
    return models.count_parameters(model) / 1e6


@pytest.mark.parametrize("size", TABLE_5)
def test_published_counts_of_table_5(size: str) -> None:
    bert, linear, fnet = (millions(f"{kind}_{size}") for kind in ("bert", "linear", "fnet"))
    assert (round(bert), round(linear), round(fnet)) == COUNTED[size]
    assert round(bert) == TABLE_5[size][0]
    config = models.ENCODER_PRESETS[f"bert_{size}"]
    dim, length, layers = config.dim, config.length, config.layers
    assert bert - fnet == pytest.approx(layers * (4 * dim**2 + 4 * dim) / 1e6)
    assert linear - fnet == pytest.approx(layers * (length**2 + dim**2) / 1e6)


def test_base_models_without_learned_mixing_have_the_same_count() -> None:
    assert millions("fnet_base") == millions("random_base")
    norms = 12 * 2 * 768 / 1e6  # FF-only has no LayerNorm of a mixing sublayer
    assert millions("ff_only_base") == pytest.approx(millions("fnet_base") - norms, abs=1e-9)


def test_tying_the_output_takes_one_matrix_off() -> None:
    plain = models.PretrainingEncoder(encoder_config(tied_output=False))
    tied = models.PretrainingEncoder(encoder_config())
    assert models.count_parameters(plain) - models.count_parameters(tied) == V * 16
    assert tied.output.weight is tied.encoder.words.weight


def test_hybrid_ends_with_two_layers_of_attention() -> None:
    model = models.Encoder(encoder_config(layers=4, attention_layers=2))
    kinds = [type(block.mixer) for block in model.blocks]
    assert kinds == [DFTMixer, DFTMixer, SoftmaxMixer, SoftmaxMixer]


def test_ff_only_mixes_nothing() -> None:
    model = models.Encoder(encoder_config("none")).eval()
    text = tokens(1, 12, vocabulary=V)
    other = text.clone()
    other[:, 5:] = 4
    assert torch.equal(model(text)[:, :5], model(other)[:, :5])
    assert not any(".mixer." in name or "around_mixer" in name for name in model.state_dict())


def test_padding_is_ignored_by_attention_and_warned_of_by_fnet() -> None:
    text, padding = tokens(2, 12, vocabulary=V), torch.zeros(2, 12, dtype=torch.bool)
    padding[:, 8:] = True
    bert = models.Encoder(encoder_config("softmax")).double().eval()
    short = bert(text[:, :8])
    torch.testing.assert_close(bert(text, padding=padding)[:, :8], short)
    fnet = models.Encoder(encoder_config("fnet")).eval()
    with pytest.warns(PaddingIgnoredWarning):
        fnet(text, padding=padding)
    zeroed = models.Encoder(
        encoder_config("fnet", mixer_options={"zero_padding": True}, layers=1)
    ).eval()
    other = text.clone()
    other[:, 8:] = 4
    assert torch.equal(zeroed(text, padding=padding)[:, :8], zeroed(other, padding=padding)[:, :8])


def test_classifier_reads_the_first_token() -> None:
    model = models.EncoderClassifier(encoder_config(), classes=3).eval()
    assert model(tokens(2, 12, vocabulary=V)).shape == (2, 3)
    with pytest.raises(ValueError, match="classes must be at least 1, got 0"):
        models.EncoderClassifier(encoder_config(), classes=0)


def test_only_some_places_are_scored() -> None:
    model = models.PretrainingEncoder(encoder_config()).eval()
    text, places = tokens(2, 12, vocabulary=V), torch.tensor([[0, 3, 11], [5, 5, 2]])
    whole, some = model(text), model(text, places=places)
    torch.testing.assert_close(some.words[1, 2], whole.words[1, 2])
    torch.testing.assert_close(some.words[0, 1], whole.words[0, 3])
    assert torch.equal(some.next_sentence, whole.next_sentence)


def test_padding_is_mixed_without_a_warning_if_asked_for() -> None:
    text, padding = tokens(2, 12, vocabulary=V), torch.zeros(2, 12, dtype=torch.bool)
    padding[:, 8:] = True
    hybrid = encoder_config("fnet", attention_layers=1, mixed_padding=True)
    model = models.Encoder(hybrid).eval()  # warnings are errors
    masked = model(text, padding=padding)
    assert not torch.equal(masked, model(text))  # its attention masks
    fnet = models.Encoder(encoder_config("fnet", mixed_padding=True)).eval()
    assert torch.equal(fnet(text, padding=padding), fnet(text))


def test_first_weights_have_the_deviation_that_is_asked_for() -> None:
    torch.manual_seed(0)
    model = models.PretrainingEncoder(encoder_config(start_std=0.1))
    assert model.encoder.words.weight.std().item() == pytest.approx(0.1, rel=0.15)
    assert model.transform.weight.std().item() == pytest.approx(0.1, rel=0.15)
