"""Batches of the report's formula, the same whatever the processes, and a run of the engine."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from tiny_bitext import tiny_files
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from fourierkernels.models import TranslationModel, translation_config
from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.engine.checkpoints import last_checkpoint
from fourierkernels.studies.engine.epochs import Batch, one_batch
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.study import Objective
from fourierkernels.studies.engine.trainer import Engine
from fourierkernels.studies.translation.batches import PairUpdates, collate, one_pass
from fourierkernels.studies.translation.classes import BatchRule, length_class, padded_length
from fourierkernels.studies.translation.pair_files import PairFiles

RULE = BatchRule(budget=1000)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> PairFiles:
    return tiny_files(tmp_path_factory.mktemp("bitext"))


def test_batches_are_those_of_the_report() -> None:
    """Section 4.4 for the ten classes of table 1."""
    sizes = [600, 500, 428, 375, 333, 300, 272, 250, 230, 214]
    assert [BatchRule().size(place) for place in range(10)] == sizes
    uppers = [0, 5, 6, 10, 11, 50]
    assert [length_class(n) for n in uppers] == [0, 0, 1, 1, 2, 9]
    assert BatchRule(budget=700, offset=0).size(6) == 20


@pytest.mark.parametrize(
    ("options", "place", "message"),
    [
        ({"budget": 24}, 0, "budget must be at least 25 for sources of 5 tokens, got 24"),
        ({"budget": 69}, 9, "budget must be at least 70 for sources of 50 tokens, got 69"),
        ({"budget": 0}, 0, "budget must be at least 1, got 0"),
        ({"offset": -1}, 0, "offset must be at least 0, got -1"),
    ],
)
def test_budget_holds_a_pair(options: dict[str, int], place: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchRule(**options).size(place)


@pytest.mark.parametrize("batch", [1, 3])
def test_every_batch_fills_the_budget(files: PairFiles, batch: int) -> None:
    """To the last pair that fits, also where a class has fewer pairs than a batch."""
    data = PairUpdates(files, steps=60, batch=batch, rule=BatchRule(budget=2000))
    assert len(data) == 60 * batch
    assert min(files.classes["train"]) < 2000 // 70
    for index in range(len(data)):
        found = data.collate([index])
        length = found["source"].shape[1] - 2
        assert len(found["source"]) == 2000 // (length + 20)
        assert len(found["source"]) * (length + 20) >= 0.95 * 2000


@pytest.mark.parametrize("batch", [1, 3])
def test_epochs_have_every_pair_as_often(files: PairFiles, batch: int) -> None:
    """After 30 epochs, 30 times, but for the last pairs, which fill no update yet."""
    classes = files.classes["train"]
    sizes = PairUpdates(files, steps=1, rule=RULE).sizes
    updates = {place: 30 * classes[place] // (size * batch) for place, size in sizes.items()}
    data = PairUpdates(files, steps=sum(updates.values()), batch=batch, rule=RULE)
    seen = Counter(np.concatenate([data.members(i) for i in range(len(data))]).tolist())
    assert abs(30 * data.updates_per_epoch - sum(updates.values())) < len(classes)
    for place, number in updates.items():
        first = sum(classes[:place])
        counts = [seen[i] for i in range(first, first + classes[place])]
        assert sum(counts) == number * sizes[place] * batch
        assert max(counts) - min(counts) <= 1


def test_batches_depend_on_seed_and_number_alone(files: PairFiles) -> None:
    def batches(seed: int, order: list[int], steps: int = 40) -> dict[int, list[int]]:
        data = PairUpdates(files, steps=steps, rule=RULE, seed=seed)
        return {index: data.members(index).tolist() for index in order}

    forwards = batches(1, list(range(40)))
    assert batches(1, list(range(39, -1, -1))) == forwards
    assert batches(1, [33], steps=1000)[33] == forwards[33]
    assert batches(2, list(range(40))) != forwards


def test_an_epoch_mixes_the_classes(files: PairFiles) -> None:
    data = PairUpdates(files, steps=40, rule=RULE)
    lengths = [data.collate([i])["source"].shape[1] for i in range(40)]
    assert len(set(lengths)) > 3
    assert lengths != sorted(lengths)
    assert lengths[:20] != lengths[20:]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_load_the_same_batches(files: PairFiles, workers: int) -> None:
    data = PairUpdates(files, steps=6, rule=RULE)
    loader = DataLoader(data, batch_size=1, collate_fn=one_batch, num_workers=workers)
    for index, found in enumerate(loader):
        assert all(torch.equal(found[name], data.collate([index])[name]) for name in found)


def test_processes_share_each_update_and_each_class(files: PairFiles) -> None:
    """As accelerate deals out batches: all processes have the same class in each step."""
    data = PairUpdates(files, steps=12, batch=4, rule=RULE)
    sampler = BatchSampler(SequentialSampler(data), 1, False)
    shards = [list(BatchSamplerShard(sampler, 4, process)) for process in range(4)]
    assert sorted(index for shard in shards for (index,) in shard) == list(range(48))
    shapes = [[data.__getitems__(indices)["source"].shape for indices in shard] for shard in shards]
    assert shapes[0] == shapes[1] == shapes[2] == shapes[3]


def test_a_batch_beyond_the_run_is_refused(files: PairFiles) -> None:
    data = PairUpdates(files, steps=2, batch=4, rule=RULE)
    with pytest.raises(IndexError, match=r"index must be in \[0, 8\), got 8"):
        data.collate([8])


def test_sentences_stand_between_marks_and_padding(files: PairFiles) -> None:
    tokens, index = files.tokens("train"), files.index("train")
    data = PairUpdates(files, steps=30, rule=RULE)
    for number in range(30):
        found, members = data.collate([number]), data.members(number)
        assert found["source"].dtype == found["target"].dtype == torch.int64
        for row, (start, n, m) in enumerate(index[members].tolist()):
            source, target = tokens[start : start + n], tokens[start + n : start + n + m]
            assert without_padding(found["source"][row]) == [1, *source.tolist(), 2]
            assert without_padding(found["target"][row]) == [1, *target.tolist(), 2]
            assert found["source"].shape[1] == padded_length(n)
        assert (found["target"][:, -1] != 0).any()


def without_padding(row: Tensor) -> list[int]:
    numbers = row.tolist()
    end = numbers.index(2)
    assert set(numbers[end + 1 :]) <= {0}
    return numbers[: end + 1]


def test_a_sentence_is_padded_alike_in_every_batch(files: PairFiles) -> None:
    """Also alone, as it is when it is translated: a DFT sees its padding."""
    index, tokens = files.index("train"), files.tokens("train")
    data = PairUpdates(files, steps=20, rule=RULE)
    for number in range(20):
        row, place = data.collate([number])["source"][0], data.members(number)[0]
        start, n, _ = index[place].tolist()
        assert row[1 : n + 1].tolist() == tokens[start : start + n].tolist()
        assert torch.equal(collate(files, "train", np.array([place]))["source"][0], row)


def test_sentences_of_two_classes_make_no_batch(files: PairFiles) -> None:
    ends = np.array([0, files.pairs["train"] - 1])
    with pytest.raises(ValueError, match="pairs must be of one length class"):
        collate(files, "train", ends)


def test_a_pass_has_every_pair_once(files: PairFiles) -> None:
    def rows(part: tuple[int, int]) -> list[tuple[int, ...]]:
        batches = one_pass(files, "train", rule=RULE, part=part)
        return [tuple(without_padding(row)) for batch in batches for row in batch["source"]]

    whole = rows((0, 1))
    index, tokens = files.index("train"), files.tokens("train")
    expected = [(1, *tokens[s : s + n].tolist(), 2) for s, n, _ in index.tolist()]
    assert whole == expected
    assert Counter(rows((0, 2)) + rows((1, 2))) == Counter(expected)


def tiny_model(files: PairFiles) -> TranslationModel:
    torch.manual_seed(0)
    sizes = {"dim": 8, "hidden": 16, "heads": 2, "layers": 1, "decoder_layers": 1, "length": 64}
    return TranslationModel(translation_config("dft_both", vocabulary=len(files.bpe), **sizes))


def loss(model: nn.Module, batch: Batch) -> Tensor:
    target = batch["target"]
    logits = model(batch["source"], target[:, :-1])
    return cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


def run(
    files: PairFiles, output: Path, recipe: Recipe, *, limit: int | None = None, resume: str = ""
) -> dict[str, Tensor]:
    def validate(model: nn.Module, process: int, processes: int) -> tuple[float, int]:
        batches = list(one_pass(files, "valid", rule=RULE, part=(process, processes)))
        return sum(float(loss(model, batch)) for batch in batches), len(batches)

    data = PairUpdates(files, steps=recipe.steps, batch=recipe.batch, rule=RULE, seed=recipe.seed)
    goal = Objective(loss, validate, float(np.log(len(files.bpe))))
    engine = Engine(tiny_model(files), goal, data, recipe, output, limit=limit)
    engine.train(resume_from_checkpoint=resume or None)
    return read_tensors(last_checkpoint(output).folder / "model.safetensors")


RECIPE = Recipe(
    steps=8, batch=1, learning_rate=3e-3, evaluate_every=8, save_every=4, log_every=1, seed=3
)


@pytest.mark.slow
def test_engine_makes_an_update_of_a_batch_and_resumes_to_the_bit(
    files: PairFiles, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    whole = run(files, tmp_path / "whole", RECIPE)
    run(files, tmp_path / "half", RECIPE, limit=4)
    saved = str(last_checkpoint(tmp_path / "half").folder)
    resumed = run(files, tmp_path / "half", RECIPE, resume=saved)
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_accumulated_batches_make_the_update_of_their_mean(
    files: PairFiles, tmp_path: Path
) -> None:
    """Two batches for an update by the engine, and by hand with Adam."""
    recipe = replace(RECIPE, steps=3, batch=2, accumulation=2, precision="float64")
    model = tiny_model(files).double()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    data = PairUpdates(files, steps=3, batch=2, rule=RULE, seed=3)
    engine = Engine(model, Objective(loss, lambda *given: (1.0, 1), 9.0), data, recipe, tmp_path)
    by_hand = tiny_model(files).double().eval()
    optimiser = torch.optim.Adam(by_hand.parameters(), lr=3e-3)
    engine.train()
    for step in range(3):
        optimiser.zero_grad()
        (sum(loss(by_hand, data.collate([2 * step + part])) for part in (0, 1)) / 2).backward()
        optimiser.step()
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)
