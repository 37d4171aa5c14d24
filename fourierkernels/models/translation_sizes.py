"""Placements of mixers and sizes of the translation models, by name.

A placement is a family of mixers and where it stands: ``dft_encoder``, ``dft_decoder``,
``dft_both``, and ``dft_last2``, which is both but for the last two layers of the decoder. Layers
without it have attention, and in these the decoder reads the encoder by attention: that replacing
this costs most is what [you2020hard]_ found and [chen_attention]_ section 6 repeats.
``hard_gaussian_reader`` tries it: attention within both languages, and a decoder whose token i
reads the encoder at fixed weights around γi - 1, γi and γi + 1. The report says "by fixed
transform" and no more; a DFT of one sequence is no map from one language to the other.

============= ============================== =================================================
family        encoder, decoder               source
============= ============================== =================================================
dft           DFT, causally masked DFT       [chen_attention]_ sections 3.2.1, 3.2.2, 7.2, and
                                             for ``last2`` section 6
parametrised  the same with gains and phases named in [chen_attention]_ section 1; the formula
                                             is ours
fourier       Fourier attention              [nguyen2022fourierformer]_ section 4.5 trains such a
                                             model and does not say where it stands
hard_gaussian fixed Gaussians                [you2020hard]_
random        constant matrices              [leethorp2021fnet]_ section 4.1, for encoders
linear        trained matrices               the same
none          feed-forward layers alone      the same
============= ============================== =================================================

``fourier`` alone is Fourier attention everywhere, cross-attention included. ``fnet_encoder`` is the
DFT without its factor, ``hadamard_encoder`` the Hadamard transform; neither has a causal form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fourierkernels.foundation.validation import check_choice
from fourierkernels.models.configs import Presets

# Ends of the report's ten classes of sentences, its section 4.1; the start and the end that it adds
# to sentences are not counted.
LENGTH_CLASSES = tuple(range(5, 51, 5))


@dataclass(frozen=True)
class TranslationConfig(Presets):
    """Hyperparameters of a :class:`TranslationModel`.

    Attributes
    ----------
    mixer, decoder_mixer : str or tuple of str
        Mixers of the encoder and, causal, of the decoder: one for all layers or one for each.
    mixer_options, decoder_options : mapping
        Options of the mixer; where each layer has its own, from a mixer's name to its options.
    attention_layers, decoder_attention_layers : int
        Last layers of the encoder and of the decoder that keep softmax attention.
    reader : str
        The mixer with which the decoder reads the encoder: attention, or "hard_gaussian".
    reader_options : mapping or None
        Its options; None for those of the decoder's mixer of the same name, if there is one.
    length : int
        Longest source and target; the fixed L of the causal DFT.
    source_lengths : {"own", "fixed"} or tuple of int
        To how many tokens an encoder whose mixers cannot leave padding out fills a source up: to
        none but its own, to `length`, or to the next of these numbers (`length` beyond the last).
    source_vocabulary : int or None
        Words of the sources where they have a table of embeddings of their own; None where both
        languages share one.
    start_id, end_id, padding_id : int
        Tokens that begin, end and fill a sentence.
    """

    vocabulary: int = 35_000
    dim: int = 512
    hidden: int = 2048
    layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    length: int = 128
    mixer: str | tuple[str, ...] = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    decoder_mixer: str | tuple[str, ...] = "softmax"
    decoder_options: Mapping[str, Any] = field(default_factory=dict)
    reader: str = "softmax"
    activation: str = "relu"
    scale_embedding: bool = True
    dropout: float = 0.1
    start_id: int = 1
    end_id: int = 2
    padding_id: int = 0
    attention_layers: int = 0
    decoder_attention_layers: int = 0
    reader_options: Mapping[str, Any] | None = None
    source_lengths: str | tuple[int, ...] = "own"
    source_vocabulary: int | None = None

    @property
    def source_words(self) -> int:
        """Words of the sources."""
        return self.vocabulary if self.source_vocabulary is None else self.source_vocabulary

    @classmethod
    def preset(cls, name: str, *, size: str = "base", **changes: Any) -> Self:
        """Return a preset by its name, in a size, with changes.

        Parameters
        ----------
        name : str
            Where which mixer stands, a key of :data:`TRANSLATION_PRESETS`.
        size : str
            A key of :data:`TRANSLATION_SIZES`.

        Raises
        ------
        ValueError
            If there is no such preset or size; the message lists them.
        TypeError
            If a change names no field.

        Examples
        --------
        >>> TranslationConfig.preset("dft_both").decoder_mixer
        'causal_dft'
        >>> small = {"size": "iwslt", "vocabulary": 10_000}
        >>> TranslationConfig.preset("hard_gaussian_encoder", **small).hidden
        1024
        """
        sizes = TRANSLATION_SIZES[check_choice("size", size, list(TRANSLATION_SIZES))]
        return super().preset(name, **{**sizes, **changes})


@dataclass(frozen=True)
class Family:
    """Mixers that replace attention: in an encoder, with options, and in a decoder, if it can."""

    encoder: str
    decoder: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


# Padding, where there is some, is zeroed before mixers that cannot leave it out.
_ZEROED: dict[str, Any] = {"zero_padding": True}
FAMILIES = {
    "dft": Family("dft", "causal_dft", _ZEROED),
    "parametrised": Family("parametrised", "parametrised", _ZEROED),
    "fourier": Family("fourier", "fourier"),
    "hard_gaussian": Family("hard_gaussian", "hard_gaussian"),
    "random": Family("random", "random", _ZEROED),
    "linear": Family("linear", "linear", _ZEROED),
    "none": Family("none", "none"),
    "fnet": Family("fnet", None, _ZEROED),
    "hadamard": Family("hadamard", None, _ZEROED),
}


def _placed(family: Family) -> dict[str, dict[str, Any]]:
    """Return the fields of each place at which a family can stand."""
    encoder = {"mixer": family.encoder, "mixer_options": family.options}
    if family.decoder is None:
        return {"encoder": encoder}
    decoder = {"decoder_mixer": family.decoder}
    both = {**encoder, **decoder}
    last2 = {**both, "decoder_attention_layers": 2}
    return {"encoder": encoder, "decoder": decoder, "both": both, "last2": last2}


_EVERYWHERE: dict[str, Any] = {"mixer": "fourier", "decoder_mixer": "fourier", "reader": "fourier"}
_AROUND: dict[str, Any] = {"centres": (-1, 0, 1)}
TRANSLATION_PRESETS = {
    "attention": TranslationConfig(),
    "fourier": TranslationConfig(**_EVERYWHERE),
    "hard_gaussian_reader": TranslationConfig(reader="hard_gaussian", reader_options=_AROUND),
    **{
        f"{name}_{place}": TranslationConfig(**fields)
        for name, family in FAMILIES.items()
        for place, fields in _placed(family).items()
    },
}

# Base and big are those of Table 3 in [chen_attention]_, which are [vaswani2017attention]_'s
# Table 3; "iwslt" has the sizes of fairseq's transformer_iwslt_de_en, the dropout of its recipe.
# The last two learn on a CPU in minutes.
TRANSLATION_SIZES: dict[str, dict[str, Any]] = {
    "base": {},
    "big": {"dim": 1024, "hidden": 4096, "heads": 16, "dropout": 0.3},
    "iwslt": {"hidden": 1024, "heads": 4, "dropout": 0.3},
    "small": {"dim": 256, "hidden": 512, "heads": 4, "layers": 3, "decoder_layers": 3},
    "tiny": {"dim": 64, "hidden": 128, "heads": 4, "layers": 2, "decoder_layers": 2},
}
TranslationConfig.presets = TRANSLATION_PRESETS
translation_config = TranslationConfig.preset
