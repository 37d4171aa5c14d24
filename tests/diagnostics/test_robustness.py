"""Answers to changed inputs, and Lipschitz estimates of networks against whole Jacobians."""

import pytest
import torch
from torch import nn

from fourierkernels.checkpoints import attention_calls
from fourierkernels.diagnostics import network_lipschitz, respond, steepest
from fourierkernels.models import LanguageModel, VisionTransformer, language_config, vision_config

KERNELS = ("softmax", "gaussian", "fourier")
TOKENS = torch.tensor([[3, 1, 4, 1, 5]])


def language(mixer: str = "softmax") -> LanguageModel:
    torch.manual_seed(0)
    sizes = {"vocabulary": 11, "dim": 6, "layers": 2, "heads": 2, "hidden": 8, "cutoffs": ()}
    return LanguageModel(language_config("small", mixer=mixer, **sizes)).double().eval()


def vision(mixer: str) -> VisionTransformer:
    torch.manual_seed(0)
    sizes = {"image": 4, "patch": 2, "dim": 6, "layers": 2, "heads": 2, "hidden": 8, "classes": 3}
    config = vision_config("deit_tiny", channels=1, std=0.5, mixer=mixer, **sizes)
    return VisionTransformer(config).double().eval()


@pytest.mark.parametrize("mixer", KERNELS)
def test_estimate_from_pixels_is_the_largest_singular_value_from_below(mixer: str) -> None:
    model = vision(mixer)
    x = torch.randn(1, 1, 4, 4, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(model, x).reshape(3, 16)
    exact = float(torch.linalg.matrix_norm(jacobian, ord=2))
    found = network_lipschitz(model, x, iterations=30)
    assert found == pytest.approx(exact, rel=1e-4)
    assert found <= exact * (1 + 1e-12)


@pytest.mark.parametrize("mixer", KERNELS)
def test_estimate_from_embeddings_is_the_largest_singular_value_from_below(mixer: str) -> None:
    model = language(mixer)
    with torch.no_grad():
        x = model.embedding(TOKENS)
    seen = []

    def from_embeddings(moved: torch.Tensor) -> torch.Tensor:
        hook = model.embedding.register_forward_hook(lambda *_: moved)
        found = model.log_probabilities(TOKENS)
        hook.remove()
        seen.append(found)
        return found

    jacobian = torch.autograd.functional.jacobian(from_embeddings, x).reshape(5 * 11, 5 * 6)
    exact = float(torch.linalg.matrix_norm(jacobian, ord=2))
    found = network_lipschitz(model.log_probabilities, TOKENS, at=model.embedding, iterations=40)
    assert found == pytest.approx(exact, rel=1e-3)
    assert found <= exact * (1 + 1e-12)
    assert not model.embedding._forward_hooks


def test_response_is_the_output_and_the_maps_of_a_call() -> None:
    model = language()
    found = respond(model, TOKENS, run=model.log_probabilities)
    calls = attention_calls(model, TOKENS, TOKENS)
    assert found.maps.shape == (2, 2, 5, 5)
    assert torch.equal(torch.from_numpy(found.maps[1]), calls[1].maps[0])
    assert torch.equal(torch.from_numpy(found.output), model.log_probabilities(TOKENS)[0])


def test_changed_embeddings_change_the_response_and_leave_the_network_alone() -> None:
    model = language()
    whole = respond(model, TOKENS, run=model.log_probabilities)
    options = {"run": model.log_probabilities, "at": model.embedding}
    same = respond(model, TOKENS, change=lambda x: x, **options)
    moved = respond(model, TOKENS, change=lambda x: x + 0.5 * x.flip(-1), **options)
    again = respond(model, TOKENS, run=model.log_probabilities)
    assert (same.output == whole.output).all()
    assert abs(moved.output - whole.output).max() > 1e-3
    assert (again.output == whole.output).all()
    assert (again.maps == whole.maps).all()


def test_step_along_the_gradient_raises_the_loss_more_than_any_of_many_others() -> None:
    model = vision("fourier")
    x = torch.randn(1, 1, 4, 4, dtype=torch.float64)

    def loss(images: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(images), torch.tensor([1]))

    worst = steepest(loss, x, 0.01)
    assert float((worst - x).norm() / x.norm()) == pytest.approx(0.01)
    draws = torch.randn(200, *x.shape, dtype=torch.float64)
    others = [x + 0.01 * x.norm() * draw / draw.norm() for draw in draws]
    with torch.no_grad():
        assert loss(worst) > max(loss(other) for other in others)


def test_step_stays_where_the_loss_is_flat() -> None:
    x = torch.ones(1, 2)
    assert torch.equal(steepest(lambda x: 0 * x.sum(), x, 0.5), x)


def test_wrong_arguments_are_refused() -> None:
    model = language()
    with pytest.raises(ValueError, match=r"at must be given for inputs of torch.int64, got None"):
        network_lipschitz(model.log_probabilities, TOKENS)
    with pytest.raises(ValueError, match="at must be called once by the network, got 0 calls"):
        network_lipschitz(model.log_probabilities, TOKENS, at=nn.Linear(1, 1))
    with pytest.raises(ValueError, match="inputs must be a batch of one, got 2"):
        respond(model, TOKENS.repeat(2, 1))
    with pytest.raises(ValueError, match="at and change must be given together"):
        respond(model, TOKENS, at=model.embedding)
    with pytest.raises(ValueError, match="model must have attention, got none in Linear"):
        respond(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="size must be at least 0, got -1"):
        steepest(torch.sum, torch.ones(1, 2), -1.0)
