"""torch.compile with dynamic lengths and whole graphs: one graph serves every length."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from plain_attention import draw
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor import config as inductor

from fourierkernels.attention import FourierAttention, GaussianAttention, fourier_attention
from fourierkernels.attention.validation import constant_when_compiled
from fourierkernels.mixing import create_mixer

# torch's compiler instantiates autograd.Function itself, which torch then deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
LENGTHS = (5, 9, 17, 12, 33)
ALREADY = 2  # lengths after which nothing is compiled any more
Case = tuple[Callable[..., Any], Callable[[int], list[Tensor]]]


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    torch.compiler.reset()  # its limit of recompilations counts those of other tests
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def sides(n: int) -> list[Tensor]:
    leaves = [draw(2, 3, n, 4, seed=i) for i in range(3)]
    return [*leaves, torch.tensor(1.2, dtype=torch.float64, requires_grad=True)]


def tokens(n: int) -> list[Tensor]:
    return [draw(3, n, 8).detach()]


FUNCTIONS: dict[str, Case] = {
    "plain": (lambda *x: fourier_attention(*x), sides),
    "causal": (lambda *x: fourier_attention(*x, is_causal=True, eps=1e-3), sides),
    "dropout": (lambda *x: fourier_attention(*x, dropout_p=0.3), sides),
    "weights": (lambda *x: fourier_attention(*x, return_weights=True), sides),
    "boolean mask": (
        lambda *x: fourier_attention(*x[:4], attn_mask=x[4]),
        lambda n: [*sides(n), draw(2, 1, 1, n, seed=5).detach() > -1],
    ),
    "trained mask": (
        lambda *x: fourier_attention(*x[:4], attn_mask=x[4], dropout_p=0.1, return_weights=True),
        lambda n: [*sides(n), draw(n, n, seed=5)],
    ),
    "reference": (
        lambda *x: fourier_attention(*x, is_causal=True, implementation="reference"),
        sides,
    ),
}
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: FourierAttention(8, 2, dropout=0.1, radius=1.0),
    "layer with extras": lambda: FourierAttention(8, 2, add_bias_kv=True, add_zero_attn=True),
    "gaussian layer": lambda: GaussianAttention(8, 2, learn_sigma=True),
}
for _name in ("fourier", "linear_fourier"):
    for _causal in (False, True):
        _options = {"dim": 8, "length": 64, "heads": 2, "causal": _causal}
        LAYERS[f"{_name} mixer, causal={_causal}"] = partial(create_mixer, _name, **_options)


def flat(found: Any) -> Tensor:
    return torch.cat([part.flatten() for part in (found if isinstance(found, tuple) else (found,))])


def check(function: Callable[..., Any], make: Callable[[int], list[Tensor]], backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter, dynamic=True, fullgraph=True)
    own = list(function.parameters()) if isinstance(function, nn.Module) else []
    graphs = []
    for n in LENGTHS:
        given = make(n)
        leaves = [leaf for leaf in (*given, *own) if leaf.requires_grad]
        results = []
        for run in (compiled, function):
            torch.manual_seed(n)
            output = flat(run(*given))
            gradients = torch.autograd.grad(output.sin().sum(), leaves, allow_unused=True)
            results.append([output, *(g for g in gradients if g is not None)])
        for actual, expected in zip(*results, strict=True):
            torch.testing.assert_close(actual, expected)
        graphs.append(counter.frame_count)
    assert graphs[ALREADY - 1 :] == [graphs[-1]] * len(LENGTHS[ALREADY - 1 :])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_whole_graphs_for_all_lengths(name: str) -> None:
    check(*FUNCTIONS[name], backend="aot_eager")


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_mixers_are_whole_graphs_for_all_lengths(name: str) -> None:
    check(LAYERS[name]().double(), tokens, backend="aot_eager")


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.slow
def test_inductor_gives_the_same() -> None:
    """Without dropout: inductor draws from a generator of its own."""
    with inductor.patch(compile_threads=1):  # starting processes that compile takes longer
        check(LAYERS["layer"]().double().eval(), tokens, backend="inductor")


def test_a_constant_is_marked_as_torch_marks_it() -> None:
    """The attribute is torch's own; a later torch may name it otherwise."""

    def ours() -> int:
        return 1

    def theirs() -> int:
        return 1

    assert vars(constant_when_compiled(ours)) == vars(torch.compiler.assume_constant_result(theirs))
