"""Masked pre-training of the encoders of the FNet paper, [leethorp2021fnet]_ section 4.1.1.

:mod:`fourierkernels.studies.masked.presets` has its sizes, with the source of each detail.

Sequences have one length in training and in measurements, padding included. Attention masks what
is padded. Fourier and dense mixers have no mask: they mix the vectors at padded places into all
others, as the authors' do, so that these say how long the text is; since the length is always the
same, no number depends on the other sequences of a batch. No padded place counts in a loss.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import IDS, PIECES
from fourierkernels.foundation.validation import check_choice
from fourierkernels.models import PretrainingEncoder, encoder_config
from fourierkernels.models.encoder import EncoderConfig
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe, check_shuffled
from fourierkernels.studies.engine.study import Measured, Objective, Study, Terms
from fourierkernels.studies.masked.document_files import DocumentFiles
from fourierkernels.studies.masked.documents import DocumentSource
from fourierkernels.studies.masked.masking import NOTHING, sequence
from fourierkernels.studies.masked.measurement import (
    MaskedSums,
    MaskedUpdates,
    Measurement,
    masked_sums,
    predictions,
)
from fourierkernels.studies.masked.pieces import PADDING, Pieces
from fourierkernels.studies.masked.presets import METRICS, PRESETS, MaskedPreset
from fourierkernels.studies.masked.sets import DOCUMENTS, read_documents

HYBRID, _HYBRID_MIXER, _HYBRID_LAYERS = "fnet_hybrid", "fnet", 2
_KEPT = "attention_layers"  # option of a hybrid
PAPER_CORPUS = "c4"
_LINES = 64  # of test.ids


class MaskedStudy(Study[MaskedPreset, DocumentFiles, PretrainingEncoder]):
    """Encoders that guess masked words, and whether one segment follows another."""

    presets = PRESETS
    terms = Terms("vocabulary", "subwords", "training text", "subwords of text", "named")
    packages = ("sentencepiece",)
    experiment = "masked_small"

    def mixers(self) -> list[str]:
        """Return the mixers of an encoder, and FNet with attention in its last layers."""
        return [*super().mixers(), HYBRID]

    def check_mixer(self, mixer: ChosenMixer) -> None:
        """Refuse options that a mixer does not have; a hybrid has those of FNet and its own."""
        check_choice("mixer", mixer.name, self.mixers())
        super().check_mixer(_in_layers(mixer))

    def data_sets(self) -> Mapping[str, DataSet[DocumentSource]]:
        """Return the corpora of documents."""
        return DOCUMENTS

    def read(
        self, preset: MaskedPreset, data: str | Path | None, *, cache: Path | None = None
    ) -> DocumentFiles:
        """Return the documents of a run."""
        named, length = self.named(preset, data), _config(preset).length
        return read_documents(named, size=preset.most_words, length=length, folder=cache)

    def build(
        self, preset: MaskedPreset, data: DocumentFiles, mixer: ChosenMixer
    ) -> PretrainingEncoder:
        """Return a model with random weights for the subwords of a corpus."""
        mixer = mixer.over(preset)
        kept = mixer.options.get(_KEPT, _HYBRID_LAYERS) if mixer.name == HYBRID else 0
        mixed = _in_layers(mixer)
        config = replace(
            _config(preset),
            vocabulary=len(data.pieces),
            mixer=mixed.name,
            mixer_options=mixed.options,
            attention_layers=kept,
            padding_id=PADDING,
            mixed_padding=True,
        )
        return PretrainingEncoder(config)

    def batches(self, preset: MaskedPreset, data: DocumentFiles, recipe: Recipe) -> Epochs:
        """Return the training sequences, in the order of the run."""
        check_shuffled(recipe, "masked sequences")
        return MaskedUpdates(
            data, steps=recipe.steps, batch=recipe.batch, seed=recipe.seed, wrong=preset.wrong
        )

    def objective(self, preset: MaskedPreset, data: DocumentFiles, recipe: Recipe) -> Objective:
        """Return the sum of both mean losses, and its validation beside both accuracies."""
        measured = Measurement(data, "valid", wrong=preset.wrong, most=preset.positions)

        def loss(model: PretrainingEncoder, batch: Batch) -> Tensor:
            logits = predictions(model, batch)
            words = functional.cross_entropy(
                logits.words.flatten(0, 1),
                batch["words"].flatten(),
                ignore_index=NOTHING,
                reduction="sum",
                label_smoothing=recipe.label_smoothing,
            )
            return words / batch["guessed"][0] + functional.cross_entropy(
                logits.next_sentence, batch["wrong"]
            )

        @cache
        def words_of_a_pair() -> float:
            return measured.guessed / len(measured)

        def validate(model: PretrainingEncoder, process: int, processes: int) -> tuple[float, ...]:
            sums = masked_sums(model, measured, part=(process, processes))
            rate = words_of_a_pair()
            right = sums.words_right / rate, sums.pairs_right
            return sums.word_loss / rate + sums.pair_loss, sums.pairs, *right

        even = math.log(len(data.pieces)) + math.log(2)
        return Objective(loss, validate, even, further=("masked_accuracy", "next_accuracy"))

    def measure(
        self,
        preset: MaskedPreset,
        data: DocumentFiles,
        mixer: str,
        model: PretrainingEncoder,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return the losses and accuracies of table 2 on each split, always by the same masks.

        Parameters
        ----------
        positions : int, optional
            Spans of each split that are measured; those of the preset by default.
        """
        if folder is not None:
            _write_ids(folder / IDS, data, preset)
        most = positions or preset.positions
        papers = is_paper_text(data.corpus, data.spans["train"], preset) and positions is None
        published = preset.published.get(mixer, {}) if papers else {}
        rows = []
        for split in splits:
            measurement = Measurement(data, split, wrong=preset.wrong, most=most)
            sums = masked_sums(model.eval(), measurement)
            rows += [
                Measured(split, name, value, count, published.get(name))
                for name, value, count in _numbers(sums)
            ]
        return rows

    def measuring(self, preset: MaskedPreset, data: DocumentFiles) -> float:
        """Return the spans of both measured splits, per span of a validation."""
        valid, test = (
            min(data.spans[split], preset.positions or data.spans[split])
            for split in ("valid", "test")
        )
        return (valid + test) / valid

    def prepare(self, folder: Path, data: DocumentFiles) -> None:
        """Write the subwords of a run into its folder."""
        data.pieces.save(folder / PIECES)

    def check(self, folder: Path, data: DocumentFiles) -> None:
        """Refuse documents with other subwords than those of a run."""
        Pieces.load(folder / PIECES).vocabulary.check_same(data.vocabulary, folder)

    def facts(self, preset: MaskedPreset, data: DocumentFiles) -> Mapping[str, Any]:
        """Return what the numbers of a run also depend on."""
        return {
            "documents": dict(data.documents),
            "spans": dict(data.spans),
            "lines_cut": dict(data.cut),
            "subwords_left_out": dict(data.left_out),
            "wrong_next_segment": preset.wrong,
            "even_masked_loss": math.log(len(data.pieces)),
        }


STUDY = MaskedStudy()


def is_paper_text(corpus: str, spans: int, preset: MaskedPreset) -> bool:
    """Return whether a text is the paper's: C4, of which nothing is read twice, as of a part of it.

    Parameters
    ----------
    spans : int
        Of the training text.
    """
    return corpus == PAPER_CORPUS and spans >= preset.recipe.steps * preset.recipe.batch


def _in_layers(mixer: ChosenMixer) -> ChosenMixer:
    """Return the mixer of most layers, which of a hybrid is FNet's with what options remain."""
    if mixer.name != HYBRID:
        return mixer
    shared = {name: value for name, value in mixer.options.items() if name != _KEPT}
    return ChosenMixer(_HYBRID_MIXER, shared)


def _config(preset: MaskedPreset) -> EncoderConfig:
    sizes = dict(preset.model)
    return encoder_config(sizes.pop("preset"), **sizes)


def _numbers(sums: MaskedSums) -> list[tuple[str, float, int]]:
    words, pairs = sums.word_loss / sums.words, sums.pair_loss / sums.pairs
    accuracies = 100 * sums.words_right / sums.words, 100 * sums.pairs_right / sums.pairs
    values = words + pairs, words, pairs, *accuracies
    counts = sums.pairs, sums.words, sums.pairs, sums.words, sums.pairs
    return [
        (name, value, int(count))
        for name, value, count in zip(METRICS, values, counts, strict=True)
    ]


def _write_ids(path: Path, data: DocumentFiles, preset: MaskedPreset) -> None:
    """Write the first sequences of the test text as numbers, unmasked, for other commands."""
    measurement = Measurement(data, "test", wrong=preset.wrong, most=_LINES)
    text = data.tokens("test")
    rows = (sequence(text, draw)[0] for draw in measurement.draws())
    write_text(path, "".join(f"{' '.join(map(str, row.tolist()))}\n" for row in rows))
