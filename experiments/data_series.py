"""Fetch two real problems of time series: JapaneseVowels and BasicMotions of the UEA archive.

    python experiments/data_series.py [--output FOLDER] [--wheel FILE] [--quick]

Downloads the wheel of aeon 1.6.0, which ships both, with ``pip download`` (6 MB; nothing is
installed), and takes NAME_TRAIN.ts and NAME_TEST.ts of each out of it, into folders of their names.
Then:

    fourierkernels train series --preset JapaneseVowels --data FOLDER

The other eight problems of the paper are at https://www.timeseriesclassification.com; put their
folders beside these two.

--wheel takes a wheel that has been downloaded already. --quick downloads nothing and takes the
files out of a wheel that it makes itself, to try the extraction.

Licences: aeon BSD-3. JapaneseVowels is of Kudo, Toyama and Shimbo (1999), BasicMotions of students
of the University of East Anglia; the series are not part of this repository.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aeon==1.6.0"
DIGEST = "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409"  # SHA-256 of its wheel
INSIDE = "aeon/datasets/data/{problem}/{problem}_{part}.ts"
PROBLEMS, PARTS = ("BasicMotions", "JapaneseVowels"), ("TRAIN", "TEST")
EXAMPLE = "@univariate true\n@classLabel true a b\n@data\n1,2:a\n2,1:b\n3,4:a\n4,3:b\n"


def download(folder: Path) -> Path:
    """Download the wheel into a folder and return it.

    Raises
    ------
    SystemExit
        If it is another file than the one that this script knows.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    found = digest(wheel.read_bytes())
    if found != DIGEST:
        raise SystemExit(f"error: {wheel.name} must have SHA-256 {DIGEST}, got {found}")
    return wheel


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def extract(wheel: Path, output: Path) -> None:
    """Write the files of the problems, and where they come from.

    Raises
    ------
    SystemExit
        If the wheel has no such file.
    """
    origin: dict[str, object] = {"wheel": wheel.name, "sha256": digest(wheel.read_bytes())}
    with zipfile.ZipFile(wheel) as archive:
        for problem in PROBLEMS:
            for part in PARTS:
                inside = INSIDE.format(problem=problem, part=part)
                if inside not in archive.namelist():
                    raise SystemExit(f"error: {wheel} must have {inside}, got none")
                content = archive.read(inside)
                file = output / problem / Path(inside).name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                origin[file.name] = digest(content)
    (output / "origin.json").write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    print(f"{output}: {', '.join(PROBLEMS)}")


def example(folder: Path) -> Path:
    """Write a wheel with four small files, and return it."""
    wheel = folder / "example.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for problem in PROBLEMS:
            for part in PARTS:
                archive.writestr(INSIDE.format(problem=problem, part=part), EXAMPLE)
    return wheel


def main() -> None:
    """Fetch, extract, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("series"))
    parser.add_argument("--wheel", type=Path, help="the wheel, downloaded before")
    parser.add_argument("--quick", action="store_true", help="the files of an example")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        given = example(Path(scratch)) if options.quick else options.wheel
        extract(given or download(Path(scratch)), options.output)


if __name__ == "__main__":
    main()
