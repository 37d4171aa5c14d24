"""Which number is trained for a radius: its logarithm, or itself as in the published code."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fourierkernels.attention import FourierAttention
from fourierkernels.attention.kernel import RADIUS_PARAMETERS, RADIUS_SHAPES
from fourierkernels.mixing import create_mixer
from fourierkernels.models import LanguageModel, language_config, load_model, save_model
from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.engine.recipe import Recipe

X = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(1, 5, 6).sin()


def layer(how: str, **options: Any) -> FourierAttention:
    torch.manual_seed(0)
    return FourierAttention(6, 2, dtype=torch.float64, radius_parameter=how, **options)


def number(module: nn.Module, how: str) -> Tensor:
    found: Tensor = getattr(module, RADIUS_PARAMETERS[how].name)
    return found


@pytest.mark.parametrize("shape", RADIUS_SHAPES)
def test_both_begin_as_the_same_function(shape: str) -> None:
    one, other = (layer(how, radius=1.7, radius_shape=shape) for how in RADIUS_PARAMETERS)
    torch.testing.assert_close(one(X), other(X))
    assert {*one.state_dict()} ^ {*other.state_dict()} == {"log_radius", "signed_radius"}


def test_gradients_are_those_of_one_number_by_the_chain_rule() -> None:
    gradients = {}
    for how in RADIUS_PARAMETERS:
        module = layer(how, radius=1.7)
        module(X).square().sum().backward()
        gradients[how] = number(module, how).grad
    torch.testing.assert_close(gradients["log"], 1.7 * gradients["direct"])


@pytest.mark.parametrize(("radius", "rate"), [(0.1, 1e-3), (4.0, 1e-3)])
def test_steps_of_the_logarithm_are_r_times_as_large(radius: float, rate: float) -> None:
    """Adam's first step is the rate, whatever the gradient."""
    steps = {}
    for how in RADIUS_PARAMETERS:
        module = layer(how, radius=radius)
        optimiser = torch.optim.Adam([number(module, how)], lr=rate, eps=1e-30)
        module(X).square().sum().backward()
        optimiser.step()
        steps[how] = abs(module.radius.item() - radius)
    assert steps["direct"] == pytest.approx(rate, rel=1e-6)
    assert steps["log"] / steps["direct"] == pytest.approx(radius, rel=1e-2)


def test_radius_that_crosses_zero_counts_without_its_sign_as_in_the_published_code() -> None:
    module = layer("direct", radius=1.7)
    before = module(X)
    with torch.no_grad():
        module.signed_radius.neg_()
    torch.testing.assert_close(module(X), before, rtol=0, atol=0)
    assert module.radius.item() == 1.7
    with torch.no_grad():
        module.signed_radius.zero_()
    with pytest.raises(ValueError, match=r"radius must be positive and finite, got 0\.0"):
        module(X)


def test_unknown_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="radius_parameter must be one of log, direct, got 'root'"):
        layer("root")


def test_reset_and_copies_keep_the_number_that_is_trained() -> None:
    module = layer("direct", radius=0.3)
    with torch.no_grad():
        module.signed_radius.fill_(-2.0)
    again = copy.deepcopy(module)
    assert again.radius.item() == 2.0
    again.reset_parameters()
    assert again.signed_radius.item() == pytest.approx(0.3)
    fixed = layer("direct", learn_radius=False)
    assert "signed_radius" not in dict(fixed.named_parameters())


@pytest.mark.parametrize("mixer", ["fourier", "linear_fourier"])
def test_models_are_saved_and_loaded_with_it(mixer: str, tmp_path: Path) -> None:
    options = {"radius": 0.3, "radius_parameter": "direct", "radius_shape": "head"}
    sizes = {"vocabulary": 9, "cutoffs": (), "dim": 8, "layers": 1, "hidden": 8, "heads": 2}
    model = LanguageModel(language_config("small", **sizes, mixer=mixer, mixer_options=options))
    with torch.no_grad():
        model.blocks[0].mixer.signed_radius.mul_(-2)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    torch.testing.assert_close(again.blocks[0].mixer.radius, torch.full((2, 1), 0.6))
    words = torch.arange(8)[None]
    assert torch.equal(again.states(words), model.eval().states(words))


@pytest.mark.parametrize("how", RADIUS_PARAMETERS)
@pytest.mark.parametrize("shape", RADIUS_SHAPES)
def test_no_radius_decays(how: str, shape: str) -> None:
    """One per head has two dimensions, as a weight has, and did."""
    mixer = create_mixer("fourier", dim=8, heads=2, radius_parameter=how, radius_shape=shape)
    recipe = Recipe(steps=1, batch=1, learning_rate=0.1, weight_decay=0.5)
    for group in create_optimiser(mixer, recipe).param_groups:
        inside = any(parameter is number(mixer, how) for parameter in group["params"])
        assert inside == (group["weight_decay"] == 0.0)
