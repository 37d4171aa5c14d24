"""Threads of the compiled CPU kernels: torch's number holds, and nobody's number is changed."""

import pytest
from several_threads import THREADS, printed_by

pytestmark = pytest.mark.slow  # it compiles the parallel loops

# In a process of its own, since numba starts its threads once, and in one for all, since that
# compiles the parallel loops.
_PROGRAM = """
import numba, torch
from fourierkernels.attention import fourier_attention
from fourierkernels.ops.cpu.layout import as_many_threads_as_torch

x = torch.randn(2, 4, 128, 32, requires_grad=True)
for threads in (1, 2):  # numba starts its own in the second call
    torch.set_num_threads(threads)
    fourier_attention(x, x, x, 0.5).sum().backward()
    print(torch.get_num_threads())

before = numba.get_num_threads()
torch.set_num_threads(1)
with as_many_threads_as_torch():
    inside = numba.get_num_threads()
print(before, inside, numba.get_num_threads(), torch.get_num_threads())

leaves = torch.randn(3, 1, 4, 200, 16, generator=torch.Generator().manual_seed(0))
for causal in (False, True):
    found = []
    for threads in (1, 2, {threads}):
        torch.set_num_threads(threads)
        query, key, value = (leaf.clone().requires_grad_() for leaf in leaves)
        output = fourier_attention(query, key, value, 0.7, is_causal=causal)
        output.square().sum().backward()
        found.append([output.detach(), query.grad, key.grad, value.grad])
    print(*(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other)))
"""


@pytest.fixture(scope="module")
def printed() -> list[str]:
    return printed_by(_PROGRAM.format(threads=THREADS))


def test_first_large_calls_leave_the_threads_of_torch(printed: list[str]) -> None:
    assert printed[:2] == ["1", "2"]


def test_kernels_use_as_many_threads_as_torch_and_numba_gets_its_number_back(
    printed: list[str],
) -> None:
    assert printed[2:6] == [str(THREADS), "1", str(THREADS), "1"]


def test_number_of_threads_does_not_change_output_or_gradients(printed: list[str]) -> None:
    """Of eight arrays, without and with a causal order."""
    assert printed[6:] == ["True"] * 16
