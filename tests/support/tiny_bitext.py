"""A small corpus of two languages, made up: pages of sentences, their translations backwards."""

import random
from pathlib import Path

from fourierkernels.studies.translation.corpora import read_bitext
from fourierkernels.studies.translation.pair_files import PairFiles

WORDS = [a + b + c for a in "bdgklmnprst" for b in "aeiou" for c in ("", "l", "n", "ra")]


def sentence(rng: random.Random, n: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(n)) + "."


def translated(text: str) -> str:
    return " ".join(word[::-1] for word in text.rstrip(".").split()) + "!"


def lines(pairs: int, *, longest: int = 12, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return sources, targets and documents; one in eight is of another page but for a number."""
    rng, found, texts = random.Random(seed), [], []
    for number in range(pairs):
        texts.append(sentence(rng, rng.randint(1, longest)))
        if number % 8 == 7:
            texts[-1] = rng.choice(texts)
        text = f"{rng.randrange(1000)} {texts[-1]}"
        found.append((text, translated(text), f"page {number // 10}"))
    return found


def write_lines(folder: Path, pairs: list[tuple[str, str, str]], stem: str = "text") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for ending, column in zip(("en", "it", "documents"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in column)
        (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder


def tiny_files(folder: Path, pairs: int = 600, **options: int) -> PairFiles:
    """Return the files of a corpus in that folder."""
    write_lines(folder / "corpus", lines(pairs))
    options = {"size": 200} | options
    return read_bitext(folder / "corpus", folder=folder / "cache", **options)
