"""Pages of heads as tests read them: what they embed, and what a browser makes of them."""

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")


def embedded(page: str) -> dict[str, Any]:
    """Return the numbers inside a page."""
    start = page.index('id="data">') + len('id="data">')
    return json.loads(page[start : page.index("</script>", start)])


def written_page(folder: Path) -> dict[str, Any]:
    """Return the numbers inside the page of a folder that a report was written to."""
    return embedded((folder / "heads.html").read_text(encoding="utf-8"))


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table of CSV."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def dumped(address: str, folder: Path, *flags: str) -> str:
    """Return a page after its script has run, as text; the browser keeps its things in a folder."""
    command = [str(CHROMIUM), *_FLAGS, f"--user-data-dir={folder}", *flags, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
