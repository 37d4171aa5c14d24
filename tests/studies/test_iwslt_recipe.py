"""The preset of IWSLT'14 is fairseq's recipe, from its optimiser to its two vocabularies."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_bitext import lines, write_lines
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

pytest.importorskip("sacrebleu")

from fourierkernels.models import translation_config
from fourierkernels.models.translation import TranslationModel
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import setup
from fourierkernels.studies.translation import study as translation
from fourierkernels.studies.translation.bleu import tokenised_bleu
from fourierkernels.studies.translation.building import build_pair_files
from fourierkernels.studies.translation.classes import BatchRule
from fourierkernels.studies.translation.corpora import open_bitext, read_bitext
from fourierkernels.studies.translation.pair_files import PairFiles
from fourierkernels.studies.translation.pairs import LengthRule, Pair
from fourierkernels.studies.translation.presets import PRESETS
from fourierkernels.studies.translation.text_translation import translate_lines
from fourierkernels.studies.translation.translate_command import load_translator, translate_text

PRESET = PRESETS["iwslt"]


def small() -> translation.TranslationPreset:
    """Return the preset with a model that trains in a second."""
    model = {**PRESET.model, "dim": 16, "hidden": 16, "layers": 1, "decoder_layers": 1, "heads": 2}
    changes = {"model": model | {"length": 64}, "most_words": 120, "positions": 4, "budget": 300}
    return replace(PRESET, **changes, longest=62, difference=62)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources and targets have words of their own; the last sources have one of the targets."""
    folder = tmp_path_factory.mktemp("two") / "two-en-it"
    known = lines(150, longest=5)
    write_lines(folder, known[:120], "train")
    write_lines(folder, known[120:135], "valid")
    return write_lines(folder, [*known[135:], ("1 dora.", "1 QQQ dora!", "")], "test")


def apart(corpus: Path, cache: Path) -> PairFiles:
    return read_bitext(corpus, size=120, longest=62, difference=62, shared=False, folder=cache)


def test_recipe_is_fairseq_s_line_by_line() -> None:
    recipe, search = PRESET.recipe, PRESET.search
    assert (recipe.optimiser, recipe.weight_decay, recipe.decaying) == ("adamw", 1e-4, "all")
    assert (recipe.betas, recipe.epsilon, recipe.clip) == ((0.9, 0.98), 1e-8, None)
    assert (recipe.learning_rate, recipe.schedule, recipe.warmup) == (5e-4, "fairseq", 4_000)
    assert (recipe.label_smoothing, PRESET.smooths_others) == (0.1, True)
    assert (search.beam, search.length_penalty, search.divisor) == (5, 1.0, "length")
    assert (PRESET.shared, PRESET.most_words, search.longest) == (False, 10_000, 200)
    for place in (0, 4, 20):  # sources of 5, 25 and 105 subwords, marks included
        tokens = BatchRule(PRESET.budget, PRESET.offset).size(place) * (5 * place + 7)
        assert 4_096 - (5 * place + 7) < tokens <= 4_096
    config = translation_config(**{**PRESET.model, "name": "attention"}, vocabulary=9)
    assert (config.layers, config.dim, config.hidden, config.heads) == (6, 512, 1024, 4)
    assert (config.dropout, config.activation, config.scale_embedding) == (0.3, "relu", True)
    assert config.length == 1_024


def test_published_numbers_are_of_the_paper_that_trains_it() -> None:
    """[nguyen2022fourierformer]_ table 5."""
    found = {name: row["tokenised BLEU"] for name, row in PRESET.published.items()}
    assert found == {"attention": 34.42, "fourier": 34.68}
    assert PRESET.published_on == ("iwslt14", "de", "en")


def test_a_weight_without_gradient_hardly_decays() -> None:
    """Adam with the decay in its gradient took 5 % in 100 updates at this rate."""
    model = nn.Linear(3, 3)
    before = model.weight.detach().clone()
    recipe = replace(PRESET.recipe, learning_rate=5e-4)
    optimiser = create_optimiser(model, recipe)
    for _ in range(100):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step()
    torch.testing.assert_close(model.weight.detach(), before * (1 - 5e-8) ** 100)


def test_smoothing_spares_the_right_word_as_in_fairseq(corpus: Path, cache: Path) -> None:
    """``label_smoothed_nll_loss``: (1 - ε - ε/(V - 1)) of its loss and ε/(V - 1) of all."""
    data, preset = apart(corpus, cache), small()
    model = translation.STUDY.build(preset, data, ChosenMixer("attention")).eval()
    batch = next(iter_batches(preset, data))
    words = batch["target"][:, 1:]
    log_p = model(batch["source"], batch["target"][:, :-1]).log_softmax(-1)[words != 0]
    right, share = words[words != 0], 0.1 / (data.outputs - 1)
    nll = -log_p.gather(-1, right[:, None]).sum()
    expected = (1 - 0.1 - share) * nll - share * log_p.sum()
    loss = translation.STUDY.objective(preset, data, preset.recipe).loss(model, batch)
    torch.testing.assert_close(loss * batch["tokens"].sum(), expected)
    plain = cross_entropy(log_p, right, reduction="sum", label_smoothing=0.1)
    assert abs(float((plain - expected).detach())) > 1e-3


def iter_batches(preset: translation.TranslationPreset, data: PairFiles):
    updates = translation.STUDY.batches(preset, data, replace(preset.recipe, steps=1))
    yield updates.__getitems__([0])


def test_a_prepared_training_text_is_filtered_no_further(corpus: Path, cache: Path) -> None:
    """Copies and equal sides stay, as in fairseq's preparation, which its reader follows."""
    source = open_bitext(corpus)[1]

    def pairs(split: str, dropped: Counter[str]) -> Iterator[Pair]:
        yield from source.pairs(split, dropped)
        yield from [Pair("same.", "same.")] * 2 if split == "train" else []

    own = replace(source, pairs=pairs, digest="with copies")
    rule = LengthRule(62, 62)
    for prepared, count in ((False, 120), (True, 122)):
        made = replace(own, prepared=prepared, digest=f"copies {prepared}")
        files = build_pair_files("made", made, size=120, rule=rule, folder=cache)
        assert files.pairs["train"] == count


def test_targets_have_a_vocabulary_of_their_own(corpus: Path, cache: Path) -> None:
    data, both = apart(corpus, cache), read_bitext(corpus, size=120, folder=cache)
    assert sorted(data.vocabulary.words) == sorted(both.vocabulary.words)
    assert 4 < data.outputs < len(data.bpe) == len(both.bpe)
    assert (both.outputs, both.target_words) == (len(both.bpe), None)
    used = set()
    for split in ("train", "valid", "test"):
        tokens = data.tokens(split)
        for start, n, m in data.index(split).tolist():
            used |= set(tokens[start + n : start + n + m].tolist()) if split == "train" else set()
            assert tokens[start + n : start + n + m].max(initial=0) < data.outputs
    assert used | {0, 1, 2, 3} == set(range(data.outputs))
    texts = ["12 bal gen.", "dora!"]
    assert data.bpe.encode(texts) != both.bpe.encode(texts)
    assert [data.bpe.decode(ids) for ids in data.bpe.encode(texts)] == texts


def test_sources_have_a_table_of_their_own() -> None:
    sizes = {"size": "tiny", "vocabulary": 20, "source_vocabulary": 30}
    model = TranslationModel(translation_config("attention", **sizes)).eval()
    source, target = torch.tensor([[1, 29, 2]]), torch.tensor([[1, 7, 9]])
    assert model(source, target).shape == (1, 3, 20)
    gradients = torch.autograd.grad(
        model(source, target).sum(), [model.source_embedding.weight, model.embedding.weight]
    )
    rows: list[Tensor] = [g.abs().sum(dim=1) > 0 for g in gradients]
    assert rows[0].nonzero().flatten().tolist() == [1, 2, 29]
    with pytest.raises(ValueError, match="target"):
        model(source, torch.tensor([[1, 25]]))


def test_a_run_keeps_both_and_translates(
    corpus: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(translation.PRESETS, "small_iwslt", small())
    torch.set_num_threads(1)
    few = {"steps": 4, "evaluate_every": 2, "save_every": 2, "log_every": 2, "warmup": 2}
    run = setup("translation", preset="small_iwslt", mixer="attention", data=corpus, **few)
    rows = {(r.split, r.metric): r for r in train(run, tmp_path / "run", cache=cache)}
    assert rows["test", "tokenised BLEU"].positions == 4
    assert rows["test", "perplexity"].value < 2 * math.exp(math.log(120))
    model, bpe = load_translator(tmp_path / "run")
    assert model.config.source_vocabulary == len(bpe) > model.config.vocabulary
    assert len(list(translate_lines(model, bpe, ["12 bal gen.", "", "dora"], beam=1))) == 3
    (tmp_path / "text").write_text("12 bal gen.\n7 dora bal.\n", encoding="utf-8")
    options = {"beam": None, "length_penalty": None, "warn": lambda *_: None}
    found = list(translate_text(tmp_path / "run", tmp_path / "text", **options))
    own = {"search": PRESET.search}  # as it was measured, and not by the report's beam and penalty
    assert found == list(translate_lines(model, bpe, ["12 bal gen.", "7 dora bal."], **own))
    assert PRESET.search.changed(2, None) == replace(PRESET.search, beam=2)


def test_tokenised_bleu_counts_punctuation_marks_as_words() -> None:
    right, other = "it's a cat, isn't it?", "it's a cat , isn 't it ?"
    assert tokenised_bleu([other], [right]) == pytest.approx(100)
    assert tokenised_bleu(["a dog"], [right]) < 5


def test_tokenised_bleu_is_neither_smoothed_nor_of_unknown_words() -> None:
    """Scores of fairseq/scoring/bleu.py: 0 without a 4-gram in common, and no word is unknown."""
    assert tokenised_bleu(["a b c x"], ["a b c d"]) == 0
    texts = ["a b c d e", "f <unk> g"]
    counted = 100 * (7 / 8 * 4 / 6 * 3 / 4 * 2 / 2) ** (1 / 4)
    assert tokenised_bleu(texts, texts) == pytest.approx(counted)
