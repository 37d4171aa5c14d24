"""Beam search with a length penalty, on the cached decoder of a translation model.

A hypothesis of n tokens (the end counted, the start not) with log-probability s scores
s / ((5 + n)/6)^α, the penalty of GNMT that [vaswani2017attention]_ takes with α = 0.6 and beam 4.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from fourierkernels.models.translation import DecoderState, TranslationModel
from fourierkernels.validation import check_integer, check_number


class Hypotheses(NamedTuple):
    """The best translations of each source, best first.

    Attributes
    ----------
    tokens : Tensor
        ``(B, beam, n)``, from `start_id` on, filled with `padding_id` after the end.
    scores : Tensor
        ``(B, beam)``, log-probability over penalty; minus infinity where none was found.
    """

    tokens: Tensor
    scores: Tensor


class _Beam(NamedTuple):
    """Unfinished hypotheses ``(B, K, n)`` with log p, and the finished ones with scores."""

    alive: Tensor
    log_p: Tensor
    done: Tensor
    scores: Tensor


@torch.no_grad()
def beam_search(
    model: TranslationModel,
    source: Tensor,
    *,
    beam: int = 4,
    length_penalty: float = 0.6,
    longest: int | None = None,
) -> Hypotheses:
    """Translate by keeping the `beam` best beginnings at every step.

    Parameters
    ----------
    model : TranslationModel
        In evaluation mode; otherwise dropout stays on.
    source : Tensor
        Ids ``(B, N)``.
    beam : int
        Hypotheses kept per source; 1 is greedy search.
    length_penalty : float
        α; 0 compares log-probabilities as they are.
    longest : int or None
        Most tokens to write, start and end included; the model's length if None. Hypotheses that
        have not ended by then end there.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule.

    Examples
    --------
    >>> from fourierkernels.models import translation_config
    >>> sizes = {"vocabulary": 20, "dim": 8, "hidden": 16, "layers": 1, "decoder_layers": 1}
    >>> model = TranslationModel(translation_config("dft_both", heads=2, **sizes)).eval()
    >>> beam_search(model, torch.ones(3, 5, dtype=torch.long), longest=6).tokens.shape
    torch.Size([3, 4, 6])
    """
    limit = model.config.length
    longest = limit if longest is None else check_integer("longest", longest, least=2)
    if longest > limit:
        raise ValueError(f"longest must be at most the model's length {limit}, got {longest}")
    alpha = check_number("length_penalty", length_penalty)
    rows = torch.arange(len(source), device=source.device).repeat_interleave(
        check_integer("beam", beam)
    )
    state = model.start(source).select(rows)
    best = _first(model, len(source), beam, source.device)
    while best.alive.shape[-1] < longest:
        best, state = _extend(model, best, state, alpha)
        if _settled(best, longest, alpha):
            break
    return _finish(model, best, alpha)


def penalty(tokens: int, alpha: float) -> float:
    """Return ((5 + n)/6)^α.

    Examples
    --------
    >>> penalty(1, 0.6)
    1.0
    """
    return float(((5 + tokens) / 6) ** alpha)


def _first(model: TranslationModel, batch: int, beam: int, device: torch.device) -> _Beam:
    alive = torch.full((batch, beam, 1), model.config.start_id, device=device)
    dtype = model.embedding.weight.dtype
    nothing = torch.full((batch, beam), -torch.inf, dtype=dtype, device=device)
    log_p = nothing.clone()
    log_p[:, 0] = 0.0  # all beams begin alike: one of them counts
    return _Beam(alive, log_p, alive, nothing)


def _extend(
    model: TranslationModel, best: _Beam, state: DecoderState, alpha: float
) -> tuple[_Beam, DecoderState]:
    """Write one more token: among the 2K best continuations at least K do not end."""
    batch, beam, _ = best.alive.shape
    logits, state = model.step(best.alive[..., -1].reshape(-1, 1), state)
    vocabulary = logits.shape[-1]
    total = best.log_p[..., None] + log_softmax(logits, dim=-1).view(batch, beam, vocabulary)
    log_p, place = total.flatten(1).topk(min(2 * beam, beam * vocabulary), dim=-1)  # (B, 2K)
    parent, token = place // vocabulary, place % vocabulary
    longer = torch.cat([_rows(best.alive, parent), token[..., None]], dim=-1)  # (B, 2K, n + 1)
    ends = token == model.config.end_id
    done, scores = _keep_best(model, best, longer, log_p.masked_fill(~ends, -torch.inf), alpha)
    log_p, kept = log_p.masked_fill(ends, -torch.inf).topk(beam, dim=-1)
    source_row = beam * torch.arange(batch, device=place.device)[:, None]
    state = state.select((source_row + parent.gather(1, kept)).flatten())
    return _Beam(_rows(longer, kept), log_p, done, scores), state


def _keep_best(
    model: TranslationModel, best: _Beam, longer: Tensor, log_p: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """Merge hypotheses that have just ended with the finished ones."""
    beam, n = best.done.shape[1], longer.shape[-1]
    filled = torch.nn.functional.pad(
        best.done, (0, n - best.done.shape[-1]), value=model.config.padding_id
    )
    scores = torch.cat([best.scores, log_p / penalty(n - 1, alpha)], dim=1)
    scores, kept = scores.topk(beam, dim=-1)
    return _rows(torch.cat([filled, longer], dim=1), kept), scores


def _settled(best: _Beam, longest: int, alpha: float) -> bool:
    """Whether no beginning can still beat the worst finished hypothesis.

    log p can only fall from here, and no penalty divides it by more than the largest one.
    """
    sizes = (best.alive.shape[-1], longest - 1)
    most = max(penalty(n, alpha) for n in sizes)
    return bool((best.scores[:, -1] >= best.log_p[:, 0] / most).all())


def _finish(model: TranslationModel, best: _Beam, alpha: float) -> Hypotheses:
    """End what has not ended, in competition with what has."""
    done, scores = _keep_best(model, best, best.alive, best.log_p, alpha)
    return Hypotheses(done, scores)


def _rows(tokens: Tensor, index: Tensor) -> Tensor:
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
