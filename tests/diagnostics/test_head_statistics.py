"""Statistics of the heads of a checkpoint over texts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiles
import pytest
import torch
from tiny_checkpoints import MINILM, needs_minilm
from tolerances import TOLERANCE
from transformers import GPT2Config, GPT2Model

from fourierkernels.checkpoints import load_checkpoint, read_texts
from fourierkernels.diagnostics import STATISTICS, gaussian_gap, head_samples, head_statistics
from fourierkernels.diagnostics.kernel_gap import key_norm_spread
from fourierkernels.report import HeadLens, head_report

Tiny = Callable[[str], Path]
TEXTS = ["a b c d e", "f g", "h i j a b c"]
ROUNDING = {"rtol": 1e-4, "atol": TOLERANCE["float32"]["fast"]}


def test_statistics_equal_those_of_one_text_at_a_time(tiny: Tiny) -> None:
    found = profiles.statistics(tiny("bert"), TEXTS, tokens="whitespace")
    ids = [[2, *(ord(word) - 93 for word in text.split()), 3] for text in TEXTS]
    alone = [next(head_samples(load_checkpoint(tiny("bert")), [row])) for row in ids]
    for name in STATISTICS:
        values = []
        for row, heads in zip(ids, alone, strict=True):
            special = np.isin(row, [2, 3])
            values.append(
                head_statistics(
                    heads.maps, names=[name], special=special, keys=heads.keys, scale=0.5
                )[name]
            )
        np.testing.assert_allclose(found[name].mean, np.mean(values, axis=0), **ROUNDING)
        std = np.std(values, axis=0, ddof=1)
        np.testing.assert_allclose(found[name].std_texts, std, rtol=1e-3, atol=1e-5)
    gaps = [gaussian_gap(one.maps, one.keys, scale=0.5, centred=True) for one in alone]
    gap = found["centred_gaussian_gap"].mean
    np.testing.assert_allclose(gap, np.mean(gaps, axis=0), **ROUNDING)
    spreads = [key_norm_spread(one.keys) for one in alone]
    np.testing.assert_allclose(found["key_norm_spread"].mean, np.mean(spreads, axis=0), **ROUNDING)


def test_gaussian_kernel_has_the_scale_of_its_layer() -> None:
    sizes = {"n_embd": 8, "n_layer": 3, "n_head": 2, "vocab_size": 9, "n_positions": 16}
    options = {"scale_attn_by_inverse_layer_idx": True, "initializer_range": 1.0}
    torch.manual_seed(0)
    model = GPT2Model(GPT2Config(**sizes, **options, bos_token_id=0, eos_token_id=0)).eval()
    read = {"tokens": "ids", "controls": "none", "roles": "none", "baseline": False}
    report = head_report(model, ["3 1 4 1 5 2"], statistics=["gaussian_gap"], **read)
    for number, layer in enumerate(HeadLens(model, tokens="ids").read("3 1 4 1 5 2").by_layer):
        scale = 0.5 / (number + 1)  # 1/sqrt(4) over the number of the layer
        gap = gaussian_gap(layer.part("maps"), layer.part("keys"), scale=scale)
        np.testing.assert_allclose(report.first.statistics["gaussian_gap"].mean[number], gap)


def test_batch_size_changes_neither_means_nor_intervals(tiny: Tiny) -> None:
    one, other = (
        profiles.statistics(
            tiny("bert"), TEXTS, names=["entropy"], tokens="whitespace", batch_size=b
        )
        for b in (1, 3)
    )
    for field in ("mean", "low", "high"):
        first, second = (getattr(found["entropy"], field) for found in (one, other))
        np.testing.assert_allclose(first, second, **ROUNDING)


def test_unknown_names_and_no_texts_are_refused(tiny: Tiny) -> None:
    with pytest.raises(
        ValueError, match=r"statistic must be one of all, maps, none, entropy, .*gaussian_gap"
    ):
        profiles.statistics(tiny("bert"), TEXTS, names=["charm"])
    with pytest.raises(ValueError, match="at least one window of tokens"):
        profiles.statistics(tiny("bert"), [], tokens="whitespace")
    with pytest.raises(ValueError, match="67% of 3 tokens unknown; try another tokenizer"):
        profiles.statistics(tiny("bert"), ["a z z"], tokens="whitespace")


@needs_minilm
def test_minilm_entropies_reproduce_the_first_measurement() -> None:
    texts = list(read_texts("sentences"))[:20]
    found = profiles.statistics(MINILM, texts, names=["entropy"])["entropy"]
    layers = [2.53, 1.46, 1.51, 1.96, 1.96, 2.40]  # 200 other sentences
    np.testing.assert_allclose(found.mean.mean(axis=1), layers, atol=0.2)
