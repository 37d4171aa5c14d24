"""Threads of the compiled CPU kernels: torch's number holds, and nobody's number is changed."""

import subprocess
import sys

import numba
import pytest
import torch

from fourierkernels.attention import fourier_attention
from fourierkernels.ops.threads import as_many_threads_as_torch

# In a process of its own: numba starts its threads once.
_CODE = """
import torch
from fourierkernels.attention import fourier_attention
torch.set_num_threads({threads})
x = torch.randn(2, 4, 128, 32, requires_grad=True)
fourier_attention(x, x, x, 0.5).sum().backward()
print(torch.get_num_threads())
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_first_large_call_leaves_the_threads_of_torch(threads: int) -> None:
    code = _CODE.format(threads=threads)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(threads)]


def test_kernels_use_as_many_threads_as_torch_and_numba_gets_its_number_back() -> None:
    before, of_numba = torch.get_num_threads(), numba.get_num_threads()
    try:
        torch.set_num_threads(1)
        with as_many_threads_as_torch():
            assert numba.get_num_threads() == 1
        assert numba.get_num_threads() == of_numba
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_number_of_threads_does_not_change_the_output() -> None:
    before = torch.get_num_threads()
    query, key, value = torch.randn(3, 1, 4, 200, 16, generator=torch.Generator().manual_seed(0))
    try:
        outputs = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            outputs.append(fourier_attention(query, key, value, 0.7))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*outputs, rtol=0, atol=0)
