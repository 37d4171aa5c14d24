"""Small corpora, short training runs on them, and commands.

Fixtures import what needs PyTorch, so that readers of data sets are tested without it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from training_runs import Call

    from fourierkernels.studies.engine.run_setup import Setup


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from training_runs import write_texts

    return write_texts(tmp_path_factory.mktemp("texts") / "manual")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="session")
def request_run(texts: Path) -> "Setup":
    from training_runs import short_run

    return short_run(texts)


@pytest.fixture(scope="session")
def finished(request_run: "Setup", cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was not interrupted; not to be changed."""
    from training_runs import train_here

    output = tmp_path_factory.mktemp("finished") / "run"
    train_here(request_run, output, cache)
    return output


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Pairs of sentences, and the preset "mini" for a model that reads them."""
    from translation_runs import mini, write_corpus

    from fourierkernels.studies.translation import study as translation

    translation.PRESETS["mini"] = mini()
    yield write_corpus(tmp_path_factory.mktemp("corpus"))
    del translation.PRESETS["mini"]


@pytest.fixture(scope="session")
def translator(corpus: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a translation run that was not interrupted; not to be changed."""
    from translation_runs import mini_run, train_mini

    output = tmp_path_factory.mktemp("translation") / "run"
    train_mini(mini_run(corpus), output, cache)
    return output


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., "CompletedProcess[str]"], cache: Path
) -> "Call":
    """Run a command in this process; return exit status, output and messages."""
    monkeypatch.setenv("FOURIERKERNELS_CACHE", str(cache))

    def run(*arguments: object) -> tuple[int, str, str]:
        done = command(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run
