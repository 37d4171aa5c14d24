"""The loss of translation: cross-entropy with label smoothing, padding left out.

With smoothing ε the target of a token is (1 - ε) on the token itself and ε/V on each of the V words
([chen_attention]_ section 4.5 and [vaswani2017attention]_ take ε = 0.1). The three curves of the
report's Figure 3 come from the sums that are kept beside it.
"""

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import cross_entropy

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
    scores, words = logits[valid], words[valid]
    return TranslationLoss(
        cross_entropy(scores, words, reduction="sum", label_smoothing=smoothing),
        cross_entropy(scores.detach(), words, reduction="sum"),
        (scores.argmax(dim=-1) == words).sum(),
        valid.sum(),
    )
