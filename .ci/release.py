"""What a release is made of, checked: its notes, its files, and what they do once installed.

python .ci/release.py notes [TAG]    print the changelog's entry of this version
python .ci/release.py check FOLDER   look into the wheel and the sdist of a folder
python .ci/release.py try FOLDER     install the wheel into an environment of its own, use it
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fourierkernels"
LARGEST = 200_000  # bytes of one file
NEVER = ("notebooks/", "book/", "experiments/")
DATA = (".csv", ".npy", ".npz", ".safetensors", ".ipynb", ".pt", ".so")


def version() -> str:
    """Return the version, from the one place that states it."""
    text = (ROOT / PACKAGE / "foundation" / "version.py").read_text(encoding="utf-8")
    return re.search(r'__version__ = "(.+)"', text)[1]


def notes(changelog: str, number: str, tag: str | None = None) -> str:
    """Return the changelog's entry of a version.

    Raises
    ------
    ValueError
        If the tag is not of that version, or there is no entry or an empty one.
    """
    if tag not in (None, f"v{number}"):
        raise ValueError(
            f"tag must be v{number}, as {PACKAGE}/foundation/version.py says, got {tag}"
        )
    entry = re.search(rf"^## {re.escape(number)}\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if entry is None or not entry[1].strip():
        raise ValueError(f"book/changelog.md must have an entry of {number}, got none")
    return entry[1].strip() + "\n"


def wrong_files(sizes: dict[str, int], package: set[str]) -> list[str]:
    """Return what is wrong with the files of a wheel or sdist, given the sizes and the package's.

    An empty list if the package is whole, a licence is there, and nothing else is large or data.
    """
    found = {name for name in sizes if name.startswith(f"{PACKAGE}/")}
    return [
        *(f"{name} is missing" for name in sorted(package - found)),
        *(f"{name} is not of the package" for name in sorted(found - package)),
        *(f"{name} has {size:,} bytes" for name, size in sizes.items() if size > LARGEST),
        *(f"{name} is data" for name in sizes if name.endswith(DATA)),
        *(f"{name} does not belong here" for name in sizes if name.startswith(NEVER)),
        *([] if any(Path(name).name == "LICENSE" for name in sizes) else ["LICENSE is missing"]),
    ]


def package_files() -> set[str]:
    """Return the files of the package in this checkout: sources, py.typed, CUDA, the page."""
    paths = (path for path in (ROOT / PACKAGE).rglob("*") if path.is_file())
    kept = (path for path in paths if path.parent.name != "__pycache__")
    return {path.relative_to(ROOT).as_posix() for path in kept}


def check(folder: Path) -> None:
    """Refuse a folder without exactly the wheel and sdist of this version, or with wrong ones."""
    wheel = folder / f"{PACKAGE}-{version()}-py3-none-any.whl"
    sdist = folder / f"{PACKAGE}-{version()}.tar.gz"
    if {wheel, sdist} != (found := set(folder.iterdir())):
        names = ", ".join(sorted(path.name for path in found))
        raise ValueError(f"{folder} must hold {wheel.name} and {sdist.name}, got {names}")
    with ZipFile(wheel) as content:
        inside = {one.filename: one.file_size for one in content.infolist()}
    with tarfile.open(sdist) as content:
        rest = {one.name.partition("/")[2]: one.size for one in content if one.isfile()}
    for path, sizes in ((wheel, inside), (sdist, rest)):
        if wrong := wrong_files(sizes, package_files()):
            raise ValueError(
                f"{path.name} must hold the package and no more: {'; '.join(wrong[:5])}"
            )
        packed, unpacked = path.stat().st_size, sum(sizes.values())
        print(f"{path.name}: {len(sizes)} files, {packed:,} bytes, {unpacked:,} unpacked")


def first_example(readme: str) -> tuple[str, str]:
    """Return the first example of the README and what it prints."""
    found = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", readme, re.S)
    return found[1], found[2]


def try_out(folder: Path) -> None:
    """Install the wheel where nothing else is; run the README's first example and two commands."""
    wheel = next(folder.glob("*.whl")).resolve()
    program, printed = first_example((ROOT / "README.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "env")
        venv.create(home, with_pip=True)
        bin_folder = home / ("Scripts" if os.name == "nt" else "bin")
        python = bin_folder / "python"
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        clean["PYTHONIOENCODING"] = "utf-8"

        def run(*words: str | Path) -> str:
            options = {"check": True, "cwd": place, "env": clean, "encoding": "utf-8"}
            return subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, **options).stdout

        constraints = ROOT / "constraints.txt"
        run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel)
        if (got := run(python, "-c", program)) != printed:
            raise ValueError(f"the README's first example must print {printed!r}, got {got!r}")
        run(bin_folder / PACKAGE, "--help")
        print(run(bin_folder / PACKAGE, "rates", "--density", "laplace", "--power", "1"))


def main(command: str, *words: str) -> None:
    """Run one of the commands."""
    if command == "notes":
        changelog = (ROOT / "book" / "changelog.md").read_text(encoding="utf-8")
        print(notes(changelog, version(), *words), end="")
    else:
        {"check": check, "try": try_out}[command](Path(*words))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(f"error: {error}")
