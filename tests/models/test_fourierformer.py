"""Checkpoints of the published FourierFormer code, against its forward pass written out by hand."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, log_softmax

from fourierkernels.models.fourierformer import load_published_language, load_published_vision
from fourierkernels.models.tensor_files import load_exactly, read_tensors

V, E, H, N, FF = 21, 8, 2, 7, 12
CUTOFFS = (6, 11, 16)
SAME = {"rtol": 1e-5, "atol": 1e-5}  # the files are float32


def random(*shape: int) -> Tensor:
    return 0.3 * torch.randn(*shape)


def published_attention(q: Tensor, k: Tensor, v: Tensor, radius: Tensor, causal: bool) -> Tensor:
    """(B, H, N, D); the product of sin u/u to the fourth over its sum plus 1e-6."""
    u = radius * (q[:, :, :, None] - k[:, :, None])
    product = torch.sinc(u / torch.pi).prod(-1) ** 4
    if causal:
        product = product.tril()
    return (product / (product.sum(-1, keepdim=True) + 1e-6)) @ v


def split(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], H, E // H).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def language_tensors(kind: str) -> dict[str, Tensor]:
    words = random(V, E)
    tensors = {
        "word_emb.emb_layers.0.weight": words,
        "crit.out_layers.0.weight": words,
        "crit.out_layers.0.bias": random(V),
        "crit.cluster_weight": random(3, E),
        "crit.cluster_bias": random(3),
        "pos_emb.inv_freq": random(E // 2),
    }
    for layer in ("layers.0", "layers.1"):
        attention = f"{layer}.dec_attn"
        tensors |= {f"{attention}.{part}_net.weight": random(E, E) for part in "qo"}
        if kind == "softmax":
            tensors[f"{attention}.kv_net.weight"] = random(2 * E, E)
        else:
            tensors |= {f"{attention}.{part}_net.weight": random(E, E) for part in "kv"}
            size = 1 if kind == "scalar" else E // H
            tensors[f"{attention}.paramR"] = -1.5 + random(size)  # the sign does not matter
        net = f"{layer}.pos_ff.CoreNet"
        tensors |= {f"{net}.0.weight": random(FF, E), f"{net}.0.bias": random(FF)}
        tensors |= {f"{net}.3.weight": random(E, FF), f"{net}.3.bias": random(E)}
        for norm in (f"{attention}.layer_norm", f"{layer}.pos_ff.layer_norm"):
            tensors |= {f"{norm}.weight": 1 + random(E), f"{norm}.bias": random(E)}
    return tensors


def published_log_p(t: dict[str, Tensor], text: Tensor) -> Tensor:
    n = text.shape[1]
    rates = t["pos_emb.inv_freq"]
    angle = torch.outer(torch.arange(n - 1, -1, -1.0), rates)  # the last token is at 0
    words = t["word_emb.emb_layers.0.weight"]
    x = words[text] * E**0.5 + torch.cat([angle.sin(), angle.cos()], dim=-1)
    for layer in ("layers.0", "layers.1"):
        part = f"{layer}.dec_attn"
        q = linear(x, t[f"{part}.q_net.weight"])
        if f"{part}.kv_net.weight" in t:
            k, v = linear(x, t[f"{part}.kv_net.weight"]).chunk(2, dim=-1)
            scores = split(q) @ split(k).mT / (E // H) ** 0.5
            hidden = torch.ones(n, n).triu(1).bool()
            mixed = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ split(v)
        else:
            k, v = (linear(x, t[f"{part}.{letter}_net.weight"]) for letter in "kv")
            mixed = published_attention(*map(split, (q, k, v)), t[f"{part}.paramR"], causal=True)
        x = x + linear(merge(mixed), t[f"{part}.o_net.weight"])
        x = layer_norm(x, [E], t[f"{part}.layer_norm.weight"], t[f"{part}.layer_norm.bias"])
        net, norm = f"{layer}.pos_ff.CoreNet", f"{layer}.pos_ff.layer_norm"
        inner = linear(x, t[f"{net}.0.weight"], t[f"{net}.0.bias"]).relu()
        x = x + linear(inner, t[f"{net}.3.weight"], t[f"{net}.3.bias"])
        x = layer_norm(x, [E], t[f"{norm}.weight"], t[f"{norm}.bias"])
    bias, ends = t["crit.out_layers.0.bias"], (0, *CUTOFFS, V)
    logits = [linear(x, words[a:b], bias[a:b]) for a, b in pairwise(ends)]
    clusters = linear(x, t["crit.cluster_weight"], t["crit.cluster_bias"])
    head = log_softmax(torch.cat([logits[0], clusters], dim=-1), dim=-1)
    bands = [head[..., : CUTOFFS[0]]]
    bands += [head[..., -i, None] + log_softmax(logits[i], dim=-1) for i in (1, 2, 3)]
    return torch.cat(bands, dim=-1)


@pytest.mark.parametrize("kind", ["scalar", "vector", "softmax"])
def test_language_checkpoints_give_the_published_numbers(kind: str, tmp_path: Path) -> None:
    tensors = language_tensors(kind)
    prefixed = {f"module.{name}": tensor for name, tensor in tensors.items()}
    torch.save(prefixed, tmp_path / "model.pt")
    model = load_published_language(tmp_path / "model.pt", heads=H, length=N, cutoffs=CUTOFFS)
    text = torch.randint(0, V, (3, N))
    for n in (N, 4):
        expected = published_log_p(tensors, text[:, :n])
        torch.testing.assert_close(model.log_probabilities(text[:, :n]), expected, **SAME)


def vision_tensors(fourier: bool) -> dict[str, Tensor]:
    tensors = {
        "cls_token": random(1, 1, E),
        "pos_embed": random(1, 5, E),
        "patch_embed.proj.weight": random(E, 3, 4, 4),
        "patch_embed.proj.bias": random(E),
        "norm.weight": 1 + random(E),
        "norm.bias": random(E),
        "head.weight": random(3, E),
        "head.bias": random(3),
    }
    for block in ("blocks.0", "blocks.1"):
        shapes = {
            "norm1.weight": (E,),
            "norm1.bias": (E,),
            "norm2.weight": (E,),
            "norm2.bias": (E,),
            "attn.qkv.weight": (3 * E, E),
            "attn.qkv.bias": (3 * E,),
            "attn.proj.weight": (E, E),
            "attn.proj.bias": (E,),
            "mlp.fc1.weight": (FF, E),
            "mlp.fc1.bias": (FF,),
            "mlp.fc2.weight": (E, FF),
            "mlp.fc2.bias": (E,),
        }
        tensors |= {f"{block}.{name}": random(*shape) for name, shape in shapes.items()}
        if fourier:
            tensors[f"{block}.attn.paramR"] = 1 + random(1)
    return tensors


def published_logits(t: dict[str, Tensor], images: Tensor) -> Tensor:
    patches = torch.nn.functional.conv2d(
        images, t["patch_embed.proj.weight"], t["patch_embed.proj.bias"], stride=4
    )
    x = patches.flatten(2).transpose(1, 2)
    x = torch.cat([t["cls_token"].expand(len(x), -1, -1), x], dim=1) + t["pos_embed"]
    for b in ("blocks.0", "blocks.1"):
        inner = layer_norm(x, [E], t[f"{b}.norm1.weight"], t[f"{b}.norm1.bias"], eps=1e-6)
        qkv = linear(inner, t[f"{b}.attn.qkv.weight"], t[f"{b}.attn.qkv.bias"])
        q, k, v = (split(part) for part in qkv.chunk(3, dim=-1))
        if f"{b}.attn.paramR" in t:
            mixed = published_attention(q, k, v, t[f"{b}.attn.paramR"], causal=False)
        else:
            mixed = (q @ k.mT / (E // H) ** 0.5).softmax(-1) @ v
        x = x + linear(merge(mixed), t[f"{b}.attn.proj.weight"], t[f"{b}.attn.proj.bias"])
        inner = layer_norm(x, [E], t[f"{b}.norm2.weight"], t[f"{b}.norm2.bias"], eps=1e-6)
        inner = gelu(linear(inner, t[f"{b}.mlp.fc1.weight"], t[f"{b}.mlp.fc1.bias"]))
        x = x + linear(inner, t[f"{b}.mlp.fc2.weight"], t[f"{b}.mlp.fc2.bias"])
    x = layer_norm(x, [E], t["norm.weight"], t["norm.bias"], eps=1e-6)
    return linear(x[:, 0], t["head.weight"], t["head.bias"])


@pytest.mark.parametrize("fourier", [True, False])
def test_vision_checkpoints_give_the_published_numbers(fourier: bool, tmp_path: Path) -> None:
    tensors = vision_tensors(fourier)
    torch.save({"model": tensors, "epoch": 1}, tmp_path / "best.pth")
    model = load_published_vision(tmp_path / "best.pth", heads=H)
    images = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(model(images), published_logits(tensors, images), **SAME)


def test_the_denominator_has_the_published_constant(tmp_path: Path) -> None:
    """At a large radius the constant is most of the denominator, and the output shrinks."""
    tensors = vision_tensors(fourier=True)
    for block in ("blocks.0", "blocks.1"):
        tensors[f"{block}.attn.paramR"] = torch.tensor([60.0])
    torch.save(tensors, tmp_path / "best.pth")
    model, images = load_published_vision(tmp_path / "best.pth", heads=H), torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(model(images), published_logits(tensors, images), **SAME)
    exact = [block.mixer for block in model.blocks]
    assert all(mixer.kernel.eps == 1e-6 for mixer in exact)


def test_wrong_tensors_are_named(tmp_path: Path) -> None:
    tensors, path = language_tensors("scalar"), tmp_path / "model.pt"

    def load(changed: dict[str, Tensor]) -> None:
        torch.save(changed, path)
        load_published_language(path, heads=H, length=N, cutoffs=CUTOFFS)

    missing = {n: t for n, t in tensors.items() if n != "layers.1.dec_attn.o_net.weight"}
    with pytest.raises(ValueError, match=r"got missing: layers\.1\.dec_attn\.o_net\.weight$"):
        load(missing)
    with pytest.raises(ValueError, match=r"got unexpected: r_emb, r_w_bias$"):
        load(tensors | {"r_w_bias": random(1), "r_emb": random(1)})
    with pytest.raises(ValueError, match=r"missing: word_emb\.emb_layers\.0\.weight"):
        load({"crit.cluster_bias": random(3)})


def test_a_whole_pickled_model_is_refused_with_the_way_out(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"tensors only.*torch\.save\(model\.state_dict\(\)"):
        read_tensors(tmp_path / "model.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="must hold a table of tensors, got list"):
        read_tensors(tmp_path / "list.pt")


def test_nothing_is_loaded_when_something_is_wrong() -> None:
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.clone()
    with pytest.raises(ValueError, match="missing: bias"):
        load_exactly(layer, {"weight": torch.zeros(2, 2)})
    assert torch.equal(layer.weight, before)
