"""What holds for every study, one from outside among them."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from study_cases import CASES, add_ninth
from train_together import Shared, together, train_each
from training_runs import error_of, train_here

from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.engine.checkpoints import checkpoint_steps, last_checkpoint, read_curve
from fourierkernels.studies.engine.classification import Classification
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.prepared import prepared
from fourierkernels.studies.engine.run_setup import Setup, load_setup, read_data, save_setup
from fourierkernels.studies.engine.settings import read_settings
from fourierkernels.studies.engine.study import StartedStudy
from fourierkernels.studies.engine.trainer import Engine
from fourierkernels.studies.registry import STUDIES

EVERY = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    """Give back what the cases add to tables that all tests share."""
    from fourierkernels.studies.control.environments import ENVIRONMENTS

    tables = [ENVIRONMENTS, STUDIES.rows, *(study.presets for study in STUDIES.values())]
    before = [dict(table) for table in tables]
    add_ninth()
    yield
    for table, rows in zip(tables, before, strict=True):
        for added in set(table) - set(rows):
            del table[added]


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Runs that have been asked for, and their data, by the names of studies."""
    return {"": (cache, tmp_path_factory)}


def asked(runs: dict[str, Any], name: str) -> tuple[Setup, Any]:
    cache, folders = runs[""]
    if name not in runs:
        run = CASES[name].run(folders.mktemp(name) / "data", cache)
        runs[name] = run, read_data(run, cache=cache)
    return runs[name]


def model_of(run: Setup, data: Any, mixer: str | None = None) -> Any:
    torch.manual_seed(1)
    own = run.mixer if mixer is None else ChosenMixer(mixer)
    if mixer == "fnet_hybrid":  # the model has one layer
        own = ChosenMixer(mixer, {"attention_layers": 1})
    return run.study.build(run.chosen_preset, data, own).eval()


def test_every_study_has_its_case() -> None:
    assert set(CASES) == set(STUDIES)


SLOW = {"series", "control", "masked", "glue", "lra", "images"}  # a whole run and its parts


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CASES]
)
def test_run_that_is_resumed_ends_the_same_to_the_bit(
    name: str, runs: dict[str, Any], cache: Path, tmp_path: Path
) -> None:
    run, _ = asked(runs, name)
    steps, parts = run.recipe.steps, tmp_path / "parts"
    assert run.recipe.log_every == 1, "a Case logs every update: an interruption adds a line"
    train_here(run, tmp_path / "whole", cache)
    train_here(run, parts, cache, limit=steps // 3)
    train_here(run, parts, cache, resume=True, limit=steps // 2 + 1)
    train_here(run, parts, cache, resume=True)
    for file in ("curve.csv", "results.csv", "study.json", *CASES[name].left):
        assert (tmp_path / "whole" / file).read_bytes() == (parts / file).read_bytes(), file
    assert checkpoint_steps(parts) == checkpoint_steps(tmp_path / "whole")
    last = f"checkpoint-{checkpoint_steps(parts)[-1]}"
    for file in ("model", *(f"{last}/{part}" for part in ("model", "optimiser", "random"))):
        ours, theirs = (
            read_tensors(place / f"{file}.safetensors") for place in (parts, tmp_path / "whole")
        )
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours), file
    known = json.loads((parts / "results.json").read_text())["config"]
    assert (known["study"], known["steps"]) == (name, steps)


@EVERY
def test_plan_is_of_whole_updates(name: str, runs: dict[str, Any], cache: Path) -> None:
    torch.set_num_threads(1)
    run, data = asked(runs, name)
    found = plan(run, cache=cache)
    assert (found.words, found.tokens) == (len(data.vocabulary), data.counts["train"])
    batches = run.study.batches(run.chosen_preset, data, run.recipe)
    assert len(batches) == run.recipe.steps * run.recipe.batch
    assert batches.examples == CASES[name].examples(data)
    if name != "translation":  # whose batches are of as many pairs as fit a budget
        read = run.recipe.steps * run.recipe.batch
        assert found.epochs == pytest.approx(read / batches.examples)
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("name", "mixer"), [(name, mixer) for name, case in CASES.items() for mixer in case.mixers]
)
def test_outputs_do_not_depend_on_the_other_examples(
    name: str, mixer: str, runs: dict[str, Any]
) -> None:
    run, data = asked(runs, name)
    study, preset = run.study, run.chosen_preset
    model = model_of(run, data, mixer).double()
    with torch.no_grad():
        if isinstance(study, Classification):
            split = "test" if "test" in data.counts else "valid"

            def logits(members: list[int]) -> torch.Tensor:
                return study.logits(model, study.examples(preset, data, split, members))

            whole = logits(list(range(6)))
            alone = torch.cat([logits([place]) for place in range(6)])
            assert whole.std() > 1e-2
            assert (whole.std(dim=0) > 1e-4).any() == (mixer != "none")
            if name == "lra":  # which pads the shorter ones
                assert len(set(data.splits[split].lengths[:6].tolist())) > 2
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                whole, alone = CASES[name].alone(model, data)
            whole = whole[2:3]
    torch.testing.assert_close(whole, alone, rtol=1e-9, atol=1e-10)


@EVERY
def test_few_examples_are_learned_by_heart(name: str, runs: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    run, data = asked(runs, name)
    study, preset = run.study, run.chosen_preset
    recipe = replace(run.recipe, label_smoothing=0.0)
    batch, _ = study.batches(preset, data, recipe).probe(4)
    model, goal = model_of(run, data), study.objective(preset, data, recipe)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(60):
        loss = goal.loss(model, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert min(losses) < 0.5 * losses[0], f"learns nothing of four examples: {losses[::10]}"
    assert losses[-1] < losses[0], f"forgets four examples again: {losses[::10]}"


# Units of rounding of a number in each precision; a loss is within a few of them.
UNITS = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}


@EVERY
def test_settings_reach_every_study_and_half_precision_is_close(
    name: str, runs: dict[str, Any], tmp_path: Path
) -> None:
    """Losses of two batches, each with the initial parameters: updates move nothing."""
    torch.set_num_threads(1)
    run, data = asked(runs, name)
    losses = {}
    for precision in UNITS:
        given = (f"precision={precision}", "steps=2", "warmup=0", "log_every=1", "weight_decay=0")
        settings = read_settings([*given, "learning_rate=1e-12", "divergence=10"])
        chosen = replace(run, recipe=settings.over(run.recipe))
        folder = tmp_path / precision
        folder.mkdir()
        save_setup(folder, chosen, data.digest)
        assert load_setup(folder)[0].recipe == chosen.recipe
        losses[precision] = np.array(losses_of(chosen, data, folder))
    for precision, unit in UNITS.items():
        found, exact = losses[precision], losses["fp32"]
        np.testing.assert_allclose(found, exact, rtol=4 * unit)
        assert precision == "fp32" or (found != exact).any()


def losses_of(run: Setup, data: Any, folder: Path) -> list[float]:
    """Train from random weights without measuring; return the losses of the curve."""
    study, preset, recipe = run.study, run.chosen_preset, run.recipe
    torch.manual_seed(1)
    model = prepared(study.build(preset, data, run.mixer), recipe)
    goal = study.objective(preset, data, recipe)
    Engine(model, goal, study.batches(preset, data, recipe), recipe, folder).train()
    history = read_curve(last_checkpoint(folder).folder)["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


@EVERY
def test_every_parameter_of_every_preset_gets_a_gradient(name: str, runs: dict[str, Any]) -> None:
    """Several processes wait for all of them: a parameter that is not used ends such a run."""
    run, data = asked(runs, name)
    study = run.study
    batch, _ = study.batches(run.chosen_preset, data, run.recipe).probe(2)
    for preset in study.presets.values():
        sizes = {**preset.model, **CASES[name].small}
        plain = ChosenMixer(run.mixer.name)
        model = study.build(replace(run.chosen_preset, model=sizes), data, plain)
        study.objective(preset, data, run.recipe).loss(model, batch).backward()
        trained = [(key, p) for key, p in model.named_parameters() if p.requires_grad]
        assert [key for key, p in trained if p.grad is None] == [], preset.summary


@EVERY
def test_data_that_cannot_be_read_are_refused_in_one_line(
    name: str, runs: dict[str, Any], tmp_path: Path
) -> None:
    run, _ = asked(runs, name)
    study, preset = run.study, replace(run.chosen_preset, data=None)
    start = {"start": Path(run.start.path)} if isinstance(study, StartedStudy) else {}
    for given, rule in (
        (None, f"data must be {study.terms.place} for this preset: --data FOLDER"),
        (tmp_path / "none", "data must be a folder"),
        (tmp_path, "data must be a folder that a reader knows"),
    ):
        message = error_of(lambda given=given: study.read(preset, given, **start))
        assert message.startswith(f"ValueError: {rule}"), message
        assert "\n" not in message


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.items])
def test_streams_are_of_texts_alone(name: str, runs: dict[str, Any]) -> None:
    run, data = asked(runs, name)
    recipe = replace(run.recipe, order="streams")
    message = error_of(lambda: run.study.batches(run.chosen_preset, data, recipe))
    rule = f"order must be shuffled for {CASES[name].items}, got 'streams'"
    assert message == f"ValueError: {rule}"


OWN_ORDERS = {"images", "control", "masked", "translation"}  # and tests of their own


@pytest.mark.parametrize("name", [name for name in CASES if name not in OWN_ORDERS])
def test_every_example_comes_once_in_an_epoch(name: str, runs: dict[str, Any]) -> None:
    run, data = asked(runs, name)
    batches = run.study.batches(run.chosen_preset, data, run.recipe)
    count = batches.examples
    epochs = [[batches.order(i) for i in range(e * count, e * count + count)] for e in range(6)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 6
    places = range(run.recipe.batch)
    batch, again = (batches.__getitems__(places) for _ in range(2))
    study = run.study
    if isinstance(study, Classification):
        expected = study.examples(run.chosen_preset, data, "train", [*map(batches.order, places)])
        assert batch.keys() == expected.keys()
        assert all(torch.equal(batch[key], expected[key]) for key in expected)
    assert all(torch.equal(batch[key], again[key]) for key in batch)


@EVERY
def test_shares_of_processes_add_up_to_a_validation(name: str, runs: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    run, data = asked(runs, name)
    model = model_of(run, data).double()
    goal = run.study.objective(run.chosen_preset, data, run.recipe)
    with torch.no_grad():
        whole = goal.validate(model, 0, 1)
        parts = [goal.validate(model, process, 5) for process in range(5)]
    assert np.sum(parts, axis=0) == pytest.approx(np.array(whole))
    assert len(whole) == 2 + len(goal.further)
    if isinstance(run.study, Classification) or name == "control":
        assert whole[1] == data.counts["valid"]


def models_of(name: str, runs: dict[str, Any]) -> list[Shared]:
    """Return a model of each preset, small and once where several are alike; its own one first."""
    run, _ = asked(runs, name)
    given = name in {"translation", "glue"}  # placements, and the mixer of the start
    mixer = ChosenMixer(run.mixer.name if given else "softmax")
    few = {"steps": 2, "batch": 8, "accumulation": 2, "precision": "float64", "warmup": 1}
    every = {"evaluate_every": 2, "save_every": 2, "log_every": 1, "clip": 1.0}
    recipe = replace(run.recipe, **few, **every)
    found: dict[str, Shared] = {}
    for key, preset in {"": run.chosen_preset, **run.study.presets}.items():
        sizes = {**preset.model, **CASES[name].small}
        if sizes.get("preset") != "zerveas":  # whose batch norm sees the examples of one process
            small = replace(run.chosen_preset, model=sizes)
            of_preset = Shared(f"{name}-{key}", run, small, mixer, recipe)
            found.setdefault(str(sorted(sizes.items())), of_preset)
    return list(found.values())


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_processes_train_every_study_as_one_does(
    every: bool, runs: dict[str, Any], cache: Path, tmp_path: Path
) -> None:
    """Real ones, which talk by gloo: gradients, validation and files of two are those of one.

    Of every study one model, and of the arena also one that classifies the mean: it has no class
    token, whose gradient they would wait for. The slow test has the models of all presets.
    """
    models = [each for name in CASES for each in models_of(name, runs)[: None if every else 1]]
    if not every:
        models += [each for each in models_of("lra", runs) if each.name == "lra-pathfinder"]
        assert len(models) == len(CASES) + 1
    train_each(models, cache, tmp_path / "one")
    together("train_each", models, cache, tmp_path / "two")
    for each in models:
        places = tmp_path / "one" / each.name, tmp_path / "two" / each.name
        assert [last_checkpoint(place).processes for place in places] == [1, 2]
        one, two = (read_tensors(place / "gradients.safetensors") for place in places)
        assert one.keys() == two.keys()
        for key, gradient in one.items():
            torch.testing.assert_close(
                two[key], gradient, rtol=0, atol=1e-12 * max(1, gradient.abs().max().item())
            )
        curves = [np.genfromtxt(place / "curve.csv", delimiter=",") for place in places]
        # Trainer logs in single precision, where the last bit of a double may decide one unit.
        np.testing.assert_allclose(curves[1], curves[0], rtol=np.finfo(np.float32).eps)
