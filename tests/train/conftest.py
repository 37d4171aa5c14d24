"""Small corpora, short training runs on them, and commands."""

from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from training_runs import Call, short_run, train_here, write_texts
from translation_runs import mini, mini_run, train_mini, write_corpus

from fourierkernels.train.run_setup import Setup
from fourierkernels.train.studies import translation


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


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Pairs of sentences, and the preset "mini" for a model that reads them."""
    translation.PRESETS["mini"] = mini()
    yield write_corpus(tmp_path_factory.mktemp("corpus"))
    del translation.PRESETS["mini"]


@pytest.fixture(scope="session")
def translator(corpus: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a translation run that was not interrupted; not to be changed."""
    output = tmp_path_factory.mktemp("translation") / "run"
    train_mini(mini_run(corpus), output, cache)
    return output


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., "CompletedProcess[str]"], cache: Path
) -> Call:
    """Run a command in this process; return exit status, output and messages."""
    monkeypatch.setenv("FOURIERKERNELS_CACHE", str(cache))

    def run(*arguments: object) -> tuple[int, str, str]:
        done = command(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run
