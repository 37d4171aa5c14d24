"""The control study of the FourierFormer paper, [nguyen2022fourierformer]_ section 4.4.

A decision transformer learns recorded episodes, [chen2021decision]_: what was done in a state,
given the return that followed. It is validated by the error of its actions, and measured by the
returns of the episodes that it plays. :mod:`fourierkernels.studies.control.presets` has its
sizes, with the source of each detail.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fourierkernels.foundation.run_folder import EPISODES
from fourierkernels.models import DecisionTransformer
from fourierkernels.models.decision import DecisionConfig
from fourierkernels.studies.control.control_data import ControlData, read_control
from fourierkernels.studies.control.episodes import Episodes
from fourierkernels.studies.control.presets import PRESETS, ControlPreset
from fourierkernels.studies.control.rollouts import play
from fourierkernels.studies.control.sets import CONTROL_SETS
from fourierkernels.studies.control.windows import control_updates, one_pass
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Recipe, check_shuffled
from fourierkernels.studies.engine.study import Measured, Objective, Study, Terms

ERROR, BASELINE = "squared error of actions", "squared error of the mean action"
SHARE = "squared error (% of the mean action's)"
_BATCH = 64  # of a measurement; its results do not depend on it


class ControlStudy(Study[ControlPreset, ControlData, DecisionTransformer]):
    """Decision transformers, measured by the returns of the episodes that they play."""

    presets = PRESETS
    causal = True
    uncounted = "episodes"
    terms = Terms(
        "actions",
        "dimensions",
        "training episodes",
        "transitions",
        "a file or folder of episodes",
    )
    packages = ("gymnasium", "mujoco", "h5py")
    experiment = "control_small"
    description, normalises = EPISODES, True

    def data_sets(self) -> Mapping[str, DataSet[Episodes]]:
        """Return the layouts of recorded episodes."""
        return CONTROL_SETS

    def read(
        self, preset: ControlPreset, data: str | Path | None, *, cache: Path | None = None
    ) -> ControlData:
        """Return the episodes of a run, which are kept in memory.

        The package of the environment is asked for before a training, too.
        """
        episodes = read_control(self.named(preset, data), cache=cache)
        if preset.episodes:
            episodes.environment.make().close()
        return episodes

    def build(
        self, preset: ControlPreset, data: ControlData, mixer: ChosenMixer
    ) -> DecisionTransformer:
        """Return a model with random weights for the states and actions of an environment.

        Its predictions of states and returns are not trained, as with the authors. Mixers that
        cannot leave padding out get zeros in its place.
        """
        config = DecisionConfig(
            **preset.model,
            states=data.environment.states,
            actions=data.environment.actions,
            episode=data.limit,
            mixer=mixer.name,
            mixer_options=mixer.over(preset).padded().options,
        )
        model = DecisionTransformer(config)
        for unused in (model.predict_state, model.predict_return):
            unused.requires_grad_(False)
        return model

    def batches(self, preset: ControlPreset, data: ControlData, recipe: Recipe) -> Epochs:
        """Return windows of the training episodes, in the order of the run."""
        check_shuffled(recipe, "episodes")
        return control_updates(
            data,
            context=preset.model["context"],
            steps=recipe.steps,
            batch=recipe.batch,
            seed=recipe.seed,
        )

    def objective(self, preset: ControlPreset, data: ControlData, recipe: Recipe) -> Objective:
        """Return the mean squared error of the actions of all steps that are no padding.

        Its even guess is the mean action.

        Raises
        ------
        ValueError
            If the recipe smooths labels, which actions have none of.
        """
        if recipe.label_smoothing:
            raise ValueError(
                f"label_smoothing must be 0 for actions, got {recipe.label_smoothing} in the recipe"
            )

        def loss(model: DecisionTransformer, batch: Batch) -> Tensor:
            predicted, wanted = predicted_actions(model, batch)
            mean, counted = functional.mse_loss(predicted, wanted), batch["counted"].to(wanted)
            return mean * (len(predicted) / counted[0])

        def validate(model: DecisionTransformer, process: int, processes: int) -> tuple[float, ...]:
            return _sums(model, data, "valid", part=(process, processes))

        return Objective(loss, validate, data.error_of_mean("train"))

    def measure(
        self,
        preset: ControlPreset,
        data: ControlData,
        mixer: str,
        model: DecisionTransformer,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return the errors of a trained model's actions, and the returns of episodes it plays.

        Parameters
        ----------
        positions : int, optional
            Episodes that are played for each target, with the test; those of the preset by default.
        """
        rows = []
        for name in splits:
            with torch.inference_mode():
                total, steps = _sums(model.eval(), data, name)
            error, baseline = total / steps, data.error_of_mean(name)
            errors = {ERROR: error, BASELINE: baseline, SHARE: 100 * error / baseline}
            rows += [Measured(name, metric, value, int(steps)) for metric, value in errors.items()]
        episodes = preset.episodes if positions is None else positions
        if "test" in splits and episodes:
            paper = preset.published.get(mixer, {}).get(data.corpus) if positions is None else None
            rows += _played(model, data, episodes, paper)
        return rows

    def facts(self, preset: ControlPreset, data: ControlData) -> Mapping[str, Any]:
        """Return what the numbers of a run also depend on."""
        returns = data.episodes.returns
        return {
            "environment": data.episodes.environment,
            "generated": data.episodes.generated,
            "episodes": {name: len(split) for name, split in data.splits.items()},
            "steps_left_out": data.episodes.unfinished,
            "mean_return": round(float(returns.mean()), 2),
            "largest_return": round(float(returns.max()), 2),
            "targets": list(data.targets),
            "scale": data.scale,
        }

    def reading(self, data: ControlData) -> Mapping[str, Any]:
        """Return what normalises states and returns."""
        return {
            "environment": data.episodes.environment,
            "mean": data.mean.tolist(),
            "deviation": data.deviation.tolist(),
            "scale": data.scale,
            "limit": data.limit,
        }


STUDY = ControlStudy()


def predicted_actions(model: DecisionTransformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return predicted and recorded actions of the steps that are no padding, ``(n, actions)``."""
    weight = model.predict_action.weight
    returns, states, actions = (batch[name].to(weight) for name in ("returns", "states", "actions"))
    steps, padding = (batch[name].to(weight.device) for name in ("steps", "padding"))
    filled = padding if padding.any() else None
    predicted = model(returns, states, actions, steps, padding=filled).actions
    return predicted[~padding], actions[~padding]


def _sums(
    model: DecisionTransformer, data: ControlData, split: str, *, part: tuple[int, int] = (0, 1)
) -> tuple[float, float]:
    """Return the sum over steps of the mean squared error of an action, and how many there are.

    Parameters
    ----------
    part : tuple of int
        Number of this process and of all processes, each of which has its share of the windows.
    """
    total, steps = 0.0, 0
    for batch in one_pass(data, split, context=model.config.context, batch=_BATCH, part=part):
        predicted, wanted = predicted_actions(model, batch)
        total += float((predicted.double() - wanted.double()).square().mean(dim=-1).sum())
        steps += len(wanted)
    return total, steps


def _played(
    model: DecisionTransformer, data: ControlData, episodes: int, paper: float | None
) -> list[Measured]:
    rows = []
    for place, target in enumerate(data.targets):
        mean = float(play(model, data, target=target, episodes=episodes).returns.mean())
        score = data.environment.normalised(mean)
        published = paper if place == 0 else None
        rows += [
            Measured("test", f"return, {target:g} asked for", mean, episodes),
            Measured("test", f"score, {target:g} asked for", score, episodes, published),
        ]
    return rows
