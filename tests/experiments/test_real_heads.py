"""Facts about the heads of published checkpoints: a pair, a decoder, one without attention."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import profiles
import pytest
import torch
from tiny_checkpoints import RXNMAPPER, needs_rxnmapper
from torch.nn.functional import cross_entropy

from fourierkernels import checkpoints, diagnostics, head_report

DATA = Path(__file__).parents[2] / "notebooks" / "data"
PRETRAINED, TUNED = (f"rxnfp:models/transformers/{name}" for name in ("bert_pretrained", "bert_ft"))
MGM = "mgm:resources/general_model"

needs_rxnfp = pytest.mark.skipif(find_spec("rxnfp") is None, reason="package rxnfp is missing")
needs_mgm = pytest.mark.skipif(find_spec("mgm") is None, reason="microformer-mgm is missing")
needs_fracast = pytest.mark.skipif(find_spec("fracast") is None, reason="fracast is missing")


def bert(name: str, model_class: str = "BertModel") -> Any:
    return checkpoints.load_checkpoint(name, model_class=model_class)


def items(checkpoint: Any, texts: list[str]) -> list[list[int]]:
    tokenizer = checkpoints.load_tokenizer(checkpoint, tokens="smiles")
    return [[*tokenizer.prefix, *tokenizer.encode(text), *tokenizer.suffix] for text in texts]


def preparations(count: int) -> list[str]:
    return list(checkpoints.read_texts(DATA / "preparations.txt"))[:count]


def sequences(name: str, count: int) -> list[list[int]]:
    texts = list(checkpoints.read_texts(DATA / name))[:count]
    return [[int(word) for word in text.split()] for text in texts]


@needs_rxnfp
def test_fingerprint_of_the_fine_tuned_network_is_the_published_one() -> None:
    """The example of rxnfp's README: one reaction, the first five of its 256 numbers."""
    amide = (
        "Nc1cccc2cnccc12.O=C(O)c1cc([N+](=O)[O-])c(Sc2c(Cl)cncc2Cl)s1"
        ">>O=C(Nc1cccc2cnccc12)c1cc([N+](=O)[O-])c(Sc2c(Cl)cncc2Cl)s1"
    )
    published = [
        -2.0174953937530518,
        1.7602033615112305,
        -1.3323537111282349,
        -1.1095019578933716,
        1.2254549264907837,
    ]
    checkpoint = bert(TUNED)
    with torch.no_grad():
        output = checkpoint.model(input_ids=torch.tensor(items(checkpoint, [amide])))
    found = output.last_hidden_state[0, 0, :5].tolist()
    assert found == pytest.approx(published, abs=1e-5)


@needs_rxnmapper
@needs_rxnfp
@pytest.mark.parametrize(
    ("name", "model_class", "least"),
    [(RXNMAPPER, "AlbertForMaskedLM", 0.97), (PRETRAINED, "BertForMaskedLM", 0.85)],
)
def test_pretrained_networks_fill_in_masked_tokens(
    name: str, model_class: str, least: float
) -> None:
    checkpoint, rng = bert(name, model_class), np.random.default_rng(0)
    mask = checkpoints.load_tokenizer(checkpoint, tokens="smiles").mask
    assert mask is not None
    right = []
    for ids in items(checkpoint, preparations(12)):
        places = 1 + rng.permutation(len(ids) - 2)[: len(ids) // 7]
        hidden = torch.tensor([ids])
        hidden[0, places] = mask
        with torch.no_grad():
            guesses = checkpoint.model(input_ids=hidden).logits[0, places].argmax(-1)
        right += (guesses == torch.tensor(ids)[places]).tolist()
    assert np.mean(right) > least


@needs_rxnfp
@pytest.mark.slow
def test_fine_tuning_made_the_heads_of_the_upper_layers_more_alike() -> None:
    options = {"tokens": "smiles", "model_class": "BertModel", "statistics": "none"}
    report = head_report(PRETRAINED, preparations(16), against=TUNED, **options)
    summaries = report.summaries()
    found = diagnostics.head_difference(summaries["other"], summaries["trained"])
    assert found.paired
    assert found.high < 0
    assert (found.layers_high[6:] < 0).all()
    assert (found.layers_low[:2] > 0).all()
    assert summaries["random"].layer_average < summaries["trained"].layer_average / 20


@needs_rxnfp
def test_four_heads_of_one_layer_look_at_fixed_places_before_and_after_fine_tuning() -> None:
    for name in (PRETRAINED, TUNED):
        checkpoint = bert(name)
        for sample in diagnostics.head_samples(checkpoint, items(checkpoint, preparations(4))):
            weights = [
                np.diagonal(sample.maps[4, head], offset).mean()
                for head, offset in enumerate((2, -2, -1, -1))
            ]
            assert min(weights) > 0.8


@needs_mgm
def test_ids_of_the_decoder_are_rows_of_its_table_of_genera() -> None:
    folder = Path(find_spec("mgm").origin).parent / "resources"  # type: ignore[union-attr, arg-type]
    table = (folder / "phylogeny.csv").read_text(encoding="utf-8").splitlines()[1:]
    genera = [line.split(",")[0] for line in table]
    checkpoint = checkpoints.load_checkpoint(MGM)
    assert len(genera) + 4 == checkpoint.vocabulary
    used = {i for row in sequences("genera.txt", 48) for i in row}
    common = {f"g__{name}" for name in ("Lactobacillus", "Bacteroides", "Prevotella")}
    assert common <= {genera[i - 4] for i in used if i > 3}


@needs_mgm
def test_sequences_drawn_from_the_decoder_are_likelier_than_their_shuffles() -> None:
    model = checkpoints.load_checkpoint(MGM, model_class="GPT2LMHeadModel").model
    rng = np.random.default_rng(0)

    def surprise(ids: list[int]) -> float:
        with torch.no_grad():
            scores = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        return cross_entropy(scores, torch.tensor(ids[1:])).item()

    rows = sequences("genera.txt", 8)
    assert all(row[0] == 2 and row[-1] == 3 for row in rows)
    own = [surprise(row) for row in rows]
    shuffled = [surprise([row[0], *rng.permutation(row[1:-1]).tolist(), row[-1]]) for row in rows]
    assert np.mean(own) < 4.5 < np.mean(shuffled)
    assert all(a < b for a, b in zip(own, shuffled, strict=True))
    assert all(
        len(row) == 256 and row[0] == 2 and 3 not in row for row in sequences("genera_256.txt", 16)
    )


@needs_mgm
def test_no_head_of_the_decoder_looks_ahead_and_its_first_rows_agree() -> None:
    sample = next(
        diagnostics.head_samples(checkpoints.load_checkpoint(MGM), sequences("genera_256.txt", 1))
    )
    assert np.triu(sample.maps, k=1).max() == 0
    assert (sample.maps[..., 0, 0] == 1).all()


@needs_mgm
def test_padding_changes_no_distance_of_the_decoder() -> None:
    texts = list(checkpoints.read_texts(DATA / "genera.txt"))[:6]
    alone, together = (
        profiles.distances(MGM, texts, tokens="ids", batch_size=size) for size in (1, 6)
    )
    assert together.n_min < together.n_max
    np.testing.assert_allclose(together.distances, alone.distances, atol=1e-5)


@needs_fracast
def test_a_network_of_convolutions_has_no_attention() -> None:
    from fracast import FracastModel

    core = FracastModel.from_pretrained(weights="fp32").core
    series = torch.zeros(1, 1, 2048)
    with pytest.raises(
        ValueError, match=r"must have attention that is recognised, got none in FracastCore"
    ):
        checkpoints.attention_calls(core, series, series == 0, series + 1)
    with pytest.raises(ValueError, match=r"config\.json of weights cannot be used"):
        checkpoints.load_checkpoint("fracast:weights")
