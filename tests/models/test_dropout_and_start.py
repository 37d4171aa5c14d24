"""What training drops and what it starts from, as in the codes that were published."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tiny_models import TINY, encoder_config, language
from torch import Tensor, nn

from fourierkernels import models
from fourierkernels.mixing import MIXERS, AttentionMixer
from fourierkernels.models.blocks import Block, BlockConfig, build_blocks
from fourierkernels.models.parameters import draw_again
from fourierkernels.models.residual import Residual

SMALL = {"dim": 16, "layers": 2, "heads": 2}
WORDS = {**SMALL, "hidden": 32, "vocabulary": 23}


def rates(model: nn.Module) -> dict[str, float]:
    """Every place of dropout that is not 0 in a model and in its last block."""
    found = {n: m.p for n, m in model.named_modules() if isinstance(m, nn.Dropout) and m.p}
    last = len(model.blocks) - 1  # type: ignore[arg-type]
    for name, module in model.named_modules():
        if isinstance(module, AttentionMixer) and module.dropout:
            found[f"{name}.weights"] = module.dropout
        if isinstance(module, Residual) and module.drop_path:
            found[f"{name}.path"] = module.drop_path
    own = {n.removeprefix(f"blocks.{last}."): p for n, p in found.items()}
    return {name: p for name, p in own.items() if not name.startswith("blocks.")}


def encoder(preset: str) -> nn.Module:
    return models.Encoder(models.encoder_config(preset, **WORDS, attention_layers=0))


def words(preset: str) -> nn.Module:
    return models.LanguageModel(models.language_config(preset, **WORDS, cutoffs=()))


def arena(preset: str) -> nn.Module:
    sizes = {"dim": 16, "hidden": 32, "layers": 2, "heads": 2, "length": 8}
    return models.ArenaClassifier(models.arena_config(preset, **sizes))


SUBLAYERS = {"around_mixer.dropout": 0.1, "around_feed_forward.dropout": 0.1}
INSIDE = {"feed_forward.dropout": 0.1}
WEIGHTS = {"mixer.weights": 0.1}
FNET = {"dropout": 0.1, "around_feed_forward.dropout": 0.1}  # f_net/layers.py, f_net/models.py
LMTOOL = {"dropout": 0.1, "output_dropout": 0.1, **SUBLAYERS, **INSIDE}  # --dropatt 0.0
GPT2 = {"dropout": 0.1, **SUBLAYERS, **WEIGHTS}
ARENA = {"dropout": 0.1, **SUBLAYERS, **INSIDE, **WEIGHTS}
PUBLISHED: dict[str, tuple[Callable[[str], nn.Module], dict[str, float]]] = {
    "fnet_base": (encoder, FNET),
    "linear_base": (encoder, FNET),
    "random_base": (encoder, FNET),
    "ff_only_base": (encoder, FNET),
    "bert_base": (encoder, {**FNET, **WEIGHTS}),
    "small": (
        lambda p: models.LanguageModel(models.language_config(p, **WORDS, cutoffs=())),
        LMTOOL,
    ),
    "gpt2": (lambda p: models.LanguageModel(models.language_config(p, **WORDS)), GPT2),
    "hopper": (lambda p: models.DecisionTransformer(models.decision_config(p)), GPT2),
    "hopper_flowformer": (lambda p: models.DecisionTransformer(models.decision_config(p)), GPT2),
    "deit_tiny": (
        lambda p: models.VisionTransformer(models.vision_config(p, image=32)),
        {"around_mixer.path": 0.1, "around_feed_forward.path": 0.1},
    ),
    "listops": (arena, ARENA),
    "text": (arena, ARENA),
    "image": (arena, {**dict.fromkeys(ARENA, 0.3), "mixer.weights": 0.2}),
    "pathfinder": (arena, {**dict.fromkeys(ARENA, 0.2), "mixer.weights": 0.1}),
    "zerveas": (
        lambda p: models.SeriesClassifier(models.series_config(p)),
        {"dropout": 0.1, "output_dropout": 0.1, **SUBLAYERS, **INSIDE, **WEIGHTS},
    ),
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_dropout_is_where_the_published_code_has_it(preset: str) -> None:
    build, expected = PUBLISHED[preset]
    model = build(preset)
    if preset in ("listops", "text"):  # the layers of ListOps are one
        model.blocks = model.blocks[-1:]
    assert rates(model) == pytest.approx(expected)


def test_the_hybrid_drops_weights_in_its_layers_of_attention_alone() -> None:
    sizes = {**WORDS, "layers": 3, "attention_layers": 1}
    model = models.Encoder(models.encoder_config("fnet_hybrid_base", **sizes))
    dropped = [getattr(block.mixer, "dropout", None) for block in model.blocks]
    assert dropped == [None, None, 0.1]


@pytest.mark.parametrize("mixer", [name for name, row in MIXERS.items() if row.encoder])
def test_a_rate_for_weights_reaches_every_mixer_that_forms_them(mixer: str) -> None:
    config = BlockConfig(8, 8, heads=2, length=6, mixer=mixer, attention_dropout=0.25)
    block = Block(config)
    assert getattr(block.mixer, "dropout", 0.0) == (0.25 if MIXERS[mixer].drops_weights else 0.0)
    if MIXERS[mixer].drops_weights:
        block = Block(replace(config, mixer_options={"dropout": 0.5}))
        assert block.mixer.dropout == 0.5


@pytest.mark.parametrize("kind", TINY)
def test_no_rate_changes_what_an_evaluated_model_returns(kind: str) -> None:
    model = TINY[kind].build(**({"mixer": "softmax"} if kind == "encoder" else {})).eval()
    expected = TINY[kind].loss(model)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.9
        if isinstance(module, AttentionMixer):
            module.dropout = 0.9
        if isinstance(module, Residual):
            module.drop_path = 0.9
    assert torch.equal(TINY[kind].loss(model), expected)
    assert not torch.equal(TINY[kind].loss(model.train()), expected)


def test_stochastic_depth_rises_from_nothing_and_keeps_the_mean() -> None:
    """timm's rule: linspace(0, rate, depth); a sequence is left out whole, the others scaled up."""
    blocks = build_blocks(BlockConfig(8, 8, mixer="none", drop_path=0.3, dropout=0.0), 4)
    found = [block.around_feed_forward.drop_path for block in blocks]
    assert found == pytest.approx([0.0, 0.1, 0.2, 0.3])
    torch.manual_seed(0)
    residual = Residual(8, norm="pre", eps=1e-5, dropout=0.0, drop_path=0.3).train()
    left = residual.leave(torch.zeros(10_000, 2, 8), torch.ones(10_000, 2, 8))
    assert torch.equal(left, left[:, :1, :1].expand_as(left))
    assert {round(x, 4) for x in left.unique().tolist()} == {0.0, round(1 / 0.7, 4)}
    assert left.mean().item() == pytest.approx(1.0, abs=4 * math.sqrt(0.3 / 0.7 / 10_000))
    assert torch.equal(residual.eval().leave(left, left), 2 * left)


@pytest.mark.parametrize("rate", [-0.1, 1.0, math.nan])
def test_rates_that_are_no_probabilities_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="drop_path must be"):
        build_blocks(BlockConfig(8, 8, drop_path=rate), 2)
    with pytest.raises(ValueError, match="dropout"):
        Block(BlockConfig(8, 8, attention_dropout=rate))


# --- start -----------------------------------------------------------------------------------


def spread(values: Tensor) -> float:
    return values.double().square().mean().sqrt().item()


def parameters(model: nn.Module, ending: str) -> Tensor:
    named = model.named_parameters(remove_duplicate=False)
    found = [p.detach().flatten() for name, p in named if name.endswith(ending)]
    assert found
    return torch.cat(found)


def near(value: float) -> object:
    return pytest.approx(value, rel=0.1)


def test_the_encoders_start_as_in_the_authors_code() -> None:
    """f_net/layers.py: default_kernel_init, default_bias_init, and Flax's defaults elsewhere."""
    torch.manual_seed(0)
    config = models.encoder_config("bert_base", dim=256, hidden=512, layers=2, heads=4)
    model = models.PretrainingEncoder(config)
    for ending in ("words.weight", "positions.weight", "segments.weight", "pooler.weight"):
        assert spread(parameters(model, ending)) == near(0.02)
    for ending in ("_projection.weight", "widen.weight", "narrow.weight", "transform.weight"):
        assert spread(parameters(model, ending)) == near(0.02)
    for ending in ("widen.bias", "query_projection.bias", "output_projection.bias", "output.bias"):
        assert spread(parameters(model, ending)) == near(0.02)
    for ending in ("narrow.bias", "encoder.projection.bias", "pooler.bias", "transform.bias"):
        assert spread(parameters(model, ending)) == 0.0
    assert spread(parameters(model, "encoder.projection.weight")) == near(1 / 16)
    assert torch.equal(
        parameters(model, "norm.weight"), torch.ones_like(parameters(model, "norm.weight"))
    )
    assert model.output.weight is model.encoder.words.weight


def test_the_language_model_starts_as_in_the_authors_code() -> None:
    """train.py, weights_init: --init_std 0.02 for LayerNorms, too, and --proj_init_std 0.01."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 900, "cutoffs": (300,), "divisor": 2, "dim": 64, "layers": 4}
    model = models.LanguageModel(models.language_config("small", **sizes))
    assert spread(parameters(model, "bands.0.weight")) == near(0.02)
    assert spread(parameters(model, "clusters.weight")) == near(0.02)
    assert spread(parameters(model, "projections.1.weight")) == near(0.01)
    assert spread(parameters(model, "output_projection.weight")) == near(0.02)
    norms = parameters(model, "norm.weight")
    assert norms.mean().item() == pytest.approx(1.0, abs=0.005)
    assert spread(norms - 1) == near(0.02)


def test_gpt2_starts_with_smaller_outputs_of_its_sublayers() -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": 50, "dim": 64, "layers": 8, "heads": 2, "hidden": 128}
    model = models.LanguageModel(models.language_config("gpt2", **sizes))
    for ending in ("output_projection.weight", "narrow.weight"):
        assert spread(parameters(model, ending)) == near(0.02 / 4)
    assert spread(parameters(model, "widen.weight")) == near(0.02)
    assert torch.equal(parameters(model, "norm.weight"), torch.ones(17 * 64))
    with pytest.raises(
        ValueError, match="start must be one of transformer_xl, gpt2, unit, got 'bert'"
    ):
        language(start="bert")


def test_the_decision_transformer_starts_with_torchs_embeddings() -> None:
    """kzl/decision-transformer: only its GPT-2 draws with 0.02, the rest is left to PyTorch."""
    torch.manual_seed(0)
    model = models.DecisionTransformer(models.decision_config("hopper_flowformer", episode=200))
    assert spread(model.steps.weight.detach()) == near(1.0)
    assert spread(model.embed_state.weight.detach()) == near(1 / math.sqrt(3 * 11))
    assert spread(parameters(model, "output_projection.weight")) == near(0.02)
    assert spread(parameters(model, "narrow.bias")) == 0.0


def test_the_sizes_of_the_script_that_the_paper_follows() -> None:
    """thuml/Flowformer, Flowformer_RL/scripts/flowformer.sh."""
    for name in ("hopper", "halfcheetah", "walker2d"):
        plain, wide = (models.decision_config(f"{name}{end}") for end in ("", "_flowformer"))
        assert (plain.heads, plain.dim, plain.layers) == (1, 128, 3)
        assert (wide.heads, wide.dim, wide.layers, wide.context) == (4, 256, 3, 20)
        assert (wide.states, wide.actions) == (plain.states, plain.actions)


def test_deit_starts_with_torchs_convolution_and_the_arena_with_flaxs_classifier() -> None:
    torch.manual_seed(0)
    vision = models.VisionTransformer(models.vision_config("deit_tiny", patch=8, layers=1))
    assert spread(vision.patches.weight.detach()) == near(1 / math.sqrt(3 * 3 * 64))
    assert spread(vision.patches.bias.detach()) == near(1 / math.sqrt(3 * 3 * 64))
    assert spread(parameters(vision, "widen.weight")) == near(0.02)
    arena_model = models.ArenaClassifier(models.arena_config("text", layers=1))
    assert spread(arena_model.hidden.weight.detach()) == near(1 / 16)
    assert spread(arena_model.words.weight.detach()) == near(1.0)
    assert spread(parameters(arena_model, "widen.weight")) == near(math.sqrt(2 / (256 + 1024)))


def test_names_that_no_parameter_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"names must match a parameter of Encoder, got 'gamma'"):
        draw_again(models.Encoder(encoder_config()), "gamma", std=0.1)
