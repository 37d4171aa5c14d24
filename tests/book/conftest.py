"""The book's programs are scripts beside the book, not part of the package."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture(autouse=True, scope="session")
def _jupyter_at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jupyter and kernels write into a folder of the tests."""
    from book.build import PRIVATE, build_environment

    private = tmp_path_factory.mktemp("jupyter") / PRIVATE
    private.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in build_environment(private.parents[1], {}).items():
            if Path(value).is_relative_to(private):
                patch.setenv(name, value)
        yield
