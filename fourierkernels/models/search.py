"""Beam search with a length penalty, on the cached decoder of a translation model.

A hypothesis of n tokens (the end counted, the start not) with log-probability s scores
s / ((5 + n)/6)^α, the penalty of GNMT that [vaswani2017attention]_ takes with α = 0.6 and beam 4,
or s / n^α, as fairseq has it with α = 1 (``fairseq/sequence_generator.py``, lines 675 and 676, of
https://github.com/facebookresearch/fairseq).
Padding and the start are never written; what the model gives them is lost, not shared out. A
sentence leaves the batch when none of its beginnings can win any more.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, pad

from fourierkernels.foundation.validation import check_choice, check_integer, check_number
from fourierkernels.models.translation import DecoderState, TranslationModel


class Hypotheses(NamedTuple):
    """The best translations of each source, best first.

    Attributes
    ----------
    tokens : Tensor
        ``(B, K, n)``, from `start_id` on, filled with `padding_id` after the end.
    scores : Tensor
        ``(B, K)``, log-probability over penalty; minus infinity where none was found, and then
        nothing but padding follows the start.
    """

    tokens: Tensor
    scores: Tensor


class _Beam(NamedTuple):
    """Unfinished hypotheses ``(B, K, n)`` with log p, and the finished ones with scores."""

    alive: Tensor
    log_p: Tensor
    done: Tensor
    scores: Tensor


class _Finished(NamedTuple):
    """Finished hypotheses ``(b, K, n)`` with scores of some rows of the batch."""

    rows: Tensor
    done: Tensor
    scores: Tensor


@torch.no_grad()
def beam_search(
    model: TranslationModel,
    source: Tensor,
    *,
    beam: int = 4,
    length_penalty: float = 0.6,
    divisor: str = "gnmt",
    longest: int | None = None,
    keep: int | None = None,
) -> Hypotheses:
    """Translate by keeping the `beam` best beginnings at every step.

    Parameters
    ----------
    model : TranslationModel
        In evaluation mode; otherwise dropout stays on.
    source : Tensor
        Ids ``(B, N)``; B may be 0.
    beam : int
        Hypotheses kept per source; 1 is greedy search.
    length_penalty : float
        α; 0 compares log-probabilities as they are.
    divisor : {"gnmt", "length"}
        What log-probabilities are divided by: ((5 + n)/6)^α, or n^α.
    longest : int or None
        Most tokens to write, start and end included; the model's length if None. Hypotheses that
        have not ended by then end there.
    keep : int or None
        K, how many hypotheses are wanted, at most `beam`, which it is if None. The search ends
        when none that is still alive can become one of them: the fewer, the sooner.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule, the source is none, or the model gives NaN.

    Examples
    --------
    >>> from fourierkernels.models import translation_config
    >>> sizes = {"vocabulary": 20, "dim": 8, "hidden": 16, "layers": 1, "decoder_layers": 1}
    >>> model = TranslationModel(translation_config("dft_both", heads=2, **sizes)).eval()
    >>> beam_search(model, torch.ones(3, 5, dtype=torch.long), longest=6).scores.shape
    torch.Size([3, 4])
    """
    longest = _check_longest(model, longest)
    divide = _divided(check_choice("divisor", divisor, list(DIVISORS)), length_penalty)
    keep = _check_keep(keep, check_integer("beam", beam))
    best = _first(model, len(source), beam, source.device)
    if not len(source):
        return Hypotheses(best.alive[:, :keep], best.scores[:, :keep])
    rows = torch.arange(len(source), device=source.device)
    state, settled = model.start(source).select(rows.repeat_interleave(beam)), []
    while len(rows) and best.alive.shape[-1] < longest:
        best, state = _extend(model, best, state, divide)
        over = _settled(best, longest, divide, keep)
        if over.any():
            settled.append(_Finished(rows[over], best.done[over], best.scores[over]))
            stays = (~over).nonzero()[:, 0]
            rows, best = rows[stays], _Beam(*(part[stays] for part in best))
            state = state.select(_beams(stays, beam))
    if len(rows):  # what has not ended ends here, in competition with what has
        ended = _ended(model, best, best.alive, best.log_p, divide)
        settled.append(_Finished(rows, ended["done"], ended["scores"]))
    return _collect(model, settled, keep)


def _check_longest(model: TranslationModel, longest: int | None) -> int:
    limit = model.config.length
    longest = limit if longest is None else check_integer("longest", longest, least=2)
    if longest > limit:
        raise ValueError(f"longest must be at most the model's length {limit}, got {longest}")
    return longest


def _check_keep(keep: int | None, beam: int) -> int:
    keep = beam if keep is None else check_integer("keep", keep)
    if keep > beam:
        raise ValueError(f"keep must be at most beam = {beam}, got {keep}")
    return keep


def penalty(tokens: int, alpha: float) -> float:
    """Return ((5 + n)/6)^α.

    Examples
    --------
    >>> penalty(1, 0.6)
    1.0
    """
    return float(((5 + tokens) / 6) ** alpha)


# From the number of tokens and α.
DIVISORS: dict[str, Callable[[int, float], float]] = {
    "gnmt": penalty,
    "length": lambda tokens, alpha: float(tokens**alpha),
}
_Divisor = Callable[[int], float]


def _divided(name: str, length_penalty: float) -> _Divisor:
    alpha = check_number("length_penalty", length_penalty)
    return lambda tokens: DIVISORS[name](tokens, alpha)


def _first(model: TranslationModel, batch: int, beam: int, device: torch.device) -> _Beam:
    alive = torch.full((batch, beam, 1), model.config.start_id, device=device)
    dtype = _wide(model.embedding.weight.dtype)
    nothing = torch.full((batch, beam), -torch.inf, dtype=dtype, device=device)
    log_p = nothing.clone()
    log_p[:, 0] = 0.0  # all beams begin alike: one of them counts
    return _Beam(alive, log_p, alive, nothing)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of sums of log p: bfloat16 has steps of 1/8 beyond 16."""
    return torch.promote_types(dtype, torch.float32)


def _extend(
    model: TranslationModel, best: _Beam, state: DecoderState, divide: _Divisor
) -> tuple[_Beam, DecoderState]:
    """Write one more token: among the 2K best continuations at least K do not end.

    Those of the K best that end are finished; a beam of one has one continuation, which ends it.
    """
    batch, beam, _ = best.alive.shape
    logits, state = model.step(best.alive[..., -1].reshape(-1, 1), state)  # (B K, V)
    vocabulary = logits.shape[-1]
    log_p = log_softmax(logits, dim=-1, dtype=_wide(logits.dtype))
    if log_p.isnan().any():
        raise ValueError("model must give probabilities, got NaN: it may have diverged in training")
    log_p = log_p.index_fill(-1, _never(model, logits.device), -torch.inf)
    total = best.log_p[..., None] + log_p.view(batch, beam, vocabulary)  # (B, K, V)
    several = min(2 * beam, beam * vocabulary) if beam > 1 else 1
    log_p, place = total.flatten(1).topk(several, dim=-1)  # (B, 2K)
    parent, token = place // vocabulary, place % vocabulary
    longer = torch.cat([_rows(best.alive, parent), token[..., None]], dim=-1)  # (B, 2K, n + 1)
    ends = token == model.config.end_id
    finished = log_p.masked_fill(~ends, -torch.inf)[:, :beam]
    ended = _ended(model, best, longer[:, :beam], finished, divide)
    log_p, kept = log_p.masked_fill(ends, -torch.inf).topk(beam, dim=-1)
    source_row = beam * torch.arange(batch, device=place.device)[:, None]
    state = state.reorder((source_row + parent.gather(1, kept)).flatten())
    return _Beam(_rows(longer, kept), log_p, **ended), state


def _ended(
    model: TranslationModel, best: _Beam, longer: Tensor, log_p: Tensor, divide: _Divisor
) -> dict[str, Tensor]:
    """Merge hypotheses that have just ended with the finished ones, and keep the best."""
    beam, n = best.done.shape[1], longer.shape[-1]
    filled = pad(best.done, (0, n - best.done.shape[-1]), value=model.config.padding_id)
    scores = torch.cat([best.scores, log_p / divide(n - 1)], dim=1)
    scores, kept = scores.topk(beam, dim=-1)
    return {"done": _rows(torch.cat([filled, longer], dim=1), kept), "scores": scores}


def _never(model: TranslationModel, device: torch.device) -> Tensor:
    """Return the tokens that are never written; an end that is one of them is."""
    config = model.config
    return torch.tensor(
        sorted({config.padding_id, config.start_id} - {config.end_id}), device=device
    )


def _settled(best: _Beam, longest: int, divide: _Divisor, keep: int) -> Tensor:
    """Return for which rows no beginning can beat the worst of the finished ones to keep, ``(B,)``.

    log p can only fall from here, and no penalty divides it by more than the largest one.
    """
    sizes = (best.alive.shape[-1], longest - 1)
    most = max(divide(n) for n in sizes)
    return best.scores[:, keep - 1] >= best.log_p[:, 0] / most


def _collect(model: TranslationModel, parts: list[_Finished], keep: int) -> Hypotheses:
    """Return the finished hypotheses in the order of the batch, blank where there is none."""
    longest = max(part.done.shape[-1] for part in parts)
    filler = model.config.padding_id
    done = torch.cat(
        [pad(part.done, (0, longest - part.done.shape[-1]), value=filler) for part in parts]
    )
    order = torch.cat([part.rows for part in parts]).argsort()
    done = done[order, :keep]  # (B, keep, n)
    scores = torch.cat([part.scores for part in parts])[order, :keep]
    done[..., 1:].masked_fill_(scores.isneginf()[..., None], filler)
    return Hypotheses(done, scores)


def _beams(rows: Tensor, beam: int) -> Tensor:
    """Return the places of all hypotheses of some sentences, ``(b K,)``."""
    return (beam * rows[:, None] + torch.arange(beam, device=rows.device)).flatten()


def _rows(tokens: Tensor, index: Tensor) -> Tensor:
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
