"""A student learns from a teacher: the same loss in any batch, resumed to the bit, or refused."""

import json
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_bitext import lines, write_lines
from torch import nn
from torch.nn.functional import kl_div, pad
from training_runs import Call, error_of, short_run, train_here
from translation_runs import mini, mini_run, train_mini

pytest.importorskip("sacrebleu")

from fourierkernels.models import count_parameters, load_model, save_model
from fourierkernels.studies import registry
from fourierkernels.studies.engine.checkpoints import last_checkpoint
from fourierkernels.studies.engine.distillation import load_teacher, objective_of
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.run_setup import Setup, load_setup, setup
from fourierkernels.studies.engine.teacher import Lesson, Teacher, choose_teacher
from fourierkernels.studies.engine.train_command import choose_run
from fourierkernels.studies.translation import study as translation
from fourierkernels.studies.translation.batches import PairUpdates, one_pass
from fourierkernels.studies.translation.classes import BatchRule
from fourierkernels.studies.translation.corpora import read_bitext
from fourierkernels.studies.translation.pair_files import PairFiles


@pytest.fixture(scope="module")
def files(corpus: Path, cache: Path) -> PairFiles:
    return read_bitext(corpus, size=120, folder=cache)


@pytest.fixture(scope="module")
def run(corpus: Path, translator: Path) -> Setup:
    """A run with the finished one as its teacher, which mixes otherwise."""
    return mini_run(corpus, "dft_encoder", teacher=choose_teacher(translator, temperature=2.0))


@pytest.fixture(scope="module")
def student(run: Setup, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that run; not to be changed."""
    output = tmp_path_factory.mktemp("student") / "run"
    train_mini(run, output, cache)
    return output


@pytest.fixture
def copied(translator: Path, tmp_path: Path) -> Path:
    """A teacher that may be changed."""
    return Path(shutil.copytree(translator, tmp_path / "teacher"))


def of_other_data(teacher: Path, **results: Any) -> Path:
    """Make a teacher one of other data, of which its results say what is given."""
    for name, changes in (("study", {"digest": "another"}), ("results", {"config": results})):
        file = teacher / f"{name}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return teacher


# --- the loss ----------------------------------------------------------------------------------


def test_loss_does_not_depend_on_padding_and_parts(run: Setup, files: PairFiles) -> None:
    """Whatever the processes and accumulated batches that share an update."""
    run = replace(run, recipe=replace(run.recipe, steps=2, batch=4, precision="float64"))
    model = translation.STUDY.build(mini(), files, run.mixer).double().eval()
    loss = objective_of(run, files, model, load_teacher(run, files)).loss
    updates = PairUpdates(files, steps=2, batch=4, rule=BatchRule(400), seed=0)
    for update in range(2):
        whole = updates.__getitems__(range(4 * update, 4 * update + 4))
        expected = loss(model, whole)
        wider = whole | {name: pad(whole[name], (0, 3)) for name in ("source", "target")}
        torch.testing.assert_close(loss(model, wider), expected, rtol=1e-12, atol=0)
        halves = [[4 * update, 4 * update + 1], [4 * update + 2, 4 * update + 3]]
        parts = [loss(model, updates.__getitems__(half)) for half in halves]
        torch.testing.assert_close(sum(parts) / 2, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("study", ["language", "translation"])
def test_small_share_of_the_teacher_leaves_the_loss_of_the_study(
    study: str, smoothing: float, run: Setup, finished: Path, texts: Path, cache: Path
) -> None:
    chosen = {
        "translation": run,
        "language": short_run(texts, teacher=choose_teacher(finished)),
    }[study]
    assert chosen.teacher is not None
    chosen = replace(
        chosen,
        teacher=replace(chosen.teacher, weight=1e-9),
        recipe=replace(chosen.recipe, label_smoothing=smoothing),
    )
    row = registry.STUDIES[study]
    preset = row.presets[chosen.preset]
    data = row.read(preset, chosen.data, cache=cache)
    model = row.build(preset, data, chosen.mixer).eval()
    batch, _ = row.batches(preset, data, chosen.recipe).probe(3)
    found = objective_of(chosen, data, model, load_teacher(chosen, data)).loss(model, batch)
    expected = row.objective(preset, data, chosen.recipe).loss(model, batch)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


def divergence(teacher: nn.Module, model: nn.Module, files: PairFiles) -> float:
    """Mean KL(teacher ‖ model) over the tokens that are held out, in nats."""
    total = tokens = 0.0
    for batch in one_pass(files, "valid", rule=BatchRule(400)):
        counted = batch | {"tokens": torch.ones(1)}
        theirs, ours = (
            translation.STUDY.scores(net, counted).scores.log_softmax(-1)
            for net in (teacher, model)
        )
        total += kl_div(ours, theirs, reduction="sum", log_target=True).item()
        tokens += len(ours)
    return total / tokens


@torch.no_grad()
def test_student_comes_nearer_to_its_teacher(
    corpus: Path, translator: Path, files: PairFiles, cache: Path, tmp_path: Path
) -> None:
    """It learns from it alone, and comes nearer than a model that learns from the words alone."""
    settings = {"steps": 30, "evaluate_every": 30, "save_every": 30, "learning_rate": 1e-2}
    teachers = {"alone": None, "taught": choose_teacher(translator, weight=1.0)}
    teacher = load_model(translator / "model.safetensors")
    found = {}
    for name, chosen in teachers.items():
        with torch.enable_grad():
            run = mini_run(corpus, "dft_encoder", teacher=chosen, **settings)
            train_mini(run, tmp_path / name, cache)
        found[name] = divergence(teacher, load_model(tmp_path / name / "model.safetensors"), files)
    torch.manual_seed(run.recipe.seed)
    before = translation.STUDY.build(mini(), files, ChosenMixer("dft_encoder")).eval()
    assert found["taught"] < found["alone"]
    assert found["taught"] < divergence(teacher, before, files) / 2


def test_watch_for_divergence_allows_for_the_temperature(run: Setup, files: PairFiles) -> None:
    """The loss of an even guess is at most (1 - w + w T²) log V; that of the validation log V."""
    assert run.teacher is not None
    model = translation.STUDY.build(mini(), files, run.mixer)
    teacher = load_teacher(run, files)
    words = math.log(len(files.vocabulary))
    for temperature, factor in ((2.0, 2.5), (0.5, 1.0)):
        own = replace(run, teacher=replace(run.teacher, temperature=temperature))
        assert objective_of(own, files, model, teacher).even == pytest.approx(factor * words)


# --- a run -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_resumed_student_equals_an_uninterrupted_one(
    run: Setup, student: Path, cache: Path, copied: Path, tmp_path: Path
) -> None:
    """Also if its teacher has moved meanwhile."""
    assert run.teacher is not None
    train_mini(run, tmp_path / "parts", cache, limit=5)
    moved = replace(run, teacher=replace(run.teacher, path=str(copied)))
    train_mini(moved, tmp_path / "parts", cache, resume=True)
    one, other = (last_checkpoint(folder) for folder in (student, tmp_path / "parts"))
    for name in ("model", "optimiser", "random"):
        pair = [step.tensors(f"{name}.safetensors") for step in (one, other)]
        assert all(torch.equal(tensor, pair[1][key]) for key, tensor in pair[0].items())
    for name in ("results.csv", "curve.csv"):
        assert (student / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_run_says_who_taught_and_keeps_the_student_alone(
    run: Setup, student: Path, translator: Path, files: PairFiles
) -> None:
    assert run.teacher is not None
    assert load_setup(student)[0] == run
    config = json.loads((student / "results.json").read_text())["config"]
    assert config["teacher"] == asdict(run.teacher)
    assert (run.teacher.weight, run.teacher.temperature) == (0.5, 2.0)
    assert run.teacher.path == str(translator.resolve())
    bare = translation.STUDY.build(mini(), files, run.mixer)
    assert last_checkpoint(student).tensors("model.safetensors").keys() == bare.state_dict().keys()
    assert config["parameters"] == count_parameters(bare)
    assert json.loads((translator / "results.json").read_text())["config"]["teacher"] is None


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float64"])
def test_precisions_and_accumulated_gradients_train_a_student(
    precision: str, run: Setup, cache: Path, tmp_path: Path
) -> None:
    few = {"steps": 2, "batch": 2, "accumulation": 2, "evaluate_every": 2}
    run = replace(run, recipe=replace(run.recipe, precision=precision, **few))
    train_mini(run, tmp_path / "run", cache)
    saved = last_checkpoint(tmp_path / "run").tensors("model.safetensors")
    expected = torch.float64 if precision == "float64" else torch.float32
    assert saved["embedding.weight"].dtype is expected


def test_language_model_learns_from_a_teacher(
    texts: Path, cache: Path, finished: Path, tmp_path: Path
) -> None:
    few = {"steps": 2, "evaluate_every": 2, "save_every": 2}
    run = short_run(texts, seed=5, teacher=choose_teacher(finished), **few)
    train_here(run, tmp_path / "run", cache)
    assert last_checkpoint(tmp_path / "run").step == 2


def test_teacher_costs_memory_and_no_parameters(
    run: Setup, copied: Path, files: PairFiles, cache: Path
) -> None:
    torch.set_num_threads(1)
    deep = replace(mini(), model={**mini().model, "layers": 4})
    file = copied / "model.safetensors"
    plans, sizes = [plan(replace(run, teacher=None), cache=cache)], []
    for preset in (mini(), deep):
        teacher = translation.STUDY.build(preset, files, ChosenMixer("attention"))
        save_model(teacher, file)
        plans.append(plan(replace(run, teacher=choose_teacher(copied)), cache=cache))
        sizes.append(4 * count_parameters(teacher))
    assert len({found.parameters for found in plans}) == 1
    assert plans[2].memory - plans[1].memory == sizes[1] - sizes[0] > 0
    assert plans[1].memory > plans[0].memory


def test_teacher_is_still_and_shares_nothing(run: Setup, files: PairFiles) -> None:
    """The same numbers each time, whatever the student's mode; and no gradients."""
    teacher = load_teacher(run, files)
    assert isinstance(teacher, nn.Module)
    model = translation.STUDY.build(mini(), files, run.mixer).train()
    batch, _ = PairUpdates(files, steps=1, batch=1, rule=BatchRule(400), seed=0).probe(3)
    objective_of(run, files, model, teacher).loss(model, batch).backward()  # type: ignore[no-untyped-call]
    assert not teacher.training
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    assert any(p.grad is not None for p in model.parameters())


# --- what is refused ---------------------------------------------------------------------------


def refused(run: Setup, cache: Path, output: Path, **options: Any) -> str:
    """Return the error of a run, which has written nothing."""
    before = sorted(output.rglob("*"))
    message = error_of(lambda: train_mini(run, output, cache, **options))
    assert sorted(output.rglob("*")) == before
    assert message.startswith("ValueError: ")
    return message


def test_teacher_of_other_words_is_refused_before_anything_is_written(
    translator: Path, cache: Path, tmp_path: Path
) -> None:
    other = write_lines(tmp_path / "other-en-it", lines(120, longest=4, seed=5))
    run = mini_run(other, teacher=choose_teacher(translator))
    message = refused(run, cache, tmp_path / "run")
    assert "teacher must read the data of the run: data must have the vocabulary of" in message


def test_teacher_of_other_languages_is_refused(
    run: Setup, copied: Path, cache: Path, tmp_path: Path
) -> None:
    of_other_data(copied, languages=["it", "en"])
    message = refused(replace(run, teacher=choose_teacher(copied)), cache, tmp_path / "run")
    assert "data must be from it to en, as those of" in message
    assert message.endswith("got en to it")


def test_teacher_that_has_not_ended_must_have_the_data_of_the_run(
    run: Setup, copied: Path, cache: Path, files: PairFiles, tmp_path: Path
) -> None:
    (copied / "results.json").rename(copied / "kept")
    assert load_teacher(replace(run, teacher=choose_teacher(copied)), files) is not None
    (copied / "kept").rename(copied / "results.json")
    of_other_data(copied)
    (copied / "results.json").unlink()
    message = refused(replace(run, teacher=choose_teacher(copied)), cache, tmp_path / "run")
    assert "teacher must have ended its run, or have the data of this one" in message


def test_teacher_that_reads_less_is_refused(
    run: Setup, copied: Path, files: PairFiles, cache: Path, tmp_path: Path
) -> None:
    short = replace(mini(), model={**mini().model, "length": 16})
    model = translation.STUDY.build(short, files, ChosenMixer("attention"))
    save_model(model, copied / "model.safetensors")
    message = refused(replace(run, teacher=choose_teacher(copied)), cache, tmp_path / "run")
    assert message.endswith("teacher must read 32 tokens or more, got 16")


def test_teacher_of_another_study_is_refused(
    run: Setup, finished: Path, cache: Path, tmp_path: Path
) -> None:
    message = refused(replace(run, teacher=choose_teacher(finished)), cache, tmp_path / "run")
    assert "teacher must be of study translation, got one of language" in message


def test_resumption_needs_the_same_teacher(
    run: Setup, student: Path, copied: Path, cache: Path
) -> None:
    assert run.teacher is not None
    moved = replace(run, teacher=replace(run.teacher, path=str(copied)))
    file = copied / "model.safetensors"
    save_model(load_model(file).double(), file)
    changed = refused(moved, cache, student, resume=True)
    assert "teacher must be the one that the run began with, weights of SHA-256" in changed
    chosen = refused(replace(run, teacher=choose_teacher(copied)), cache, student, resume=True)
    assert f"teacher must be that of the run in {student}, '{run.teacher.digest}', got" in chosen
    file.unlink()
    assert "got no model.safetensors in" in refused(moved, cache, student, resume=True)
    shutil.rmtree(copied)
    gone = refused(moved, cache, student, resume=True)
    assert gone.endswith(f"teacher must be in the folder of a training run, got {copied}")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (None, "teacher must be that of the run in"),
        ({"weight": 0.9}, "teacher_weight must be that of the run in"),
        ({"temperature": 1.0}, "temperature must be that of the run in"),
    ],
    ids=str,
)
def test_resumption_needs_the_same_share_of_the_teacher(
    changes: dict[str, float] | None, rule: str, run: Setup, student: Path, cache: Path
) -> None:
    assert run.teacher is not None
    teacher = None if changes is None else replace(run.teacher, **changes)
    assert rule in refused(replace(run, teacher=teacher), cache, student, resume=True)


def test_study_without_scores_takes_no_teacher(run: Setup) -> None:
    message = error_of(lambda: setup("images", teacher=run.teacher))
    rule = "study must be one of language, translation for a teacher, got 'images'"
    assert message == f"ValueError: {rule}"


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"weight": 0.0}, r"teacher_weight must be in \(0, 1\], got 0.0"),
        ({"weight": 1.5}, r"teacher_weight must be in \(0, 1\], got 1.5"),
        ({"temperature": -1.0}, "temperature must be finite and greater than 0, got -1.0"),
    ],
    ids=str,
)
def test_numbers_that_break_their_rule_are_refused(settings: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Teacher("folder", "digest", **settings)


# --- the command -------------------------------------------------------------------------------


def test_options_of_a_resumed_run_need_not_be_repeated(student: Path, copied: Path) -> None:
    def chosen(lesson: Lesson) -> Teacher | None:
        named: dict[str, Any] = {"data": None, "mixer": None, "mixer_options": (), "preset": None}
        return choose_run("translation", resumed=student, lesson=lesson, **named).teacher

    known = load_setup(student)[0].teacher
    assert known is not None
    assert chosen(Lesson()) == known
    assert chosen(Lesson(copied)) == replace(known, path=str(copied))
    assert chosen(Lesson(weight=0.7)) == replace(known, weight=0.7)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--teacher", "nowhere"), "teacher must be in the folder of a training run, got"),
        (("--temperature", 2), "teacher must be named (--teacher) for its temperature of 2.0"),
        (("--teacher-weight", 2), "teacher must be named (--teacher) for its weight of 2.0"),
    ],
)
def test_teacher_that_is_none_is_one_line(
    call: Call, options: tuple[object, ...], rule: str, corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    status, out, err = call("train", "translation", "--data", corpus, "--output", output, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert rule in err
    assert not output.exists()


def test_help_tells_what_a_teacher_is(call: Call) -> None:
    _, out, _ = call("train", "translation", "--help")
    assert all(f"--{name}" in out for name in ("teacher", "teacher-weight", "temperature"))
    assert "distillation" in out


def test_command_plans_a_student(call: Call, run: Setup, translator: Path, corpus: Path) -> None:
    options = ("--preset", "mini", "--data", corpus, "--mixer", "dft_encoder")
    status, out, err = call("train", "translation", *options, "--teacher", translator, "--plan")
    assert status == 0, err
    assert "parameters" in out
