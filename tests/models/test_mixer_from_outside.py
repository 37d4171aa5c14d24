"""A mixer that is one row, added from outside the package, works wherever a mixer is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import TINY, encoder_config, translation
from tiny_training import train
from torch import Tensor, nn

from fourierkernels import models
from fourierkernels.mixing import (
    MIXERS,
    AttentionMixer,
    FixedMixer,
    Mixer,
    Size,
    TokenMixer,
    cost_table,
    create_mixer,
    mixer_names,
    mixing_matrices,
)
from fourierkernels.models.blocks import Block, BlockConfig


class DecayMixer(FixedMixer):
    """Tokens weighted by exp(-a |distance|), with a trained."""

    def __init__(self, dim: int, *, length: int | None = None, causal: bool = False) -> None:
        super().__init__(dim, length=length, causal=causal)
        self.decay = nn.Parameter(torch.tensor(0.5))

    def matrix(self, n: int, like: Tensor) -> Tensor:
        place = torch.arange(n, dtype=like.dtype)
        matrix = torch.exp(-self.decay.to(like.dtype) * (place[:, None] - place).abs())
        return matrix.tril() if self.causal else matrix


class LinearAttention(AttentionMixer):
    """Weights (1 + q·k/√D)/10, never normalised: attention without an exponential."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        weights = (1 + query @ key.mT / self.head_dim**0.5) / 10
        if options.get("is_causal"):
            weights = weights.tril()
        if options.get("attn_mask") is not None:
            weights = weights * options["attn_mask"]
        return weights @ value, weights if return_weights else None


def build_decay(*, dim: int, length: int | None, heads: int, causal: bool) -> TokenMixer:
    return DecayMixer(dim, length=length, causal=causal)


def build_attention(
    *, dim: int, length: int | None, heads: int, causal: bool, **own: Any
) -> TokenMixer:
    return LinearAttention(dim, heads=heads, length=length, causal=causal, **own)


FACTS: dict[str, Any] = {"encoder": True, "decoder": True, "formula": "N²E"}
ROWS = {
    "decay": Mixer(build_decay, parameters=lambda s: 1, operations=lambda s: 7, **FACTS),
    "bare": Mixer(
        build_attention,
        parameters=lambda s: 4 * s.dim**2,
        operations=lambda s: 2 * s.length**2 * s.dim,
        attention=True,
        **FACTS,
    ),
}


@pytest.fixture(params=ROWS)
def mixer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(MIXERS, request.param, ROWS[request.param])
    return str(request.param)


def test_it_is_built_by_its_name(mixer: str) -> None:
    layer = create_mixer(mixer, dim=8, length=5, heads=2, causal=True)
    assert isinstance(layer, DecayMixer | LinearAttention)
    assert mixer in mixer_names(causal=True)
    with pytest.raises(ValueError, match=f"mixer must be one of .*{mixer}, got 'other'"):
        create_mixer("other", dim=8)


def test_it_stands_in_the_table_of_costs(mixer: str) -> None:
    (row,) = (row for row in cost_table(dim=8, length=16) if row.name == mixer)
    assert row.operations == ROWS[mixer].operations(Size(16, 8))
    assert row.formula == "N²E"


@pytest.mark.parametrize("kind", TINY)
def test_every_model_trains_with_it_and_is_read_back(kind: str, mixer: str, tmp_path: Path) -> None:
    model = TINY[kind].build(mixer)
    losses = train(model, kind)
    assert losses[-1] < losses[0]
    models.save_model(model, tmp_path / "m.safetensors")
    again = models.load_model(tmp_path / "m.safetensors")
    assert torch.equal(TINY[kind].loss(again), TINY[kind].loss(model.eval()))
    found = mixing_matrices(_Run(again, TINY[kind].loss))
    assert len(found) == (4 if kind == "translation" else 2)


class _Run(nn.Module):
    def __init__(self, model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self) -> None:
        self.loss(self.model)


def test_its_steps_equal_one_pass(mixer: str) -> None:
    layer = create_mixer(mixer, dim=8, length=6, heads=2, causal=True).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state, steps = None, []
    for t in range(6):
        y, state = layer.step(x[:, t : t + 1], state)
        steps.append(y)
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x))


def test_a_block_reads_a_memory_by_attention_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MIXERS, "bare", ROWS["bare"])
    config = BlockConfig(8, 16, heads=2, mixer="bare", reads_memory="bare", attention_bias=False)
    block, x = Block(config), torch.zeros(1, 3, 8)
    assert block.reader is not None
    assert block.reader.query_projection.bias is None
    assert block(x, memory=torch.ones(1, 4, 8)).shape == x.shape
    model = translation("attention", decoder_mixer="bare", reader="bare")
    assert isinstance(model.decoder[0].reader, LinearAttention)


def test_no_block_reads_a_memory_by_a_fixed_mixer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MIXERS, "decay", ROWS["decay"])
    with pytest.raises(ValueError, match="reads_memory must be one of"):
        Block(BlockConfig(8, 16, mixer="decay", reads_memory="decay"))


def test_an_encoder_keeps_it_under_its_last_layers_of_attention(mixer: str) -> None:
    model = models.Encoder(encoder_config(mixer, attention_layers=1))
    kinds = [type(block.mixer).__name__ for block in model.blocks]
    assert kinds == [type(create_mixer(mixer, dim=8, heads=2)).__name__, "SoftmaxMixer"]
