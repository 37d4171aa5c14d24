"""Gates, importance and pruning, against networks whose weights were changed by hand."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from fourierkernels.attention import FourierAttention
from fourierkernels.checkpoints import attention_calls, gated_heads
from fourierkernels.diagnostics import head_importance, pruning_curve
from fourierkernels.diagnostics.networks.importance import IMPORTANCES
from fourierkernels.mixing import SoftmaxMixer

Tiny = Callable[[str], Path]
KINDS = ["torch", "torch encoder", "fourier", "mixer", "bert", "gpt2", "t5"]
every_kind = pytest.mark.parametrize("kind", KINDS)
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def build(kind: str, tiny: Tiny) -> tuple[nn.Module, list[Any]]:
    """A model of double precision, and three batches of its inputs."""
    torch.manual_seed(0)
    ids = [{"input_ids": torch.randint(1, 14, (2, 6))} for _ in range(3)]
    tokens = [{"x": torch.randn(2, 5, 8, dtype=torch.float64)} for _ in range(3)]
    if kind in {"bert", "gpt2", "t5"}:
        model = transformers.AutoModel.from_pretrained(tiny(kind))
        return (model.get_encoder() if kind == "t5" else model).double().eval(), ids
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    rows = {
        "torch": lambda: nn.MultiheadAttention(8, 2),
        "torch encoder": lambda: nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        "fourier": lambda: FourierAttention(8, 2, radius=0.7),
        "mixer": lambda: SoftmaxMixer(8, heads=2),
    }
    names = {
        "torch": ("query", "key", "value"),
        "torch encoder": ("src",),
        "fourier": ("query",),
        "mixer": ("x",),
    }[kind]
    batches = [dict.fromkeys(names, batch["x"]) for batch in tokens]
    return rows[kind]().double().eval(), batches


def output(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    made = model(**batch)
    return made if isinstance(made, Tensor) else made[0]


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return output(model, batch).tanh().square().sum()


@torch.no_grad()
def value(model: nn.Module, batch: dict[str, Tensor]) -> float:
    return float(loss(model, batch))


def linear_loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    made = output(model, batch)
    weights = torch.arange(made.numel(), dtype=made.dtype).reshape(made.shape).cos()
    return (made * weights).sum()


def without(model: nn.Module, batch: Any, layer: int, head: int) -> nn.Module:
    """A copy of the model with a head's slice of the output projection set to zero."""
    copy = deepcopy(model)
    call = attention_calls(copy, **batch)[layer]
    weight, size = call.projection.weight, call.outputs.shape[-1]
    part = slice(size * head, size * (head + 1))
    with torch.no_grad():
        if isinstance(call.projection, nn.Linear):
            weight[:, part] = 0.0
        else:
            weight[part] = 0.0
    return copy


@every_kind
def test_gates_of_one_change_nothing_and_of_zero_take_the_slice_away(kind: str, tiny: Tiny) -> None:
    model, (batch, *_) = build(kind, tiny)
    calls = attention_calls(model, **batch)
    gates = torch.ones(len(calls), calls[0].maps.shape[1], dtype=torch.float64)
    with torch.no_grad():
        expected = output(model, batch)
        with gated_heads(model, calls, gates):
            torch.testing.assert_close(output(model, batch), expected, **CLOSE)
        gates[-1, 1] = 0.0
        with gated_heads(model, calls, gates):
            gated = output(model, batch)
            torch.testing.assert_close(output(model, batch), gated, rtol=0, atol=0)  # once more
        removed = output(without(model, batch, len(calls) - 1, 1), batch)
        torch.testing.assert_close(gated, removed, **CLOSE)
        assert (gated - expected).abs().max() > 1e-3
        torch.testing.assert_close(output(model, batch), expected, rtol=0, atol=0)


@every_kind
def test_masking_importance_is_the_loss_without_the_slice(kind: str, tiny: Tiny) -> None:
    model, batches = build(kind, tiny)
    found = head_importance(model, batches, loss, method="masking")
    for head in range(2):
        changed = [value(without(model, b, 0, head), b) - value(model, b) for b in batches]
        assert found.values[0, head] == pytest.approx(np.mean(changed), rel=1e-7, abs=1e-9)
    assert found.n_batches == 3
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()


@pytest.mark.parametrize("kind", [*KINDS, "albert"])
def test_gradient_importance_is_the_slope_of_the_loss_in_the_gate(kind: str, tiny: Tiny) -> None:
    if kind == "albert":
        model = transformers.AutoModel.from_pretrained(tiny(kind)).double().eval()
        batches = build("bert", tiny)[1]
    else:
        model, batches = build(kind, tiny)
    batch = batches[0]
    found = head_importance(model, [batch], loss).values
    calls = attention_calls(model, **batch)
    # T5 takes its norms in single precision, which a small step would divide by.
    step, tolerance = (1e-3, 2e-2) if kind == "t5" else (1e-5, 1e-4)
    for layer, head in np.ndindex(found.shape):
        values = []
        for sign in (1, -1):
            gates = torch.ones(found.shape, dtype=torch.float64)
            gates[layer, head] += sign * step
            with torch.no_grad(), gated_heads(model, calls, gates):
                values.append(value(model, batch))
        slope = abs(values[0] - values[1]) / (2 * step)
        assert found[layer, head] == pytest.approx(slope, rel=tolerance, abs=1e-2 * tolerance)


def alone(kind: str, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The first text of a batch; nn.MultiheadAttention has tokens first by default."""
    return {name: x[:, :1] if kind == "torch" else x[:1] for name, x in batch.items()}


@pytest.mark.parametrize("about", ["", "mean_"])
@pytest.mark.parametrize("kind", ["torch", "fourier", "mixer"])
def test_gradient_and_masking_agree_where_the_loss_is_linear_in_the_heads(
    kind: str, about: str, tiny: Tiny
) -> None:
    model, batches = build(kind, tiny)
    gradient, masking = (
        head_importance(model, [alone(kind, batches[0])], linear_loss, method=about + way).values
        for way in ("gradient", "masking")
    )
    np.testing.assert_allclose(gradient, np.abs(masking), rtol=1e-8)


@pytest.mark.parametrize("kind", ["torch", "mixer", "bert"])
def test_mean_masking_leaves_the_mean_of_the_head_in_every_token(kind: str, tiny: Tiny) -> None:
    model, batches = build(kind, tiny)
    batch = alone(kind, batches[0])
    call = attention_calls(model, **batch)[-1]
    found = head_importance(model, [batch], linear_loss, method="mean_masking").values[-1, 1]
    if kind == "bert":  # layers follow: only that something is left of what the slice does
        removed = head_importance(model, [batch], linear_loss, method="masking").values[-1, 1]
        assert found != pytest.approx(removed, rel=1e-3)
        return
    head = call.projected[0, 1]
    change = (head.mean(dim=0) - head).reshape(output(model, batch).shape)
    weights = torch.arange(change.numel(), dtype=change.dtype).reshape(change.shape).cos()
    assert found == pytest.approx(float((change * weights).sum()), rel=1e-9)


def test_means_over_the_tokens_of_several_texts_are_refused(tiny: Tiny) -> None:
    model, batches = build("bert", tiny)
    with pytest.raises(ValueError, match=r"batches must hold one text each .* got 2"):
        head_importance(model, batches, loss, method="mean_masking")


def test_model_is_left_as_it_was(tiny: Tiny) -> None:
    model, batches = build("bert", tiny)
    before = output(model, batches[0])
    head_importance(model, batches, loss)
    torch.testing.assert_close(output(model, batches[0]), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_pruning_curve_runs_from_the_whole_model_to_one_without_heads(tiny: Tiny) -> None:
    model, batches = build("torch encoder", tiny)
    importance = head_importance(model, batches, loss).values
    curve = pruning_curve(model, batches, loss, importance, steps=4)
    np.testing.assert_array_equal(curve.removed, [0, 1, 2, 3, 4])
    whole = np.mean([value(model, batch) for batch in batches])
    assert curve.losses[0] == pytest.approx(whole, rel=1e-12)
    first = without(model, batches[0], *curve.order[0])
    expected = np.mean([value(first, batch) for batch in batches])
    assert curve.losses[1] == pytest.approx(expected, rel=1e-9)
    ranked = importance[curve.order[:, 0], curve.order[:, 1]]
    assert (np.diff(ranked) >= 0).all()
    empty = deepcopy(model)
    with torch.no_grad():
        for layer in empty.layers:
            layer.self_attn.out_proj.weight.zero_()
    expected = np.mean([value(empty, batch) for batch in batches])
    assert curve.losses[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", IMPORTANCES)
def test_head_that_writes_nothing_is_worth_nothing_and_goes_first(method: str, tiny: Tiny) -> None:
    model, batches = build("bert", tiny)
    batches = [alone("bert", batch) for batch in batches]
    model = without(model, batches[0], 1, 2)
    values = head_importance(model, batches[:1], loss, method=method).values
    assert values[1, 2] == 0
    assert (values != 0).sum() == values.size - 1
    curve = pruning_curve(model, batches, loss, np.abs(values), steps=12)
    np.testing.assert_array_equal(curve.order[0], [1, 2])
    assert curve.losses[1] == pytest.approx(curve.losses[0], rel=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, b: head_importance(m, [], loss), ValueError, "at least one batch, got none"),
        (lambda m, b: head_importance(m, b, loss, method="luck"), ValueError, "method must be"),
        (
            lambda m, b: pruning_curve(m, b, loss, np.ones((1, 3))),
            ValueError,
            r"importance must have shape \(1, 2\), got \(1, 3\)",
        ),
        (lambda m, b: pruning_curve(m, iter(b), loss, np.ones((1, 2))), TypeError, "a list"),
        (lambda m, b: pruning_curve(m, [], loss, np.ones((1, 2))), ValueError, "at least one"),
        (
            lambda m, b: head_importance(nn.Linear(2, 2), [0], lambda *_: torch.ones(())),
            ValueError,
            "model must have attention, got none in Linear",
        ),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], message: str, tiny: Tiny) -> None:
    model, batches = build("torch", tiny)
    with pytest.raises(error, match=message):
        call(model, batches)


def test_heads_that_no_linear_layer_reads_cannot_be_masked() -> None:
    mixer = SoftmaxMixer(8, heads=2)
    mixer.output_projection = nn.Identity()
    with pytest.raises(ValueError, match="heads must go into a linear layer to be masked"):
        head_importance(mixer, [{"x": torch.ones(1, 2, 8)}], loss)


@pytest.mark.parametrize("method", ["gradient", "masking"])
def test_gates_are_made_where_the_network_is(method: str, tiny: Tiny) -> None:
    """The default device of torch may be another, as for a network on a GPU."""
    model, batches = build("fourier", tiny)
    expected = head_importance(model, batches, loss, method=method).values
    curve = pruning_curve(model, batches, loss, expected, steps=2)
    with torch.device("meta"):
        found = head_importance(model, batches, loss, method=method).values
        elsewhere = pruning_curve(model, batches, loss, expected, steps=2)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(elsewhere.losses, curve.losses)
