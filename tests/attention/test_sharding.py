"""Layers and mixers under sharded training, in a group of one process."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from fourierkernels.attention import FourierAttention
from fourierkernels.attention.kernel import RADIUS_SHAPES
from fourierkernels.mixing import create_mixer

FAST = TOLERANCE["float64"]["fast"]


@pytest.fixture(scope="module", autouse=True)
def _group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = distributed.FileStore(str(tmp_path_factory.mktemp("group") / "store"), 1)
    distributed.init_process_group(
        "gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=60)
    )
    yield
    distributed.destroy_process_group()


def by_flat_parameters(module: nn.Module) -> nn.Module:
    return FullyShardedDataParallel(
        module, device_id=torch.device("cpu"), use_orig_params=True, sync_module_states=False
    )


def by_parameter(module: nn.Module) -> nn.Module:
    fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
    return module


def build(kind: str, shape: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "layer":
        return FourierAttention(8, 2, radius_shape=shape, dtype=torch.float64)
    return create_mixer(kind, dim=8, heads=2, length=6, radius_shape=shape).double()


def whole(tensor: Tensor) -> Tensor:
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full.detach()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("shape", RADIUS_SHAPES)
@pytest.mark.parametrize("kind", ["layer", "fourier", "linear_fourier"])
@pytest.mark.parametrize("shard", [by_flat_parameters, by_parameter], ids=lambda f: f.__name__)
def test_a_sharded_layer_trains_as_the_whole_one(shard: object, kind: str, shape: str) -> None:
    plain, sharded, x = build(kind, shape), shard(build(kind, shape)), draw(2, 5, 8).detach()  # type: ignore[operator]
    outputs = [module(x) for module in (plain, sharded)]
    assert relative_error(outputs[1], outputs[0]) < FAST
    for output in outputs:
        output.square().sum().backward()
    expected = dict(plain.named_parameters())
    found = {n.removeprefix("_fsdp_wrapped_module."): p for n, p in sharded.named_parameters()}
    assert found.keys() == expected.keys()
    for name, parameter in expected.items():
        gradient = whole(found[name].grad)
        torch.testing.assert_close(gradient, parameter.grad, rtol=FAST, atol=FAST)
    assert (expected["log_radius"].grad != 0).all()
