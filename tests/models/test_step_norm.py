"""Batch normalisation and the classifier of series know nothing of padding."""

import copy
from typing import Any

import pytest
import torch
from tiny_models import numbers
from tolerances import TOLERANCE
from torch import Tensor, nn

from fourierkernels import models
from fourierkernels.models.residual import StepNorm

LENGTHS = (7, 4, 1)
SIZES: dict[str, Any] = {"dim": 8, "hidden": 12, "layers": 2, "heads": 2, "channels": 3}
OPTIONS = {
    "zerveas": {"preset": "zerveas"},
    "flowformer": {"preset": "flowformer"},
    "small": {"preset": "small"},
    "batch norm before": {"preset": "small", "norm_kind": "batch", "final_activation": True},
}


def classifier(preset: str, **changes: Any) -> models.SeriesClassifier:
    torch.manual_seed(0)
    config = models.series_config(preset, **SIZES, classes=4, length=9, dropout=0.0, **changes)
    return models.SeriesClassifier(config).double()


def close(found: Tensor, expected: Tensor) -> None:
    bound = 10 * TOLERANCE["float64"]["fast"]  # several layers
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound)


def padding_of(lengths: tuple[int, ...], longest: int) -> Tensor:
    return torch.arange(longest) >= torch.tensor(lengths)[:, None]


def test_without_padding_it_is_that_of_torch() -> None:
    ours, theirs = StepNorm(5, eps=1e-5).double(), nn.BatchNorm1d(5).double()
    nn.init.normal_(ours.weight)
    theirs.weight.data.copy_(ours.weight.data)
    for seed in range(3):
        x = 2 + numbers(4, 6, 5, seed=seed, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    x = numbers(1, 2, 5, dtype=torch.float64)
    expected = theirs.eval()(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(ours.eval()(x), expected)


@pytest.mark.parametrize("longest", [7, 9])
@pytest.mark.parametrize("garbage", [0.0, 1e6])
def test_statistics_are_those_of_the_valid_steps_alone(longest: int, garbage: float) -> None:
    norm, alone = StepNorm(5, eps=1e-5).double(), StepNorm(5, eps=1e-5).double()
    steps = [numbers(n, 5, seed=n, dtype=torch.float64) for n in LENGTHS]
    x = torch.full((3, longest, 5), garbage, dtype=torch.float64)
    for row, own in zip(x, steps, strict=True):
        row[: len(own)] = own
    padding = padding_of(LENGTHS, longest)
    normed, expected = norm(x, padding), alone(torch.cat(steps)[None])[0]
    torch.testing.assert_close(normed[~padding], expected)
    assert not normed[padding].any()
    assert torch.equal(norm.running_var, alone.running_var)


def test_gradients_are_right_and_none_goes_into_padding() -> None:
    norm, padding = StepNorm(2, eps=1e-5).double(), padding_of((3, 2), 3)
    x = numbers(2, 3, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: norm(x, padding), (x,))
    norm(x, padding).square().sum().backward()
    assert not x.grad[padding].any()


def test_one_step_alone_cannot_be_trained_by() -> None:
    x = torch.ones(1, 2, 3)
    with pytest.raises(ValueError, match="steps must be at least two to train by, got 1"):
        StepNorm(3, eps=1e-5)(x, torch.tensor([[False, True]]))
    assert StepNorm(3, eps=1e-5).eval()(x[:, :1]).shape == (1, 1, 3)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_series_alone_and_in_a_batch_is_classified_alike(name: str) -> None:
    model = classifier(**OPTIONS[name], mixer="softmax")
    padding = padding_of(LENGTHS, 7)
    series = numbers(3, 7, 3, dtype=torch.float64)
    model(series, padding=padding)  # moves the running statistics
    model.eval()
    together = model(series.masked_fill(padding[..., None], 1e3), padding=padding)
    alone = [model(own[None, :n]) for own, n in zip(series, LENGTHS, strict=True)]
    close(together, torch.cat(alone))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_training_step_does_not_depend_on_how_far_series_are_padded(name: str) -> None:
    short = classifier(**OPTIONS[name], mixer="softmax")
    long = copy.deepcopy(short)
    series = numbers(3, 7, 3, dtype=torch.float64)
    more = torch.cat([series, torch.full((3, 2, 3), 9.0, dtype=torch.float64)], dim=1)
    losses = [
        model(given, padding=padding_of(LENGTHS, given.shape[1])).square().sum()
        for model, given in ((short, series), (long, more))
    ]
    for loss in losses:
        loss.backward()
    for (key, ours), theirs in zip(short.named_parameters(), long.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=key)
    for (key, ours), theirs in zip(short.named_buffers(), long.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=key)


def plain_zerveas(model: models.SeriesClassifier, series: Tensor) -> Tensor:
    """Compute the published classifier with torch's own modules, from the weights of ours."""
    own = model.config
    x = model.projection(series) * own.dim**0.5 + model.positions[: series.shape[1]]
    for block in model.blocks:
        mixer = block.mixer
        inputs = (mixer.query_projection, mixer.key_projection, mixer.value_projection)
        attention = nn.MultiheadAttention(own.dim, own.heads, batch_first=True).double()
        attention.in_proj_weight.data = torch.cat([layer.weight for layer in inputs])
        attention.in_proj_bias.data = torch.cat([layer.bias for layer in inputs])
        attention.out_proj = mixer.output_projection
        x = batch_normed(x + attention(x, x, x)[0], block.around_mixer.norm)
        forward = block.feed_forward
        wide = nn.functional.gelu(forward.widen(x))
        x = batch_normed(x + forward.narrow(wide), block.around_feed_forward.norm)
    joined: Tensor = model.head(nn.functional.gelu(x).flatten(start_dim=1))
    return joined


def batch_normed(x: Tensor, like: StepNorm) -> Tensor:
    norm = nn.BatchNorm1d(x.shape[-1]).double()
    norm.weight, norm.bias = like.weight, like.bias
    normed: Tensor = norm(x.transpose(1, 2)).transpose(1, 2)
    return normed


def test_series_as_long_as_the_model_are_classified_as_in_the_published_code() -> None:
    model = classifier("zerveas", mixer="softmax")
    series = numbers(4, 9, 3, dtype=torch.float64)
    close(model(series), plain_zerveas(model, series))


def test_attention_starts_as_in_the_published_code() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(128, 8)
    config = models.series_config("zerveas", heads=8)
    ours = models.SeriesClassifier(config).blocks[0].mixer
    layers = (ours.query_projection, ours.key_projection, ours.value_projection)
    weights = torch.cat([layer.weight for layer in layers])
    assert weights.std().item() == pytest.approx(theirs.in_proj_weight.std().item(), rel=0.02)
    assert weights.abs().max().item() == pytest.approx(
        theirs.in_proj_weight.abs().max().item(), 0.01
    )
    assert not any(layer.bias.any() for layer in (*layers, ours.output_projection))
    assert ours.output_projection.weight.std().item() == pytest.approx(
        theirs.out_proj.weight.std().item(), rel=0.02
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "max"}, "pooling must be one of mean, concatenate, got 'max'"),
        ({"norm_kind": "group"}, "norm_kind must be one of layer, batch, got 'group'"),
        ({"start": "zero"}, "start must be one of bert, pytorch, multihead, got 'zero'"),
    ],
)
def test_unknown_options_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier("small", **changes)
