"""The <seg> elements of the .sgm and .xml files in which test sets are distributed.

Read line by line, as the published preparations do: the .sgm files are no XML.
"""

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from fourierkernels.studies.texts.source import text_lines
from fourierkernels.studies.translation.pairs import LONGEST_LINE, Pair, Sides

_DOCUMENT = re.compile(r"<doc\b[^>]*\bdocid=\"([^\"]*)\"", re.IGNORECASE)
_SEGMENT = re.compile(r"<seg\b[^>]*\bid=\"?(\w+)\"?[^>]*>(.*?)</seg>", re.IGNORECASE)
_OPENED = re.compile(r"<seg\b", re.IGNORECASE)


class Segment(NamedTuple):
    """A sentence and its place."""

    document: str
    number: str
    text: str


def segments_of(path: Path) -> Iterator[Segment]:
    """Yield the segments of a file, with their character references resolved.

    Raises
    ------
    ValueError
        If a segment does not end in its line.
    """
    document = ""
    for number, line in enumerate(text_lines(path, most=8 * LONGEST_LINE), start=1):
        if opened := _DOCUMENT.search(line):
            document = opened[1]
        found = _SEGMENT.findall(line)
        if len(found) != len(_OPENED.findall(line)):
            raise ValueError(f"{path} must have whole <seg> elements, got line {number}")
        for place, text in found:
            yield Segment(document, place, " ".join(html.unescape(text).split()))


def pairs_of_segments(sides: Sides) -> Iterator[Pair]:
    """Yield the pairs of two files of segments.

    Raises
    ------
    ValueError
        If a file has no segments, or they are not those of the same documents.
    """
    count = 0
    for ours, theirs in zip_longest(segments_of(sides[0]), segments_of(sides[1])):
        if ours is None or theirs is None or ours[:2] != theirs[:2]:
            places = [
                f"{each.document} {each.number}" if each else "none" for each in (ours, theirs)
            ]
            raise ValueError(
                f"{sides[1]} must have the segments of {sides[0]}, {places[0]}, got {places[1]}"
            )
        count += 1
        yield Pair(ours.text, theirs.text, ours.document)
    if count == 0:
        raise ValueError(f"{sides[0]} must have <seg> elements, got none")
