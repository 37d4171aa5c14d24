"""Decoding under the causal DFT by nodes: equal to one pass, counted, safe to share and reorder."""

import math

import pytest
import torch
from tiny_models import doubles
from torch.utils.flop_counter import FlopCounterMode

from fourierkernels.mixing import create_mixer
from fourierkernels.mixing.causal import causal_dft_matrix
from fourierkernels.mixing.streaming import BLOCK, ROW_CROSSOVER, stream_state, stream_step

NAMES = ["causal_dft", "parametrised"]


def streaming(name: str, length: int, dim: int = 3) -> torch.nn.Module:
    mixer = create_mixer(name, dim=dim, length=length, causal=True, decoding="stream").double()
    for i, parameter in enumerate(mixer.parameters()):
        parameter.data += 0.3 * doubles(*parameter.shape, seed=i)
    return mixer


def steps(mixer: torch.nn.Module, x: torch.Tensor, state: object = None) -> torch.Tensor:
    found = []
    for t in range(x.shape[1]):
        y, state = mixer.step(x[:, t : t + 1], state)
        found.append(y)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 150, 256])
def test_steps_equal_the_matrix_at_every_length(name: str, length: int) -> None:
    """Output m of a pass over n tokens is that of a pass over m + 1: one run tries all lengths."""
    mixer, x = streaming(name, length), doubles(2, length, 3)
    expected = mixer.combine(mixer.mixing_matrix(x) @ mixer.values(x))
    found = steps(mixer, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found, mixer(x), rtol=0, atol=1e-12)


def test_steps_equal_one_pass_at_a_long_length() -> None:
    mixer, x = streaming("causal_dft", 2000, dim=2), doubles(1, 2000, 2)
    torch.testing.assert_close(steps(mixer, x), mixer(x), rtol=0, atol=1e-10)


def test_prefill_leaves_the_state_of_as_many_steps() -> None:
    """After one step and around the ends of nodes; a run goes on from either state."""
    mixer, x, stepped = streaming("causal_dft", 150), doubles(2, 150, 3), None
    whole = mixer(x)
    for t in range(150):
        first = t + 1
        _, stepped = mixer.step(x[:, t : t + 1], stepped)
        if first in (1, 31, 32, 33, 64, 96, 127, 149):
            start, state = mixer.prefill(x[:, :first])
            torch.testing.assert_close(start, whole[:, :first], rtol=0, atol=1e-12)
            assert [part.shape for part in stepped] == [part.shape for part in state]
            for found, expected in zip(stepped, state, strict=True):
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
            end = 150 if first == 33 else first + 33  # a block and more
            torch.testing.assert_close(steps(mixer, x[:, first:end], state), whole[:, first:end])


def test_rows_of_a_state_go_on_apart() -> None:
    """As a beam search reorders them; the state from which two go on is not written to."""
    mixer, x = streaming("causal_dft", 100), doubles(3, 100, 3)
    _, state = mixer.prefill(x[:, :63])
    rows = torch.tensor([2, 0, 0, 1])
    chosen = tuple(part.index_select(0, rows) for part in state)
    torch.testing.assert_close(steps(mixer, x[rows, 63:], chosen), mixer(x)[rows, 63:])
    torch.testing.assert_close(steps(mixer, x[:, 63:], state), mixer(x)[:, 63:])


def test_steps_carry_gradients() -> None:
    mixer, x = streaming("parametrised", 40, dim=2), doubles(1, 40, 2).requires_grad_()
    weights = doubles(1, 40, 2, seed=1)
    found = torch.autograd.grad((steps(mixer, x) * weights).sum(), [x, *mixer.parameters()])
    expected = torch.autograd.grad((mixer(x) * weights).sum(), [x, *mixer.parameters()])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_default_streams_beyond_the_crossover_only() -> None:
    kinds = {
        length: create_mixer("causal_dft", dim=2, length=length, causal=True).streams
        for length in (ROW_CROSSOVER, ROW_CROSSOVER + 1)
    }
    assert kinds == {ROW_CROSSOVER: False, ROW_CROSSOVER + 1: True}
    with pytest.raises(ValueError, match="decoding must be one of auto, row, stream"):
        create_mixer("causal_dft", dim=2, length=4, causal=True, decoding="fast")


def _fft_points(shape: torch.Size, dims: list[int], *_: object, **__: object) -> int:
    points = shape[dims[0]]
    alone = shape.numel() == points  # the response, one for all features, is left out
    return 0 if alone else 2 * shape.numel() * round(math.log2(points))


def _products(one: object, other: object, *_: object, **__: object) -> int:
    """Of a node's tokens with a chirp or a response, ``(n, 1)``."""
    shapes = [s for s in (one, other) if isinstance(s, torch.Size)]
    wide = len(shapes) == 2 and len(shapes[0]) > 2
    return 2 * torch.broadcast_shapes(*shapes).numel() if wide else 0


def counted(n: int, features: int = 2) -> float:
    """Complex multiply-adds per token and feature of n steps, as they run."""
    aten = torch.ops.aten
    counter = FlopCounterMode(
        display=False, custom_mapping={aten._fft_c2c: _fft_points, aten.mul: _products}
    )
    x, state = torch.randn(1, 1, n, features, dtype=torch.complex128), None
    with counter, torch.no_grad():
        for t in range(n):
            _, state = stream_step(x[:, :, t : t + 1], state, length=4 * n)
    return counter.get_total_flops() / 2 / n / features


def stated(n: int) -> float:
    """The count of the module's docstring, for n a power of two, its last node included."""
    sizes = [BLOCK << i for i in range((n // BLOCK).bit_length() - 1)]
    last = (2 * 2 * n * math.log2(2 * n) + 4 * n) / n  # it ends with token n
    return (BLOCK + 1) / 2 + sum(2 * math.log2(2 * h) + 2 for h in sizes) + last


def test_operations_per_token_are_those_stated_and_grow_as_a_square_of_the_logarithm() -> None:
    counts = {n: counted(n) for n in (64, 128, 256)}
    for n, found in counts.items():
        assert found == pytest.approx(stated(n), rel=1e-12)
        assert found - stated(n // 2) == pytest.approx(2 * math.log2(n) + 6)
        assert found < 2 * math.log2(n) ** 2
    assert counts[256] < 256 / 2  # of the rows of the matrix


def test_state_holds_no_more_than_two_numbers_for_each_token() -> None:
    values = torch.randn(1, 1, 300, 2, dtype=torch.complex128)
    for n in (1, 32, 100, 255, 256, 300):
        state = stream_state(values[:, :, :n], length=300)
        assert sum(part.shape[-2] for part in state) <= 2 * n


def test_streamed_row_is_that_of_the_masked_matrix() -> None:
    x = torch.randn(3, 70, 2, dtype=torch.complex128)
    state = stream_state(x[:, :69], length=100)
    found, _ = stream_step(x[:, 69:], state, length=100)
    expected = causal_dft_matrix(70, length=100)[69:] @ x
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
