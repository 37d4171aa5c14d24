"""What heads are for: heads made to be of one kind, even ones, and chance by drawing."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made_heads import KINDS, MadeHeads

import fourierkernels as fk
from fourierkernels.diagnostics import ROLES, head_roles
from fourierkernels.diagnostics.chance import permuted_maps
from fourierkernels.diagnostics.role_summary import RoleAccumulator
from fourierkernels.diagnostics.roles import HeadRole
from fourierkernels.report.notes import role_sentence

IDS = np.array([5, 7, 5, 9, 7, 4, 5, 7])
N = len(IDS)
DELIMITERS = np.isin(IDS, [9, 4])
IMAGE = np.isin(np.arange(N), [1, 2])


def even(*, causal: bool) -> np.ndarray:
    seen = np.tri(N) if causal else np.ones((N, N))
    return seen / seen.sum(axis=1, keepdims=True)


def exact(targets: np.ndarray, *, causal: bool) -> np.ndarray:
    """All weight on targets, evenly; rows that see none attend evenly."""
    seen = targets * (even(causal=causal) > 0)
    some = seen.sum(axis=1, keepdims=True)
    return np.where(some > 0, seen / np.maximum(some, 1), even(causal=causal))


SAME = (IDS[:, None] == IDS) & ~np.eye(N, dtype=bool)
TARGETS = {
    "previous": np.eye(N, k=-1),
    "first": np.eye(N)[:1].repeat(N, axis=0),
    "delimiter": DELIMITERS[None].repeat(N, axis=0),
    "image": (IMAGE & ~IMAGE[:, None]).astype(float),
    "same": SAME,
    "induction": np.pad(SAME, ((0, 0), (1, 0)))[:, :-1],
}


def drawn(seed: int, *, causal: bool) -> np.ndarray:
    scores = 2 * np.random.default_rng(seed).standard_normal((3, N, N))
    maps = np.exp(scores) * (even(causal=causal) > 0)
    return maps / maps.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(ROLES))
def test_head_made_for_a_role_has_score_one_and_an_even_head_is_at_chance(
    name: str, causal: bool
) -> None:
    maps = np.stack([exact(TARGETS[name], causal=causal), even(causal=causal)])
    found = head_roles(maps, ids=IDS, delimiters=DELIMITERS, image=IMAGE)[name]
    assert found.score[0] == pytest.approx(1, abs=1e-12)
    assert found.chance[1] == pytest.approx(found.score[1], abs=1e-12)
    assert 0 < found.chance[0] < 0.75


def test_chance_of_a_causal_previous_token_is_the_mean_of_one_over_the_row() -> None:
    found = head_roles(np.stack([even(causal=True)] * 2), names=["previous"])["previous"]
    assert found.chance[0] == pytest.approx(np.mean([1 / k for k in range(2, N + 1)]))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("marked", [True, False])
def test_chance_is_the_mean_score_of_permuted_rows(causal: bool, marked: bool) -> None:
    maps, rng = drawn(1, causal=causal), np.random.default_rng(0)
    special = np.arange(N) == 3 if marked else None
    options = {"ids": IDS, "delimiters": DELIMITERS, "image": IMAGE, "special": special}
    found = head_roles(maps, **options)
    for name, role in ROLES.items():
        kept = None if role.marks else special
        many = [
            head_roles(permuted_maps(maps, rng, kept=kept), names=[name], **options)[name].score
            for _ in range(300)
        ]
        error = np.std(many, axis=0, ddof=1) / np.sqrt(len(many))
        assert (np.abs(np.mean(many, axis=0) - found[name].chance) < 4.5 * error).all(), name


def test_weight_on_special_tokens_is_no_part_of_chance() -> None:
    resting = 0.9 * (np.arange(N) == 0) + 0.1 * even(causal=True)
    maps = np.stack([resting, even(causal=True)])
    special = np.arange(N) == 0
    known = head_roles(maps, names=["previous"], special=special)["previous"]
    unknown = head_roles(maps, names=["previous"])["previous"]
    assert known.score[0] == pytest.approx(known.chance[0])
    assert unknown.chance[0] > 2 * known.chance[0]


def test_heads_that_share_nothing_with_a_role_are_seldom_said_to_be_above_chance() -> None:
    wrong, names = 0, ("previous", "first", "same", "induction")
    for trial in range(25):
        taken = {name: RoleAccumulator(name) for name in names}
        for text in range(6):
            rng = np.random.default_rng([trial, text])
            maps = permuted_maps(drawn(text, causal=True), rng)
            for name, one in head_roles(maps, names=names, ids=IDS).items():
                taken[name].add(one.score[None], one.chance[None])
        wrong += any(one.summary(together=4).above.any() for one in taken.values())
    assert wrong <= 5  # of 25 at 5 %: more in 1 of 1,000


def test_rounding_is_no_excess() -> None:
    taken = RoleAccumulator("first")
    for _ in range(4):
        taken.add(np.array([[0.25 + 1e-7]]), np.array([[0.25]]))
    assert not taken.summary().above.any()


def test_report_says_what_each_head_was_made_for() -> None:
    texts = [" ".join(map(str, np.random.default_rng(k).permutation(40)[:12])) for k in range(5)]
    report = fk.head_report(MadeHeads(), texts, tokens="ids", statistics="none", baseline=False)
    for head, kind in enumerate(KINDS[:-1]):
        said = role_sentence(report.first.roles, 0, head)
        assert said.startswith(f"Head 1.{head + 1} attends mostly to {ROLES[kind].keys}: "), said
        assert report.first.roles[kind].score[0, head] > 0.95
    others = role_sentence(report.first.roles, 0, len(KINDS) - 1)
    assert others.startswith(f"Head 1.{len(KINDS)} attends to none of these well above chance: ")
    table = report.frame("roles").set_index(["role", "head"])
    assert bool(table.loc[("same", 3), "above"])
    assert not table.loc[("same", 5), "above"]
    assert ROLES["induction"].keys in str(report)
    assert "attends mostly to what followed the same token" in report._repr_html_()


def test_with_too_few_texts_nothing_is_said_of_their_roles() -> None:
    texts = [" ".join(map(str, np.random.default_rng(k).permutation(40)[:12])) for k in range(2)]
    report = fk.head_report(MadeHeads(), texts, tokens="ids", statistics="none", baseline=False)
    few = "is not tested, with fewer than 3 inputs, for: the previous token; the first token"
    random = [KINDS.index("same"), KINDS.index("induction")]
    for head in range(len(KINDS)):
        said = role_sentence(report.first.roles, 0, head)
        assert few in said
        none = f"Head 1.{head + 1} attends to none of these well above chance: the same token"
        assert said.startswith(f"Head 1.{head + 1} attends mostly" if head in random else none)
    rows = [line for line in str(report).splitlines() if "the previous token " in line]
    assert any("–" in line and "of 6 heads" not in line and "nan" not in line for line in rows)
    assert not any("0 of" in line for line in rows)
    assert "–: not tested: fewer than 3 inputs" in str(report)
    table = report.frame("roles").set_index("role")["above"]
    assert table["previous"].isna().all()
    assert table["same"].notna().all()
    alone = {"previous": report.first.roles["previous"]}
    assert "attends" not in role_sentence(alone, 0, 0)


def test_ids_with_which_texts_may_end_are_not_drawn() -> None:
    model, drawn = MadeHeads(), set[int]()
    model.config = SimpleNamespace(pad_token_id=3, eos_token_id=[5, 7], bos_token_id=None)
    reads = model.register_forward_pre_hook(
        lambda _, given: drawn.update(given[0].unique().tolist())
    )
    texts = ["10 11 12 13 14", "11 12 13 14 15", "12 14 16 18 13"]
    with reads:
        report = fk.head_report(model, texts, tokens="ids", statistics="none", baseline=False)
    assert report.first.roles["same"].n_texts == 16
    assert len(drawn) > 30
    assert not drawn & {5, 7}


def test_roles_that_maps_have_not_are_refused_where_they_are_asked_for() -> None:
    maps = np.full((2, 3, 5), 1 / 5)
    for names in ("all", ["all"], ("all",)):
        assert set(head_roles(maps, names=names)) == {"first", "delimiter"}
    assert head_roles(maps, names="none") == {}
    with pytest.raises(ValueError, match="as many queries as keys for previous, got 3 and 5"):
        head_roles(maps, names=["first", "previous"])


@pytest.mark.parametrize("ids", [[0.1, 0.2, 0.3, 0.4], ["a", "b", "a", "c"]])
def test_ids_that_are_no_integers_are_refused(ids: list[object]) -> None:
    with pytest.raises(TypeError, match="ids must be integers, got "):
        head_roles(np.full((1, 4, 4), 0.25), names=["same"], ids=ids)


@pytest.mark.parametrize("marks", [[101, 7, 8, 102], ["", "x", "", "0"], [0.0, np.nan, 0.0, 0.0]])
@pytest.mark.parametrize("name", ["special", "delimiters", "image"])
def test_marks_that_are_no_booleans_are_refused(name: str, marks: list[object]) -> None:
    with pytest.raises(TypeError, match=f"{name} must be booleans, got "):
        head_roles(np.full((1, 4, 4), 0.25), **{name: marks})


def test_network_that_reads_no_ids_is_said_to_have_no_random_tokens() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    batches = [torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(0))]
    report = fk.head_report(model, batches, statistics="none", baseline=False)
    assert set(report.first.roles) == {"previous", "first"}
    assert any("same and induction: random tokens need" in one for one in report.first.left_out)


def test_roles_of_workers_are_those_of_one_process(tmp_path, tiny) -> None:  # type: ignore[no-untyped-def]
    texts = ["a b c d e", "f g", "h i j a b c", "d c b"]
    options = {"tokens": "whitespace", "statistics": "none", "baseline": False}
    one = fk.head_report(tiny("bert"), texts, **options)
    other = fk.head_report(tiny("bert"), texts, resume=tmp_path, **options)
    assert set(one.first.roles) == set(other.first.roles) >= {"previous", "induction"}
    for name, found in one.first.roles.items():
        np.testing.assert_allclose(found.score, other.first.roles[name].score, atol=1e-6)
        assert found.n_texts == other.first.roles[name].n_texts


def test_role_is_added_by_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = HeadRole("next", lambda places, tokens: np.eye(tokens.count, k=1)[places] > 0, "the next")
    monkeypatch.setitem(ROLES, "next", row)
    maps = np.stack([np.roll(np.eye(N), 1, axis=1), even(causal=False)])
    assert head_roles(maps)["next"].score[0] == 1
    assert dataclasses.replace(row, name="other").keys == "the next"
