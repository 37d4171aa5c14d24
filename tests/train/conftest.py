"""A small real text, and short training runs on it."""

from pathlib import Path

import pytest
from training_runs import short_run, train_here, write_texts

from fourierkernels.train.run_setup import Setup


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "manual")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="session")
def request_run(texts: Path) -> Setup:
    return short_run(texts)


@pytest.fixture(scope="session")
def finished(request_run: Setup, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was not interrupted; not to be changed."""
    output = tmp_path_factory.mktemp("finished") / "run"
    train_here(request_run, output, cache)
    return output
