"""When the Trainer validates, saves, logs and stops: its settings for a recipe, and its flags."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import torch
from torch import distributed
from transformers import TrainerCallback, TrainingArguments

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.extras import require
from fourierkernels.foundation.validation import check_integer
from fourierkernels.studies.engine.checkpoints import is_over
from fourierkernels.studies.engine.recipe import Recipe

_ALWAYS: dict[str, Any] = {
    "logging_strategy": "steps",
    "save_strategy": "steps",
    "eval_strategy": "steps",
    "metric_for_best_model": "loss",
    "greater_is_better": False,
    "train_sampling_strategy": "sequential",  # the data are in the order of the run
    "logging_nan_inf_filter": False,  # the watch for divergence looks at every step
    "remove_unused_columns": False,
    "ddp_find_unused_parameters": False,
}


class Signals:
    """Takes note of Ctrl-C (SIGINT) and SIGTERM, by which a run stops at its next whole update.

    A second one acts at once. What the process ignores, it still does.

    Attributes
    ----------
    number : int
        The signal that has come; 0 if none has.
    """

    number: int = 0

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # no other may set them
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        self.number = number
        self.__exit__()

    def come(self, device: torch.device) -> bool:
        """Return whether a signal has come to any of the processes, which all call this."""
        if distributed.is_available() and distributed.is_initialized():
            found = torch.tensor(self.number, device=device)
            distributed.all_reduce(found, distributed.ReduceOp.MAX)
            self.number = int(found)
        return self.number > 0


class RunControl(TrainerCallback):  # type: ignore[misc]
    """Validates at the last step, saves what was validated, logs what is saved, stops in time.

    A checkpoint then never lies between two lines of the curve, and the best model has one.
    """

    def __init__(self, recipe: Recipe, limit: int | None, signals: Signals) -> None:
        self._recipe, self._limit, self._signals = recipe, limit, signals

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Set the intervals that are asked for: a checkpoint brings those of before."""
        state.compute_steps(args, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Set the flags by which the Trainer acts after a step."""
        if state.global_step >= self._recipe.steps:
            control.should_evaluate = True
        limited = self._limit is not None and state.global_step >= self._limit
        if self._signals.come(args.device) or limited:
            control.should_training_stop = control.should_save = True
        control.should_save |= control.should_evaluate
        control.should_log |= control.should_save
        return control

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Stop a run that makes no progress."""
        control.should_training_stop |= is_over(self._recipe, state.global_step, state.log_history)
        return control


class ProgressLines(TrainerCallback):  # type: ignore[misc]
    """Writes a line for each entry of the curve, where there is no terminal for a progress bar."""

    def __init__(self, steps: int) -> None:
        self._steps, self._last = steps, (0, 0.0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Start the clock."""
        self._last = state.global_step, time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
        """Write what is logged to standard error."""
        shown = {name: logs[name] for name in ("loss", "grad_norm", "eval_loss") if name in logs}
        if not shown or not state.is_world_process_zero or sys.stderr.isatty():
            return
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in shown.items())
        sys.stderr.write(
            f"step {state.global_step:,} of {self._steps:,}: {numbers}{self._pace(state)}\n"
        )
        sys.stderr.flush()

    def _pace(self, state: Any) -> str:
        (step, begun), now = self._last, time.perf_counter()
        if state.global_step == step:
            return ""
        self._last = state.global_step, now
        return f", {(now - begun) / (state.global_step - step):.2g} s a step"


def trainer_arguments(recipe: Recipe, output: Path, *, tensorboard: bool, workers: int = 0) -> Any:
    """Return the Trainer's own settings for a recipe, on the processes that there are.

    Raises
    ------
    ValueError
        If a batch cannot be shared by the processes, or they do not train together.
    ImportError
        If TensorBoard is asked for and not installed.
    """
    if tensorboard:
        require("tensorboard", "--tensorboard")
    processes, on_cpu = int(os.environ.get("WORLD_SIZE", "1")), default_device().type == "cpu"
    micro = recipe.accumulation * processes
    if recipe.batch % micro:
        raise ValueError(
            f"batch must be a multiple of accumulation times processes = {micro}, "
            f"got {recipe.batch}"
        )
    arguments = TrainingArguments(
        output_dir=str(output),
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch // micro,
        gradient_accumulation_steps=recipe.accumulation,
        max_grad_norm=recipe.clip or 0.0,
        bf16=recipe.precision == "bfloat16",
        fp16=recipe.precision == "float16",
        tf32=None if on_cpu else recipe.precision == "tf32",
        logging_steps=recipe.log_every,
        save_steps=recipe.save_every,
        eval_steps=recipe.evaluate_every,
        seed=recipe.seed,
        data_seed=recipe.seed,
        report_to=["tensorboard"] if tensorboard else [],
        disable_tqdm=not sys.stderr.isatty(),
        dataloader_pin_memory=not on_cpu,
        **_loading(check_integer("workers", workers, least=0)),
        use_cpu=on_cpu,
        ddp_backend="gloo" if on_cpu and processes > 1 else None,
        **_ALWAYS,
    )
    if arguments.world_size != processes:
        raise ValueError(
            f"processes must train together, {processes} were started, got {arguments.world_size}"
        )
    return arguments


def _loading(workers: int) -> dict[str, Any]:
    """Return the settings of processes that load batches.

    They are forked, whatever a system's habit: what makes a batch need not be pickled, and texts
    that are mapped into memory are not copied.

    Raises
    ------
    ValueError
        If processes cannot be forked here.
    """
    if not workers:
        return {}
    if "fork" not in multiprocessing.get_all_start_methods():
        raise ValueError(f"workers must be 0 on {sys.platform}, which cannot fork, got {workers}")
    named = "dataloader_multiprocessing_context"  # earlier releases have fork as their default
    context = {named: "fork"} if named in TrainingArguments.__dataclass_fields__ else {}
    return {"dataloader_num_workers": workers, **context}
