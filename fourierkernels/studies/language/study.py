"""The language study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.1.

:mod:`fourierkernels.studies.language.presets` has its sizes, with the source of each detail.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fourierkernels.foundation.run_folder import IDS, VOCABULARY
from fourierkernels.foundation.words import Vocabulary
from fourierkernels.models import LanguageModel, language_config
from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.study import Measured, Objective, Predictions, TaughtStudy, Terms
from fourierkernels.studies.language.corpora import CORPORA, Corpus, read_corpus, splitting
from fourierkernels.studies.language.perplexity import (
    Tokens,
    check_window,
    perplexities,
    plain_loss,
    segments,
)
from fourierkernels.studies.language.presets import PRESETS, LanguagePreset
from fourierkernels.studies.texts.token_files import TokenFiles

_PAPER_CORPUS = "wikitext-103"
_LINES = 64  # of test.ids


class LanguageStudy(TaughtStudy[LanguagePreset, TokenFiles, LanguageModel]):
    """Models that predict the next word of a text, measured by their perplexities."""

    presets = PRESETS
    causal = True
    terms = Terms(place="named")
    experiment = "language_tables"

    def data_sets(self) -> Mapping[str, Corpus]:
        """Return the corpora."""
        return CORPORA

    def read(
        self, preset: LanguagePreset, data: str | Path | None, *, cache: Path | None = None
    ) -> TokenFiles:
        """Return the text of a run."""
        return read_corpus(self.named(preset, data), most=preset.most_words, folder=cache)

    def build(self, preset: LanguagePreset, data: TokenFiles, mixer: ChosenMixer) -> LanguageModel:
        """Return a model with random weights for the vocabulary of a text.

        The paper's cutoffs are for its own vocabulary; a smaller one keeps those below it.
        """
        sizes = dict(preset.model)
        name, words = sizes.pop("preset"), len(data.vocabulary)
        cutoffs = language_config(name).cutoffs
        config = language_config(
            name,
            **sizes,
            vocabulary=words,
            cutoffs=tuple(end for end in cutoffs if end < words),
            mixer=mixer.name,
            mixer_options=mixer.over(preset).options,
        )
        return LanguageModel(config)

    def batches(self, preset: LanguagePreset, data: TokenFiles, recipe: Recipe) -> Epochs:
        """Return the training segments.

        Raises
        ------
        ValueError
            If they fill no batch, or a text is too short to be measured when they are learned.
        """
        for split in ("valid", "test"):
            check_window(data.tokens(split), _length(preset), f"{split} text")
        return segments(
            data.tokens("train"),
            length=_length(preset),
            batch=recipe.batch,
            order=recipe.order,
            steps=recipe.steps,
            seed=recipe.seed,
        )

    def objective(self, preset: LanguagePreset, data: TokenFiles, recipe: Recipe) -> Objective:
        """Return the mean -log p of the next word, smoothed if asked for, and its validation."""

        def loss(model: LanguageModel, batch: Batch) -> Tensor:
            return smoothed_loss(model, batch, recipe.label_smoothing)

        def validate(model: LanguageModel, process: int, processes: int) -> tuple[float, int]:
            valid = data.tokens("valid")
            return plain_loss(model, valid, length=_length(preset), part=(process, processes))

        return Objective(loss, validate, math.log(len(data.vocabulary)))

    def scores(self, model: LanguageModel, batch: Batch) -> Predictions:
        """Return log p of all words at each place, ``(B N, V)``, also of those in rare bands."""
        words = batch["targets"].flatten()
        count = torch.tensor(float(len(words)))
        return Predictions(model.log_probabilities(batch["tokens"]).flatten(0, 1), words, count)

    def measure(
        self,
        preset: LanguagePreset,
        data: TokenFiles,
        mixer: str,
        model: LanguageModel,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return both perplexities of a trained model on each split."""
        if folder is not None:
            _write_ids(folder / IDS, data.tokens("test"), _length(preset))
        whole = data.corpus == _PAPER_CORPUS and positions is None
        published = preset.published.get(mixer, {}) if whole else {}
        return [
            Measured(
                split,
                metric,
                value,
                count,
                published.get(split) if metric == "sliding perplexity" else None,
            )
            for split in splits
            for metric, value, count in perplexities(
                model, data.tokens(split), length=_length(preset), positions=positions
            )
        ]

    def measuring(self, preset: LanguagePreset, data: TokenFiles) -> float:
        """Return the words of both perplexities of both texts, per word of a validation."""
        length, counts = _length(preset), data.counts
        windows = {split: max(counts[split] - length, 0) for split in ("valid", "test")}
        slid = sum(min(count, preset.positions or count) for count in windows.values())
        return (counts["valid"] + counts["test"] + slid * length) / counts["valid"]

    def prepare(self, folder: Path, data: TokenFiles) -> None:
        """Write the vocabulary of a run into its folder."""
        data.vocabulary.save(folder / VOCABULARY)

    def check(self, folder: Path, data: TokenFiles) -> None:
        """Refuse a text of another vocabulary than that of a run."""
        Vocabulary.load(folder / VOCABULARY).check_same(data.vocabulary, folder)

    def facts(self, preset: LanguagePreset, data: TokenFiles) -> Mapping[str, Any]:
        """Return how the lines of a text become words."""
        return splitting(data.corpus)


STUDY = LanguageStudy()


def smoothed_loss(model: LanguageModel, batch: Batch, smoothing: float) -> Tensor:
    """Return the cross-entropy with the target, or with it and an even share of all words."""
    if not smoothing:
        losses: Tensor = model(batch["tokens"], batch["targets"])
        return losses.mean()
    scores = model.log_probabilities(batch["tokens"])
    target = -scores.gather(-1, batch["targets"][..., None]).mean()
    return torch.lerp(target, -scores.mean(), smoothing)


def _length(preset: LanguagePreset) -> int:
    sizes = dict(preset.model)
    return language_config(sizes.pop("preset"), **sizes).length


def _write_ids(path: Path, tokens: Tokens, length: int) -> None:
    """Write the beginning of the test text as numbers, a context per line, for other commands."""
    lines = np.asarray(tokens[: _LINES * length], dtype=np.int64)
    rows = [lines[start : start + length] for start in range(0, len(lines), length)]
    text = "".join(f"{' '.join(map(str, row.tolist()))}\n" for row in rows)
    path.write_text(text, encoding="utf-8")
