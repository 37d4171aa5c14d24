"""transformers' Trainer with checkpoints of ours, a watch for divergence, and exact resumption.

The loop, the launch by ``torchrun`` or ``accelerate``, distribution (DDP, FSDP), accumulation,
clipping and mixed precision are those of transformers and accelerate. Replaced are the files of a
checkpoint (no pickle is written or read, and each tensor is whole), the optimiser and its rates
(those of a :class:`~fourierkernels.studies.engine.recipe.Recipe`) and the validation (that of an
:class:`~fourierkernels.studies.engine.study.Objective`).
"""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.foundation.extras import needed_for

with needed_for("training", extra="train"):
    import accelerate  # noqa: F401 - the Trainer's own message names another extra
    import torch
    from torch import Tensor, nn
    from torch.utils.data import Dataset
    from transformers import Trainer, set_seed
    from transformers.trainer_callback import PrinterCallback

from fourierkernels.models.saved import save_model
from fourierkernels.models.tensor_files import load_exactly, write_tensors
from fourierkernels.studies.engine.callbacks import (
    ProgressLines,
    RunControl,
    Signals,
    trainer_arguments,
)
from fourierkernels.studies.engine.checkpoints import (
    CURVE,
    MODEL,
    OPTIMISER,
    RANDOM,
    Keeper,
    last_good,
    read_checkpoint,
    write_checkpoint,
    write_curve,
)
from fourierkernels.studies.engine.epochs import Batch, one_batch
from fourierkernels.studies.engine.optimisers import (
    DivergenceError,
    create_optimiser,
    create_schedule,
    is_healthy,
    is_overflow,
)
from fourierkernels.studies.engine.prepared import WithLoss
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.state import (
    SCALER,
    State,
    check_sharding,
    gather_for,
    gather_model,
    gather_optimiser,
    own_part,
    pack_optimiser,
    pack_random,
    restore_random,
    shard_model,
    shard_optimiser,
    skeleton,
    unpack_optimiser,
    whole,
)
from fourierkernels.studies.engine.study import Objective


class Engine(Trainer):  # type: ignore[misc]
    """The Trainer of a run.

    Parameters
    ----------
    model : nn.Module
        A model of :data:`fourierkernels.models.MODELS`.
    objective : Objective
        What is minimised.
    data : Dataset
        All sequences of the run in their order, `recipe.batch` for each update.
    recipe : Recipe
        How it is trained.
    output : Path
        Folder of the checkpoints and of the curve.
    limit : int, optional
        Stop after so many steps of the run, with a checkpoint; rates are those of the whole run.
    tensorboard : bool
        Write TensorBoard's files, into `output`.
    workers : int
        Processes that load batches while others are trained on; 0 loads them in between.

    Raises
    ------
    ValueError
        If a batch cannot be divided by the processes and the accumulation, or FSDP is asked for
        where there is none (:func:`~fourierkernels.studies.engine.state.check_sharding`); while
        it trains, if the run diverges
        (:class:`~fourierkernels.studies.engine.optimisers.DivergenceError`).
    OSError
        While it trains, if a checkpoint cannot be written; the last one is kept.
    """

    optimizer: Any
    lr_scheduler: Any
    control: Any

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        data: Dataset[Batch],
        recipe: Recipe,
        output: Path,
        *,
        limit: int | None = None,
        tensorboard: bool = False,
        workers: int = 0,
    ) -> None:
        self.recipe, self.objective, self.output = recipe, objective, output
        self.signals = Signals()
        arguments = trainer_arguments(recipe, output, tensorboard=tensorboard, workers=workers)
        super().__init__(
            WithLoss(model, objective),
            arguments,
            data_collator=one_batch,
            train_dataset=data,
            eval_dataset=[],  # validation is the objective's; the Trainer only asks for it
            callbacks=[RunControl(recipe, limit, self.signals), ProgressLines(recipe.steps)],
        )
        if recipe.precision == "float16" and self.args.device.type == "cpu":
            # accelerate would train in float32 there, without a word.
            self.accelerator.native_amp = True
            self.accelerator.scaler = torch.amp.GradScaler("cpu")
        self._bare = skeleton(model) if check_sharding(self.accelerator) else None
        self.remove_callback(PrinterCallback)
        self._loss, self._norm = float("nan"), 0.0
        self.keeper = Keeper(
            output,
            deletes=self.is_world_process_zero(),
            regular=recipe.saves,
            last=recipe.average or 0,
        )
        if self.args.process_index:  # else all processes drop the same features
            torch.manual_seed(recipe.seed + self.args.process_index)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Return the optimiser of the recipe."""
        self.optimizer = self.optimizer or create_optimiser(self.model, self.recipe)
        optimiser: torch.optim.Optimizer = self.optimizer
        return optimiser

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Return the rates of the recipe."""
        if self.lr_scheduler is None:
            self.lr_scheduler = create_schedule(optimizer or self.optimizer, self.recipe)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def _prepare_for_training(self, *given: Any, **options: Any) -> Any:
        prepared = super()._prepare_for_training(*given, **options)
        gather_for(self.model, "validate")
        return prepared

    def evaluate(self, *given: Any, **options: Any) -> dict[str, float]:
        """Return the means of what is validated, each process having computed its share.

        Processes that share the parameters go through the same batches together, all of them.
        """
        place = (self.args.process_index, self.args.world_size) if self._bare is None else (0, 1)
        self.model.eval()
        with torch.no_grad():
            sums = self.model.validate(*place)
        share = torch.tensor(sums, dtype=torch.float64, device=self.args.device)
        total, count, *rest = self.accelerator.reduce(share, reduction="sum").tolist()
        self.model.train()
        further = zip(self.objective.further, rest, strict=True)
        metrics = {"eval_loss": total / count} | {f"eval_{name}": s / count for name, s in further}
        self._watch(metrics["eval_loss"], self._norm, self.state.global_step)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def training_step(self, *given: Any, **options: Any) -> Tensor:
        """Return the loss of a batch and remember it for the watch."""
        loss: Tensor = super().training_step(*given, **options)
        self._loss = float(loss) * self.current_gradient_accumulation_steps
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> float:
        norm = float(whole(super()._get_grad_norm(model, grad_norm=grad_norm)))
        if is_overflow(norm, self.accelerator.scaler):
            self._watch(self._loss, self._norm, self.state.global_step + 1)
            return norm
        self._norm = norm
        self._watch(self._loss, norm, self.state.global_step + 1)  # before an update
        self.keeper.prove()
        return norm

    def _watch(self, loss: float, norm: float, step: int) -> None:
        highest = self.recipe.divergence * self.objective.even
        if is_healthy(loss, norm, highest=highest):
            return
        self.keeper.reject(step)
        raise DivergenceError(
            f"training diverged at step {step}: loss {loss:.4g} (at most {highest:.4g} is "
            f"allowed), gradient norm {norm:.4g}; {last_good(self.output)}"
        )

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        step, history = self.state.global_step, self.state.log_history
        if not self._is_finite():
            self._watch(float("nan"), self._norm, step)
        local = {name: tensor.to(self.args.device) for name, tensor in pack_random().items()}
        everyone = {name: self.accelerator.gather(t[None]).cpu() for name, t in local.items()}
        trained = self.model.model
        saved = trained if self._bare is None else gather_model(trained, self._bare)
        state = gather_optimiser(self.optimizer.state_dict())
        if self.is_world_process_zero():
            write_checkpoint(
                self.output,
                step,
                self.args.world_size,
                lambda place: self._fill(place, saved, state, everyone),
            )
            write_curve(self.output, history)
        validated = any(entry["step"] == step and "eval_loss" in entry for entry in history)
        self.keeper.saved(step, self.state.best_global_step, proved=validated)
        self.accelerator.wait_for_everyone()

    def _is_finite(self) -> bool:
        """Return whether all parameters are finite, in all processes."""
        parts = (own_part(parameter) for parameter in self.model.parameters())
        found = torch.tensor([all(bool(part.isfinite().all()) for part in parts)])
        return bool(self.accelerator.gather(found.to(self.args.device)).all())

    def _fill(
        self, folder: Path, model: nn.Module, optimiser: State, random: dict[str, Tensor]
    ) -> None:
        tensors, texts = pack_optimiser(optimiser, self.lr_scheduler.state_dict())
        if self.accelerator.scaler is not None:
            texts[SCALER] = json.dumps(self.accelerator.scaler.state_dict())
        save_model(model, folder / MODEL)
        write_tensors(folder / OPTIMISER, tensors, texts)
        write_tensors(folder / RANDOM, random)
        self.state.save_to_json(str(folder / CURVE))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        tensors, own = (
            read_checkpoint(Path(resume_from_checkpoint)).tensors(MODEL),
            self.model.model,
        )
        load_exactly(own, shard_model(tensors, own))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        saved = read_checkpoint(Path(checkpoint))
        state, schedule = unpack_optimiser(
            saved.tensors(OPTIMISER), saved.texts(OPTIMISER), self.optimizer.state_dict()
        )
        self.optimizer.load_state_dict(shard_optimiser(state, self.optimizer))
        self.lr_scheduler.load_state_dict(schedule)

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is None or self.accelerator.scaler is None:
            return
        saved = read_checkpoint(Path(checkpoint)).texts(OPTIMISER)
        self.accelerator.scaler.load_state_dict(json.loads(saved[SCALER]))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        saved, place = read_checkpoint(Path(checkpoint)), self.args.process_index
        if saved.processes == self.args.world_size:
            everyone = saved.tensors(RANDOM)
            restore_random({name: rows[place] for name, rows in everyone.items()})
            return
        seeds = np.random.SeedSequence([self.recipe.seed, saved.step, place])
        set_seed(int(seeds.generate_state(1)[0]))
        if self.is_world_process_zero():
            warnings.warn(
                f"checkpoint of {saved.processes} processes is resumed by {self.args.world_size}: "
                "the same batches and rates, but dropout draws other numbers",
                stacklevel=2,
            )
