"""Memory of the CPU kernels: O(N), whatever is asked for but the weights themselves."""

import pytest
from several_threads import printed_by

# Peaks of a process never fall: each length has its own, after the compiled loops have run once.
_PEAK = """
import resource
import torch
from fourierkernels.ops.arguments import Cotangents, Inputs, Options, Saved
from fourierkernels.ops.cpu_backward import backward
from fourierkernels.ops.cpu_forward import forward

def run(n, mask):
    query, key, value, grad = (torch.randn(1, 1, n, 64) for _ in range(4))
    mask = None if mask is None else torch.zeros(mask)
    inputs = Inputs(query, key, value, torch.ones(1, 64), mask, torch.tensor([5]))
    options = Options(4, {causal}, 0.0, 0.1, mask_grad=mask is not None)
    rows = forward(inputs, options)
    delta = (grad * rows.output).sum(dim=-1)
    saved = Saved(rows.significand, rows.exponent, rows.packed)
    backward(Cotangents(grad, None, delta), inputs, saved, options)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

torch.set_num_threads(1)
for mask in (None, (1, 1, 1, 8)):
    run(8, mask)
before = peak()
run({n}, {mask})
print(peak() - before)
"""


@pytest.mark.parametrize(("causal", "mask"), [(False, "None"), (True, "(1, 1, 1, 4096)")])
def test_forward_and_backward_with_dropout_take_a_few_megabytes(causal: bool, mask: str) -> None:
    """Of 4,096 queries and keys the weights alone would be 64 MB, the distances 4 GB."""
    (kilobytes,) = printed_by(_PEAK.format(n=4096, mask=mask, causal=causal))
    assert int(kilobytes) < 60_000
