"""The language study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.1.

:mod:`fourierkernels.studies.language.presets` has its sizes, with the source of each detail.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fourierkernels.foundation.run_folder import IDS, VOCABULARY
from fourierkernels.foundation.words import Vocabulary
from fourierkernels.mixing.registry import check_options, mixer_names
from fourierkernels.models import LanguageModel, language_config
from fourierkernels.studies.engine.objective import Objective, Scored
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch, Segments, Tokens
from fourierkernels.studies.engine.study import Measured, Preset, Study
from fourierkernels.studies.language.corpora import CORPORA, read_corpus, splitting
from fourierkernels.studies.language.perplexity import perplexities, plain_loss
from fourierkernels.studies.language.presets import PRESETS
from fourierkernels.studies.texts.token_files import TokenFiles

_PAPER_CORPUS = "wikitext-103"
_LINES = 64  # of test.ids


def read(preset: Preset, data: str | Path | None, *, cache: Path | None = None) -> TokenFiles:
    """Return the text of a run.

    Raises
    ------
    ValueError
        If no text is named for a preset that needs one, or it cannot be read.
    """
    named = preset.data if data is None else data
    if named is None:
        raise ValueError(
            "data must be named for this preset: --data FOLDER (--help says where it is had), "
            "got none"
        )
    return read_corpus(named, most=preset.most_words, folder=cache)


def build(
    preset: Preset, data: TokenFiles, mixer: str, options: Mapping[str, Any]
) -> LanguageModel:
    """Return a model with random weights for the vocabulary of a text.

    The paper's cutoffs are for its own vocabulary; a smaller one keeps those below it.
    """
    own = dict(preset.model)
    name, words = own.pop("preset"), len(data.vocabulary)
    cutoffs = language_config(name).cutoffs
    config = language_config(
        name,
        **own,
        vocabulary=words,
        cutoffs=tuple(end for end in cutoffs if end < words),
        mixer=mixer,
        mixer_options={**preset.mixer_options.get(mixer, {}), **options},
    )
    return LanguageModel(config)


def batches(preset: Preset, data: TokenFiles, recipe: Recipe) -> Segments:
    """Return the training segments, in the order of the run."""
    return Segments(
        data.tokens("train"),
        length=_length(preset),
        batch=recipe.batch,
        order=recipe.order,
        steps=recipe.steps,
        seed=recipe.seed,
    )


def objective(preset: Preset, data: TokenFiles, recipe: Recipe) -> Objective:
    """Return the mean -log p of the next word, smoothed if asked for, and its validation."""
    even = math.log(len(data.vocabulary))

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return _loss(model, batch, recipe.label_smoothing)

    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, int]:
        valid = data.tokens("valid")
        return plain_loss(model, valid, length=_length(preset), part=(process, processes))

    return Objective(loss, validate, even)


def scores(model: nn.Module, batch: Batch) -> Scored:
    """Return log p of all words at each place, ``(B N, V)``, also of those in rare bands."""
    assert isinstance(model, LanguageModel)
    words = batch["targets"].flatten()
    count = torch.tensor(float(len(words)))
    return Scored(model.log_probabilities(batch["tokens"]).flatten(0, 1), words, count)


def measure(
    preset: Preset,
    data: TokenFiles,
    mixer: str,
    model: nn.Module,
    *,
    splits: tuple[str, ...] = ("valid", "test"),
    positions: int | None = None,
    folder: Path | None = None,
) -> list[Measured]:
    """Return both perplexities of a trained model on each split."""
    if folder is not None:
        _write_ids(folder / IDS, data.tokens("test"), _length(preset))
    published: Mapping[str, float] = {}
    if data.corpus == _PAPER_CORPUS and positions is None:
        published = preset.published.get(mixer, {})
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


def prepare(folder: Path, data: TokenFiles) -> None:
    """Write the vocabulary of a run into its folder."""
    data.vocabulary.save(folder / VOCABULARY)


def check(folder: Path, data: TokenFiles) -> None:
    """Refuse a text of another vocabulary than that of a run."""
    Vocabulary.load(folder / VOCABULARY).check_same(data.vocabulary, folder)


def facts(preset: Preset, data: TokenFiles) -> Mapping[str, Any]:
    """Return how the lines of a text become words."""
    return splitting(data.corpus)


STUDY = Study(
    title="Language modelling: the FourierFormer paper's tables 1, 4 and 5",
    presets=PRESETS,
    mixers=lambda: mixer_names(causal=True),
    read=read,
    build=build,
    batches=batches,
    objective=objective,
    measure=measure,
    facts=facts,
    check_options=check_options,
    prepare=prepare,
    check=check,
    scores=scores,
    data=lambda: CORPORA,
    experiment="language_tables",
)


def _length(preset: Preset) -> int:
    own = dict(preset.model)
    return language_config(own.pop("preset"), **own).length


def _loss(model: nn.Module, batch: Batch, smoothing: float) -> Tensor:
    """Return the cross-entropy with the target, or with it and an even share of all words."""
    if not smoothing:
        losses: Tensor = model(batch["tokens"], batch["targets"])
        return losses.mean()
    assert isinstance(model, LanguageModel)
    scores = model.log_probabilities(batch["tokens"])
    target = -scores.gather(-1, batch["targets"][..., None]).mean()
    return torch.lerp(target, -scores.mean(), smoothing)


def _write_ids(path: Path, tokens: Tokens, length: int) -> None:
    """Write the beginning of the test text as numbers, a context per line, for other commands."""
    lines = np.asarray(tokens[: _LINES * length], dtype=np.int64)
    rows = [lines[start : start + length] for start in range(0, len(lines), length)]
    text = "".join(f"{' '.join(map(str, row.tolist()))}\n" for row in rows)
    path.write_text(text, encoding="utf-8")
