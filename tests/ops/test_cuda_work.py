"""What the CUDA kernels leave out, what they keep, and what is refused before they run."""

import warnings
from pathlib import Path

import pytest
import torch
from cuda_cases import Case, run_with
from host_kernels import compiled, host_library, needs_compiler, sources
from plain_attention import draw
from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Rows, Saved
from fourierkernels.ops.cuda import attention as cuda
from fourierkernels.ops.cuda import layout
from fourierkernels.ops.cuda import library as cuda_library
from fourierkernels.ops.cuda.build import Variant
from fourierkernels.ops.cuda.layout import parts_of
from fourierkernels.ops.cuda.library import Library

pytestmark = needs_compiler
DTYPES = [torch.float32, torch.float64]
N, M = 150, 200
SHOWN = (torch.arange(M) < 64) | (torch.arange(M) >= 128)  # keys 64 to 127: a whole tile is hidden
HIDING = {
    "boolean": SHOWN.expand(2, 1, 1, M),
    "additive": torch.zeros(2, 1, 1, M).masked_fill(~SHOWN, -torch.inf),
    "of all pairs": SHOWN.expand(2, 2, N, M).clone(),
}


def problem(mask: Tensor | None, dtype: torch.dtype, **options: object) -> tuple[Inputs, Options]:
    leaves = Case(n=N, m=M, dim=5, columns=3).leaves(dtype)
    if mask is not None and mask.is_floating_point():
        mask = mask.to(dtype)
    return Inputs(*leaves, mask), Options(4, False, 0.0, **options)


def backward(
    inputs: Inputs, options: Options, rows: Rows, library: Library | None = None
) -> Gradients:
    grad = draw(*rows.output.shape, seed=9, dtype=inputs.query.dtype).detach()
    cotangents = Cotangents(grad, None, (grad * rows.output).sum(-1))
    saved = Saved(rows.significand, rows.exponent)
    library = host_library(inputs.query.dtype, 16) if library is None else library
    return cuda.backward(library, cotangents, inputs, saved, options)


def spoil_hidden_tile(packed: Tensor, inputs: Inputs) -> None:
    for part in parts_of(packed, inputs)[1:]:
        part[..., 64:128] = torch.nan


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", HIDING)
def test_tiles_that_a_mask_hides_are_not_read(
    mask: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, options = problem(HIDING[mask], dtype)
    library = host_library(dtype, 16)
    rows = cuda.forward(library, inputs, options)
    expected = backward(inputs, options, rows)
    pack = cuda.pack

    def pack_and_spoil(
        library: Library, inputs: Inputs, grad: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        packed, packed_grad = pack(library, inputs, grad)
        spoil_hidden_tile(packed, inputs)
        return packed, packed_grad

    monkeypatch.setattr(cuda, "pack", pack_and_spoil)
    again = cuda.forward(library, inputs, options)
    assert torch.equal(again.output, rows.output)
    gradients = backward(inputs, options, again)
    assert torch.equal(gradients.query, expected.query)
    assert torch.equal(gradients.value, expected.value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_backward_pass_packs_its_four_arrays_in_one_call_and_runs_once(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, options = problem(None, dtype)
    rows = cuda.forward(host_library(dtype, 16), inputs, options)
    calls: list[str] = []
    call = Library.call

    def recorded(self: Library, name: str, *arguments: object) -> None:
        calls.append(name)
        call(self, name, *arguments)

    monkeypatch.setattr(Library, "call", recorded)
    backward(inputs, options, rows)
    assert calls == ["fk_pack", "fk_gradients"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("asked", [False, True])
def test_gradients_do_not_depend_on_the_heads_beside_them(
    asked: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four heads at a time, one at a time, and an example of the batch alone.
    mask = draw(2, 2, N, M, seed=5, dtype=dtype).detach() if asked else None
    inputs, options = problem(mask, dtype, mask_grad=asked)
    rows = cuda.forward(host_library(dtype, 16), inputs, options)
    together = backward(inputs, options, rows)
    monkeypatch.setattr(cuda, "heads_at_once", lambda _: 1)
    assert all(map(torch.equal, backward(inputs, options, rows), together))
    alone = Inputs(*(leaf[1:] for leaf in inputs[:3]), inputs.radius, mask[1:] if asked else None)
    rows = cuda.forward(host_library(dtype, 16), alone, options)
    grad = draw(2, *rows.output.shape[1:], seed=9, dtype=dtype).detach()[1:]
    cotangents = Cotangents(grad, None, (grad * rows.output).sum(-1))
    saved = Saved(rows.significand, rows.exponent)
    single = cuda.backward(host_library(dtype, 16), cotangents, alone, saved, options)
    for one, of_both in zip(single[:3], together[:3], strict=True):
        assert torch.equal(one, of_both[1:])


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_that_take_several_tiles_of_keys_agree_with_those_that_take_one(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = Case(n=N, m=300, dim=5, columns=3).leaves(torch.float64)
    inputs, options = Inputs(*leaves, None), Options(4, causal, 0.0)
    rows = cuda.forward(host_library(torch.float64, 16), inputs, options)
    expected = backward(inputs, options, rows)
    shares = []
    for most in (1, 3, 4):
        monkeypatch.setattr(layout, "_SPLITS", most)
        shares.append(layout.splits_of(320, inputs.query))
        found = backward(inputs, options, rows)
        assert torch.equal(found.key, expected.key)
        assert torch.equal(found.value, expected.value)
        torch.testing.assert_close(found.query, expected.query, rtol=1e-13, atol=1e-14)
    assert shares == [1, 3, 4]  # of ten tiles, four at most to a share


def test_more_blocks_than_a_grid_may_have_run_in_several(tmp_path: Path) -> None:
    files = dict(sources())
    largest = "kLargestGrid = 0x7fffffff"
    assert largest in files["attention.cu"]
    files["attention.cu"] = files["attention.cu"].replace(largest, "kLargestGrid = 5")
    path = compiled("small grids", Variant("float", 16), files=files, folder=tmp_path)
    several = Library.load(str(path), 16)
    inputs, options = problem(None, torch.float32)
    results = []
    for library in (several, host_library(torch.float32, 16)):
        rows = cuda.forward(library, inputs, options)
        results.append((rows, backward(inputs, options, rows, library)))
    (rows, gradients), (expected_rows, expected) = results
    assert all(map(torch.equal, rows, expected_rows))
    assert all(map(torch.equal, gradients, expected))


def test_keys_of_no_row_give_zeros() -> None:
    leaves = Case().leaves(torch.float32)
    leaves[1:3] = [leaf[:, :, :0] for leaf in leaves[1:3]]
    grad = torch.ones(2, 2, 70, 16)
    rows, gradients = run_with(Case(m=0, options={"return_weights": True}), leaves, grad)
    assert (rows.output == 0).all()
    assert torch.isinf(rows.significand).all()
    assert rows.weights.shape == (2, 2, 70, 0)
    assert (gradients.query == 0).all()


# ---- refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["key", "value", "radius", "mask"])
def test_tensors_on_two_devices_are_refused_by_name(name: str) -> None:
    inputs, options = problem(HIDING["boolean"], torch.float32)
    moved = inputs._replace(**{name: getattr(inputs, name).to("meta")})
    with pytest.raises(ValueError, match=f"{name} must be on the device of query, cpu, got meta"):
        cuda.forward(host_library(torch.float32, 16), moved, options)


def test_dropout_without_a_seed_is_refused() -> None:
    inputs, options = problem(None, torch.float32, dropout_p=0.5)
    with pytest.raises(ValueError, match="seed must be given with dropout_p > 0, got None"):
        cuda.forward(host_library(torch.float32, 16), inputs, options)


def test_gradients_on_another_device_are_refused_by_name() -> None:
    inputs, options = problem(None, torch.float32)
    library = host_library(torch.float32, 16)
    rows = cuda.forward(library, inputs, options)
    saved = Saved(rows.significand, rows.exponent)
    cotangents = Cotangents(rows.output.to("meta"), None, rows.significand)
    with pytest.raises(ValueError, match="output must be on the device of query, cpu, got meta"):
        cuda.backward(library, cotangents, inputs, saved, options)


def test_lack_of_memory_names_shapes_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB")

    monkeypatch.setattr(cuda, "pack", fail)
    inputs, options = problem(None, torch.float32, return_weights=True)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        cuda.forward(host_library(torch.float32, 16), inputs, options)
    message = str(caught.value)
    assert "query (2, 2, 150, 5), key (2, 2, 200, 5), value (2, 2, 200, 3)" in message
    assert "weights 480,000" in message  # bytes
    assert "Tried to allocate 2.00 GiB" in message


def test_lack_of_memory_in_the_derivative_names_shapes_and_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs, options = problem(torch.zeros(1, 1, N, M), torch.float32, mask_grad=True)
    rows = cuda.forward(host_library(torch.float32, 16), inputs, options)

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB")

    monkeypatch.setattr(cuda, "pack", fail)
    with pytest.raises(torch.OutOfMemoryError, match=r"query 12,000, .*mask 120,000\): Tried"):
        backward(inputs, options, rows)


def test_double_precision_on_a_card_without_it_warns_once() -> None:
    cuda_library._warn_of_doubles.cache_clear()
    with pytest.warns(UserWarning, match="float64 has a 32nd of the speed of float32 .* sm_86"):
        cuda_library.warn_of_doubles(torch.float64, (8, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda_library.warn_of_doubles(torch.float64, (8, 6))
        cuda_library.warn_of_doubles(torch.float64, (9, 0))
        cuda_library.warn_of_doubles(torch.float32, (8, 9))
