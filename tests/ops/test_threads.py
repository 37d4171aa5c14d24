"""Threads of the compiled CPU kernels: torch's number holds, and nobody's number is changed."""

import pytest
from several_threads import THREADS, printed_by

# In a process of its own: numba starts its threads once.
_FIRST_CALL = """
import torch
from fourierkernels.attention import fourier_attention
torch.set_num_threads({threads})
x = torch.randn(2, 4, 128, 32, requires_grad=True)
fourier_attention(x, x, x, 0.5).sum().backward()
print(torch.get_num_threads())
"""
_BORROWED = """
import numba, torch
from fourierkernels.ops.threads import as_many_threads_as_torch
before = numba.get_num_threads()
torch.set_num_threads(1)
with as_many_threads_as_torch():
    inside = numba.get_num_threads()
print(before, inside, numba.get_num_threads(), torch.get_num_threads())
"""
_OUTPUTS = """
import torch
from fourierkernels.attention import fourier_attention
leaves = torch.randn(3, 1, 4, 200, 16, generator=torch.Generator().manual_seed(0))
found = []
for threads in (1, 2, {threads}):
    torch.set_num_threads(threads)
    query, key, value = (leaf.clone().requires_grad_() for leaf in leaves)
    output = fourier_attention(query, key, value, 0.7, is_causal={causal})
    output.square().sum().backward()
    found.append([output.detach(), query.grad, key.grad, value.grad])
print(*(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other)))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_first_large_call_leaves_the_threads_of_torch(threads: int) -> None:
    assert printed_by(_FIRST_CALL.format(threads=threads)) == [str(threads)]


def test_kernels_use_as_many_threads_as_torch_and_numba_gets_its_number_back() -> None:
    assert printed_by(_BORROWED) == [str(THREADS), "1", str(THREADS), "1"]


@pytest.mark.parametrize("causal", [False, True])
def test_number_of_threads_does_not_change_output_or_gradients(causal: bool) -> None:
    printed = printed_by(_OUTPUTS.format(threads=THREADS, causal=causal))
    assert printed == ["True"] * 8
