"""What a network computes of one input depends neither on its batch nor on earlier inputs."""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tolerances import TOLERANCE
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.checkpoint import Checkpoint, TokenCheckpoint
from fourierkernels.checkpoints.isolating import isolated
from fourierkernels.checkpoints.load import load_checkpoint
from fourierkernels.diagnostics import head_samples
from fourierkernels.diagnostics.networks.profile import profile_heads
from fourierkernels.report.content import ReportContent
from fourierkernels.report.numbers import report_numbers
from fourierkernels.report.page import page_html
from fourierkernels.report.terminal import report_parts

t = transformers
ROUNDING = TOLERANCE["float32"]["fast"]
SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 3}
LENGTHS = (5, 17, 3, 9, 30, 9, 1, 30)
LEAKS = r"padding changes attention weights, by up to \S+ in a trial: only texts of equal length"
EXCHANGES = "the network exchanges its layers by the length of a text, which is undone"
DRAWS = "two runs on one input differ, as the network draws random numbers: inputs are run one by"

#: Configuration, and the note that belongs to it; none for a network that masks its padding.
FAMILIES: dict[str, tuple[Callable[[], Any], str]] = {
    "mobilebert": (
        lambda: t.MobileBertConfig(
            **SMALL, embedding_size=8, true_hidden_size=8, intra_bottleneck_size=8
        ),
        LEAKS,
    ),
    "convbert": (lambda: t.ConvBertConfig(**SMALL, embedding_size=16, head_ratio=1), LEAKS),
    "big_bird": (
        lambda: t.BigBirdConfig(**SMALL, **MARKS, block_size=2, num_random_blocks=1),
        EXCHANGES,
    ),
    "bert": (lambda: t.BertConfig(**SMALL), ""),
    "gpt2": (
        lambda: t.GPT2Config(
            vocab_size=40, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
        ),
        "",
    ),
    "llama": (lambda: t.LlamaConfig(**SMALL), ""),
}


def saved(folder: Path, config: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = t.AutoModel.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder


def texts(lengths: Sequence[int] = LENGTHS) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(4, 40, size=n).tolist() for n in lengths]


def maps_of(checkpoint: Checkpoint, items: Sequence[Any], size: int) -> dict[int, np.ndarray]:
    return {
        sample.index: sample.maps for sample in head_samples(checkpoint, items, batch_size=size)
    }


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Checkpoint]:
    def load(name: str) -> Checkpoint:
        folder = tmp_path_factory.getbasetemp() / "steady" / name
        return load_checkpoint(folder if folder.exists() else saved(folder, FAMILIES[name][0]()))

    return load


@pytest.mark.parametrize("name", FAMILIES)
def test_maps_depend_neither_on_the_batch_size_nor_on_the_order(name: str, family: Any) -> None:
    items = texts()
    reference = {i: maps_of(family(name), [item], 1)[0] for i, item in enumerate(items)}
    for size, order in ((8, range(8)), (3, range(8)), (3, range(7, -1, -1)), (1, range(8))):
        found = maps_of(family(name), [items[i] for i in order], size)
        for place, i in enumerate(order):
            np.testing.assert_allclose(found[place], reference[i], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_was_found_is_noted_once(name: str, family: Any) -> None:
    (sample,) = head_samples(family(name), texts()[:1])
    (again,) = head_samples(sample.checkpoint, texts()[:1])
    notes = again.checkpoint.notes
    assert notes == sample.checkpoint.notes
    wanted = FAMILIES[name][1]
    assert len(notes) == bool(wanted)
    assert all(re.match(wanted, note) for note in notes)


def test_leak_is_found_in_the_almost_even_maps_of_random_weights(family: Any) -> None:
    drawn, item = family("convbert").with_random_weights(seed=1), texts()[0]
    (note,) = isolated(drawn, item).notes
    assert re.match(LEAKS, note)
    maps = maps_of(drawn, [item], 1)[0]
    assert 0.0 < np.abs(maps - 1 / len(item)).max() < 0.1


def test_layers_that_a_short_text_exchanges_are_back_for_the_next(family: Any) -> None:
    checkpoint = family("big_bird")
    before = [type(module) for module in checkpoint.model.modules()]
    list(head_samples(checkpoint, texts()))
    assert [type(module) for module in checkpoint.model.modules()] == before
    assert checkpoint.model.attention_type == "block_sparse"


def test_map_of_blocks_is_what_they_make_of_the_values(family: Any) -> None:
    model, item = family("big_bird").model, texts([21])
    (call, *rest) = attention_calls(model, torch.tensor(item))
    assert (len(rest), call.filler, call.maps.shape) == (1, 1, (1, 2, 22, 22))
    np.testing.assert_allclose(call.maps[..., :21, :].sum(-1), 1, atol=ROUNDING)
    np.testing.assert_allclose(call.maps[..., 21], 0, atol=ROUNDING)
    for one in (call, *rest):
        torch.testing.assert_close(one.maps @ one.values, one.outputs)
        torch.testing.assert_close(
            one.projected.sum(1),
            one.projection(one.outputs.transpose(1, 2).flatten(-2)) - one.projection.bias,
        )
    again = model(torch.tensor(item), output_attentions=True).attentions[0]
    far = slice(2, None)  # the first block is attended to twice and shown once there
    torch.testing.assert_close(call.maps[..., :21, far], again[..., :21, far])


class Restless(nn.Module):
    """A network that draws random numbers although it is not trained."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.draw = draw
        self.embed, self.mix = nn.Embedding(40, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x * torch.tensor([self.draw() for _ in range(len(ids))])[:, None, None]
        return self.mix(x, x, x)[0]


SOURCES: dict[str, Callable[[], float]] = {
    "torch": lambda: float(torch.rand(())),
    "numpy": lambda: float(np.random.rand()),  # noqa: NPY002
    "python": random.random,
}


class RestlessCheckpoint(TokenCheckpoint):
    """One that reads no padding."""

    def forward(self, batch: Any) -> Tensor:
        return self.model(torch.tensor(batch))

    def padding_key(self, item: Any) -> Any:
        return len(item)


class PaddedCheckpoint(RestlessCheckpoint):
    """One that says that it masks padding, and fails on it: a list of lists is no tensor then."""

    def padding_key(self, item: Any) -> Any:
        return None


class PaddingCheckpoint(PaddedCheckpoint):
    """One that pads with zeros."""

    def forward(self, batch: Any) -> Tensor:
        return self.model(pad_sequence([torch.tensor(item) for item in batch], batch_first=True))


class Masked(nn.Module):
    """A network that masks its padding, and multiplies what it embeds by one number a run."""

    def __init__(self, draw: Callable[[], float], size: float) -> None:
        super().__init__()
        self.draw = draw
        self.embed, self.mix = nn.Embedding(40, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        with torch.no_grad():
            self.mix.in_proj_weight.mul_(size)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) * (1.0 + self.draw())
        return self.mix(x, x, x, key_padding_mask=ids == 0)[0]


class BrokenCheckpoint(RestlessCheckpoint):
    """One that does not run."""

    def forward(self, batch: Any) -> Tensor:
        raise ZeroDivisionError


def restless(
    draw: Callable[[], float], kind: type[RestlessCheckpoint] = RestlessCheckpoint
) -> Checkpoint:
    torch.manual_seed(0)
    model = Restless(draw).eval().requires_grad_(False)
    return kind(files=None, model=model, vocabulary=40)


@pytest.mark.parametrize("source", SOURCES)
def test_random_numbers_are_the_same_for_every_input(source: str) -> None:
    checkpoint, items = restless(SOURCES[source]), texts([7, 7, 7, 5])
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = maps_of(checkpoint, items, 8)
    again = maps_of(checkpoint, items[::-1], 1)
    for index, maps in first.items():
        np.testing.assert_array_equal(maps, again[3 - index])
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    np.testing.assert_array_equal(before[2], np.random.get_state()[1])  # noqa: NPY002
    assert [note[: len(DRAWS)] for note in isolated(checkpoint, items[0]).notes] == [DRAWS]


def test_random_numbers_are_told_from_padding() -> None:
    (note,) = isolated(restless(SOURCES["torch"], PaddingCheckpoint), texts([7])[0]).notes
    assert note.startswith(DRAWS)
    (note,) = isolated(restless(lambda: 1.0, PaddingCheckpoint), texts([7])[0]).notes
    assert re.match(LEAKS, note)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 0.05])
@pytest.mark.parametrize("drawn", [0.0, 1.0])
def test_random_numbers_are_told_where_padding_is_masked(
    drawn: float, size: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    model = Masked(lambda: drawn * float(torch.rand(())), size)
    model = model.eval().requires_grad_(False).to(dtype)
    checkpoint = PaddingCheckpoint(files=None, model=model, vocabulary=40)
    notes = isolated(checkpoint, [1 + k % 39 for k in range(16)]).notes
    assert [note[: len(DRAWS)] for note in notes] == ([DRAWS] if drawn else [])


def test_results_that_no_seed_repeats_are_said_to_differ() -> None:
    numbers = itertools.count()
    (note,) = isolated(restless(lambda: 1.0 / (1 + next(numbers))), texts([7])[0]).notes
    assert note.startswith(DRAWS)
    assert "; even so weights differ by up to " in note


def test_network_that_fails_on_padding_runs_texts_of_equal_length() -> None:
    model = restless(lambda: 1.0)
    unequal = restless(lambda: 1.0, PaddedCheckpoint)
    found = isolated(unequal, texts([7])[0])
    (note,) = found.notes
    assert note == (
        "the network does not run on a padded batch (ValueError): "
        "only texts of equal length share a batch"
    )
    reference = maps_of(model, texts(), 1)
    for index, maps in maps_of(unequal, texts(), 8).items():
        np.testing.assert_allclose(maps, reference[index], rtol=0, atol=ROUNDING)


def test_padding_is_not_tried_where_texts_of_equal_length_share_a_batch_anyway() -> None:
    assert isolated(restless(lambda: 1.0), texts([7])[0]).notes == ()


def test_network_that_does_not_run_fails_where_it_is_measured() -> None:
    broken = restless(lambda: 1.0, BrokenCheckpoint)
    assert isolated(broken, [1, 2]).notes == ()
    with pytest.raises(ZeroDivisionError):
        list(head_samples(broken, [[1, 2]]))


def test_note_is_in_terminal_page_and_numbers(family: Any) -> None:
    lines = [" ".join(map(str, text)) for text in texts()]
    profile = profile_heads(family("mobilebert"), lines, tokens="ids")
    note = next(note for note in profile.notes if re.match(LEAKS, note))
    report = ReportContent("tiny", {"trained": profile})
    assert next(report_parts(report)).startswith(note)
    assert report_numbers(report)["notes"] == list(profile.notes)
    assert note in unescape(page_html(report))


MASKING = "masking is off: the network reads all patches of an image, in their order"


def test_masked_autoencoder_reads_all_patches_in_their_order(
    tmp_path: Path, pictures: list[Path]
) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = t.ViTMAEConfig(**sizes, intermediate_size=16, image_size=16, patch_size=4)
    folder = saved(tmp_path / "vit_mae", config)
    checkpoint = load_checkpoint(folder)
    found, again = (maps_of(checkpoint, pictures, size) for size in (3, 1))
    for index, maps in found.items():
        np.testing.assert_allclose(maps, again[index], rtol=0, atol=ROUNDING)
    assert checkpoint.notes == (MASKING,)
    assert checkpoint.positions.shape == (17, 2)
    pixels = np.asarray(Image.open(pictures[0]).resize((16, 16), Image.Resampling.BILINEAR))
    image = (torch.tensor(pixels / 255.0, dtype=torch.float32).permute(2, 0, 1)[None] - 0.5) / 0.5
    model = t.ViTMAEModel.from_pretrained(folder, attn_implementation="eager", mask_ratio=0.0)
    with torch.inference_mode():
        out = model.eval()(image, noise=torch.arange(16.0)[None], output_attentions=True)
    expected = torch.stack(out.attentions)[:, 0]
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=ROUNDING)
