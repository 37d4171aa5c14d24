"""The loss of distillation against its formula, its gradient, and what it keeps in memory."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import Tensor

from fourierkernels.models import losses
from fourierkernels.models.losses import distillation_sum, plain_sum

N, V = 5, 7
SETTINGS = [(0.0, 1.0, 1.0), (0.1, 0.5, 1.0), (0.1, 0.3, 2.5), (0.0, 1.0, 0.5)]


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(5)
    scores = 3 * torch.randn(N, V, generator=rng, dtype=torch.float64)
    teacher = 3 * torch.randn(N, V, generator=rng, dtype=torch.float64)
    words = torch.randint(V, (N,), generator=rng)
    return scores.to(dtype).requires_grad_(), teacher.to(dtype), words


def distilled(
    scores: Tensor, teacher: Tensor, words: Tensor, settings: tuple[float, float, float]
) -> Tensor:
    smoothing, weight, temperature = settings
    return distillation_sum(
        scores, teacher, words, smoothing=smoothing, weight=weight, temperature=temperature
    )


def by_the_formula(
    scores: Tensor, teacher: Tensor, words: Tensor, settings: tuple[float, float, float]
) -> float:
    """Word by word and term by term, in numpy."""
    smoothing, weight, temperature = settings
    z, z_teacher = scores.detach().numpy(), teacher.numpy()
    total = 0.0
    for i in range(N):
        log_p = log_softmax(z[i])
        for v in range(V):
            q = smoothing / V + (1 - smoothing) * (v == int(words[i]))
            total -= (1 - weight) * q * log_p[v]
        ours, theirs = log_softmax(z[i] / temperature), log_softmax(z_teacher[i] / temperature)
        for v in range(V):
            total += weight * temperature**2 * np.exp(theirs[v]) * (theirs[v] - ours[v])
    return float(total)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows at a time, the last one alone."""
    monkeypatch.setattr(losses, "_CHUNK", 2 * V + 1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_loss_is_that_of_the_formula(settings: tuple[float, float, float], few_rows: None) -> None:
    found = distilled(*problem(), settings)
    assert found.item() == pytest.approx(by_the_formula(*problem(), settings), rel=1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_gradient_is_that_of_the_plain_loss(
    settings: tuple[float, float, float], few_rows: None
) -> None:
    """Which autograd takes of all rows at once, and which finite differences confirm."""
    scores, teacher, words = problem()
    (found,) = torch.autograd.grad(3 * distilled(scores, teacher, words, settings), scores)
    (expected,) = torch.autograd.grad(3 * plain_sum(scores, teacher, words, *settings), scores)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
    assert torch.autograd.gradcheck(lambda z: distilled(z, teacher, words, settings), scores)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_a_student_that_agrees_gets_no_gradient(temperature: float) -> None:
    """With the teacher's share alone, to the bit."""
    scores, _, words = problem(torch.float32)
    loss = distilled(scores, scores.detach().clone(), words, (0.1, 1.0, temperature))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert not gradient.any()


def test_teacher_gets_no_gradient_and_log_probabilities_will_do() -> None:
    scores, teacher, words = problem()
    settings = (0.1, 0.5, 2.0)
    teacher.requires_grad_()
    loss = distilled(scores, teacher, words, settings)
    loss.backward()
    assert teacher.grad is None
    normed = (z.detach().log_softmax(-1) for z in (scores, teacher))
    torch.testing.assert_close(distilled(*normed, words, settings), loss.detach())


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_distant_logits_give_finite_numbers(scale: float) -> None:
    scores, teacher, words = problem(torch.float32)
    far = (scale * scores.detach()).requires_grad_()
    loss = distilled(far, -scale * teacher, words, (0.1, 0.5, 1.0))
    (gradient,) = torch.autograd.grad(loss, far)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_scores_of_half_precision_are_summed_in_single() -> None:
    """The gradient goes back in the precision that the scores have."""
    scores, teacher, words = problem(torch.bfloat16)
    loss = distilled(scores, teacher, words, (0.1, 0.5, 1.0))
    wide = [z.detach().float() for z in (scores, teacher)]
    assert loss.dtype is torch.float32
    torch.testing.assert_close(loss.detach(), distilled(*wide, words, (0.1, 0.5, 1.0)))
    assert torch.autograd.grad(loss, scores)[0].dtype is torch.bfloat16


def test_only_the_gradient_is_kept_for_the_way_back() -> None:
    scores, teacher, words = problem()
    kept: list[tuple[int, ...]] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        distilled(scores, teacher, words, (0.1, 0.5, 1.0))
    assert kept == [(N, V)]


def test_no_words_have_no_loss() -> None:
    scores = torch.zeros(0, V, requires_grad=True)
    loss = distilled(scores, scores.detach(), torch.zeros(0, dtype=torch.long), (0.1, 0.5, 1.0))
    loss.backward()
    assert loss.item() == 0
    assert scores.grad is not None
    assert scores.grad.shape == (0, V)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ((1.0, 0.5, 1.0), r"smoothing must be in \[0, 1\), got 1.0"),
        ((0.1, 0.0, 1.0), r"weight must be in \(0, 1\], got 0.0"),
        ((0.1, 1.5, 1.0), r"weight must be in \(0, 1\], got 1.5"),
        ((0.1, 0.5, 0.0), "temperature must be finite and greater than 0, got 0.0"),
        ((0.1, 0.5, float("nan")), "temperature must be finite and greater than 0, got nan"),
    ],
    ids=str,
)
def test_numbers_that_break_their_rule_are_refused(
    settings: tuple[float, float, float], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        distilled(*problem(), settings)


def test_teacher_of_another_vocabulary_is_refused() -> None:
    scores, teacher, words = problem()
    with pytest.raises(ValueError, match=r"shape of scores, \(5, 7\), got \(5, 6\)"):
        distilled(scores, teacher[:, :6], words, (0.1, 0.5, 1.0))
