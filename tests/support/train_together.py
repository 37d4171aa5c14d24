"""One of several processes that train together; writes the gradients of the first one.

Started by ``torchrun``; the arguments are the folders of the text, the tokens and the output.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from training_runs import short_run

from fourierkernels.models.tensor_files import write_tensors
from fourierkernels.train.engine import Engine
from fourierkernels.train.objective import Objective
from fourierkernels.train.studies import language


def gradients(texts: Path, cache: Path, output: Path) -> None:
    """Train in float64 for three updates, without dropout; keep each gradient before clipping."""
    torch.set_num_threads(1)
    run = short_run(texts, batch=8, steps=3, precision="float64", seed=3, accumulation=2)
    preset = language.PRESETS["tiny"]
    preset = replace(preset, model={**preset.model, "dropout": 0.0})
    data = language.read(preset, run.data, cache=cache)
    torch.manual_seed(run.recipe.seed)
    model = language.build(preset, data, "fourier", {}).double()
    goal: Objective = language.objective(preset, data, run.recipe)
    batches = language.batches(preset, data, run.recipe)
    found: dict[str, torch.Tensor] = {}

    class Watching(Engine):
        def _clip_grad_norm(self, model: Any) -> Any:
            for name, parameter in self.model.model.named_parameters():
                found[f"{self.state.global_step}.{name}"] = parameter.grad.clone()
            return super()._clip_grad_norm(model)

    engine = Watching(model, goal, batches, run.recipe, output)
    engine.train()
    if engine.is_world_process_zero():
        write_tensors(output / "gradients.safetensors", found)


if __name__ == "__main__":
    gradients(*map(Path, sys.argv[1:4]))
