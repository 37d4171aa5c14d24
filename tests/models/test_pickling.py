"""Every public module can be copied and pickled, as `torch.save` and process pools do it."""

import copy
import inspect
import io
import pickle  # noqa: TID251 (what is read here was written here)
from collections.abc import Callable

import pytest
import torch
from tiny_models import TINY, encoder_config
from torch import nn

from fourierkernels import attention, mixing, models
from fourierkernels.attention.kernel import RADIUS_SHAPES
from fourierkernels.models.blocks import ACTIVATIONS, Block, BlockConfig


def by_torch(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    again: nn.Module = torch.load(file, weights_only=False)
    return again


ROUND_TRIPS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "deepcopy": copy.deepcopy,
    "torch.save": by_torch,
}
MODULES: dict[str, Callable[[], nn.Module]] = {
    "GaussianAttention": lambda: attention.GaussianAttention(8, 2, learn_sigma=True),
    "TorchMultihead": lambda: attention.TorchMultihead(attention.FourierAttention(8, 2)),
    "Encoder": lambda: models.Encoder(encoder_config("fourier")),
    "EncoderClassifier": lambda: models.EncoderClassifier(encoder_config(), classes=4),
}
for _shape in RADIUS_SHAPES:
    MODULES[f"FourierAttention {_shape}"] = lambda shape=_shape: attention.FourierAttention(
        8, 2, radius_shape=shape, dropout=0.1
    )
for _causal in (False, True):
    for _name in mixing.mixer_names(causal=_causal):
        MODULES[f"mixer {_name} {'causal' if _causal else 'full'}"] = (
            lambda name=_name, causal=_causal: mixing.create_mixer(
                name, dim=8, length=12, heads=2, causal=causal
            )
        )
for _name in ACTIVATIONS:
    MODULES[f"Block {_name}"] = lambda name=_name: Block(
        BlockConfig(8, 16, heads=2, mixer="fourier", reads_memory="softmax", activation=name)
    )
for _kind, _row in TINY.items():
    for _name in mixing.mixer_names(causal=_row.causal):
        MODULES[f"{_kind} of {_name}"] = lambda row=_row, name=_name: row.build(mixer=name)


@pytest.mark.parametrize("way", ROUND_TRIPS)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_the_same_after_a_round_trip(name: str, way: str) -> None:
    module = MODULES[name]()
    again = ROUND_TRIPS[way](module)
    assert type(again) is type(module)
    assert repr(again) == repr(module)
    state, found = module.state_dict(), again.state_dict()
    assert state.keys() == found.keys()
    assert all(torch.equal(found[key], value) for key, value in state.items())
    again.load_state_dict(state)  # its hooks came along


def test_an_activation_from_outside_may_be_a_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIVATIONS, "square", lambda x: x * x)
    block = Block(BlockConfig(8, 16, heads=2, activation="square")).eval()
    again = pickle.loads(pickle.dumps(block))
    x = torch.randn(2, 3, 8)
    assert torch.equal(again(x), block(x))


def test_no_public_module_is_left_out() -> None:
    public = {
        value
        for room in (attention, mixing, models)
        for value in (getattr(room, name) for name in room.__all__)
        if isinstance(value, type) and issubclass(value, nn.Module)
    }
    tried = {type(part) for build in MODULES.values() for part in build().modules()}
    assert {one for one in public if not inspect.isabstract(one)} <= tried
