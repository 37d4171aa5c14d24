"""The losses of translation: cross-entropy with label smoothing, and word-level distillation.

With smoothing ε the target of a token is (1 - ε) on the token itself and ε/V on each of the V words
([chen_attention]_ section 4.5 and [vaswani2017attention]_ take ε = 0.1); padding is left out. The
three curves of the report's Figure 3 come from the sums that are kept beside it.

Distilled, a student learns the words and a teacher's distribution. Of each word, with logits z of
the student and z' of the teacher, the share w of the teacher, the temperature T, and q the word
itself with label smoothing, the loss is

    (1 - w) H(q, softmax(z)) + w T² KL(softmax(z' / T) ‖ softmax(z / T)).

[kim2016sequence]_ section 3.1 has it at T = 1, with the cross-entropy of the teacher, which differs
by a constant. T² keeps the size of the gradient at any temperature [hinton2015distilling]_.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax

from fourierkernels.foundation.validation import check_number
from fourierkernels.models.inputs import check_no_empty_row
from fourierkernels.models.residual import check_rate
from fourierkernels.models.translation import TranslationModel


class TranslationLoss(NamedTuple):
    """Sums over the target tokens of a batch, of which those of several batches can be added.

    Attributes
    ----------
    smoothed : Tensor
        Cross-entropy with the smoothed targets, in nats: what is trained on.
    cross_entropy : Tensor
        -log p of the tokens themselves; its exponential per token is the perplexity.
    correct : Tensor
        Tokens to which the model gives the highest probability.
    tokens : Tensor
        Target tokens, the end counted, start and padding not.
    """

    smoothed: Tensor
    cross_entropy: Tensor
    correct: Tensor
    tokens: Tensor

    @property
    def loss(self) -> Tensor:
        """The smoothed loss per token, from which gradients are taken."""
        return self.smoothed / self.tokens


def translation_loss(
    model: TranslationModel, source: Tensor, target: Tensor, *, smoothing: float = 0.1
) -> TranslationLoss:
    """Return the loss of a batch of pairs.

    Parameters
    ----------
    model : TranslationModel
        Its logits for each token come from the tokens before it.
    source : Tensor
        Ids ``(B, N)``, padded at the end.
    target : Tensor
        Ids ``(B, M + 1)`` from `start_id` to `end_id`, padded at the end.
    smoothing : float
        ε in [0, 1).

    Raises
    ------
    ValueError, TypeError
        If ε is another number, a target has nothing after its start, or the ids do not fit.

    Examples
    --------
    >>> import torch
    >>> from fourierkernels.models.translation_sizes import translation_config
    >>> model = TranslationModel(translation_config("dft_both", size="tiny", vocabulary=20))
    >>> target = torch.tensor([[1, 7, 2, 0], [1, 8, 9, 2]])
    >>> translation_loss(model, target, target).tokens
    tensor(5)
    """
    smoothing = check_rate("smoothing", smoothing)
    check_no_empty_row(target[:, 1:], model.config.padding_id, "target after its start")
    logits = model(source, target[:, :-1])
    return smoothed_sums(
        logits, target[:, 1:], padding_id=model.config.padding_id, smoothing=smoothing
    )


def smoothed_sums(
    logits: Tensor, words: Tensor, *, padding_id: int, smoothing: float
) -> TranslationLoss:
    """Return the sums of logits ``(B, M, V)`` for words ``(B, M)``, those of padding left out."""
    valid = words != padding_id
    scores, words = logits[valid], words[valid]  # (n, V), (n,)
    return TranslationLoss(
        cross_entropy(scores, words, reduction="sum", label_smoothing=smoothing),
        cross_entropy(scores.detach(), words, reduction="sum"),
        are_right(scores, words).sum(),
        valid.sum(),
    )


def are_right(logits: Tensor, classes: Tensor) -> Tensor:
    """Return of logits ``(..., K)`` whether that of the class ``(...)`` is the largest, boolean.

    Of equal ones the first counts as the largest. None is where a logit is not a number.

    Examples
    --------
    >>> are_right(torch.tensor([[2.0, 1.0], [float("nan"), 1.0]]), torch.tensor([0, 0]))
    tensor([ True, False])
    """
    return (logits.argmax(dim=-1) == classes) & ~logits.isnan().any(dim=-1)


def perplexity(total: float, count: int) -> float:
    """Return the exponential of a mean loss; infinite for one beyond 709 nats a word.

    Examples
    --------
    >>> perplexity(0.0, 3), perplexity(3000.0, 3)
    (1.0, inf)
    """
    try:
        return math.exp(total / count)
    except OverflowError:
        return math.inf


_CHUNK = 1 << 22  # scores whose logarithms are in memory at a time


def distillation_sum(
    scores: Tensor,
    teacher: Tensor,
    words: Tensor,
    *,
    smoothing: float,
    weight: float,
    temperature: float,
) -> Tensor:
    """Return the sum of the loss over n words, a scalar, in float32 or wider.

    Only the gradient, ``(n, V)``, is kept for the way back: it is computed beside the loss, some
    rows at a time. The teacher gets none.

    Parameters
    ----------
    scores, teacher : Tensor
        Logits, or log-probabilities, of student and teacher, ``(n, V)``.
    words : Tensor
        The words that come, ``(n,)``.
    smoothing : float
        ε in [0, 1): the word has the probability 1 - ε, and each of the V words ε/V more.
    weight : float
        The share w of the teacher, in (0, 1].
    temperature : float
        T > 0.

    Raises
    ------
    ValueError, TypeError
        If a number breaks its rule, or shapes differ.

    Examples
    --------
    >>> z = torch.tensor([[0.0, 1.0, 2.0]])
    >>> settings = {"smoothing": 0.0, "weight": 1.0, "temperature": 2.0}
    >>> distillation_sum(z, z, torch.tensor([1]), **settings)
    tensor(0.)
    """
    check_rate("smoothing", smoothing)
    check_share(weight)
    check_number("temperature", temperature, above=0.0)
    if scores.shape != teacher.shape:
        raise ValueError(
            f"teacher must have the shape of scores, {tuple(scores.shape)}, "
            f"got {tuple(teacher.shape)}"
        )
    arguments = (scores, teacher, words, smoothing, weight, temperature)
    total: Tensor = _Chunked.apply(*arguments)  # type: ignore[no-untyped-call]
    return total


def check_share(value: object, name: str = "weight") -> float:
    """Return the teacher's share of the loss, a number in (0, 1]."""
    share = check_number(name, value)
    if not 0 < share <= 1:
        raise ValueError(f"{name} must be in (0, 1], got {value}")
    return share


def plain_sum(
    scores: Tensor,
    teacher: Tensor,
    words: Tensor,
    smoothing: float,
    weight: float,
    temperature: float,
) -> Tensor:
    """Return the same sum from the formula, all at once."""
    hard = cross_entropy(scores, words, reduction="sum", label_smoothing=smoothing)
    student, teacher_log_p = (log_softmax(z / temperature, dim=-1) for z in (scores, teacher))
    soft = kl_div(student, teacher_log_p, reduction="sum", log_target=True)
    return (1 - weight) * hard + weight * temperature**2 * soft


def gradient_of_sum(
    scores: Tensor,
    teacher: Tensor,
    words: Tensor,
    smoothing: float,
    weight: float,
    temperature: float,
) -> Tensor:
    """Return the gradient of :func:`plain_sum` with respect to the scores, ``(n, V)``.

    (1 - w) (softmax(z) - q) + w T (softmax(z / T) - softmax(z' / T)).
    """
    student, target = (softmax(z / temperature, dim=-1) for z in (scores, teacher))
    soft = student - target
    hard = softmax(scores, dim=-1) - smoothing / scores.shape[-1]
    hard.scatter_add_(-1, words[:, None], hard.new_full((len(words), 1), smoothing - 1))
    return hard.mul_(1 - weight).add_(soft, alpha=weight * temperature)


class _Chunked(torch.autograd.Function):
    """:func:`plain_sum` of some rows after others, each with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, teacher: Tensor, words: Tensor, *settings: float
    ) -> Tensor:
        """Return the sum and keep its gradient, if one is wanted."""
        dtype = torch.promote_types(scores.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=scores.device)
        gradient = torch.empty_like(scores) if ctx.needs_input_grad[0] else None
        rows = max(1, _CHUNK // scores.shape[-1])
        for start in range(0, len(scores), rows):
            part = slice(start, start + rows)
            given = scores[part].to(dtype), teacher[part].to(dtype), words[part]
            total += plain_sum(*given, *settings)
            if gradient is not None:
                gradient[part] = gradient_of_sum(*given, *settings)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the student's scores."""
        (gradient,) = ctx.saved_tensors
        scaled = None if gradient is None else gradient * upstream.to(gradient.dtype)
        return scaled, None, None, None, None, None
