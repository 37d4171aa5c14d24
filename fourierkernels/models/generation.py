"""Text written by a language model, word by word: sampling rules and the loop over a cache."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.models.blocks import BlockState
from fourierkernels.models.inputs import check_tokens, read_ids
from fourierkernels.models.language import LanguageModel


class Generation(NamedTuple):
    """Generated text, prompts included.

    Attributes
    ----------
    tokens : Tensor
        Ids ``(B, n)``, `fill_id` after the end of a row.
    lengths : Tensor
        Tokens of each row, ``(B,)``, an end token included.
    """

    tokens: Tensor
    lengths: Tensor


class _Rows(NamedTuple):
    """Prompts ``(B, n)`` with room for what is written, where each ends and where it must stop."""

    tokens: Tensor
    prompt: Tensor
    limit: Tensor


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: Tensor | Sequence[Tensor | Sequence[int]],
    *,
    new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    end_id: int | None = None,
    fill_id: int = 0,
    cache: bool = True,
    generator: torch.Generator | None = None,
) -> Generation:
    """Continue prompts, of one length or of several.

    All rows are read from their first token on, and step by step together: a row whose prompt is
    longer reads it while others write. So positions, causal transforms and running sums are those
    of each row alone, and no padding is needed.

    Parameters
    ----------
    model : LanguageModel
        In evaluation mode; otherwise dropout stays on.
    prompts : Tensor or sequence
        Ids ``(B, N)``, or B rows of ids, each with at least one.
    new_tokens : int
        Most tokens to write after each prompt.
    temperature : float
        Logits are divided by it; 0 takes the most probable word (greedy search).
    top_k : int or None
        Draw among the k most probable words only.
    top_p : float or None
        Draw among the fewest most probable words whose probabilities sum to p, in (0, 1], only;
        after `top_k`.
    end_id : int or None
        Word after which a row ends.
    fill_id : int
        Word that fills a row after its end.
    cache : bool
        Keep what each layer needs of earlier tokens (:meth:`LanguageModel.step`): keys and values,
        values of a causal transform, or sums of random features. Without it each word costs a pass
        over all before it; positions that are counted from the end need that.
    generator : torch.Generator or None
        Source of the draws; torch's global one if None.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule, prompts are no ids, or one and `new_tokens` are longer than
        the model.

    Examples
    --------
    >>> from fourierkernels.models import language_config
    >>> sizes = {"vocabulary": 50, "dim": 8, "layers": 1, "hidden": 16, "cutoffs": ()}
    >>> model = LanguageModel(language_config("small", **sizes)).eval()
    >>> generate(model, [[1, 2, 3], [4]], new_tokens=2).lengths
    tensor([5, 3])
    """
    rows = _read_prompts(model, prompts, check_integer("new_tokens", new_tokens), fill_id)
    if end_id is not None:
        _check_word("end_id", end_id, model)
    rule = _check_rule(temperature, top_k, top_p)
    if cache and model.config.positions == "from_the_end":
        raise ValueError("cache must be False where positions are counted from the end, got True")
    at = int(rows.prompt.min())
    lengths, ended = rows.prompt.clone(), torch.zeros_like(rows.prompt, dtype=torch.bool)
    scores, state = _first_scores(model, rows.tokens[:, :at], cache)
    while True:
        reading, writing = at < rows.prompt, (at >= rows.prompt) & (at < rows.limit) & ~ended
        drawn = _draw(scores, rule, generator)
        rows.tokens[:, at] = torch.where(writing, drawn, rows.tokens[:, at])
        lengths += writing
        if end_id is not None:
            ended |= writing & (drawn == end_id)
        at += 1
        if at == rows.tokens.shape[1] or not (reading | writing & ~ended).any():
            break
        if state is None:
            scores = model.log_probabilities(rows.tokens[:, :at])[:, -1]
        else:
            scores, state = model.step(rows.tokens[:, at - 1 : at], state)
    return Generation(rows.tokens[:, : int(lengths.max())], lengths)


def restrict(
    log_p: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Return the log-probabilities from which words are drawn, minus infinity for the others.

    Parameters
    ----------
    log_p : Tensor
        ``(..., V)``.
    temperature, top_k, top_p
        As for :func:`generate`; a temperature of 0 leaves the most probable word.

    Examples
    --------
    >>> restrict(torch.tensor([0.5, 0.3, 0.2]).log(), 1.0, top_p=0.7).exp()
    tensor([0.6250, 0.3750, 0.0000])
    """
    if temperature == 0.0:
        best = log_p.argmax(dim=-1, keepdim=True)
        return torch.full_like(log_p, -math.inf).scatter(-1, best, 0.0)
    below = log_p - log_p.amax(dim=-1, keepdim=True)  # of a faint temperature only 0 is left
    faintest = torch.finfo(log_p.dtype).tiny
    log_p = (below / max(temperature, faintest)).log_softmax(dim=-1)
    if top_k is not None:
        least = log_p.topk(min(top_k, log_p.shape[-1]), dim=-1).values[..., -1:]
        log_p = log_p.masked_fill(log_p < least, -math.inf).log_softmax(dim=-1)
    if top_p is not None:
        ranked, order = log_p.sort(dim=-1, descending=True)
        before = ranked.exp().cumsum(dim=-1) - ranked.exp()  # of all that are more probable
        out = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= top_p)
        log_p = log_p.masked_fill(out, -math.inf).log_softmax(dim=-1)
    return log_p


_Rule = tuple[float, int | None, float | None]
_State = tuple[list[BlockState], int]


def _draw(scores: Tensor, rule: _Rule, generator: torch.Generator | None) -> Tensor:
    if scores.isnan().any():
        raise ValueError("model must give probabilities, got NaN: it may have diverged in training")
    probabilities = restrict(scores, *rule).exp()
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]


def _first_scores(
    model: LanguageModel, tokens: Tensor, cache: bool
) -> tuple[Tensor, _State | None]:
    if cache:
        return model.prefill(tokens)
    return model.log_probabilities(tokens)[:, -1], None


def _check_rule(temperature: float, top_k: int | None, top_p: float | None) -> _Rule:
    if not check_number("temperature", temperature) >= 0.0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    if top_k is not None:
        check_integer("top_k", top_k)
    if top_p is not None and not check_number("top_p", top_p, above=0.0) <= 1.0:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")
    return float(temperature), top_k, top_p


def _check_word(name: str, word: int, model: LanguageModel) -> None:
    if check_integer(name, word, least=0) >= model.config.vocabulary:
        raise ValueError(f"{name} must be in [0, {model.config.vocabulary}), got {word}")


def _each(prompts: Any) -> list[Tensor]:
    """Return the rows of prompts as tensors of ids, each of any length."""
    try:
        if isinstance(prompts, str | bytes | Mapping):
            raise TypeError("no rows")
        rows = list(prompts)
    except TypeError:
        raise TypeError(
            f"prompts must be a tensor (B, N) or rows of ids, got {prompts!r}"
        ) from None
    return [read_ids(f"prompts[{i}]", row) for i, row in enumerate(rows)]


def _read_prompts(
    model: LanguageModel,
    prompts: Tensor | Sequence[Tensor | Sequence[int]],
    new_tokens: int,
    fill_id: int,
) -> _Rows:
    """Return the prompts as rows with room for the new tokens."""
    _check_word("fill_id", fill_id, model)
    config, device = model.config, next(model.parameters()).device
    rows = [row.to(device) for row in _each(prompts)]
    if not rows:
        raise ValueError("prompts must hold at least one, got none")
    for i, row in enumerate(rows):
        name = f"prompts[{i}]"
        rows[i] = check_tokens(
            row[None], vocabulary=config.vocabulary, length=config.length, name=name
        )[0]
    prompt = torch.tensor([len(row) for row in rows], device=device)
    longest = int(prompt.max()) + new_tokens
    if longest > config.length:
        raise ValueError(
            f"prompts and new_tokens = {new_tokens} must be at most length = {config.length} "
            f"together, got {longest}"
        )
    tokens = torch.full((len(rows), longest), fill_id, device=device)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = row
    return _Rows(tokens, prompt, prompt + new_tokens)
