"""Who made this version, when, and under which licence: from ``CITATION.cff``."""

from pathlib import Path

import yaml

CITATION = Path(__file__).parents[1] / "CITATION.cff"


def imprint() -> str:
    """Return authors, version, date and licence in one line of Markdown."""
    of = yaml.safe_load(CITATION.read_text("utf-8"))
    authors = ", ".join(author["name"] for author in of["authors"])
    day = of["date-released"]
    released = f"{day.day} {day:%B %Y}"
    return f"*{authors} · version {of['version']}, {released} · licence {of['license']}*"
