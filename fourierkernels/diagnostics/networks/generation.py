"""Greedy generation, with the rows of attention that each new token was chosen with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.diagnostics.networks.layers import layer_number
from fourierkernels.diagnostics.networks.losses import choose_loss, token_scores
from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer


@dataclass(frozen=True, eq=False)
class Generation:
    """New tokens, and what the heads compute on the text with them.

    Attributes
    ----------
    ids : tuple of int
        Of the new tokens.
    tokens : tuple of str
        Names of all tokens, those of the text first.
    prompt : int
        How many these are.
    sample : HeadSample
        What the heads compute on all tokens but the last, which nothing was chosen from.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    prompt: int
    sample: HeadSample

    def rows(self, layer: int | str) -> FloatArray:
        """Return the weights that each new token was chosen with, ``(H, new, n)``.

        They are the rows of the token before it, over the n tokens of the text and all new ones but
        the last; the weights of later ones are zero. With a cache of keys and values a network
        computes the same rows one by one.

        Parameters
        ----------
        layer : int or str
            Its number from 0, or its name among the `layers` of `sample`.

        Raises
        ------
        ValueError, TypeError
            For a layer that there is not.
        """
        number = layer_number(layer, self.sample.layers)
        rows: FloatArray = self.sample.by_layer[number].part("maps")[:, self.prompt - 1 :]
        return rows


def generate(
    checkpoint: Checkpoint, prompt: Sequence[int], count: int, *, ends: Sequence[int] = ()
) -> Generation:
    """Append the most probable token, `count` times, and record the heads on the result.

    Parameters
    ----------
    checkpoint : Checkpoint
        A network that predicts the next token of ids.
    prompt : sequence of int
    count : int
        New tokens, at most.
    ends : sequence of int
        Ids after which nothing is appended.

    Raises
    ------
    ValueError
        For a network of another kind, one that looks ahead, and more tokens than it reads.
    """
    ids, most = list(prompt), check_integer("count", count)
    name = type(checkpoint.model).__name__
    if checkpoint.reads != "tokens" or choose_loss(checkpoint).name != "next_token":
        raise ValueError(f"network must predict the next token to generate, got {name}")
    if checkpoint.limit is not None and len(ids) + most > checkpoint.limit:
        raise ValueError(
            f"count must leave the text within {checkpoint.limit} tokens, got {most} after "
            f"{len(ids)}"
        )
    while len(ids) < len(prompt) + most and (len(ids) == len(prompt) or ids[-1] not in ends):
        with torch.inference_mode():
            ids.append(int(token_scores(checkpoint.run([ids]))[0, -1].argmax()))
    sample = next(head_samples(checkpoint, [ids[:-1]]))
    for layer in sample.by_layer:
        for slab in layer.slabs():
            if np.triu(slab.maps, slab.first + 1).any():
                raise ValueError(f"network must not look ahead to generate, got {name}")
    names = checkpoint.labels(ids)[0]
    return Generation(tuple(ids[len(prompt) :]), names, len(prompt), sample)
