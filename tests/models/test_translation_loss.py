"""The smoothed loss against its formula, padding left out; the mean of checkpoints."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import V, language, tokens, translation
from torch.nn.functional import pad

from fourierkernels import models
from fourierkernels.models.tensor_files import write_tensors


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    source, target = tokens(3, 6, vocabulary=V), tokens(3, 7, vocabulary=V, seed=1)
    target[:, 0] = 1
    target[0, 4:] = torch.tensor([2, 0, 0])
    target[1, 6], target[2, 6] = 2, 2
    return source, target


def test_smoothed_loss_is_that_of_the_mixed_targets() -> None:
    """Szegedy et al. (2016), section 7: (1 - ε) on the word, ε/V on each."""
    model, (source, target) = translation().double().eval(), pairs()
    found = models.translation_loss(model, source, target, smoothing=0.1)
    log_p = model(source, target[:, :-1]).log_softmax(-1)
    total = plain = correct = count = 0.0
    for row in range(3):
        for t in range(6):
            word = int(target[row, t + 1])
            if word == 0:
                continue
            mixed = torch.full((V,), 0.1 / V, dtype=torch.float64)
            mixed[word] += 0.9
            total -= (mixed * log_p[row, t]).sum().item()
            plain -= log_p[row, t, word].item()
            correct += log_p[row, t].argmax().item() == word
            count += 1
    assert found.smoothed.item() == pytest.approx(total, rel=1e-12)
    assert found.cross_entropy.item() == pytest.approx(plain, rel=1e-12)
    assert (found.correct.item(), found.tokens.item()) == (correct, count)
    assert found.loss.item() == pytest.approx(total / count, rel=1e-12)


@pytest.mark.parametrize("preset", ["attention", "dft_both"])
def test_sums_of_a_batch_are_those_of_its_sentences(preset: str) -> None:
    model, (source, target) = translation(preset).double().eval(), pairs()
    together = models.translation_loss(model, source, pad(target, (0, 3)))
    alone = [models.translation_loss(model, source[i : i + 1], target[i : i + 1]) for i in range(3)]
    for one, parts in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(one, sum(parts), rtol=1e-12, atol=1e-12)


def test_gradients_come_from_the_smoothed_loss_alone() -> None:
    model, (source, target) = translation(), pairs()
    found = models.translation_loss(model, source, target)
    found.loss.backward()
    assert torch.count_nonzero(model.embedding.weight.grad) > 0
    assert not found.cross_entropy.requires_grad
    plain = models.translation_loss(model, source, target, smoothing=0.0)
    torch.testing.assert_close(plain.smoothed, plain.cross_entropy)


def test_a_target_without_words_is_refused() -> None:
    model, (source, target) = translation(), pairs()
    with pytest.raises(ValueError, match=r"smoothing must be in \[0, 1\), got 1.0"):
        models.translation_loss(model, source, target, smoothing=1.0)
    target[1, 1:] = 0
    with pytest.raises(ValueError, match="target after its start must hold a token in every row"):
        models.translation_loss(model, source, target)


# --- the mean of checkpoints -------------------------------------------------------------------


def saved(folder: Path, *built: Any) -> list[Path]:
    files = [folder / f"{i}.safetensors" for i in range(len(built))]
    for model, file in zip(built, files, strict=True):
        models.save_model(model, file)
    return files


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_mean_is_that_of_each_tensor(dtype: torch.dtype, tmp_path: Path) -> None:
    built = [translation("random_both").to(dtype) for _ in range(3)]
    for model in built[1:]:  # constants of the model, which all checkpoints of a run share
        for name, buffer in built[0].named_buffers():
            model.get_buffer(name).copy_(buffer)
    state = models.average_models(saved(tmp_path, *built))
    for name, mean in state.items():
        parts = torch.stack([model.state_dict()[name].double() for model in built])
        assert mean.dtype is dtype
        torch.testing.assert_close(mean, parts.mean(dim=0).to(dtype))
    for name, buffer in built[0].named_buffers():
        assert name not in state or torch.equal(state[name], buffer)
    built[0].load_state_dict(state)


def test_mean_of_small_steps_is_not_lost_in_rounding(tmp_path: Path) -> None:
    """Sums in float32 would round 1 + 2⁻²³ away."""
    built = [translation() for _ in range(3)]
    for model, value in zip(built, (1.0, 1.0, 1.0 + 3 * 2.0**-23), strict=True):
        torch.nn.init.constant_(model.embedding.weight, value)
    state = models.average_models(saved(tmp_path, *built))
    assert state["embedding.weight"][0, 0].item() == 1.0 + 2.0**-23


def test_files_of_other_models_are_refused(tmp_path: Path) -> None:
    files = saved(tmp_path, translation(), translation(dropout=0.2), language())
    with pytest.raises(ValueError, match=r"configuration of 1\.safetensors differs from 0\.safe"):
        models.average_models(files[:2])
    with pytest.raises(ValueError, match=r"configuration of 2\.safetensors differs"):
        models.average_models([files[0], files[2]])
    with pytest.raises(ValueError, match="paths must hold at least one file, got none"):
        models.average_models([])


def test_tensors_of_other_shapes_are_refused(tmp_path: Path) -> None:
    (first,) = saved(tmp_path, translation())
    metadata = models.tensor_files.read_metadata(first)
    tensors = models.tensor_files.read_tensors(first)
    other = tmp_path / "other.safetensors"
    for changed in (
        {**tensors, "output_bias": torch.zeros(3)},
        {**tensors, "output_bias": tensors["output_bias"].double()},
        {name: tensor for name, tensor in tensors.items() if name != "output_bias"},
    ):
        write_tensors(other, changed, metadata)
        with pytest.raises(ValueError, match=r"output_bias of other\.safetensors differ in name"):
            models.average_models([first, other])


def test_an_average_of_one_is_itself(tmp_path: Path) -> None:
    (file,) = saved(tmp_path, translation())
    state = models.average_models([str(file)])
    expected = models.load_model(file).state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())
    assert math.prod(state["embedding.weight"].shape) == V * 16
