"""Layers inside torch's Transformer: each item of a batch attends to itself, in every mode."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor, nn

from fourierkernels.attention import FourierAttention, GaussianAttention, TorchMultihead

FAST = TOLERANCE["float64"]["fast"]
B, N, M, E, H = 3, 5, 4, 8, 2
KINDS = {"fourier": FourierAttention, "gaussian": GaussianAttention}
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
LATER = torch.ones(N, N, dtype=torch.bool).triu(1)  # True is masked, as torch has it
BIAS = draw(N, N, seed=7).detach()
EACH = draw(B * H, N, N, seed=8).detach() > 1
MASKS: dict[str, dict[str, Tensor]] = {
    "none": {},
    "boolean": {"src_mask": LATER},
    "additive": {"src_mask": BIAS},
    "each head": {"src_mask": EACH},
    "padding": {"src_key_padding_mask": PADDING},
    "both": {"src_mask": LATER, "src_key_padding_mask": PADDING},
}


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def encoder_layer(kind: str = "fourier", **options: Any) -> nn.TransformerEncoderLayer:
    chosen = {"batch_first": True, "dropout": 0.0, "dtype": torch.float64} | options
    block = nn.TransformerEncoderLayer(E, H, 16, **chosen)
    block.self_attn = KINDS[kind].from_multihead(block.self_attn)
    return block


def decoder_layer(kind: str = "fourier", **options: Any) -> nn.TransformerDecoderLayer:
    chosen = {"batch_first": True, "dropout": 0.0, "dtype": torch.float64} | options
    block = nn.TransformerDecoderLayer(E, H, 16, **chosen)
    block.self_attn = KINDS[kind].from_multihead(block.self_attn)
    block.multihead_attn = KINDS[kind].from_multihead(block.multihead_attn)
    return block


def batches() -> tuple[Tensor, Tensor]:
    """Items that differ, so that one taken for another shows."""
    return draw(B, N, E, seed=1).detach(), draw(B, M, E, seed=2).detach()


def seen(b: int, mask: Tensor | None, padding: Tensor | None, keys: int) -> Tensor:
    """What is added to log|w| of item b by torch's masks, (H, N, M)."""
    added = torch.zeros(H, N, keys, dtype=torch.float64)
    for given in (mask, None if padding is None else padding[b]):
        if given is None:
            continue
        part = given[H * b : H * (b + 1)] if given.ndim == 3 else given
        added = added + (torch.where(part, -torch.inf, 0.0) if part.dtype is torch.bool else part)
    return added


def attend(
    wrapped: nn.Module, b: int, x: Tensor, memory: Tensor, mask: Any = None, padding: Any = None
) -> Tensor:
    """The layer on one item alone, by heads, with all masks as one."""
    layer = wrapped.layer
    query, key, value = (
        layer.split_heads(projection(side[None]))
        for projection, side in (
            (layer.query_projection, x),
            (layer.key_projection, memory),
            (layer.value_projection, memory),
        )
    )
    mixed, _ = layer.attend(query, key, value, attn_mask=seen(b, mask, padding, len(memory)))
    return layer.join_heads(mixed)[0]


def encode_by_hand(block: nn.TransformerEncoderLayer, x: Tensor, masks: Any) -> Tensor:
    def feed(y: Tensor) -> Tensor:
        return block.linear2(torch.relu(block.linear1(y)))

    rows = []
    for b, row in enumerate(x):
        given = (masks.get("src_mask"), masks.get("src_key_padding_mask"))
        if block.norm_first:
            inner = block.norm1(row)
            row = row + attend(block.self_attn, b, inner, inner, *given)
            rows.append(row + feed(block.norm2(row)))
        else:
            row = block.norm1(row + attend(block.self_attn, b, row, row, *given))
            rows.append(block.norm2(row + feed(row)))
    return torch.stack(rows)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_layer_is_the_one_written_by_hand(
    kind: str, mask: str, train: bool, batch_first: bool, norm_first: bool
) -> None:
    block = encoder_layer(kind, batch_first=batch_first, norm_first=norm_first).train(train)
    x, _ = batches()
    expected = encode_by_hand(block, x, MASKS[mask])
    given = x if batch_first else x.transpose(0, 1)
    for context in (torch.enable_grad(), torch.no_grad()):  # torch's fused inference needs no_grad
        with context:
            found = block(given, **MASKS[mask])
        found = found if batch_first else found.transpose(0, 1)
        assert relative_error(found, expected) < FAST


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("mask", [None, LATER, BIAS], ids=["none", "boolean", "additive"])
def test_a_decoder_layer_is_the_one_written_by_hand(
    mask: Tensor | None, train: bool, batch_first: bool
) -> None:
    """Masks reach its attention as they were given, boolean ones with True for what is masked."""
    block = decoder_layer(batch_first=batch_first).train(train)
    x, memory = batches()
    hidden = torch.tensor([[False] * 4, [False] * 2 + [True] * 2, [True] + [False] * 3])
    rows = []
    for b, row in enumerate(x):
        row = block.norm1(row + attend(block.self_attn, b, row, row, mask))
        row = block.norm2(row + attend(block.multihead_attn, b, row, memory[b], None, hidden))
        rows.append(block.norm3(row + block.linear2(torch.relu(block.linear1(row)))))
    sides = (x, memory) if batch_first else (x.transpose(0, 1), memory.transpose(0, 1))
    found = block(*sides, tgt_mask=mask, memory_key_padding_mask=hidden)
    found = found if batch_first else found.transpose(0, 1)
    assert relative_error(found, torch.stack(rows)) < FAST


@pytest.mark.parametrize("swap", ["before", "after"])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_an_encoder_of_padded_sequences_is_that_of_each_alone(
    train: bool, grad: bool, swap: str
) -> None:
    """In inference torch makes nested tensors of them, if its own layers were there at first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch says why it makes no nested tensors
        if swap == "before":
            encoder = nn.TransformerEncoder(encoder_layer(), 2)
        else:
            plain = nn.TransformerEncoderLayer(
                E, H, 16, batch_first=True, dropout=0.0, dtype=torch.float64
            )
            encoder = nn.TransformerEncoder(plain, 2)
            assert encoder.use_nested_tensor
            for block in encoder.layers:
                block.self_attn = FourierAttention.from_multihead(block.self_attn)
        encoder.train(train)
        x, _ = batches()
        with torch.set_grad_enabled(grad):
            found = encoder(x, src_key_padding_mask=PADDING)
            for b, length in enumerate((5, 3, 4)):
                alone = encoder(x[b : b + 1, :length])
                assert relative_error(found[b, :length], alone[0]) < FAST


def test_gradients_reach_every_parameter_through_the_wrapper() -> None:
    block, (x, _) = encoder_layer(), batches()
    block(x).square().sum().backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in block.parameters())
    assert "self_attn.layer.log_radius" in dict(block.named_parameters())


def test_copies_of_a_layer_keep_the_wrapper_and_are_not_wrapped_twice() -> None:
    block = copy.deepcopy(encoder_layer())
    block.self_attn = block.self_attn
    assert isinstance(block.self_attn, TorchMultihead)
    assert isinstance(block.self_attn.layer, FourierAttention)


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("name", ["self_attn", "multihead_attn"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_layer_that_takes_the_batch_for_the_tokens_is_refused(
    batch_first: bool, name: str, wrapped: bool
) -> None:
    """The default of torch's blocks is the opposite of ours."""
    block = nn.TransformerDecoderLayer(E, H, 16, batch_first=batch_first)
    layer: nn.Module = FourierAttention(E, H, batch_first=not batch_first)
    layer = TorchMultihead(layer) if wrapped else layer
    with pytest.raises(ValueError, match=f"{name} must have batch_first={batch_first}, .* got"):
        setattr(block, name, layer)
    assert isinstance(getattr(block, name), nn.MultiheadAttention)
    setattr(block, name, FourierAttention(E, H, batch_first=batch_first))


def test_dropout_that_is_set_as_torchs_is_that_of_the_layer() -> None:
    attention, (x, _) = encoder_layer().self_attn.train(), batches()
    attention.dropout = 0.9
    assert attention.layer.dropout == attention.dropout == 0.9
    assert not torch.equal(attention(x, x, x)[0], attention(x, x, x)[0])
    with pytest.raises(ValueError, match=r"dropout must be .* below 1, got 1.5"):
        attention.dropout = 1.5


def test_elsewhere_a_layer_stays_what_it_is() -> None:
    layer = FourierAttention(E, H)
    assert nn.Sequential(layer)[0] is layer


class TestCalls:
    """The calls of torch.nn.MultiheadAttention, compared with it where the two agree.

    With one head and keys of one norm, Gaussian attention is torch's.
    """

    @pytest.fixture
    def pair(self) -> tuple[nn.MultiheadAttention, TorchMultihead]:
        theirs = nn.MultiheadAttention(E, 1, batch_first=True, dtype=torch.float64)
        with torch.no_grad():
            theirs.in_proj_weight[E : 2 * E] = torch.linalg.qr(torch.randn(E, E).double())[0]
            theirs.out_proj.bias.normal_()
        return theirs, GaussianAttention.from_multihead(theirs)

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"need_weights": False},
            {"average_attn_weights": False},
            {"attn_mask": LATER},
            {"attn_mask": LATER, "is_causal": True},
            {"attn_mask": LATER, "is_causal": True, "need_weights": False},
            {"attn_mask": BIAS},
            {"attn_mask": LATER.expand(B, N, N)},
            {"key_padding_mask": PADDING},
        ],
        ids=lambda options: ", ".join(options) or "none",
    )
    @pytest.mark.parametrize("batched", [True, False])
    def test_results_are_those_of_torch(
        self,
        pair: tuple[nn.MultiheadAttention, TorchMultihead],
        options: dict[str, Any],
        batched: bool,
    ) -> None:
        x, _ = batches()
        x = x / x.norm(dim=-1, keepdim=True)
        if not batched:
            x = x[1]
            options = {
                name: value[1:2] if isinstance(value, Tensor) and value.ndim == 3 else value
                for name, value in options.items()
            }
            if "key_padding_mask" in options:
                options = {"key_padding_mask": PADDING[1]}
        found, expected = (layer(x, x, x, **options) for layer in reversed(pair))
        assert relative_error(found[0], expected[0]) < FAST
        assert (found[1] is None) == (expected[1] is None)
        if expected[1] is not None:
            assert found[1].shape == expected[1].shape
            assert relative_error(found[1], expected[1]) < FAST

    @pytest.mark.parametrize("batch_first", [True, False])
    @pytest.mark.parametrize("needed", [True, False])
    @pytest.mark.parametrize("average", [True, False])
    def test_a_block_of_ones_own_reads_what_torch_returns(
        self, batch_first: bool, needed: bool, average: bool
    ) -> None:
        theirs = nn.MultiheadAttention(E, 1, batch_first=batch_first, dtype=torch.float64).eval()
        with torch.no_grad():
            theirs.in_proj_weight[E : 2 * E] = torch.linalg.qr(torch.randn(E, E).double())[0]
        ours = GaussianAttention.from_multihead(theirs)
        assert not ours.layer.training
        x = torch.nn.functional.normalize(batches()[0], dim=-1)
        found, expected = (
            layer(x, x, x, need_weights=needed, average_attn_weights=average)
            for layer in (ours, theirs)
        )
        assert found[0].shape == x.shape
        assert relative_error(found[0], expected[0]) < FAST
        assert (found[1] is None) == (not needed)
        if needed:
            assert found[1].shape == expected[1].shape
            assert relative_error(found[1], expected[1]) < FAST

    def test_positions_of_arguments_are_those_of_torch(
        self, pair: tuple[nn.MultiheadAttention, TorchMultihead]
    ) -> None:
        x, _ = batches()
        x = x / x.norm(dim=-1, keepdim=True)
        arguments = (x, x, x, PADDING, True, LATER, False)
        found, expected = (layer(*arguments) for layer in reversed(pair))
        assert relative_error(found[1], expected[1]) < FAST

    def test_a_nested_tensor_must_attend_to_itself_without_a_mask(self) -> None:
        layer = TorchMultihead(FourierAttention(E, H))
        nested = torch.nested.nested_tensor([torch.zeros(2, E), torch.zeros(3, E)])
        assert layer(nested, nested, nested)[0].is_nested
        with pytest.raises(ValueError, match="query must be the key and value, batch first"):
            layer(nested, nested, nested, attn_mask=LATER)

    def test_other_modules_are_refused(self) -> None:
        with pytest.raises(TypeError, match=r"layer must be a FourierAttention or .* got Linear"):
            TorchMultihead(nn.Linear(2, 2))  # type: ignore[arg-type]
