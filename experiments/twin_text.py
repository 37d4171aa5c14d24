"""The text of the twins: what two installed packages ship, split by document, as word numbers.

    python experiments/twin_text.py [--output FOLDER] [--quick]

Python's help topics (pydoc_data.topics; they change with its version) and scikit-learn's
descriptions of data sets. Topics repeat each other, so a paragraph counts once, where it occurs
first: without that, parts of the test text would be in the training text.

Writes twin_text as CSV and JSON, one row per split: documents, words, share of words outside the
vocabulary, and the perplexity of words drawn by their frequency and by the word before them, which
a network has to beat.
"""

import argparse
import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor

from fourierkernels.study import write_study

ROOT = Path(__file__).parents[1]
WORD = re.compile(r"\w+|([^\w\s])\1*")  # letters and digits, or one sign repeated
LONGEST_RUN = 3  # of signs: what underlines a heading is one word, whatever its length
UNKNOWN, UNKNOWN_WORD = 0, "<unk>"
SHARES = {"test": 0.08, "valid": 0.08, "train": 1.0}  # of the words, by whole documents
MIN_COUNT = 3
PRIOR = 20.0  # words


@dataclass(frozen=True, eq=False)
class Text:
    """Token ids of each split; words of the training split, most frequent first, after <unk>."""

    splits: dict[str, Tensor]
    words: list[str]
    facts: dict[str, Any]

    def windows(self, split: str, length: int) -> Tensor:
        """Return all windows of length + 1 that share only an end, ``(n, length + 1)``."""
        return self.splits[split].unfold(0, length + 1, length)


def documents() -> dict[str, str]:
    """Return the texts by name."""
    folder = resources.files("sklearn.datasets.descr")
    found = {f"topics/{name}": text for name, text in topics.items()}
    for file in folder.iterdir():
        if file.name.endswith(".rst"):
            found[f"descr/{file.name}"] = file.read_text(encoding="utf-8")
    return {name: found[name] for name in sorted(found, key=digest)}  # an order of no meaning


def split_words(text: str) -> list[str]:
    r"""Return words, numbers and signs in order.

    >>> split_words("Heads\n=====\nx[0] ...")
    ['Heads', '===', 'x', '[', '0', ']', '...']
    """
    return [m.group()[:LONGEST_RUN] if m[1] else m.group() for m in WORD.finditer(text)]


def read_text(min_count: int) -> Text:
    """Split by document, drop paragraphs that occurred before, number the words."""
    texts = documents()
    parts, repeated = _split(texts)
    counts = Counter(parts["train"])
    words = [UNKNOWN_WORD, *(word for word, count in counts.most_common() if count >= min_count)]
    numbers = {word: number for number, word in enumerate(words)}
    splits = {
        name: torch.tensor([numbers.get(word, UNKNOWN) for word in found])
        for name, found in parts.items()
    }
    facts = {
        "sha256": digest("\n".join(f"{name}\n{text}" for name, text in texts.items())),
        "documents": len(texts),
        "repeated": repeated,
        "vocabulary": len(words),
        **{f"words_{name}": len(ids) for name, ids in splits.items()},
        **{
            f"unknown_{name}": (ids == UNKNOWN).double().mean().item()
            for name, ids in splits.items()
        },
    }
    return Text(splits, words, facts)


def _split(texts: Mapping[str, str]) -> tuple[dict[str, list[str]], float]:
    """Return the words of each split and the share of words in repeated paragraphs."""
    total = sum(len(split_words(text)) for text in texts.values())
    found: dict[str, list[str]] = {name: [] for name in SHARES}
    seen: set[str] = set()
    for text in texts.values():
        name = next(name for name, share in SHARES.items() if len(found[name]) < share * total)
        for paragraph in re.split(r"\n\s*\n", text):
            words = split_words(paragraph)
            if (key := " ".join(words)) not in seen:
                seen.add(key)
                found[name] += words
    return found, 1 - sum(map(len, found.values())) / total


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def frequency_losses(text: Text) -> dict[str, tuple[float, float]]:
    """Return mean -log p of each split by frequency, and by the word before, of the training text.

    One is added to the count of each word, and PRIOR times their shares to the counts after a word.
    """
    size, train = len(text.words), text.splits["train"]
    single = torch.bincount(train, minlength=size).double() + 1.0
    single /= single.sum()
    pairs = torch.bincount(train[:-1] * size + train[1:], minlength=size**2).double()
    pairs = pairs.view(size, size) + PRIOR * single
    pairs /= pairs.sum(dim=1, keepdim=True)
    return {
        name: (-single[ids].log().mean().item(), -pairs[ids[:-1], ids[1:]].log().mean().item())
        for name, ids in text.splits.items()
    }


def main() -> None:
    """Read the text and describe its splits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="a smaller vocabulary")
    options = parser.parse_args()
    text = read_text(20 if options.quick else MIN_COUNT)
    losses = frequency_losses(text)
    rows = [
        {
            "split": name,
            "words": len(ids),
            "unknown": (ids == UNKNOWN).double().mean().item(),
            "perplexity_by_frequency": math.exp(losses[name][0]),
            "perplexity_by_word_before": math.exp(losses[name][1]),
        }
        for name, ids in text.splits.items()
    ]
    write_study(
        options.output, "twin_text", rows, text.facts, source=Path(__file__), packages=("torch",)
    )
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
