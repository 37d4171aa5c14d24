"""State dicts under the names of the FourierFormer authors' code, read by the heads command."""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from payload import Payload
from tiny_models_of_ours import language, stirred
from torch import Tensor, nn

from fourierkernels.checkpoints import Checkpoint, attention_calls, load_checkpoint, load_tokenizer
from fourierkernels.models import save_model

Run = Callable[..., tuple[int, str, str]]

WORDS, DIM, HIDDEN, LENGTH = 14, 16, 32, 12
FREE: dict[str, Any] = {"heads": 2, "length": LENGTH, "cutoffs": [5, 8]}
# Ours -> theirs, of one block; keys and values of softmax attention are one matrix there.
BLOCK = {
    "mixer.query_projection.weight": "dec_attn.q_net.weight",
    "mixer.key_projection.weight": "dec_attn.k_net.weight",
    "mixer.value_projection.weight": "dec_attn.v_net.weight",
    "mixer.output_projection.weight": "dec_attn.o_net.weight",
    "around_mixer.norm.weight": "dec_attn.layer_norm.weight",
    "around_mixer.norm.bias": "dec_attn.layer_norm.bias",
    "feed_forward.widen.weight": "pos_ff.CoreNet.0.weight",
    "feed_forward.widen.bias": "pos_ff.CoreNet.0.bias",
    "feed_forward.narrow.weight": "pos_ff.CoreNet.3.weight",
    "feed_forward.narrow.bias": "pos_ff.CoreNet.3.bias",
    "around_feed_forward.norm.weight": "pos_ff.layer_norm.weight",
    "around_feed_forward.norm.bias": "pos_ff.layer_norm.bias",
}
KINDS: dict[str, dict[str, Any]] = {
    "softmax": {"mixer": "softmax"},
    "scalar": {"mixer": "fourier", "mixer_options": {"eps": 1e-6}},
    "feature": {"mixer": "fourier", "mixer_options": {"eps": 1e-6, "radius_shape": "feature"}},
}


def model_of(kind: str, **changes: Any) -> nn.Module:
    sizes = {"cutoffs": (5, 8), "positions": "from_the_end", **KINDS[kind], **changes}
    return stirred(language(**sizes)).eval()


def published(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a model as the published code would save them."""
    own, bands = dict(model.state_dict()), len(model.config.cutoffs) + 1
    words = torch.cat([own[f"embedding.bands.{band}.weight"] for band in range(bands)])
    tensors = {
        "word_emb.emb_layers.0.weight": words,
        "crit.out_layers.0.weight": words,
        "crit.out_layers.0.bias": torch.cat([own[f"softmax.bias.{band}"] for band in range(bands)]),
        "pos_emb.inv_freq": 1 / 10000 ** (torch.arange(0.0, DIM, 2.0) / DIM),
    }
    if bands > 1:  # the last band comes first there
        tensors["crit.cluster_weight"] = own["softmax.clusters.weight"].flip(0)
        tensors["crit.cluster_bias"] = own["softmax.clusters.bias"].flip(0)
    for layer in range(model.config.layers):
        block = {theirs: own[f"blocks.{layer}.{ours}"] for ours, theirs in BLOCK.items()}
        if model.config.mixer == "fourier":
            block["dec_attn.paramR"] = -own[f"blocks.{layer}.mixer.log_radius"].exp()
        else:
            pair = block.pop("dec_attn.k_net.weight"), block.pop("dec_attn.v_net.weight")
            block["dec_attn.kv_net.weight"] = torch.cat(pair)
        tensors |= {f"layers.{layer}.{name}": tensor for name, tensor in block.items()}
    return tensors


def load(path: Path, **options: Any) -> Checkpoint:
    return load_checkpoint(path, **{"preset": "small", "config": FREE, **options})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrapped", ["", "module.", "_orig_mod.module."])
def test_state_dict_gives_the_model_back(kind: str, wrapped: str, tmp_path: Path) -> None:
    model, file = model_of(kind), tmp_path / "model.pt"
    tensors = {wrapped + name: tensor for name, tensor in published(model).items()}
    torch.save({"model_state_dict": tensors, "epoch": 3} if wrapped else tensors, file)
    loaded = load(file).model
    ids = torch.tensor([[3, 0, 9, 13, 6, 1, 12], [7, 7, 4, 11, 0, 2, 5]])
    with torch.no_grad():
        torch.testing.assert_close(loaded.log_probabilities(ids), model.log_probabilities(ids))
        calls, others = (attention_calls(one, ids, ids) for one in (loaded, model))
        assert [call.maps.shape for call in calls] == 2 * [(2, 2, 7, 7)]
        for call, other in zip(calls, others, strict=True):
            torch.testing.assert_close(call.maps, other.maps)


def test_heads_power_and_eps_come_from_tensors_then_config_then_preset(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    torch.save(published(model_of("feature")), file)
    rest = {"length": LENGTH, "cutoffs": [5, 8]}
    config = load(file, config=rest).model.config
    assert config.heads == 2  # as many radii as features of a head
    assert dict(config.mixer_options) == {"eps": 1e-6, "radius_shape": "feature"}
    config = load(file, config={**rest, "power": 2, "eps": 0.0}).model.config
    assert dict(config.mixer_options) == {"eps": 0.0, "radius_shape": "feature", "power": 2}
    torch.save(published(model_of("scalar")), file)
    config = load(file, config={"cutoffs": [5, 8]}, preset="medium").model.config
    assert (config.heads, config.length) == (8, 384)


def test_softmax_without_clusters_has_no_cutoffs(tmp_path: Path) -> None:
    model = model_of("scalar", cutoffs=())
    torch.save(published(model), tmp_path / "model.pt")
    loaded = load(tmp_path / "model.pt", config={"heads": 2, "length": LENGTH}).model
    ids = torch.tensor([[3, 0, 9, 13]])
    torch.testing.assert_close(loaded.log_probabilities(ids), model.log_probabilities(ids))


def test_half_precision_is_read(tmp_path: Path) -> None:
    tensors = {name: tensor.half() for name, tensor in published(model_of("scalar")).items()}
    torch.save(tensors, tmp_path / "model.pt")
    loaded = load(tmp_path / "model.pt").model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    rates, places = tensors["pos_emb.inv_freq"], torch.arange(LENGTH).half()
    angles = torch.outer(places, rates)
    assert torch.equal(loaded.positions, torch.cat([angles.sin(), angles.cos()], dim=-1).float())


@pytest.fixture(params=["beside", "named"])
def with_words(request: pytest.FixtureRequest, tmp_path: Path) -> list[object]:
    """A file of weights with its words beside it or named, and the options to read it."""
    torch.save(published(model_of("softmax")), tmp_path / "model.pt")
    name = "vocabulary.txt" if request.param == "beside" else "words.txt"
    (tmp_path / name).write_text("".join(f"{word}\n" for word in ["<eos>", *"abcdefghijklm"]))
    (tmp_path / "sizes.json").write_text(json.dumps(FREE))
    named = [] if request.param == "beside" else ["--vocabulary", tmp_path / name]
    return [tmp_path / "model.pt", "--preset", "small", "--config", tmp_path / "sizes.json", *named]


def test_text_is_split_at_white_space_and_ends_lines(
    with_words: list[object], run: Run, tmp_path: Path
) -> None:
    """The blank line is one <eos>: the same stream as the numbers below it."""
    (tmp_path / "text").write_text(" a b c \n\nk l m a b\n d e f\n a b c d e f g h i j k l m\n")
    stream = [1, 2, 3, 0, 0, 11, 12, 13, 1, 2, 0, 4, 5, 6, 0, *range(1, 10)]
    rows = (stream[:LENGTH], stream[LENGTH:])
    (tmp_path / "ids").write_text("".join(f"{' '.join(map(str, row))}\n" for row in rows))
    tables = []
    for option in ("text", "ids"):
        status, out, err = run(*with_words, f"--{option}", tmp_path / option)
        assert (status, err) == (0, "")
        tables.append(out.partition("checkpoint:")[0])
        assert "random weights" in out
        assert "n: 12 to 12 query tokens" in out
    assert tables[0] == tables[1]


def test_words_are_the_labels_of_ids(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    torch.save(published(model_of("scalar")), file)
    assert load_tokenizer(load(file), tokens="ids").names([0, 2]) == ("0", "2")
    (tmp_path / "vocabulary.txt").write_text("<eos>\n" + "\n".join("abcdefghijklm") + "\n")
    assert load_tokenizer(load(file), tokens="ids").names([0, 2]) == ("<eos>", "b")


def test_rows_that_eps_makes_small_have_distances_alone(run: Run, tmp_path: Path) -> None:
    """The published 1e-6 in the denominator leaves little of a row where keys are far."""
    torch.save(published(model_of("scalar")), tmp_path / "model.pt")
    (tmp_path / "ids").write_text("1 2 3 4 5 6\n7 8 9 10 11 12\n")
    for name, eps in (("theirs", 1e-6), ("exact", 0.0)):
        (tmp_path / name).write_text(json.dumps({**FREE, "eps": eps}))

    def measure(config: str, *options: str) -> tuple[int, str, str]:
        file, ids = tmp_path / "model.pt", tmp_path / "ids"
        return run(file, "--ids", ids, "--preset", "small", "--config", tmp_path / config, *options)

    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the command prints what is an error in tests
        status, short, said = measure("theirs", "--no-baseline")
    assert status == 0
    assert re.search("statistics are left out: rows of .* less than one", said)
    assert "entropy" not in short
    status, out, err = measure("theirs", "--statistic", "entropy")
    assert (status, err.count("\n")) == (0, 0)
    assert "left out: statistics: maps must have rows that are probabilities" in out
    assert "entropy" not in out
    assert measure("theirs", "--statistic", "none")[0] == 0
    status, exact, _ = measure("exact")
    assert status == 0
    assert "entropy" in exact


R, TIED = "layers.1.dec_attn.paramR", "crit.out_layers.0.weight"
Q, BIAS = "layers.0.dec_attn.q_net.weight", "crit.out_layers.0.bias"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({Q: None, BIAS: None}, rf"missing: {BIAS}, {Q}$"),
        ({"r_w_bias": torch.ones(2, 8), "r_r_bias": torch.ones(2, 8)}, "ed: r_r_bias, r_w_bias$"),
        ({Q: torch.ones(16, 8)}, rf"misshapen: {Q} of shape \(16, 8\) for \(16, 16\)"),
        ({R: torch.ones(3)}, rf"misshapen: {R} of shape \(3,\) for \(1,\)"),
        ({R: torch.zeros(1)}, "paramR must be finite and not 0, got 0.0"),
        ({R: torch.tensor([torch.nan])}, "paramR must be finite and not 0, got nan"),
        ({TIED: torch.ones(WORDS, DIM)}, f"{TIED} must be word_emb"),
        ({"layers.7.dec_attn.paramR": torch.ones(1)}, "numbered from 0 without gaps, got 0, 1, 7"),
        ({"word_emb.emb_layers.0.weight": None}, "missing: word_emb.emb_layers.0.weight"),
        ({"word_emb.emb_layers.0.weight": torch.ones(9)}, r"must be a matrix .* of shape \(9,\)"),
        ({"word_emb.emb_layers.1.weight": torch.ones(4, 4)}, "unexpected: word_emb.emb_layers.1"),
    ],
)
def test_other_tensors_are_refused_by_name(
    change: dict[str, Tensor | None], message: str, tmp_path: Path
) -> None:
    tensors = published(model_of("scalar")) | change
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    torch.save(kept, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "gpt2"}, "preset must be one of small, medium, got 'gpt2'"),
        ({"config": {"dim": 3}}, "config must name cutoffs, eps, heads, length, power only"),
        ({"config": {}}, r"cutoffs must .* below the vocabulary, 14 words, got \(20000, 40000, 20"),
        ({"config": {**FREE, "cutoffs": [8, 5]}}, r"cutoffs must increase .* got \(8, 5\)"),
        ({"config": {**FREE, "cutoffs": [8]}}, r"misshapen: crit.cluster_bias of shape \(2,\) for"),
        ({"config": {**FREE, "heads": 3}}, "heads must divide dim = 16, got 3"),
        ({"config": {**FREE, "heads": "2"}}, "heads must be an integer"),
        ({"config": {**FREE, "power": 3}}, "power"),
        ({"model_class": "LanguageModel"}, "model_class must be left out with a preset"),
        ({"part": "cross"}, "part must be left out"),
        ({"vocabulary": "nowhere.txt"}, "vocabulary must be a file .*, got nowhere.txt"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    torch.save(published(model_of("scalar")), tmp_path / "model.pt")
    with pytest.raises((ValueError, TypeError), match=message):
        load(tmp_path / "model.pt", **options)


def test_power_of_softmax_attention_is_refused(tmp_path: Path) -> None:
    torch.save(published(model_of("softmax")), tmp_path / "model.pt")
    with pytest.raises(ValueError, match="power must be left out for softmax attention"):
        load(tmp_path / "model.pt", config={**FREE, "power": 4})


def test_files_and_folders_of_other_kinds_are_refused(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "ours.safetensors"
    save_model(model_of("scalar"), file)
    for other in (file, tiny("bert")):
        with pytest.raises(ValueError, match="preset must be left out for a checkpoint that names"):
            load(other)
    torch.save(published(model_of("scalar")), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"must be named for a file of weights.*--preset small"):
        load_checkpoint(tmp_path / "model.pt")


def test_pickled_module_is_refused_with_the_way_out(tmp_path: Path) -> None:
    torch.save(model_of("scalar"), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"tensors only.*torch\.save\(model\.state_dict\(\), path"):
        load(tmp_path / "model.pt")
    torch.save({"model": Payload(tmp_path / "ran")}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="tensors only"):
        load(tmp_path / "model.pt")
    assert not (tmp_path / "ran").exists()
