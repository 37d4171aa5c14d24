"""The heads of a network on any text: maps, queries, keys and values, and losses without heads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierkernels.checkpoints.isolating import isolated
from fourierkernels.checkpoints.memory import available_memory, in_bytes
from fourierkernels.checkpoints.options import Config, LoadOptions
from fourierkernels.diagnostics.networks.attribution import HeadAttribution, attribute_heads
from fourierkernels.diagnostics.networks.effects import HeadEffects, Place, head_effects
from fourierkernels.diagnostics.networks.generation import Generation, generate
from fourierkernels.diagnostics.networks.layers import HeadLayer, check_whole_maps, layer_number
from fourierkernels.diagnostics.networks.losses import check_trained_head, choose_loss, token_scores
from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer
from fourierkernels.report.opened import Found, Network, OpenedNetwork, find_network
from fourierkernels.report.options import ReportOptions


class HeadLens:
    """Look at the heads of a network on texts of your own; nothing is computed before it is asked.

    Layers and heads are numbered from 0, as in arrays; the tables of a report number them from 1. A
    text is whatever the network reads: a text, a (source, target) pair, the path of an image, or
    for a model in memory a ready batch of one row.

    Parameters
    ----------
    network : str, Path, CheckpointFiles or nn.Module
        What :func:`~fourierkernels.report.head_report` takes; a model in memory is read with the
        weights that it has when it is asked, and left as it was.
    tokenizer, tokens, part, model_class, config, preset, vocabulary, device
        As for :func:`~fourierkernels.report.head_report`.

    Raises
    ------
    TypeError, ValueError
        For a network that cannot be found.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 9, "n_positions": 16}
    >>> config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    >>> lens = HeadLens(GPT2LMHeadModel(config), tokens="ids")
    >>> lens.maps(1, "3 1 4 1 5").shape  # heads, queries, keys
    (2, 5, 5)
    >>> lens.effects(["3 1 4 1 5", "2 7 1 8"], heads=[(0, 1)], how="mean").effects.shape
    (2, 1)
    """

    def __init__(
        self,
        network: Network,
        *,
        tokenizer: Any = None,
        tokens: str = "auto",
        part: str | None = None,
        model_class: str | None = None,
        config: str | Path | Config | None = None,
        preset: str | None = None,
        vocabulary: str | Path | None = None,
        device: str | None = None,
    ) -> None:
        load = LoadOptions(model_class, config, preset, vocabulary, tokenizer, part)
        self._opened = OpenedNetwork(find_network("network", network), load, tokens, device)

    @classmethod
    def of(cls, network: Found, options: ReportOptions) -> "HeadLens":
        """Return the lens of a network that a report was made of."""
        made = cls.__new__(cls)
        made._opened = OpenedNetwork(network, options.load, options.read.tokens, options.device)
        return made

    def read(self, text: Any) -> HeadSample:
        """Run the network on a text and return what its heads compute, layer by layer.

        Its `layers` are the names of the modules, `by_layer` what each computes; the maps of a long
        text are computed some rows at a time, by ``by_layer[k].slabs()``.

        Raises
        ------
        ValueError
            For a text that does not fit the network, or does not fit into memory.
        """
        with self._opened.with_texts([text]) as reading:
            return next(head_samples(reading.checkpoint.without_task_head(), [reading.one()]))

    def maps(self, layer: int | str, text: Any) -> FloatArray:
        """Return the attention maps of a layer on a text, ``(H, n, m)``.

        Parameters
        ----------
        layer : int or str
            Its number from 0, or the name of its module; that of a module which is called several
            times stands for the first call.

        Raises
        ------
        ValueError
            For a layer that there is not, one that attends within windows, or maps that do not fit
            into memory.
        """
        return self._part("maps", layer, text)

    def queries(self, layer: int | str, text: Any) -> FloatArray:
        """Return the queries of each head, after rotary positions, ``(H, n, d)``."""
        return self._part("queries", layer, text)

    def keys(self, layer: int | str, text: Any) -> FloatArray:
        """Return the keys of each head, after rotary positions, ``(H, m, d)``."""
        return self._part("keys", layer, text)

    def values(self, layer: int | str, text: Any) -> FloatArray:
        """Return the values of each head, ``(H, m, d)``."""
        return self._part("values", layer, text)

    def outputs(self, layer: int | str, text: Any) -> FloatArray:
        """Return what each head puts out before the output projection, ``(H, n, d)``."""
        return self._part("outputs", layer, text)

    def contributions(self, layer: int | str, text: Any) -> FloatArray:
        """Return what each head adds to the output of its layer, ``(H, n, E)``.

        They add up to the output but for the bias of the projection.
        """
        return self._part("projected", layer, text)

    def neurons(self, layer: int | str, text: Any, query: int, key: int) -> FloatArray:
        """Return why the score of a query and a key is large: its terms, by feature, ``(H, d)``.

        The terms are c q_i k_i, c the factor of the scores; over the features they add up to c q·k,
        which softmax is taken of before biases and masks are added.

        Parameters
        ----------
        query, key : int
            Numbers of tokens, from 0.
        """
        sample = self.read(text)
        attention = _whole_layer(sample, layer)
        check_integer("query", query, least=0)
        check_integer("key", key, least=0)
        if query >= attention.queries or key >= attention.keys:
            raise ValueError(
                f"query and key must be below {attention.queries} and {attention.keys}, "
                f"got {query} and {key}"
            )
        queries, keys = attention.part("queries"), attention.part("keys")
        terms: FloatArray = attention.call.scale * queries[:, query] * keys[:, key]
        return terms

    def effects(
        self,
        texts: Sequence[Any],
        *,
        heads: Sequence[Place] | None = None,
        how: str = "zero",
        other: Sequence[Any] | None = None,
        together: bool = False,
        loss: str = "auto",
        seed: int = 0,
    ) -> HeadEffects:
        """Measure the loss on texts with heads removed, at their mean, or patched.

        Parameters
        ----------
        texts : sequence
            Each in one window of the network.
        heads : sequence of (layer, head), optional
            From 0; by default all of them, one after the other.
        how : {"zero", "mean", "patch"}
            What a head puts out: nothing, its mean over the tokens, or what it puts out on another
            text, token by token.
        other : sequence, optional
            For "patch": a text of as many tokens for each of `texts`.
        together : bool
            Whether the heads are changed all at once.
        loss : str
            A key of :data:`~fourierkernels.diagnostics.networks.losses.LOSSES`, or "auto" for the
            one of the model's class.
        seed : int
            Of masked tokens.

        Raises
        ------
        ValueError, TypeError
            For one text in place of a list, none at all, heads that there are not, texts of another
            length to patch from, or a network whose heads do not go into a linear layer.
        """
        given = _as_list("texts", texts)
        donors = [] if other is None else _as_list("other", other)
        with self._opened.with_texts([*given, *donors]) as reading:
            items = reading.items()
            checkpoint = isolated(reading.checkpoint, items[0])
            check_whole_maps(checkpoint, items)
            rule = choose_loss(checkpoint, loss)
            check_trained_head(checkpoint, rule)
            made, batches = rule.make(checkpoint, reading.tokenizer, items, seed)
            return head_effects(
                checkpoint.model,
                batches[: len(given)],
                made,
                heads=heads,
                how=how,
                other=None if other is None else batches[len(given) :],
                together=together,
                selects=checkpoint.selects,
                name=rule.name,
            )

    def attribution(
        self, text: Any, *, position: int | None = None, token: int | None = None, steps: int = 32
    ) -> HeadAttribution:
        """Attribute the log probability of an output token to heads and the tokens they read.

        The parts add up to what all heads together change, but for the `gap`, which is printed.

        Parameters
        ----------
        position : int, optional
            Number of the token, from 0, at which the network puts it out; by default the last,
            where a language model predicts what comes next.
        token : int, optional
            Its id; by default that of the most probable one.
        steps : int
            Of the integral, a forward and a backward pass each.

        Raises
        ------
        ValueError
            For a network that gives no scores of tokens, a place or id that there is not, or heads
            that do not go into a linear layer.
        """
        with self._opened.with_texts([text]) as reading:
            item = reading.one()
            checkpoint = isolated(reading.checkpoint, item)
            check_whole_maps(checkpoint, [item])
            if choose_loss(checkpoint).zero_gradient:
                raise ValueError(
                    f"network must give scores of tokens, got {type(checkpoint.model).__name__}"
                )
            with torch.no_grad():
                scores = token_scores(checkpoint.run([item]))[0]
            at = check_integer(
                "position", len(scores) - 1 if position is None else position, least=0
            )
            chosen = int(scores[min(at, len(scores) - 1)].argmax()) if token is None else token
            if at >= len(scores) or not 0 <= check_integer("token", chosen, least=0) < len(
                scores.T
            ):
                raise ValueError(
                    f"position and token must be below {len(scores)} and {len(scores.T)}, got {at} "
                    f"and {chosen}"
                )

            def score(_: Any, given: Any) -> Any:
                return token_scores(checkpoint.run([given]))[0, at].log_softmax(dim=-1)[chosen]

            attribution = attribute_heads(
                checkpoint.model, item, score, steps=steps, selects=checkpoint.selects
            )
            single = ([chosen], [chosen]) if checkpoint.part.pairs else [chosen]
            (target,), tokens = checkpoint.labels(single)[0], checkpoint.labels(item)[1]
        return replace(attribution, tokens=tokens, target=target)

    def generate(self, text: Any, count: int = 20) -> Generation:
        """Append the most probable token to a text, `count` times, and record the heads.

        Nothing is appended after a token that the configuration names as the end.

        Raises
        ------
        ValueError
            For a network that does not predict the next token, or more tokens than it reads.
        """
        with self._opened.with_texts([text]) as reading:
            ids, around = list(reading.one()), reading.tokenizer
            after = 0 if around is None else len(around.suffix)
            named = getattr(getattr(reading.checkpoint.model, "config", None), "eos_token_id", None)
            ends = [named] if isinstance(named, int) else list(named or ())
            return generate(reading.checkpoint, ids[: len(ids) - after], count, ends=ends)

    def _part(self, name: str, layer: int | str, text: Any) -> FloatArray:
        attention = _whole_layer(self.read(text), layer)
        needed = 8.0 * attention.heads * attention.queries * attention.keys
        if name == "maps" and needed > available_memory():
            raise ValueError(
                f"maps of a layer must fit into memory, got {in_bytes(needed)} for "
                f"{attention.queries} tokens: read(text).by_layer[layer].slabs() yields some rows "
                "at a time"
            )
        return attention.part(name)


def _as_list(name: str, texts: Any) -> list[Any]:
    """Return several texts; a single one would be read character by character, or row by row."""
    if isinstance(texts, str | Path | Mapping | Tensor) or not isinstance(texts, Iterable):
        raise TypeError(f"{name} must be a list of texts, got {texts!r:.40}")
    if not (listed := list(texts)):
        raise ValueError(f"{name} must hold at least one text, got none")
    return listed


def _whole_layer(sample: HeadSample, layer: int | str) -> HeadLayer:
    """Return a layer by its number or name, if it attends over the whole text."""
    number = layer_number(layer, sample.layers)
    attention = sample.by_layer[number]
    if attention.windows > 1:
        raise ValueError(
            f"layer must attend over the whole input, got {attention.windows} windows in "
            f"{sample.layers[number]}: read(text).by_layer[{number}].part(name, window) returns one"
        )
    return attention
