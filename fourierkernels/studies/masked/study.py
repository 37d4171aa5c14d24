"""Masked pre-training of the encoders of the FNet paper, [leethorp2021fnet]_ section 4.1.1.

:mod:`fourierkernels.studies.masked.presets` has its sizes, with the source of each detail.

Sequences have one length in training and in measurements, padding included. Attention masks what
is padded. Fourier and dense mixers have no mask: they mix the vectors at padded places into all
others, as the authors' do, so that these say how long the text is; since the length is always the
same, no number depends on the other sequences of a batch. No padded place counts in a loss.
"""

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.files import write_text
from fourierkernels.foundation.run_folder import IDS, PIECES
from fourierkernels.foundation.validation import check_choice
from fourierkernels.mixing.registry import check_options as check_mixer
from fourierkernels.mixing.registry import mixer_names
from fourierkernels.models import PretrainingEncoder, encoder_config
from fourierkernels.studies.engine.objective import Objective
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.engine.sequences import check_shuffled
from fourierkernels.studies.engine.study import Measured, Preset, Study, Terms
from fourierkernels.studies.masked.masked_measures import MaskedSums, masked_sums, predictions
from fourierkernels.studies.masked.masking import NOTHING, sequence
from fourierkernels.studies.masked.pieces import PADDING, Pieces
from fourierkernels.studies.masked.presets import METRICS, PRESETS, MaskedPreset
from fourierkernels.studies.masked.sets import DOCUMENTS, read_documents
from fourierkernels.studies.masked.updates import MaskedUpdates, Measurement

if TYPE_CHECKING:
    from fourierkernels.studies.masked.document_files import DocumentFiles

HYBRID, _HYBRID_MIXER, _HYBRID_LAYERS = "fnet_hybrid", "fnet", 2
_KEPT = "attention_layers"  # option of a hybrid
_PAPER_CORPUS = "c4"
_LINES = 64  # of test.ids


def read(preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> "DocumentFiles":
    """Return the documents of a run.

    Raises
    ------
    ValueError
        If none are named for a preset that needs some, or they cannot be read.
    ImportError
        If sentencepiece is missing.
    """
    named = preset.data if data is None else data
    if named is None:
        raise ValueError(
            "data must be named for this preset: --data FOLDER (--help says where it is had), "
            "got none"
        )
    assert preset.most_words is not None
    length = _config(preset).length
    return read_documents(named, size=preset.most_words, length=length, folder=cache)


def mixers() -> list[str]:
    """Return the mixers of an encoder, and FNet with attention in its last layers."""
    return [*mixer_names(causal=False), HYBRID]


def check_options(mixer: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a mixer does not have.

    Raises
    ------
    ValueError, TypeError
        Naming the option, and those that there are.
    """
    name = check_choice("mixer", mixer, mixers())
    own = {key: value for key, value in options.items() if name != HYBRID or key != _KEPT}
    check_mixer(_HYBRID_MIXER if name == HYBRID else name, own)


def build(
    preset: Preset, data: "DocumentFiles", mixer: str, options: Mapping[str, Any]
) -> PretrainingEncoder:
    """Return a model with random weights for the subwords of a corpus."""
    own = dict(options)
    kept = own.pop(_KEPT, _HYBRID_LAYERS) if mixer == HYBRID else 0
    config = _config(
        preset,
        vocabulary=len(data.pieces),
        mixer=_HYBRID_MIXER if mixer == HYBRID else mixer,
        mixer_options={**preset.mixer_options.get(mixer, {}), **own},
        attention_layers=kept,
        padding_id=PADDING,
        mixed_padding=True,
    )
    return PretrainingEncoder(config)


def batches(preset: Preset, data: "DocumentFiles", recipe: Recipe) -> MaskedUpdates:
    """Return the training sequences, in the order of the run.

    Raises
    ------
    ValueError
        If the recipe asks for streams, or there is only one document to draw from.
    """
    check_shuffled(recipe, "masked sequences")
    return MaskedUpdates(
        data, steps=recipe.steps, batch=recipe.batch, seed=recipe.seed, wrong=_wrong(preset)
    )


def objective(preset: Preset, data: "DocumentFiles", recipe: Recipe) -> Objective:
    """Return the sum of both mean losses, and its validation beside both accuracies."""
    held = Measurement(data, "valid", wrong=_wrong(preset), most=preset.positions)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        found = predictions(model, batch)
        words = functional.cross_entropy(
            found.words.flatten(0, 1),
            batch["words"].flatten(),
            ignore_index=NOTHING,
            reduction="sum",
            label_smoothing=recipe.label_smoothing,
        )
        return words / batch["guessed"][0] + functional.cross_entropy(
            found.next_sentence, batch["wrong"]
        )

    @cache
    def words_of_a_pair() -> float:
        return held.guessed / len(held)

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, ...]:
        sums = masked_sums(model, held, part=(process, processes))
        rate = words_of_a_pair()
        right = sums.words_right / rate, sums.pairs_right
        return sums.word_loss / rate + sums.pair_loss, sums.pairs, *right

    even = math.log(len(data.pieces)) + math.log(2)
    return Objective(loss, validate, even, further=("masked_accuracy", "next_accuracy"))


def measure(
    preset: Preset,
    data: "DocumentFiles",
    mixer: str,
    model: nn.Module,
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
    wrong, most = _wrong(preset), positions or preset.positions
    paper = preset.published.get(mixer, {}) if data.corpus == _PAPER_CORPUS else {}
    rows = []
    for split in splits:
        sums = masked_sums(model.eval(), Measurement(data, split, wrong=wrong, most=most))
        own = paper if positions is None else {}
        rows += [
            Measured(split, name, value, count, own.get(name))
            for name, value, count in _numbers(sums)
        ]
    return rows


def prepare(folder: Path, data: "DocumentFiles") -> None:
    """Write the subwords of a run into its folder."""
    data.pieces.save(folder / PIECES)


def check(folder: Path, data: "DocumentFiles") -> None:
    """Refuse documents with other subwords than those of a run."""
    Pieces.load(folder / PIECES).vocabulary.check_same(data.vocabulary, folder)


def facts(preset: Preset, data: "DocumentFiles") -> Mapping[str, Any]:
    """Return what the numbers of a run also depend on."""
    return {
        "documents": dict(data.documents),
        "spans": dict(data.spans),
        "lines_cut": dict(data.cut),
        "subwords_left_out": dict(data.left_out),
        "wrong_next_segment": _wrong(preset),
        "even_masked_loss": math.log(len(data.pieces)),
    }


STUDY = Study(
    title="Masked pre-training: the FNet paper's table 2",
    presets=PRESETS,
    mixers=mixers,
    read=read,
    build=build,
    batches=batches,
    objective=objective,
    measure=measure,
    facts=facts,
    check_options=check_options,
    prepare=prepare,
    check=check,
    packages=("sentencepiece",),
    terms=Terms("vocabulary", "subwords", "training text", "subwords of text"),
    data=lambda: DOCUMENTS,
    experiment="masked_small",
)


def _config(preset: Preset, **changes: Any) -> Any:
    own = dict(preset.model)
    return encoder_config(own.pop("preset"), **own, **changes)


def _wrong(preset: Preset) -> str:
    assert isinstance(preset, MaskedPreset)
    return preset.wrong


def _numbers(sums: MaskedSums) -> list[tuple[str, float, int]]:
    words, pairs = sums.word_loss / sums.words, sums.pair_loss / sums.pairs
    accuracies = 100 * sums.words_right / sums.words, 100 * sums.pairs_right / sums.pairs
    values = words + pairs, words, pairs, *accuracies
    counts = sums.pairs, sums.words, sums.pairs, sums.words, sums.pairs
    return [
        (name, value, int(count))
        for name, value, count in zip(METRICS, values, counts, strict=True)
    ]


def _write_ids(path: Path, data: "DocumentFiles", preset: Preset) -> None:
    """Write the first sequences of the test text as numbers, unmasked, for other commands."""
    held = Measurement(data, "test", wrong=_wrong(preset), most=_LINES)
    text = data.tokens("test")
    rows = (sequence(text, draw)[0] for draw in held.draws())
    write_text(path, "".join(f"{' '.join(map(str, row.tolist()))}\n" for row in rows))
