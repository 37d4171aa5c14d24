"""Translation: published counts, cached decoding, beam search against all sentences."""

from dataclasses import replace

import pytest
import torch
from tiny_models import V, tokens, translation

from fourierkernels import models
from fourierkernels.mixing import mixer_names
from fourierkernels.models.search import _Beam, _settled, penalty


def count(preset: str) -> float:
    with torch.device("meta"):
        model = models.TranslationModel(models.translation_config(preset))
    return models.count_parameters(model) / 1e6


def test_published_counts_of_both_models() -> None:
    """Chen et al., section 4.3: 55 and 49 million, 55.75 and 49.45 cut off."""
    attention = 4 * (512**2 + 512)
    shared = 35_000 * 512 + 12 * (2 * 512 * 2048 + 2048 + 512)
    norms = (6 * 2 + 6 * 3) * 2 * 512
    assert count("dft_encoder") * 1e6 == shared + norms + 12 * attention
    assert count("dft_both") * 1e6 == shared + norms + 6 * attention
    assert (int(count("dft_encoder")), int(count("dft_both"))) == (55, 49)


def test_full_transformer_has_80_million_only_with_an_output_matrix_of_its_own() -> None:
    """Chen et al., abstract: "more than 80 million"; tied as the other two it has 62."""
    assert round(count("attention")) == 62
    assert round(count("attention") + 35_000 * 513 / 1e6) == 80


@pytest.mark.parametrize("mixer", mixer_names(causal=True))
def test_cached_decoding_equals_one_pass(mixer: str) -> None:
    model = translation(decoder_mixer=mixer, reader="fourier").double().eval()
    source, target = tokens(3, 9, vocabulary=V), tokens(3, 12, vocabulary=V, seed=1)
    source[1, 6:] = 0
    expected, state = model(source, target), model.start(source)
    for t in range(12):
        found, state = model.step(target[:, t : t + 1], state)
        torch.testing.assert_close(found, expected[:, t], rtol=1e-11, atol=1e-11)
    with pytest.raises(ValueError, match="at most length = 0 long"):
        model.step(target[:, :1], state)


def test_source_padding_changes_nothing_under_attention() -> None:
    model = translation("attention").double().eval()
    source, target = tokens(1, 9, vocabulary=V), tokens(1, 5, vocabulary=V, seed=1)
    padded = torch.nn.functional.pad(source, (0, 3), value=0)
    torch.testing.assert_close(model(padded, target), model(source, target))


def test_sentences_are_translated_alike_alone_and_in_a_batch() -> None:
    model = translation("attention").double().eval()
    source = tokens(3, 9, vocabulary=V)
    together = models.beam_search(model, source)
    for row in range(3):
        alone = models.beam_search(model, source[row : row + 1])
        torch.testing.assert_close(together.scores[row], alone.scores[0])


def test_search_goes_on_while_a_beginning_can_still_win() -> None:
    """A longer sentence divides by more: -1.5 becomes -0.375 at 19 tokens and α = 1."""
    tokens = torch.ones(1, 1, 3, dtype=torch.long)
    beam = _Beam(tokens, torch.tensor([[-1.5]]), tokens, torch.tensor([[-1.0]]))
    assert not _settled(beam, longest=20, divide=lambda n: penalty(n, 1.0), keep=1)
    assert _settled(beam, longest=20, divide=lambda n: penalty(n, 0.0), keep=1)
    assert _settled(
        beam._replace(log_p=torch.tensor([[-4.1]])),
        longest=20,
        divide=lambda n: penalty(n, 1.0),
        keep=1,
    )


def test_length_penalty_is_that_of_gnmt() -> None:
    """Wu et al. (2016), eq. 14: ((5 + |Y|)/(5 + 1))^α."""
    assert penalty(7, 0.6) == pytest.approx(2.0**0.6)
    assert penalty(1, 0.6) == 1.0


def test_bad_input_is_refused() -> None:
    model, source = translation().eval(), tokens(1, 9, vocabulary=V)
    with pytest.raises(ValueError, match="beam must be at least 1, got 0"):
        models.beam_search(model, source, beam=0)
    with pytest.raises(ValueError, match="longest must be at most the model's length 12, got 13"):
        models.beam_search(model, source, longest=13)
    with pytest.raises(ValueError, match="at most length = 12 long, got 13"):
        model(tokens(1, 13, vocabulary=V), source)
    with pytest.raises(ValueError, match="causal, as a decoder needs"):
        models.TranslationModel(replace(model.config, decoder_mixer="dft"))
