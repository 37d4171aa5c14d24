"""The same report of a model in memory: equal numbers, and the model stays as it was."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_checkpoints import WORDS
from tiny_models import language
from torch import nn

import fourierkernels as fk
from fourierkernels.diagnostics import summarise_maps
from fourierkernels.report import HeadReport, head_report, numbers

Tiny = Callable[[str], Path]
TEXTS = ["a b c d e", "f g", "h i j a b c", "d c b"]
QUICK: dict[str, Any] = {"statistics": "none", "examples": 0}


def load(folder: Path, **options: Any) -> Any:
    return transformers.AutoModel.from_pretrained(folder, **options)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    return transformers.BertTokenizer(str(tmp_path / "vocab.txt"))


def same(one: HeadReport, other: HeadReport, *, exactly: bool = True) -> None:
    assert list(one.profiles) == list(other.profiles)
    for network, summary in one.summaries().items():
        found = other.summaries()[network]
        atol = 0 if exactly else 1e-6
        np.testing.assert_allclose(summary.distances, found.distances, rtol=0, atol=atol)
        np.testing.assert_allclose(summary.interval(), found.interval(), rtol=0, atol=atol)


def test_model_in_memory_gives_the_numbers_of_its_files(tiny: Tiny, tokenizer: Any) -> None:
    ours = fk.head_report(load(tiny("bert")), TEXTS, tokenizer=tokenizer)
    theirs = fk.head_report(tiny("bert"), TEXTS, tokens="whitespace")
    same(ours, theirs)
    assert ours.title == "BertModel (bert)"
    for name, found in ours.first.statistics.items():
        np.testing.assert_array_equal(found.mean, theirs.first.statistics[name].mean)
    labels = [example.queries for example in theirs.first.examples]
    assert [example.queries for example in ours.first.examples] == labels


def test_model_in_memory_is_compared_with_files(tiny: Tiny, tokenizer: Any, tmp_path: Path) -> None:
    model = load(tiny("bert"))
    model.save_pretrained(tmp_path / "files")
    tokenizer.save_pretrained(tmp_path / "files")
    found = head_report(model, TEXTS, tokenizer=tokenizer, against=tmp_path / "files", **QUICK)
    assert not found.frame("difference").difference.any()
    back = head_report(tmp_path / "files", TEXTS, tokenizer=tokenizer, against=model, **QUICK)
    same(found, back)
    assert back.against == "BertModel (bert)"


def test_head_for_a_task_is_not_run(tiny: Tiny, tokenizer: Any) -> None:
    model = transformers.AutoModelForMaskedLM.from_pretrained(tiny("bert"))
    scored: list[Any] = []
    model.cls.register_forward_hook(lambda *_: scored.append(1))
    ours = head_report(model, TEXTS, tokenizer=tokenizer, **QUICK)
    same(ours, head_report(tiny("bert"), TEXTS, tokens="whitespace", **QUICK))
    assert not scored


@pytest.mark.parametrize("kind", ["gpt2", "t5", "llama"])
def test_other_families_are_read_by_their_ids(kind: str, tiny: Tiny) -> None:
    ids, options = ["1 2 3 4", "5 6", "7 8 9"], {"tokens": "ids", **QUICK}
    same(head_report(load(tiny(kind)), ids, **options), head_report(tiny(kind), ids, **options))


def test_pairs_and_images_are_read_as_from_files(tiny: Tiny, pictures: list[Path]) -> None:
    pairs = [("1 2 3", "4 5"), ("6 7", "8 9 10")]
    options = {"tokens": "ids", "part": "cross", **QUICK}
    same(
        head_report(load(tiny("bart")), pairs, **options),
        head_report(tiny("bart"), pairs, **options),
    )
    vit = head_report(load(tiny("vit")), pictures, **QUICK)
    same(vit, head_report(tiny("vit"), pictures, **QUICK))
    assert vit.kind == "image"


def batch_of(tokenizer: Any, texts: list[str], **options: Any) -> Any:
    return tokenizer(texts, return_tensors="pt", padding=True, **options)


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_of_ready_batches_is_cut_away(side: str, tiny: Tiny, tokenizer: Any) -> None:
    batches = [batch_of(tokenizer, TEXTS[:2], padding_side=side), batch_of(tokenizer, TEXTS[2:])]
    ours = head_report(load(tiny("bert")), batches, tokenizer=tokenizer, examples=3)
    theirs = head_report(load(tiny("bert")), TEXTS, tokenizer=tokenizer, examples=3)
    same(ours, theirs, exactly=False)
    shown, wanted = ours.first.examples, theirs.first.examples
    assert [one.queries for one in shown] == [one.queries for one in wanted]
    assert set(ours.first.statistics) == set(theirs.first.statistics)  # special tokens are known


def test_one_dictionary_or_tensor_is_one_batch(tiny: Tiny, tokenizer: Any) -> None:
    batch, model = batch_of(tokenizer, TEXTS), load(tiny("bert"))
    same(head_report(model, batch, **QUICK), head_report(model, [batch], **QUICK))
    ids = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 4]])
    alone = head_report(model, ids, **QUICK)
    same(alone, head_report(model, [{"input_ids": ids}], **QUICK))
    assert alone.summaries()["trained"].n_texts == 2


def test_labels_change_nothing_and_decoder_entries_go_to_the_decoder(tiny: Tiny) -> None:
    ids, targets = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 3]])
    batch = {"input_ids": ids, "decoder_input_ids": targets, "labels": targets}
    model = load(tiny("bart"))
    model.name_or_path = ""  # no tokenizer
    encoder = head_report(model, batch, **QUICK)
    same(encoder, head_report(model, {"input_ids": ids}, **QUICK))
    cross = head_report(model, batch, part="cross", examples=1, baseline=False)
    assert cross.first.examples[0].maps.shape[2:] == (2, 3)
    assert cross.first.examples[0].queries == ("2", "3")


class Plain(nn.Module):
    """Attention of torch on embeddings, with dropout."""

    def __init__(self, *, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.5, batch_first=batch_first)
        self.body = nn.TransformerEncoder(layer, 2)
        self.score = nn.Linear(16, 20)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.score(self.body(self.embed(ids)))
        return scores


def test_any_module_is_measured_on_ids_or_tensors() -> None:
    model, ids = Plain(), torch.arange(12).reshape(2, 6)
    with pytest.warns(UserWarning, match="no random weights beside Plain"):
        of_tensor = head_report(model, ids, **QUICK)
    lines = [" ".join(map(str, row.tolist())) for row in ids]
    of_ids = head_report(model, lines, tokens="ids", baseline=False, **QUICK)
    for report in (of_tensor, of_ids):
        assert list(report.profiles) == ["trained"]
        assert report.summaries()["trained"].distances.shape == (2, 4, 4)
    same(of_tensor, of_ids, exactly=False)


@pytest.mark.parametrize("kind", ["swin", "timesformer"])
def test_windows_of_images_in_memory_are_layers_of_windows(kind: str) -> None:
    small: dict[str, Any] = {"image_size": 16, "patch_size": 4}
    torch.manual_seed(0)
    model: Any
    if kind == "swin":
        more = {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2}
        model = transformers.SwinModel(transformers.SwinConfig(**small, **more))
        images = torch.randn(2, 3, 16, 16)
    else:
        more = {"num_frames": 2, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
        config = transformers.TimesformerConfig(**small, **more, num_attention_heads=2)
        model, images = transformers.TimesformerModel(config), torch.randn(2, 2, 3, 16, 16)
    together = head_report(model.eval(), [images], baseline=False, **QUICK)
    apart = head_report(model, list(images.split(1)), baseline=False, **QUICK)
    same(together, apart)
    wanted = {"swin": ((2, 4, 4, 4), (2, 1, 4, 4)), "timesformer": ((2, 16, 2, 2), (2, 2, 17, 17))}
    assert together.first.shapes == wanted[kind]


def test_pooling_does_not_enter_the_layers() -> None:
    batch = torch.arange(24).reshape(3, 8)

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.pool = (
                nn.Embedding(24, 16),
                nn.MultiheadAttention(16, 4, batch_first=True),
            )
            self.layer = nn.TransformerEncoderLayer(16, 4, 16, batch_first=True)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.layer(self.body(ids))
            return self.pool(x[:, :1], x, x)[0]

    report = head_report(Pooled().eval(), [batch], baseline=False, **QUICK)
    assert report.first.layers == ("layer.self_attn",)
    assert "attention of one query, which pools, is left out: pool" in report.first.notes


def test_random_weights_may_be_given(tiny: Tiny) -> None:
    model, untrained, ids = Plain(), Plain().train(), torch.arange(12).reshape(2, 6)
    nn.init.normal_(model.embed.weight, std=5.0)
    with unchanged(untrained):
        report = head_report(model, ids, baseline=untrained, **QUICK | {"controls": ["entropy"]})
    random = report.summaries()["random"]
    alone = head_report(untrained, ids, baseline=False, **QUICK)
    np.testing.assert_array_equal(random.distances, alone.summaries()["trained"].distances)
    assert (report.controls()["entropy"].mean > random.mean).all()  # the trained rows are sharper
    assert report.origin["options"]["baseline"] == "Plain"
    with pytest.raises(ValueError, match="baseline must be True or False for"):
        head_report(tiny("bert"), TEXTS, baseline=untrained)


def test_own_models_are_drawn_anew_and_compared() -> None:
    model, other = language("softmax"), language("softmax")
    report = head_report(model, ["1 2 3 4", "5 6 7"], tokens="ids", against=other, **QUICK)
    assert list(report.profiles)[:2] == ["trained", "random"]
    assert report.against == "LanguageModel"
    assert np.isfinite(report.frame("difference").difference).all()


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Check everything about a model that a training loop relies on."""

    def facts() -> list[Any]:
        modules = [
            (name, id(one), one.training, one.extra_repr(), [len(x) for x in _dictionaries(one)])
            for name, one in model.named_modules()
        ]
        tensors = [
            (name, id(one), one.data_ptr(), one._version, one.is_inference(), str(one.device))
            for name, one in (*model.named_parameters(), *model.named_buffers())
        ]
        flags = [one.requires_grad for one in model.parameters()]
        config = getattr(model, "config", None)
        return [modules, tensors, flags, config.to_dict() if hasattr(config, "to_dict") else None]

    def state() -> list[Any]:
        return [
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),  # noqa: NPY002
            random.getstate(),
        ]

    before, drawn = facts(), state()
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    yield
    assert facts() == before
    assert state() == drawn
    assert getattr(getattr(model, "config", None), "_attn_implementation", None) == implementation


def _dictionaries(module: nn.Module) -> list[dict[Any, Any]]:
    return [one for one in vars(module).values() if isinstance(one, dict)]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "bart"])
def test_model_of_transformers_is_left_as_it_was(kind: str, tiny: Tiny) -> None:
    model = load(tiny(kind), attn_implementation="sdpa").train()
    next(model.parameters()).requires_grad_(False)
    list(model.modules())[3].eval()
    model.register_forward_hook(lambda *_: None)
    with unchanged(model):
        head_report(model, ["1 2 3", "4 5"], tokens="ids", importance="masking", loss="states")


def test_any_other_module_is_left_as_it_was() -> None:
    model = Plain().train()
    loader = torch.utils.data.DataLoader(torch.arange(12).reshape(2, 6), batch_size=1)
    for inputs in (torch.arange(6)[None], loader):
        with unchanged(model):
            head_report(model, inputs, baseline=False)


def test_model_is_left_as_it_was_by_an_error(tiny: Tiny) -> None:
    model = load(tiny("bert")).train()
    with unchanged(model), pytest.raises(ValueError, match="network must read the rows"):
        head_report(model, {"pixel_values": torch.zeros(1, 3, 8, 8)})


def test_model_is_taken_out_of_what_wraps_it() -> None:
    model, ids = Plain(), torch.arange(12).reshape(2, 6)
    wanted = head_report(model, ids, baseline=False, **QUICK)
    for wrapped in (torch.compile(model), nn.DataParallel(model)):
        same(head_report(wrapped, ids, baseline=False, **QUICK), wanted)


def test_half_precision_is_measured_as_it_is(tiny: Tiny) -> None:
    model = load(tiny("bert"), dtype=torch.bfloat16, attn_implementation="eager").eval()
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    with torch.no_grad():
        maps = torch.stack(model(ids, output_attentions=True).attentions, dim=1)  # (B, L, H, n, n)
    wanted = summarise_maps(maps.double().numpy())
    half = head_report(model, ids, examples=0)
    np.testing.assert_array_equal(half.summaries()["trained"].distances, wanted.distances)
    assert half.first.statistics


class Remembers(Plain):
    """A module that replaces a buffer in its forward pass, as caches of positions do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.zeros(0), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if len(self.places) < ids.shape[1]:
            self.places = torch.linspace(0, 1, ids.shape[1])
        scores: torch.Tensor = self.score(self.body(self.embed(ids) * self.places[:, None]))
        return scores


def test_caches_made_while_measuring_do_not_stay() -> None:
    model, ids = Remembers().train(), torch.arange(12).reshape(2, 6)
    with unchanged(model):
        head_report(model, ids, baseline=False, **QUICK)
    model(ids).sum().backward()  # with a cache of inference mode this would be refused
    assert model.embed.weight.grad is not None


def test_shuffled_batches_are_refused(tiny: Tiny) -> None:
    ids = torch.arange(4 * 40).reshape(40, 4) % 14
    loader = torch.utils.data.DataLoader(ids, batch_size=2, shuffle=True)
    with pytest.raises(ValueError, match="shuffle=False"):
        head_report(load(tiny("bert")), loader, **QUICK)
    steady = torch.utils.data.DataLoader(ids, batch_size=2)
    report = head_report(load(tiny("bert")), steady, baseline=False, **QUICK)
    assert report.summaries()["trained"].n_texts == 40


def test_rows_that_are_no_texts_are_refused() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)  # batch_first=False: texts are columns
    with pytest.raises(ValueError, match=r"batch_first=True, got 5 attention maps of one row"):
        head_report(layer, torch.zeros(5, 5, 8), baseline=False)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"checkpoint": 5}, TypeError, "checkpoint must be a path or a torch module, got int"),
        ({"against": 5}, TypeError, "against must be a path or a torch module, got int"),
        ({"inputs": None}, TypeError, "inputs must be texts or batches .* got None"),
        ({"inputs": 7}, TypeError, "inputs must be texts or batches .* got int"),
        ({"inputs": iter(TEXTS)}, TypeError, "read twice"),
        ({"inputs": [3, 4], "tokens": "ids"}, TypeError, "texts must be strings, got int"),
        ({"inputs": []}, ValueError, "texts must fill at least one window"),
        ({"inputs": [{"input_ids": [1, 2]}]}, TypeError, "got list for 'input_ids'"),
        ({"inputs": torch.zeros(0, 3)}, ValueError, "number of rows, got {'': 0}"),
        (
            {"inputs": torch.tensor([[1, 2, 3], [1, 2, 99]])},
            ValueError,
            "network must read the rows of the batches, but BertModel fails: index out of range",
        ),
        ({"tokenizer": 3}, TypeError, "tokenizer must be a tokenizer of transformers"),
        ({"tokenizer": None}, ValueError, "tokenizer must be given for texts"),
        ({"tokens": "whitespace"}, ValueError, "tokens must be auto or ids for a model in memory"),
        ({"config": {}}, ValueError, "config must be left out for a model in memory"),
        (
            {"inputs": torch.ones(1, 2, dtype=torch.long), "importance": "masking"},
            ValueError,
            "loss must be states for ready batches, got auto",
        ),
        (
            {"inputs": {"input_ids": torch.ones(2, 3, dtype=torch.long), "x": torch.ones(1)}},
            ValueError,
            "one and the same number of rows",
        ),
        (
            {
                "inputs": {
                    "input_ids": torch.ones(1, 3, dtype=torch.long),
                    "attention_mask": torch.zeros(1, 3),
                }
            },
            ValueError,
            "an empty attention_mask",
        ),
    ],
    ids=lambda one: None,
)
def test_wrong_inputs_give_one_clear_error(
    wrong: dict[str, Any], error: type, words: str, tiny: Tiny, tokenizer: Any
) -> None:
    model = load(tiny("bert"))
    model.name_or_path = ""
    given = {"checkpoint": model, "inputs": TEXTS, "tokenizer": tokenizer, **QUICK, **wrong}
    with pytest.raises(error, match=words) as caught:
        head_report(given.pop("checkpoint"), given.pop("inputs"), **given)
    assert "\n" not in str(caught.value)


def test_tokenizer_is_found_where_the_model_lies(
    tiny: Tiny, tokenizer: Any, tmp_path: Path
) -> None:
    load(tiny("bert")).save_pretrained(tmp_path / "own")
    tokenizer.save_pretrained(tmp_path / "own")
    found = head_report(load(tmp_path / "own"), TEXTS, **QUICK)
    same(found, head_report(load(tiny("bert")), TEXTS, tokenizer=tmp_path / "own", **QUICK))
    with pytest.raises(TypeError, match="tokenizer must be a folder or a file for"):
        head_report(tmp_path / "own", TEXTS, tokenizer=tokenizer)


@pytest.mark.usefixtures("undrawn")
def test_frames_hold_what_the_files_hold(tiny: Tiny, tmp_path: Path) -> None:
    import pandas

    model = load(tiny("bert"))
    report = head_report(model, ["1 2 3 4", "5 6", "7 8 9"], tokens="ids", permutations=3)
    report.save(tmp_path / "out")
    for table in ("heads", "statistics", "null"):
        written = pandas.read_csv(tmp_path / "out" / f"{table}.csv", keep_default_na=True)
        shown = report.frame(table)
        pandas.testing.assert_frame_equal(
            shown.fillna(""), written.fillna(""), check_dtype=False, rtol=1e-12
        )
    heads = report.frame()
    assert len(heads) == 4 * 3  # networks and controls, and layers
    assert (heads.low <= heads["mean"]).all()
    assert report.frame("pruning").empty
    with pytest.raises(ValueError, match="table must be"):
        report.frame("pairs")


def test_added_table_is_a_frame_and_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = (["title", "networks"], [["a model", 0]])
    monkeypatch.setitem(numbers.TABLES, "titles", lambda report: rows)
    report = HeadReport("a model")
    assert report.frame("titles").networks.tolist() == [0]
    numbers.csv_table("titles")(report, tmp_path / "titles.csv")
    assert (tmp_path / "titles.csv").read_text() == "title,networks\na model,0\n"
