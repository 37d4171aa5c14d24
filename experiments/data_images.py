"""Fetch real images to train classifiers on: Fashion-MNIST, 70,000 grey images of 28 × 28 pixels.

    python experiments/data_images.py [--output FOLDER] [--quick]

Downloads Debian's package dataset-fashion-mnist with ``apt-get download`` (31 MB; nothing is
installed, no root is needed), unpacks it with ``dpkg-deb`` and copies its four IDX files. Then:

    fourierkernels train images --preset fashion --data FOLDER

--quick downloads nothing and writes files of 40 and 10 blank images, to try the rest.

Licence: Expat (MIT), Zalando SE. The images are not part of this repository.
"""

import argparse
import gzip
import json
import shutil
import tempfile
from pathlib import Path

from data_manuals import download

PACKAGE = "dataset-fashion-mnist"
HOME = "usr/share/datasets/fashion-mnist"  # in the package
SIDE = 28
COUNTS = {"train": 40, "t10k": 10}  # blank images
NAMES = [f"{part}-{kind}-ubyte.gz" for part in COUNTS for kind in ("images-idx3", "labels-idx1")]


def write_blank(folder: Path) -> None:
    """Write IDX files of blank images of ten classes."""
    folder.mkdir(parents=True)
    for part, count in COUNTS.items():
        arrays = {
            "images-idx3": ((count, SIDE, SIDE), bytes(count * SIDE**2)),
            "labels-idx1": ((count,), bytes(i % 10 for i in range(count))),
        }
        for kind, (shape, numbers) in arrays.items():
            head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + numbers))


def main() -> None:
    """Fetch, unpack, copy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("fashion-mnist"))
    parser.add_argument("--quick", action="store_true", help="blank images")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        origin: dict[str, str] = {}
        if options.quick:
            write_blank(Path(scratch) / HOME)
        else:
            origin = download(Path(scratch), [PACKAGE])
        options.output.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            shutil.copyfile(Path(scratch) / HOME / name, options.output / name)
    facts = {"package": origin, "files": NAMES}
    (options.output / "origin.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    print(f"{options.output}: {', '.join(NAMES)}")


if __name__ == "__main__":
    main()
