"""A recorder, a kind of checkpoint, a splitter and a kind of input, each added from outside."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from batches import IDS, check_batches
from torch import Tensor, nn

from fourierkernels.checkpoints import (
    AttentionCall,
    Checkpoint,
    attention_calls,
    find_checkpoint,
    gated_heads,
    load_checkpoint,
    load_tokenizer,
    read_items,
)
from fourierkernels.checkpoints.checkpoint import TokenCheckpoint
from fourierkernels.checkpoints.formats.request import LoadRequest, pad
from fourierkernels.checkpoints.inputs import INPUT_KINDS, ItemReader
from fourierkernels.checkpoints.load import FORMATS, CheckpointFormat
from fourierkernels.checkpoints.recorders.call import Recorder, attention_call
from fourierkernels.checkpoints.recorders.recording import RECORDERS
from fourierkernels.checkpoints.tokens import SPLITTERS

Run = Callable[..., tuple[int, str, str]]
Tiny = Callable[[str], Path]

HEADS, FEATURES, VOCABULARY = 2, 4, 14


class RectifiedAttention(nn.Module):
    """Attention whose weights are positive parts of q·k: no softmax gives it away."""

    def __init__(self) -> None:
        super().__init__()
        dim = HEADS * FEATURES
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def weigh(self, query: Tensor, key: Tensor) -> Tensor:
        scores = (query @ key.mT).relu() + 0.1
        return scores / scores.sum(dim=-1, keepdim=True)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.weigh(query, key) @ value

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, HEADS, FEATURES)).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(*parts).transpose(1, 2).flatten(2))


class RectifiedNetwork(nn.Module):
    """Two layers of it, one of which is larger than the other."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.words = nn.Embedding(VOCABULARY, HEADS * FEATURES)
        self.layers = nn.Sequential(RectifiedAttention(), RectifiedAttention())

    def forward(self, ids: Tensor) -> Tensor:
        return self.layers(self.factor * self.words(ids))


def attach(module: RectifiedAttention, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
    original = module.attend

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output, maps = original(query, key, value), module.weigh(query, key)
        calls.append(attention_call(name, maps, (query, key, value), output, 1.0))
        return output

    module.attend = attend  # type: ignore[method-assign]
    return lambda: vars(module).pop("attend")


class RectifiedCheckpoint(TokenCheckpoint):
    def forward(self, batch: Sequence[Any]) -> Tensor:
        return self.model(pad(batch, 0)[0])

    def padding_key(self, item: Any) -> int:
        return len(item)


def load_rectified(request: LoadRequest) -> Checkpoint:
    request.refuse_part()
    model = request.fill(RectifiedNetwork(**(request.config or {})))
    return RectifiedCheckpoint(files=request.files, model=model, limit=12, vocabulary=VOCABULARY)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Recorder("rectified", lambda module: isinstance(module, RectifiedAttention), attach)
    monkeypatch.setitem(RECORDERS, row.name, row)


@pytest.fixture
def rectified(monkeypatch: pytest.MonkeyPatch, recorder: None) -> None:
    row = CheckpointFormat(
        "rectified", lambda request: request.model_class == "toy:rectified", load_rectified
    )
    monkeypatch.setitem(FORMATS, row.name, row)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        torch.save(RectifiedNetwork().state_dict(), tmp_path / "w.pt")
    return tmp_path / "w.pt"


def test_attention_without_a_recorder_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that sum to one would give it away."""
    monkeypatch.setattr(RectifiedAttention, "weigh", lambda self, q, k: (q @ k.mT).relu())
    with pytest.raises(
        ValueError, match="model must have attention that is recognised, got none in Rectified"
    ):
        attention_calls(RectifiedNetwork(), torch.tensor(IDS[:1]))


@pytest.mark.usefixtures("recorder")
def test_recorder_from_outside_is_asked_gated_and_detached() -> None:
    model, ids = RectifiedNetwork(), torch.tensor(IDS[:1])
    calls = attention_calls(model, ids)
    assert [call.name for call in calls] == ["layers.0", "layers.1"]
    assert all(call.projection is model.layers[k].out for k, call in enumerate(calls))
    assert not any("attend" in vars(layer) for layer in model.layers)
    with torch.no_grad(), gated_heads(model, calls, torch.zeros(2, HEADS)):
        torch.testing.assert_close(model(ids)[0, 0], model.layers[1].out.bias)


def test_row_added_later_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise both would record, and every call would be there twice."""
    seen: list[str] = []

    def note(module: nn.Module, name: str, calls: list[AttentionCall]) -> Callable[[], None]:
        seen.append(name)
        return RECORDERS["nn.MultiheadAttention"].attach(module, name, calls)

    row = Recorder("mine", lambda module: isinstance(module, nn.MultiheadAttention), note)
    monkeypatch.setitem(RECORDERS, row.name, row)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    assert len(attention_calls(layer, *[torch.ones(1, 3, 4)] * 3)) == 1
    assert seen == [""]


@pytest.mark.usefixtures("rectified")
def test_kind_of_checkpoint_from_outside_is_loaded_and_drawn_anew(weights: Path) -> None:
    files = find_checkpoint(weights)
    loaded = load_checkpoint(files, model_class="toy:rectified", config={"factor": 2.0})
    assert (loaded.files, loaded.model.factor) == (files, 2.0)
    check_batches(loaded, [*IDS, [7, 9]])
    one, same = (loaded.with_random_weights(3).model for _ in range(2))
    assert torch.equal(one.words.weight, same.words.weight)
    assert one.factor == 2.0


@pytest.mark.usefixtures("rectified")
def test_heads_of_a_kind_from_outside_are_measured(weights: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("1 2 3 4\n5 6 7\n")
    options = ("--ids", tmp_path / "ids.txt", "--importance", "masking")
    status, out, err = run(weights, *options, "--model-class", "toy:rectified")
    assert (status, err) == (0, "")
    assert "trained weights" in out
    assert "random weights" in out


def test_splitter_from_outside_is_offered_and_used(
    tiny: Tiny, texts: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPLITTERS, "letters", r"[a-z]")
    tokenizer = load_tokenizer(load_checkpoint(tiny("bert")), tokens="letters")
    assert tokenizer.encode("ab, c") == [4, 5, 6]
    with pytest.raises(ValueError, match=r"tokens must be one of .*letters.*, got 'lines'"):
        load_tokenizer(load_checkpoint(tiny("bert")), tokens="lines")
    status, out, _ = run(tiny("bert"), "--text", texts, "--tokens", "letters", "--no-baseline")
    assert status == 0
    assert "3 texts, 3 windows" in out


def lengths(inputs: Iterable[Any], reader: ItemReader) -> Iterator[list[int]]:
    """Read each text as the lengths of its words, for which no tokenizer is needed."""
    reader.refuse_context()
    for text in inputs:
        reader.counts.texts += 1
        reader.counts.windows += 1
        yield [len(word) for word in text.split()]


def test_kind_of_input_from_outside_is_read_and_measured(
    weights: Path, rectified: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(INPUT_KINDS, "lengths", lengths)

    class LengthsCheckpoint(RectifiedCheckpoint):
        reads = "lengths"

    def load(request: LoadRequest) -> Checkpoint:
        model = request.fill(RectifiedNetwork())
        return LengthsCheckpoint(files=request.files, model=model, limit=12)

    row = CheckpointFormat("of lengths", lambda request: request.files.path == weights, load)
    monkeypatch.setitem(FORMATS, row.name, row)
    checkpoint = load_checkpoint(weights)
    assert list(read_items(checkpoint, ["a bc", "def"])) == [[1, 2], [3]]
    with pytest.raises(ValueError, match=r"context must be left out for .* reads lengths, got 4"):
        list(read_items(checkpoint, ["a bc"], context=4))
    (tmp_path / "texts.txt").write_text("a bc def\nabc de f g\n")
    status, out, err = run(weights, "--text", tmp_path / "texts.txt")
    assert (status, err) == (0, "")
    assert "2 texts, 2 windows" in out


def test_texts_are_not_read_without_a_tokenizer(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="tokenizer must be given for a network that reads tokens"):
        list(read_items(load_checkpoint(tiny("bert")), ["a b"]))
