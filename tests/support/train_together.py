"""One of several processes that train together, each with whole parameters or with its share.

Started by ``torchrun``: FUNCTION and its arguments, the folders of the text, the tokens and the
output first; or by :func:`one_of`.
"""

import os
import signal
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from tiny_control import GLIDER
from torch import nn
from training_runs import short_run, start
from translation_runs import mini, mini_run

from fourierkernels.models.tensor_files import write_tensors
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.engine import run as runs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup, read_data
from fourierkernels.studies.engine.state import whole
from fourierkernels.studies.engine.study import Objective
from fourierkernels.studies.engine.teacher import choose_teacher
from fourierkernels.studies.engine.trainer import Engine
from fourierkernels.studies.language import study as language
from fourierkernels.studies.translation import study as translation

FEW: dict[str, Any] = {"batch": 8, "precision": "float64", "seed": 3, "accumulation": 2}


class Watching(Engine):
    """Keeps each gradient before clipping."""

    def _clip_grad_norm(self, model: Any) -> Any:
        self.gradients = getattr(self, "gradients", {})
        trained = ((k, p) for k, p in self.model.model.named_parameters() if p.requires_grad)
        for name, parameter in trained:
            self.gradients[f"{self.state.global_step}.{name}"] = whole(parameter.grad).clone()
        return super()._clip_grad_norm(model)


class Sharded(Watching):
    """Shares its parameters as on accelerators: accelerate itself leaves FSDP out on CPUs.

    Its state is made what ``accelerate launch --use_fsdp`` makes of it where there are any; the
    rest, from sharding to clipping, is accelerate's and torch's.
    """

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        state = self.accelerator.state
        state.distributed_type = DistributedType.FSDP
        state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=["Block"],
            cpu_ram_efficient_loading=True,  # as accelerate launch has it
        )
        self.is_fsdp_enabled = True


def without_dropout() -> Any:
    preset = language.PRESETS["tiny"]
    return replace(preset, model={**preset.model, "dropout": 0.0})


def gradients(texts: Path, cache: Path, output: Path, engine: type[Watching] = Watching) -> None:
    """Train in float64 for three updates, without dropout, and write all gradients."""
    torch.set_num_threads(1)
    run = short_run(texts, steps=3, **FEW)
    preset = without_dropout()
    data = language.STUDY.read(preset, run.data, cache=cache)
    torch.manual_seed(run.recipe.seed)
    model = language.STUDY.build(preset, data, ChosenMixer("fourier")).double()
    goal: Objective = language.STUDY.objective(preset, data, run.recipe)
    batches = language.STUDY.batches(preset, data, run.recipe)
    trainer = engine(model, goal, batches, run.recipe, output)
    trainer.train()
    if trainer.is_world_process_zero():
        write_tensors(output / "gradients.safetensors", trainer.gradients)


def distilled_gradients(corpus: Path, cache: Path, output: Path, teacher: str) -> None:
    """Train a student in float64 for three updates, without dropout, and write all gradients."""
    torch.set_num_threads(1)
    preset = mini()
    translation.PRESETS["mini"] = replace(preset, model={**preset.model, "dropout": 0.0})
    few = {"steps": 3, "batch": 4, "precision": "float64", "accumulation": 2}
    run = mini_run(corpus, "dft_encoder", teacher=choose_teacher(teacher), **few)
    seen: list[Watching] = []

    class Seen(Watching):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            seen.append(self)

    runs.Engine = Seen  # type: ignore[misc]
    runs.train(run, output, cache=cache)
    if seen[0].is_world_process_zero():
        write_tensors(output / "gradients.safetensors", seen[0].gradients)


def gradients_both_ways(texts: Path, cache: Path, output: Path) -> None:
    """Train with whole parameters, then with shared ones."""
    gradients(texts, cache, output / "whole")
    gradients(texts, cache, output / "sharded", Sharded)


def sharded(
    texts: Path, cache: Path, output: Path, dropout: str, resume: str = "", die_after: str = ""
) -> None:
    """Train a run of twelve updates with shared parameters; the first process may kill itself."""

    class Dying(Sharded):
        def training_step(self, *given: Any, **options: Any) -> torch.Tensor:
            if str(self.state.global_step) == die_after and not self.args.process_index:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().training_step(*given, **options)

    torch.set_num_threads(1)
    runs.Engine = Dying  # type: ignore[misc]
    if not float(dropout):
        language.PRESETS["tiny"] = without_dropout()
    runs.train(short_run(texts, **FEW), output, cache=cache, resume=bool(resume))


def interrupted(texts: Path, cache: Path, output: Path) -> None:
    """Train until a signal comes to one of the processes alone; all end with its status."""

    class Hearing(Engine):
        def training_step(self, *given: Any, **options: Any) -> torch.Tensor:
            if self.state.global_step == 2 and self.args.process_index:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().training_step(*given, **options)

    torch.set_num_threads(1)
    runs.Engine = Hearing  # type: ignore[misc]
    try:
        runs.train(short_run(texts), output, cache=cache)
    except SystemExit as ended:
        if ended.code == 128 + signal.SIGTERM:
            return
    raise RuntimeError("the run must end by the signal")


@dataclass(frozen=True)
class Shared:
    """A model of a run that several processes train; each reads the data of the run."""

    name: str
    run: Setup
    preset: Any
    mixer: ChosenMixer
    recipe: Recipe


def train_each(models: list[Shared], cache: Path, output: Path) -> None:
    """Train models in float64 for two updates, without dropout, and write all gradients."""
    torch.set_num_threads(1)
    ENVIRONMENTS["glider"] = GLIDER
    for each in models:
        study, recipe = each.run.study, each.recipe
        data = read_data(each.run, cache=cache)
        torch.manual_seed(1)
        model = study.build(each.preset, data, each.mixer).double()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
        goal = study.objective(each.preset, data, recipe)
        batches = study.batches(each.preset, data, recipe)
        trainer = Watching(model, goal, batches, recipe, output / each.name)
        trainer.train()
        if trainer.is_world_process_zero():
            write_tensors(output / each.name / "gradients.safetensors", trainer.gradients)


def one_of(rank: int, processes: int, port: int, function: str, *arguments: Any) -> None:
    """Call a function as one of several processes that ``torchrun`` starts on a machine."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes}
    place |= {"LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    globals()[function](*arguments)


def together(function: str, *arguments: object) -> None:
    """Do what `torchrun` does, in two processes that need not load torch anew."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    two = [start(one_of, rank, 2, port, function, *arguments) for rank in range(2)]
    for process in two:
        process.join()
    assert [process.exitcode for process in two] == [0, 0]


if __name__ == "__main__":
    function, texts, cache, output, *rest = sys.argv[1:]
    globals()[function](Path(texts), Path(cache), Path(output), *rest)
