"""Every model: assembled with every mixer, trained, compiled, distributed, inspected."""

import multiprocessing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import TINY, V, decision, encoder_config, language, numbers, tokens, trajectory
from tiny_training import train, train_together
from torch import nn
from training_runs import start

from fourierkernels import models
from fourierkernels.mixing import mixer_names, mixing_matrices
from fourierkernels.models.blocks import ACTIVATIONS, Block, BlockConfig, build_blocks
from fourierkernels.models.sequences import sinusoids

ONE_LAYER = {"mixer": "softmax", "layers": 1}  # is traced as any other layer or mixer
PAIRS = [(kind, mixer) for kind, tiny in TINY.items() for mixer in mixer_names(causal=tiny.causal)]


@pytest.mark.parametrize(("kind", "mixer"), PAIRS)
def test_every_model_trains_with_every_mixer(kind: str, mixer: str) -> None:
    losses = train(TINY[kind].build(mixer), kind)
    assert losses[-1] < losses[0]


# The rows of a rare band depend on the data, which breaks the graph; torch itself then looks at
# .grad of what crosses the break, and means to silence the warning.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *(pytest.param(kind, ONE_LAYER, id=kind) for kind in TINY),
        *(pytest.param(kind, {}, id=f"{kind} as built", marks=pytest.mark.slow) for kind in TINY),
    ],
)
def test_a_few_steps_are_the_same_compiled(kind: str, changes: dict[str, Any]) -> None:
    """With the backend that traces forward and backward but calls no compiler of its own."""
    build = partial(TINY[kind].build, **changes)
    plain = build()
    state = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    expected = train(plain, kind, steps=3)
    compiled = build()
    compiled.load_state_dict(state)
    torch._dynamo.reset()
    found = train(torch.compile(compiled, backend="aot_eager"), kind, steps=3)  # type: ignore[arg-type]
    assert found[-1] < found[0]
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("mixer", "layers"),
    [
        pytest.param(mixer, layers, id=mixer + " in two layers" * (layers > 1), marks=marks)
        for layers, marks in ((1, ()), (2, pytest.mark.slow))
        for mixer in ("softmax", "fourier", "causal_dft", "random")
    ],
)
def test_a_language_model_of_one_band_compiles_as_one_graph(mixer: str, layers: int) -> None:
    """Its checks read no values there, ignored targets included."""
    model = language(mixer, cutoffs=(), layers=layers).eval()
    text = tokens(2, 9, vocabulary=V)
    targets = text[:, 1:].index_fill(1, torch.tensor([2]), -100)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(text[:, :-1], targets), model(text[:, :-1], targets))


@pytest.mark.slow
def test_every_model_trains_distributed_over_two_processes(tmp_path: Path) -> None:
    meeting = (tmp_path / "meeting").as_uri()
    queue = multiprocessing.get_context("forkserver").Queue()
    workers = [start(train_together, rank, meeting, queue) for rank in range(2)]
    results = dict(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    for kind in TINY:
        (losses, total), (_, other) = (results[rank][kind] for rank in range(2))
        assert losses[-1] < losses[0]
        assert total == other  # both processes hold the same weights


@pytest.mark.parametrize("kind", TINY)
def test_mixing_matrices_of_every_layer_can_be_inspected(kind: str) -> None:
    model = TINY[kind].build().eval()

    class Look(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> None:
            TINY[kind].loss(self.model)

    seen = mixing_matrices(Look())
    layers = 4 if kind == "translation" else 2
    assert len(seen) == layers
    assert all(matrix.shape[-1] == matrix.shape[-2] for matrix in seen.values())


# --- causality -------------------------------------------------------------------------------


@pytest.mark.parametrize("mixer", mixer_names(causal=True))
def test_no_block_of_a_decoder_leaks_a_later_token(mixer: str) -> None:
    config = BlockConfig(16, 32, heads=2, length=40, mixer=mixer, causal=True, dropout=0.0)
    blocks = build_blocks(config, 2).double()
    x = numbers(1, 40, 16, dtype=torch.float64).requires_grad_()
    y = x
    for block in blocks:
        y = block(y)
    for t in (0, 17, 31, 32):
        (gradient,) = torch.autograd.grad(y[:, t].square().sum(), x, retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[:, t]) > 0


@pytest.mark.parametrize("mixer", mixer_names(causal=True))
def test_actions_do_not_see_themselves_or_the_future(mixer: str) -> None:
    model = decision(mixer).double().eval()
    returns, states, actions, steps = (
        part.double() if part.is_floating_point() else part for part in trajectory()
    )
    actions.requires_grad_()
    found = model(returns, states, actions, steps).actions
    (gradient,) = torch.autograd.grad(found[:, 2].sum(), actions)
    assert torch.count_nonzero(gradient[:, 2:]) == 0
    if mixer != "none":
        assert torch.count_nonzero(gradient[:, :2]) > 0


# --- parts of language and vision ------------------------------------------------------------


@pytest.mark.parametrize("divisor", [1, 2])
def test_adaptive_softmax_sums_to_one_and_agrees_with_the_loss(divisor: int) -> None:
    model = language(divisor=divisor).double().eval()
    with torch.no_grad():
        for bias in model.softmax.bias:
            bias.normal_()
    text = tokens(3, 13, vocabulary=V, low=0)
    log_p = model.log_probabilities(text[:, :-1])
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(3, 12, dtype=torch.float64))
    expected = -log_p.gather(-1, text[:, 1:, None])[..., 0]
    torch.testing.assert_close(model(text[:, :-1], text[:, 1:]), expected)


def test_one_band_is_a_plain_tied_softmax() -> None:
    model = language("softmax", cutoffs=()).double().eval()
    text = tokens(2, 9, vocabulary=V)
    logits = model.states(text) @ model.embedding.bands[0].weight.T + model.softmax.bias[0]
    torch.testing.assert_close(model.log_probabilities(text), logits.log_softmax(-1))


def test_positions_from_the_end_change_with_the_length() -> None:
    model = language(positions="from_the_end").double().eval()
    text = tokens(1, 12, vocabulary=V)
    gap = model.log_probabilities(text)[:, :6] - model.log_probabilities(text[:, :6])
    assert gap.abs().max() > 1e-3
    with pytest.raises(ValueError, match="positions must not change"):
        model.start()


def test_published_sizes_of_the_language_models() -> None:
    """Nguyen et al. (2022), section 4.1: 8 heads of 16 and of 32."""
    small, medium = (models.LANGUAGE_PRESETS[name] for name in ("small", "medium"))
    assert (small.dim // small.heads, small.length, small.layers, small.hidden) == (
        16,
        256,
        16,
        2048,
    )
    assert (medium.dim // medium.heads, medium.length) == (32, 384)


def test_published_count_of_deit_tiny() -> None:
    """Touvron et al. (2021), Table 1: 5 million (5.7 counted); a radius more for each layer."""
    with torch.device("meta"):
        plain = models.VisionTransformer(models.vision_config("deit_tiny"))
        four = models.VisionTransformer(models.vision_config("deit_tiny_4_heads"))
    assert models.count_parameters(plain) == models.count_parameters(four) == 5_717_416
    fourier = models.VisionTransformer(models.vision_config("deit_tiny_fourier"))
    assert models.count_parameters(fourier) == 5_717_416 + 12
    radii = [b.mixer.radius.item() for b in fourier.blocks]  # type: ignore[union-attr]
    assert radii == [1.0] * 12


def test_sinusoids_are_those_of_the_formula() -> None:
    table = sinusoids(5, 6)
    assert table[3, 1].item() == pytest.approx(torch.tensor(3 / 10000 ** (2 / 6)).sin().item())
    assert table[3, 4].item() == pytest.approx(torch.tensor(3 / 10000 ** (2 / 6)).cos().item())


def test_padding_changes_no_valid_step_under_attention() -> None:
    model = TINY["series"].build("fourier").double().eval()
    x = numbers(2, 10, 3, dtype=torch.float64)
    padding = torch.zeros(2, 10, dtype=torch.bool)
    padding[:, 7:] = True
    torch.testing.assert_close(model(x, padding=padding), model(x[:, :7]))


def test_retrieval_compares_two_documents() -> None:
    model = TINY["arena"].build("fnet")
    pairs = models.ArenaClassifier(
        models.arena_config("retrieval", vocabulary=V, length=15, mixer="fnet", layers=1)
    )
    text = tokens(2, 15, vocabulary=V)
    assert pairs(text, text).shape == (2, 2)
    with pytest.raises(ValueError, match="other must be given"):
        pairs(text)
    with pytest.raises(ValueError, match="other must be None"):
        model(text, text)


# --- rows from outside -----------------------------------------------------------------------


def test_an_activation_and_a_preset_from_outside_are_taken_by_their_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(ACTIVATIONS, "sine", torch.sin)
    preset = models.language_config("gpt2", activation="sine", dim=16, layers=1, hidden=8, heads=2)
    monkeypatch.setitem(models.LANGUAGE_PRESETS, "sines", preset)
    model = models.LanguageModel(models.language_config("sines", vocabulary=V, length=12)).eval()
    text = tokens(2, 9, vocabulary=V)
    models.save_model(model, tmp_path / "m.safetensors")
    again = models.load_model(tmp_path / "m.safetensors")
    assert torch.equal(again.log_probabilities(text), model.log_probabilities(text))
    plain = models.LanguageModel(replace(model.config, activation="relu")).eval()
    plain.load_state_dict(model.state_dict())
    assert not torch.equal(plain.log_probabilities(text), model.log_probabilities(text))


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: models.language_config("big"),
            ValueError,
            "one of small, medium, gpt2, got 'big'",
        ),
        (
            lambda: models.encoder_config("fnet_tiny"),
            ValueError,
            "preset must be one of bert_large",
        ),
        (lambda: models.vision_config("deit_tiny", depth=3), TypeError, "depth"),
        (lambda: language("wave"), ValueError, "mixer must be one of softmax"),
        (lambda: language("fnet"), ValueError, "causal, as a decoder needs"),
        (lambda: language(heads=3), ValueError, "heads must divide dim = 16, got 3"),
        (lambda: language(cutoffs=(9, 4)), ValueError, "cutoffs must increase"),
        (lambda: language(norm="mid"), ValueError, "norm must be one of pre, post"),
        (lambda: language(activation="tanh"), ValueError, "activation must be one of relu"),
        (
            lambda: language()(*[tokens(1, 13, vocabulary=V)] * 2),
            ValueError,
            "tokens must be at most length = 12 long, got 13",
        ),
        (
            lambda: language().log_probabilities(torch.full((1, 2), V)),
            ValueError,
            rf"tokens must be in \[0, {V}\), got {V}",
        ),
        (lambda: language().log_probabilities(torch.ones(1, 2)), TypeError, "must be integers"),
        (
            lambda: TINY["vision"].build()(torch.ones(1, 3, 9, 8)),
            ValueError,
            "images must have shape",
        ),
        (
            lambda: TINY["series"].build()(torch.ones(1, 11, 3)),
            ValueError,
            "series must be at most length = 10 long, got 11",
        ),
        (
            lambda: models.Encoder(encoder_config(attention_layers=3)),
            ValueError,
            "attention_layers must be at most 2, got 3",
        ),
        (lambda: Block(BlockConfig(8, 8, reads_memory="fnet")), ValueError, "reads_memory must be"),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
