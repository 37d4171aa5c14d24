"""Tests that need an extra of the package are skipped where it is absent, and say which."""

import re
import sys
from collections.abc import Generator, Iterator
from doctest import UnexpectedException
from importlib.util import find_spec
from traceback import walk_tb

import pytest

from fourierkernels.foundation.extras import EXTRAS

# The package's table, and what the chapters and the build of the book import besides.
BOOK = "yaml bs4 docutils sphinx pybtex jupyter_book jupyter_cache jupytext nbformat nbclient pypdf"
ALL = {**EXTRAS, "IPython": "book", "mpmath": "symbolic", **dict.fromkeys(BOOK.split(), "book")}
# Looked up once, before a test hides a package.
ABSENT = {module: extra for module, extra in ALL.items() if find_spec(module) is None}


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it."""
    while error is not None:
        if isinstance(error, UnexpectedException):  # of an example in a docstring
            error = error.exc_info[1]
        yield error
        error = error.__cause__ or error.__context__


def missing_extra(error: BaseException) -> str | None:
    """Return why a test is skipped, if an error or one of its causes is an absent extra."""
    for cause in causes(error):
        told = f"{cause}\n{getattr(cause, 'stderr', None)}"  # of a command that a test started
        found = re.search(r"No module named '(\w+)", told)
        if found and found[1] in ABSENT:
            return f"needs {found[1]}, of the extra {ABSENT[found[1]]}"
        found = re.search(r"fourierkernels\[(\w+)\]", told)
        if found and found[1] in ABSENT.values():
            return f"needs the extra {found[1]}"
    return None


def forget_half_imported(error: BaseException) -> None:
    """Drop modules that failed midway, which pytest keeps and other files would take for whole."""
    for cause in causes(error):
        for frame, _ in walk_tb(cause.__traceback__):
            if frame.f_code.co_name == "<module>":
                sys.modules.pop(frame.f_globals["__name__"], None)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports what is absent."""
    report = yield
    call: pytest.CallInfo[object] = report.call  # type: ignore[attr-defined]
    if call.excinfo and (reason := missing_extra(call.excinfo.value)):
        forget_half_imported(call.excinfo.value)
        place = (str(collector.path), 0, f"Skipped: {reason}")
        return pytest.CollectReport(collector.nodeid, "skipped", place, [])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip a test whose fixture imports what is absent."""
    yield from _skipped_if_absent()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test that imports what is absent."""
    yield from _skipped_if_absent()


def _skipped_if_absent() -> Generator[None, None, None]:
    try:
        yield
    except Exception as error:
        if reason := missing_extra(error):
            pytest.skip(reason)
        raise
