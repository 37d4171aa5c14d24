"""Training is reproducible, on one thread."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    import torch  # a file of tests says by itself that it needs it

    threads = torch.get_num_threads()
    torch.manual_seed(2022)
    torch.set_num_threads(1)  # tiny products: more threads only wait for each other
    yield
    torch.set_num_threads(threads)
