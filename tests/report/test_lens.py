"""Heads on texts of one's own: maps as transformers gives them, terms of scores, and losses."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import language
from torch import nn

import fourierkernels as fk
from fourierkernels.report import HeadLens

Tiny = Callable[[str], Path]
IDS = "3 1 4 1 5 9 2 6"
OTHER = "2 7 1 8 2 8 1 8"


def gpt2(**changes: Any) -> transformers.GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 13, "n_positions": 24}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.5}
    config = transformers.GPT2Config(**sizes, **ends, **changes, attn_implementation="eager")
    return transformers.GPT2LMHeadModel(config).eval()


def bert() -> transformers.BertForMaskedLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    more = {"vocab_size": 13, "intermediate_size": 16, "max_position_embeddings": 24}
    config = transformers.BertConfig(**sizes, **more, attn_implementation="eager")
    return transformers.BertForMaskedLM(config).eval()


def ids(text: str) -> torch.Tensor:
    return torch.tensor([[int(one) for one in text.split()]])


@torch.no_grad()
def next_token_loss(model: nn.Module, text: str) -> float:
    scores = model(input_ids=ids(text)).logits[0]
    return float(nn.functional.cross_entropy(scores[:-1], ids(text)[0, 1:]))


@pytest.mark.parametrize("build", [gpt2, bert])
def test_maps_of_any_text_are_those_of_the_network(build: Callable[[], Any]) -> None:
    model = build()
    lens = HeadLens(model, tokens="ids")
    with torch.no_grad():
        found = model(input_ids=ids(IDS), output_attentions=True).attentions
    names = lens.read(IDS).layers
    for layer, name in enumerate(names):
        np.testing.assert_allclose(lens.maps(layer, IDS), found[layer][0].numpy(), atol=1e-6)
        assert np.array_equal(lens.maps(name, IDS), lens.maps(layer, IDS))
    mixed = lens.maps(1, IDS) @ lens.values(1, IDS)
    np.testing.assert_allclose(mixed, lens.outputs(1, IDS), atol=1e-5)


def test_contributions_of_heads_add_up_to_the_output_of_the_layer() -> None:
    model, seen = gpt2(), []
    model.transformer.h[1].attn.c_proj.register_forward_hook(lambda *all: seen.append(all[2]))
    lens = HeadLens(model, tokens="ids")
    total = (
        lens.contributions(1, IDS).sum(axis=0)
        + model.transformer.h[1].attn.c_proj.bias.detach().numpy()
    )
    np.testing.assert_allclose(total, seen[-1][0].detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("build", [gpt2, bert])
def test_terms_add_up_to_the_score_that_softmax_is_taken_of(build: Callable[[], Any]) -> None:
    model = build()
    for name, weight in model.named_parameters():
        if "c_attn.weight" in name:
            weight.data *= 0.3  # so that no weight vanishes
    lens = HeadLens(model, tokens="ids")
    near, far = (lens.neurons(1, IDS, 6, key).sum(axis=-1) for key in (2, 4))
    logs = np.log(lens.maps(1, IDS)[:, 6, [2, 4]])
    np.testing.assert_allclose(near - far, logs[:, 0] - logs[:, 1], atol=1e-4)


def test_file_and_model_in_memory_give_the_same(tiny: Tiny) -> None:
    model = transformers.AutoModel.from_pretrained(tiny("gpt2"))
    for part in ("maps", "queries", "keys", "values", "outputs"):
        from_file = getattr(HeadLens(tiny("gpt2"), tokens="ids"), part)(0, IDS)
        assert np.array_equal(from_file, getattr(HeadLens(model, tokens="ids"), part)(0, IDS))


def test_model_in_memory_is_read_with_the_weights_that_it_has_and_left_as_it_was() -> None:
    model = gpt2().train()
    lens = HeadLens(model, tokens="ids")
    before = lens.maps(0, IDS)
    with torch.no_grad():
        model.transformer.h[0].attn.c_attn.weight.data *= 2
    assert np.abs(lens.maps(0, IDS) - before).max() > 1e-2
    assert model.training
    assert all(one.requires_grad for one in model.parameters())


def test_report_gives_maps_of_other_texts(tiny: Tiny) -> None:
    report = fk.head_report(tiny("gpt2"), [IDS, OTHER, "1 2 3"], tokens="ids", baseline=False)
    assert report.maps(0, "5 6 7 8").shape == (*report.first.examples[0].maps.shape[1:2], 4, 4)
    np.testing.assert_allclose(report.maps(0, IDS), report.first.examples[0].maps[0], atol=1e-3)
    assert report.lens.keys(1, IDS).ndim == 3


def removed(model: Any, layer: int, head: int) -> Any:
    copy = deepcopy(model)
    weight = copy.transformer.h[layer].attn.c_proj.weight
    with torch.no_grad():
        weight[4 * head : 4 * head + 4] = 0
    return copy


def test_effect_of_a_head_is_that_of_removing_its_weights() -> None:
    model, texts = gpt2(), [IDS, OTHER, "1 2 3 4"]
    found = HeadLens(model, tokens="ids").effects(texts, heads=[(0, 2), (1, 0)])
    for column, place in enumerate([(0, 2), (1, 0)]):
        without = removed(model, *place)
        for row, text in enumerate(texts):
            assert found.whole[row] == pytest.approx(next_token_loss(model, text), abs=1e-5)
            assert found.changed[row, column] == pytest.approx(
                next_token_loss(without, text), abs=1e-5
            )
    assert np.abs(found.effects).max() > 1e-3
    low, high = found.interval()
    assert (low <= found.mean).all()
    assert (found.mean <= high).all()
    both = HeadLens(model, tokens="ids").effects(texts, heads=[(0, 2), (1, 0)], together=True)
    gone = removed(removed(model, 0, 2), 1, 0)
    assert both.changed[0, 0] == pytest.approx(next_token_loss(gone, IDS), abs=1e-5)


def test_mean_of_a_head_is_kept_as_a_bias_would() -> None:
    model = gpt2()
    lens = HeadLens(model, tokens="ids")
    found = lens.effects([IDS], heads=[(1, 3)], how="mean")
    copy = removed(model, 1, 3)
    with torch.no_grad():
        mean = lens.contributions(1, IDS)[3].mean(axis=0)
        copy.transformer.h[1].attn.c_proj.bias += torch.tensor(mean, dtype=torch.float32)
    assert found.changed[0, 0] == pytest.approx(next_token_loss(copy, IDS), abs=1e-5)


def patched_by_hand(model: Any, layer: int, head: int) -> float:
    """The loss on IDS with the input of one projection replaced by that of OTHER, for one head."""
    projection, kept = model.transformer.h[layer].attn.c_proj, []
    hook = projection.register_forward_pre_hook(lambda _, given: kept.append(given[0].clone()))
    next_token_loss(model, OTHER)
    hook.remove()

    def replace(_: Any, given: Any) -> Any:
        joined = given[0].clone()
        joined[..., 4 * head : 4 * head + 4] = kept[0][..., 4 * head : 4 * head + 4]
        return (joined,)

    hook = projection.register_forward_pre_hook(replace)
    try:
        return next_token_loss(model, IDS)
    finally:
        hook.remove()


def test_patched_head_puts_out_what_it_does_on_the_other_text() -> None:
    model = gpt2()
    lens = HeadLens(model, tokens="ids")
    found = lens.effects([IDS], heads=[(0, 1), (1, 2)], how="patch", other=[OTHER])
    for column, place in enumerate([(0, 1), (1, 2)]):
        assert found.changed[0, column] == pytest.approx(patched_by_hand(model, *place), abs=1e-5)
    assert np.abs(found.effects).max() > 1e-3
    same = lens.effects([IDS], how="patch", other=[IDS])
    np.testing.assert_allclose(same.effects, 0, atol=1e-6)


def gated(
    model: Any, alpha: float
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[Any], Any]:
    """Inputs of the projections, values, maps and scores of a copy whose heads count α times."""
    copy, read, values = deepcopy(model), [], []

    def before(_: Any, given: Any) -> None:
        given[0].retain_grad()
        read.append(given[0])

    for layer in range(2):
        if isinstance(model, transformers.GPT2LMHeadModel):
            own = copy.transformer.h[layer].attn
            projection, value = own.c_proj, own.c_attn
        else:
            own = copy.bert.encoder.layer[layer].attention
            projection, value = own.output.dense, own.self.value
        projection.weight.data *= alpha
        projection.register_forward_pre_hook(before)
        value.register_forward_hook(lambda _, __, found: values.append(found[0, :, -16:]))
    found = copy(input_ids=ids(IDS), output_attentions=True)
    return read, values, list(found.attentions), found.logits[0]


@pytest.mark.parametrize(("build", "position"), [(gpt2, 7), (bert, 3)])
def test_attribution_is_the_slow_integral_and_adds_up(
    build: Callable[[], Any], position: int
) -> None:
    model, points = build(), 40
    for name, weight in model.named_parameters():
        if "attn" in name or "attention" in name:
            weight.data *= 0.5 if build is gpt2 else 10  # a smooth integrand that is not 0
    token = int(gated(model, 1.0)[3][position].argmax())
    expected = np.zeros((2, 4, 8))
    for step in range(points):
        alpha = (step + 0.5) / points
        read, values, maps, scores = gated(model, alpha)
        scores[position].log_softmax(-1)[token].backward()
        for layer, (one, value, weights) in enumerate(zip(read, values, maps, strict=True)):
            slopes, own = (part.reshape(8, 4, 4) for part in (one.grad[0], value))
            terms = torch.einsum("hij,ihd,jhd->hj", weights[0], slopes, own).detach()
            expected[layer] += terms.numpy() / alpha / points
    ends = [
        float(gated(model, alpha)[3][position].detach().log_softmax(-1)[token])
        for alpha in (0.0, 1.0)
    ]
    found = HeadLens(model, tokens="ids").attribution(IDS, position=position, token=token)
    np.testing.assert_allclose(found.values, expected, atol=1e-3)
    assert (found.without, found.whole) == pytest.approx(ends, abs=1e-5)
    assert abs(found.gap) < 1e-4
    assert found.values.sum() == pytest.approx(ends[1] - ends[0], abs=1e-4)
    assert np.abs(found.heads).max() > 0.02
    assert f"gap {found.gap:.1g} nats" in str(found)
    assert found.tokens == tuple(IDS.split())
    rough = HeadLens(model, tokens="ids").attribution(IDS, position=position, token=token, steps=1)
    assert abs(rough.gap) > 10 * abs(found.gap)


@torch.no_grad()
def test_losses_in_half_precision_are_not_rounded_to_it() -> None:
    """Steps of bfloat16 near a loss of 4 are 0.03: larger than most effects."""
    model = gpt2().to(torch.bfloat16)
    found = HeadLens(model, tokens="ids").effects([IDS, OTHER])
    for text, loss in zip((IDS, OTHER), found.whole, strict=True):
        scores = model(input_ids=ids(text)).logits[0].double()
        wanted = float(nn.functional.cross_entropy(scores[:-1], ids(text)[0, 1:]))
        assert loss == pytest.approx(wanted, rel=1e-5)


def test_attribution_in_half_precision_adds_up_to_rounding() -> None:
    found = HeadLens(gpt2().to(torch.bfloat16), tokens="ids").attribution(IDS)
    assert abs(found.gap) < 0.1 * abs(found.whole - found.without)


def test_generated_tokens_have_the_rows_that_a_cache_gives() -> None:
    model = gpt2()
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    found = HeadLens(model, tokens="ids").generate(IDS, 6)
    theirs = model.generate(
        ids(IDS),
        do_sample=False,
        max_new_tokens=6,
        output_attentions=True,
        return_dict_in_generate=True,
        use_cache=True,
    )
    assert list(found.ids) == theirs.sequences[0, 8:].tolist()
    assert found.tokens == tuple(map(str, theirs.sequences[0].tolist()))
    for layer in (0, 1):
        rows = found.rows(layer)
        assert rows.shape == (4, 6, 13)
        for step, given in enumerate(theirs.attentions):
            assert given[layer].shape[2] == (1 if step else 8)  # with a cache
            row = given[layer][0, :, -1].numpy()
            np.testing.assert_allclose(rows[:, step, : row.shape[-1]], row, atol=1e-5)
            assert not rows[:, step, row.shape[-1] :].any()


def test_generation_ends_where_the_configuration_says() -> None:
    model = gpt2()
    model.config.eos_token_id = None
    lens = HeadLens(model, tokens="ids")
    model.config.eos_token_id = lens.generate(IDS, 4).ids[0]
    assert len(lens.generate(IDS, 4).ids) == 1


class Torch(nn.Module):
    """Ids, nn.MultiheadAttention, scores: the kind whose projection is never called."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(13, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.body(self.words(ids))


@pytest.mark.parametrize("build", [Torch, language])
def test_heads_of_other_networks_are_patched_too(build: Callable[[], nn.Module]) -> None:
    lens = HeadLens(build(), tokens="ids")
    same = lens.effects([IDS], how="patch", other=[IDS], loss="states")
    np.testing.assert_allclose(same.changed, 0, atol=1e-12)
    every = lens.effects([IDS], how="patch", other=[OTHER], loss="states", together=True)
    assert every.effects[0, 0] > 1e-7
    assert lens.effects([IDS], heads=[(0, 0)], loss="states").effects[0, 0] > 1e-7


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda lens: lens.maps(2, IDS), "layer must be below 2, from 0, got 2"),
        (lambda lens: lens.maps("head", IDS), "layer must be one of "),
        (lambda lens: lens.maps(0, ""), "text must be one input of the network"),
        (lambda lens: lens.maps(0, " ".join("1" * 30)), "at most 24 tokens long, got 2 from"),
        (lambda lens: lens.neurons(0, IDS, 8, 0), "query and key must be below 8 and 8, got 8"),
        (
            lambda lens: lens.effects([IDS], heads=[(0, 4)]),
            "heads must be (layer, head) below (2, 4)",
        ),
        (lambda lens: lens.effects([IDS], how="patch"), "other must be given"),
        (
            lambda lens: lens.effects([IDS], how="patch", other=["1 2"]),
            "other must have as many tokens as the texts, got 2 for 8",
        ),
        (
            lambda lens: lens.effects([IDS], how="patch", other=[OTHER, IDS]),
            "other must be as many as the texts, got 2 for 1",
        ),
        (lambda lens: lens.effects([IDS], how="none"), "how must be one of"),
        (lambda lens: lens.attribution(IDS, position=8), "must be below 8 and 13, got 8"),
        (lambda lens: lens.attribution(IDS, token=13), "must be below 8 and 13, got 7 and 13"),
        (
            lambda _: HeadLens(Torch(), tokens="ids").attribution(IDS),
            "network must give scores of tokens, got Torch",
        ),
        (lambda lens: lens.effects([]), "texts must hold at least one text, got none"),
        (lambda lens: lens.effects([IDS], heads=[(0, -1)]), "head must be at least 0, got -1"),
        (lambda lens: lens.effects([IDS], heads=[]), "heads must name a head, got none"),
        (lambda lens: lens.generate(IDS, 1).rows(7), "layer must be below 2, from 0, got 7"),
        (lambda lens: lens.generate(IDS, 1).rows(-1), "layer must be at least 0, got -1"),
        (lambda lens: lens.generate(IDS, 17), "count must leave the text within 24 tokens"),
        (
            lambda _: HeadLens(bert(), tokens="ids").generate(IDS, 2),
            "network must predict the next token to generate, got BertForMaskedLM",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(ask: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        ask(HeadLens(gpt2(), tokens="ids"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda lens: lens.effects("3 1 4 1"), "texts must be a list of texts, got '3 1 4 1'"),
        (
            lambda lens: lens.effects([IDS], how="patch", other=OTHER),
            "other must be a list of texts, got '2 7 1 8",
        ),
        (lambda lens: lens.effects([IDS], heads=(0, 1)), "heads must be pairs, as [(0, 1)], got 0"),
        (lambda lens: lens.effects([IDS], heads=3), "heads must be pairs, as [(0, 1)], got 3"),
        (
            lambda lens: lens.effects([IDS], heads=["01"]),
            "heads must be pairs, as [(0, 1)], got '0",
        ),
        (lambda lens: lens.effects([IDS], heads=[(0.9, 0.2)]), "layer must be an integer, got 0.9"),
        (lambda lens: lens.effects([IDS], heads=[(0, True)]), "head must be an integer, got True"),
        (lambda lens: lens.generate(IDS, 1).rows(0.5), "layer must be an integer, got 0.5"),
    ],
)
def test_what_is_of_another_kind_is_refused_in_one_line(ask: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        ask(HeadLens(gpt2(), tokens="ids"))
    assert message in str(caught.value)


def test_heads_may_be_an_array_and_rows_have_the_names_of_layers() -> None:
    lens = HeadLens(gpt2(), tokens="ids")
    found = lens.effects([IDS], heads=np.array([[1, 3], [0, 2]]))
    assert found.heads == (((1, 3),), ((0, 2),))
    made = lens.generate(IDS, 1)
    assert np.array_equal(made.rows(1), made.rows(made.sample.layers[1]))


def test_network_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="network must be a path or a torch module, got int"):
        HeadLens(3)  # type: ignore[arg-type]
