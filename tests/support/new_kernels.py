"""What a kernel need not offer, and refuses by name, skips the tests that would use it.

The compiled loops know the Gaussian and the powers of the sinc, band-limited sums a transform of
compact support, and a sampler is optional. A test of one of these that meets another row of
`KERNELS` is skipped with the refusal; for the rows that have everything a refusal is a failure.
"""

from collections.abc import Generator

import pytest
from hypothesis.errors import FailedHealthCheck

from fourierkernels.kernels import KERNELS
from fourierkernels.sums.problem import compiled_refusal

PLAIN = {name for name, kernel in KERNELS.items() if compiled_refusal(kernel)}
FILTERED = "inputs were filtered out"  # says hypothesis, where a test leaves refused sums out
REFUSALS = (
    "no compiled form of kernel",
    "needs a transform of compact support",
    "kernel must offer sample(n, rng)",
    FILTERED,
)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Skip a test of what its kernel does not offer."""
    try:
        return (yield)
    except (ValueError, FailedHealthCheck) as error:
        values = pyfuncitem.callspec.params.values() if hasattr(pyfuncitem, "callspec") else ()
        named = {value for value in values if isinstance(value, str)} & PLAIN
        if named and any(refusal in str(error) for refusal in REFUSALS):
            reason = "no method of this test sums it" if FILTERED in str(error) else str(error)
            pytest.skip(f"{named.pop()}: {reason}")
        raise
