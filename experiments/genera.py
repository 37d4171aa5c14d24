"""Inputs for MGM, a decoder whose words are genera of microbes: sequences drawn from the network.

    python experiments/genera.py [--output FOLDER] [--quick]

The package microformer-mgm ships the network but no samples of microbes to feed it. So the network
writes its own: token by token from its next-token distribution, temperature 1, nothing cut off,
from the start mark. Such sequences are what it takes samples of microbes to look like.

Writes, one sequence of token ids a line: genera.txt, each ended by the network itself, at most 256
tokens; genera_256.txt, of exactly 256 tokens, the end mark not allowed; and genera.json, the
provenance. The text of id i > 3 is line i - 3 of the package's resources/phylogeny.csv, its header
not counted.
"""

import argparse
import json
from pathlib import Path

import torch

from fourierkernels.checkpoints import load_checkpoint
from fourierkernels.foundation.provenance import provenance

ROOT = Path(__file__).parents[1]
CHECKPOINT = "mgm:resources/general_model"
START, END = 2, 3
LONGEST = 256
SHORTEST = 16  # below it a map has too few rows to compare heads by
SEED = 2022


@torch.no_grad()
def draw(
    model: torch.nn.Module, generator: torch.Generator, *, longest: int, end: bool
) -> list[int]:
    """Return the ids of one sequence, from the start mark to the end mark or to `longest`."""
    ids, past = [START], None
    while len(ids) < longest and ids[-1] != END:
        output = model(torch.tensor([ids[-1:]]), past_key_values=past, use_cache=True)
        past = output.past_key_values
        chances = output.logits[0, -1].double().softmax(-1)
        if not end:
            chances[END] = 0.0
        ids.append(int(torch.multinomial(chances, 1, generator=generator)))
    return ids


def sequences(
    model: torch.nn.Module, *, count: int, longest: int, end: bool, seed: int
) -> list[list[int]]:
    """Return `count` sequences; with `end` those that the network ended within the limits."""
    generator, kept = torch.Generator().manual_seed(seed), []
    while len(kept) < count:
        ids = draw(model, generator, longest=longest, end=end)
        if not end or (ids[-1] == END and len(ids) >= SHORTEST):
            kept.append(ids)
    return kept


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "notebooks" / "data")
    parser.add_argument("--quick", action="store_true", help="two short sequences of each kind")
    args = parser.parse_args()
    torch.set_num_threads(1)  # one token at a time: threads would wait for each other
    checkpoint = load_checkpoint(CHECKPOINT, model_class="GPT2LMHeadModel")
    sizes = {
        "genera": {"count": 48, "longest": LONGEST, "end": True},
        "genera_256": {"count": 16, "longest": LONGEST, "end": False},
    }
    if args.quick:
        sizes = {
            "genera": {"count": 2, "longest": 48, "end": True},
            "genera_256": {"count": 2, "longest": 16, "end": False},
        }
    args.output.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        drawn = sequences(checkpoint.model, seed=SEED, **size)
        lines = "".join(" ".join(map(str, ids)) + "\n" for ids in drawn)
        (args.output / f"{name}.txt").write_text(lines, encoding="utf-8")
    config = {
        "checkpoint": CHECKPOINT,
        "weights": checkpoint.files.digest(),
        "seed": SEED,
        "shortest": SHORTEST,
        **sizes,
    }
    record = provenance(config, Path(__file__), ["torch", "transformers", "microformer-mgm"])
    (args.output / "genera.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
