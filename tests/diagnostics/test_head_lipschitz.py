"""Local Lipschitz estimates against the singular values of whole Jacobians."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

from fourierkernels.diagnostics import layer_lipschitz, local_lipschitz
from fourierkernels.mixing import FourierMixer, SoftmaxMixer

Tiny = Callable[[str], Path]


def spectral_norm(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    jacobian = torch.autograd.functional.jacobian(function, x)
    return float(torch.linalg.matrix_norm(jacobian.reshape(-1, x.numel()), ord=2))


def test_linear_map_has_its_spectral_norm_everywhere() -> None:
    torch.manual_seed(0)
    matrix, x = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    found = local_lipschitz(lambda v: matrix @ v, x, iterations=200)
    assert found == pytest.approx(float(torch.linalg.matrix_norm(matrix, ord=2)), rel=1e-9)


def test_estimate_approaches_the_jacobian_from_below() -> None:
    torch.manual_seed(1)
    mixer = SoftmaxMixer(6, heads=2).double().eval()
    x = torch.randn(1, 4, 6, dtype=torch.float64)
    exact = spectral_norm(mixer, x)
    found = [local_lipschitz(mixer, x, iterations=count) for count in (1, 5, 60)]
    assert found == sorted(found)
    assert found[0] < exact * (1 + 1e-12)
    assert found[-1] == pytest.approx(exact, rel=1e-4)
    assert found[-1] <= exact * (1 + 1e-12)


def test_constant_function_has_zero() -> None:
    assert local_lipschitz(lambda x: 0.0 * x, torch.ones(3)) == 0.0


def test_layers_of_a_model_are_measured_at_their_inputs() -> None:
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()
    x = torch.randn(1, 4, 8, dtype=torch.float64)
    found = layer_lipschitz(model, x, iterations=80)
    assert [one.layer for one in found] == ["layers.0.self_attn", "layers.1.self_attn"]
    with torch.no_grad():
        inputs = [x, model.layers[0](x)]
    for one, y, part in zip(found, inputs, model.layers, strict=True):
        exact = spectral_norm(lambda v, part=part: part.self_attn(v, v, v)[0], y)
        assert one.value == pytest.approx(exact, rel=1e-3)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("listened", [True, False])
def test_fourier_attention_is_measured_compiled_or_listened_to(listened: bool) -> None:
    torch.manual_seed(3)
    mixer = FourierMixer(6, heads=2).double().eval()
    x = torch.randn(1, 4, 6, dtype=torch.float64)
    found = local_lipschitz(mixer, x, iterations=80)
    if listened:
        found = layer_lipschitz(mixer, x, iterations=80)[0].value
    assert found == pytest.approx(spectral_norm(mixer, x), rel=1e-3)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "albert"])
def test_models_of_hugging_face_have_an_estimate_a_layer(kind: str, tiny: Tiny) -> None:
    model = transformers.AutoModel.from_pretrained(tiny(kind)).eval()
    found = layer_lipschitz(model, input_ids=torch.tensor([[1, 2, 3, 4]]), iterations=5)
    assert len(found) == 3
    assert all(one.value > 0 for one in found)


def test_model_without_attention_is_refused() -> None:
    with pytest.raises(ValueError, match="model must have attention"):
        layer_lipschitz(nn.Linear(2, 2), torch.ones(1, 2))


def test_derivatives_that_are_no_numbers_are_refused_and_infinite_ones_are_infinite() -> None:
    seen = torch.ones(4, 4, dtype=torch.bool).tril(-1)  # the first row sees no key

    def attend(x: torch.Tensor) -> torch.Tensor:
        return (x @ x.mT).masked_fill(~seen, -torch.inf).softmax(-1) @ x

    with pytest.raises(ValueError, match="derivatives that are numbers, got nan"):
        local_lipschitz(attend, torch.randn(4, 3))
    assert local_lipschitz(torch.sqrt, torch.zeros(3)) == float("inf")
