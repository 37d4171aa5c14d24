"""Memory of the CPU kernels: O(N), whatever is asked for but the weights themselves."""

from several_threads import printed_by

# Peaks of a process never fall: one of all calls is that of the greediest.
_PEAK = """
import resource
import torch
from fourierkernels.ops.arguments import Cotangents, Inputs, Options, Saved
from fourierkernels.ops.cpu.backward import backward
from fourierkernels.ops.cpu.forward import forward

def run(n, mask, causal):
    query, key, value, grad = (torch.randn(1, 1, n, 64) for _ in range(4))
    mask = None if mask is None else torch.zeros(mask)
    inputs = Inputs(query, key, value, torch.ones(1, 64), mask, torch.tensor([5]))
    options = Options(4, causal, 0.0, 0.1, mask_grad=mask is not None)
    rows = forward(inputs, options)
    delta = (grad * rows.output).sum(dim=-1)
    saved = Saved(rows.significand, rows.exponent)
    backward(Cotangents(grad, None, delta), inputs, saved, options)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

torch.set_num_threads(1)
for mask in (None, (1, 1, 1, 8)):  # the compiled loops, once
    run(8, mask, False)
before = peak()
run(4096, None, False)
run(4096, (1, 1, 1, 4096), True)
print(peak() - before)
"""


def test_forward_and_backward_with_dropout_take_a_few_megabytes() -> None:
    """Of 4,096 queries and keys the weights alone would be 64 MB, the distances 4 GB.

    Without a mask, and with a causal order and a mask whose gradient is wanted.
    """
    (kilobytes,) = printed_by(_PEAK)
    assert int(kilobytes) < 60_000
