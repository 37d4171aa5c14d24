"""Every claim of the papers has a verdict, a computation that is there, and numbers that are so."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from book.claims import numbers, page, registry

PAPERS = registry.load_papers()
CLAIMS = [(paper.key, claim) for paper in PAPERS for claim in paper.claims]
TIMES = numbers.RESULTS / "attention_cpu.csv"
PAGE = (registry.ROOT / "book" / "claims.md").read_text("utf-8")

PAPER = """
key = "paper"
title = "A paper"
items = ["Theorem 1"]

[[claims]]
id = "theorem"
items = ["Theorem 1"]
place = "Theorem 1"
says = "The slope is $-1/2$."
how = "derived"
verdict = "holds"
evidence = "slopes.csv: laplace"
found = "It is −0.750 of {n} samples."
chapter = "08_theorems#The rates"
results = ["slopes.csv"]
[claims.numbers]
"−0.750" = "slopes.csv | density=laplace; n=1000 | slope | .3f"
"1,000" = "chapter | 08_theorems | over 1,000 samples"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in small: one paper, one chapter, one table."""
    files = {
        "book/claims/paper.toml": PAPER.replace("{n}", "1,000"),
        "notebooks/08_theorems.md": "# Theorems\n```{code-cell}\n# Not one\n```\n"
        "## The rates\nThe slope\nover 1,000 samples.\n",
        "experiments/results/slopes.csv": "density,n,slope\nlaplace,1000,-0.75\ncauchy,1000,-0.9\n"
        "laplace,2000,-0.74\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    return tmp_path


def found_in(root: Path) -> list[str]:
    """Everything that is wrong with the claims of a checkout."""
    papers = registry.load_papers(root / "book" / "claims")
    wrong = [problem for paper in papers for problem in registry.problems(paper, root)]
    claims = [claim for paper in papers for claim in paper.claims]
    return wrong + [p for claim in claims for p in numbers.number_problems(claim, root)]


def edit(root: Path, old: str, new: str, name: str = "book/claims/paper.toml") -> None:
    text = (root / name).read_text("utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new), "utf-8")


# --- the claims of this book -----------------------------------------------------------------


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_every_item_has_a_claim_and_every_link_a_target(paper: registry.Paper) -> None:
    assert list(registry.problems(paper)) == []


@pytest.mark.parametrize(
    "claim", [claim for _, claim in CLAIMS], ids=[f"{key}-{claim.id}" for key, claim in CLAIMS]
)
def test_every_number_is_that_of_its_source(claim: registry.Claim) -> None:
    assert list(numbers.number_problems(claim)) == []


@pytest.mark.parametrize(("claim", "words"), [("slower", "takes"), ("cdist", "the operator takes")])
def test_ranges_of_times_hold_all_shapes_of_the_table(claim: str, words: str) -> None:
    (found,) = [one.found for _, one in CLAIMS if one.id == claim]
    match = re.search(rf"{words} ([\d.]+) to ([\d.]+) times", found)
    assert match is not None
    least, most = map(float, match.groups())
    rows = [row for row in numbers.read_table(TIMES) if row["task"] == "forward"]
    softmax = {row["shape"]: row["milliseconds"] for row in rows if row["method"] == "softmax"}
    for row in rows:
        if row["method"] == "ours":
            ratio = float(row["milliseconds"]) / float(softmax[row["shape"]])
            assert least - 0.05 < ratio < most + 0.05, row["shape"]


def test_attention_with_a_projection_is_beside_the_verdict_on_correlation() -> None:
    """Its own control captures what the other heads with one radius do not."""
    (claim,) = [one for _, one in CLAIMS if one.id == "correlation-attention"]
    sources = " ".join(claim.numbers.values())
    for column in ("error", "difference", "low", "high"):
        assert f"contender=product, projection | {column}" in sources
    assert "data=aligned; contender=dot product, two projections | error" in sources
    assert claim.verdict == "not seen"


def test_theorems_and_tables_of_the_papers_are_listed() -> None:
    items = {paper.key: set(paper.items) for paper in PAPERS}
    both = items["fourierformer"] | items["fourierformer-arxiv"]
    assert {"Theorem 1", "Theorem 2", "Theorem 3(a)", "Theorem 3(b)", "Theorem 4", "Lemma 1"} < both
    assert {"Remark 1", "Remark 2", "Definition 1", "Definition 2", "Definition 3"} < both
    assert {f"Table {k}" for k in range(1, 7)} < items["fourierformer"]
    assert {f"Table {k}" for k in range(3, 6)} < items["fourierformer-arxiv"]
    assert {f"Table {k}" for k in range(1, 10)} == items["fnet"]
    assert {f"Table {k}" for k in range(1, 4)} == items["translation"]


def test_a_verdict_names_a_result_a_test_or_its_scope() -> None:
    for key, claim in CLAIMS:
        if claim.verdict != "not tested":
            assert claim.results or claim.tests or claim.scope, (key, claim.id)


def test_one_experiment_has_one_verdict() -> None:
    assert list(registry.contradictions(PAPERS)) == []
    kernels = [one.verdict for _, one in CLAIMS if one.evidence == "language_tables.csv: kernels"]
    assert len(kernels) > 3
    assert set(kernels) == {"not seen"}


def test_what_was_not_seen_says_in_numbers_what_would_have_been() -> None:
    unseen = [(one.id, one.smallest) for _, one in CLAIMS if one.verdict == "not seen"]
    assert len(unseen) > 10
    assert [name for name, smallest in unseen if not re.search(r"\d", smallest)] == []


def test_nothing_holds_by_derivation_because_of_a_time_or_a_memory() -> None:
    measured = re.compile(r"_ms\b|_mi?b\b|seconds|peak|speed")
    derived = [one for _, one in CLAIMS if (one.how, one.verdict) == ("derived", "holds")]
    assert [one.id for one in derived if measured.search(" ".join(one.numbers.values()))] == []


def test_two_verdicts_on_one_experiment_are_found() -> None:
    (paper, *_) = PAPERS
    claim = next(one for one in paper.claims if one.verdict == "not seen")
    both = replace(paper, claims=(claim, replace(claim, id="other", verdict="holds")))
    (found,) = registry.contradictions([both])
    assert claim.evidence in found
    assert "'other': 'holds'" in found


def test_nothing_holds_because_of_another_device_or_other_data() -> None:
    assert [key for key, one in CLAIMS if (one.how, one.verdict) == ("elsewhere", "holds")] == []


def test_the_page_has_every_paper_and_every_verdict() -> None:
    for paper in PAPERS:
        assert f"(claims-{paper.key})=" in PAGE
        assert f"```{{generated}} claims {paper.key}\n" in PAGE
    for verdict, kind in registry.VERDICTS.items():
        assert f"- *{verdict}*: " in PAGE
        assert f'id="show-{kind}"> {verdict}</label>' in PAGE


def test_verdicts_are_counted_once_per_claim() -> None:
    last = page.verdict_counts().splitlines()[-1].strip("| ").split(" | ")
    assert last[0] == "all"
    total, *counts = map(int, last[1:])
    assert total == sum(counts) == len(CLAIMS)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_every_claim_is_on_the_page_with_its_verdict(paper: registry.Paper) -> None:
    text = page.claims_of(paper.key)
    for claim in paper.claims:
        assert f"(claim-{paper.key}-{claim.id})=" in text
        how = f" · {registry.HOW[claim.how]}" if claim.how else ""
        assert f"[{claim.verdict}{how}]{{.verdict}} **{claim.place}.** {claim.says}" in text


# --- what is found when something is wrong ---------------------------------------------------


def test_sound_claims_pass(checkout: Path) -> None:
    assert found_in(checkout) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('items = ["Theorem 1"]\n\n', 'items = ["Theorem 1", "Table 2"]\n\n', "Table 2 has no"),
        ('items = ["Theorem 1"]\n\n', "items = []\n\n", "Theorem 1 is not in the list"),
        ("08_theorems#The", "09_theorems#The", "there is no chapter '09_theorems'"),
        ("#The rates", "#The tables", "has no section 'The tables'"),
        ("#The rates", "#Not one", "has no section 'Not one'"),
        ('["slopes.csv"]', '["slope.csv"]', "there is no file experiments/results/slope.csv"),
        ('["slopes.csv"]', '["slopes.csv"]\ntests = ["tests/test_a.py"]', "no file tests/test_a"),
        ("It is −0.750", "It is −0.751", "−0.751 has no source"),
        ('"slopes.csv: laplace"', '"other.csv: laplace"', "must be among its results"),
        ("of 1,000 samples", "of 1,000 samples, 90 %", "90 has no source"),
        ("of 1,000 samples", "of 1,000 samples, 512 of them", "512 has no source"),
        ('"−0.750" =', '"−0.7" =', "−0.7 is quoted, −0.750 is found"),
        ("samples.", "samples, $0.5$ and `0.7`: 1.5.", "1.5 has no source"),
        ("over 1,000 samples", "over 1,000 and more", "no such sentence"),
    ],
)
def test_what_is_wrong_is_found(checkout: Path, old: str, new: str, message: str) -> None:
    edit(checkout, old, new)
    assert message in "; ".join(found_in(checkout))


def test_a_result_that_changes_is_found(checkout: Path) -> None:
    edit(checkout, "1000,-0.75", "1000,-0.76", "experiments/results/slopes.csv")
    assert found_in(checkout) == [
        "theorem: −0.750 is quoted, −0.760 is found "
        "(slopes.csv | density=laplace; n=1000 | slope | .3f)"
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('verdict = "holds"', "", "verdict must be one of .* got None"),
        ("holds", "true", "verdict must be one of .* got 'true'"),
        ('"holds"', '"not seen"', r"\['smallest', 'paper'\] must not be empty"),
        ('how = "derived"', "", r"\['how'\] must not be empty"),
        ("derived", "read", "how must be one of .* got 'read'"),
        ('evidence = "slopes.csv: laplace"', "", r"\['evidence'\] must not be empty"),
        ('says = "The slope is $-1/2$."', 'says = ""', r"\['says'\] must not be empty"),
        ("place =", "where =", "fields must be among .* got {'where'}"),
    ],
)
def test_a_claim_that_is_not_whole_is_refused(
    checkout: Path, old: str, new: str, message: str
) -> None:
    edit(checkout, old, new)
    with pytest.raises(ValueError, match=f"paper.toml: claim theorem: {message}"):
        registry.load_papers(checkout / "book" / "claims")


def test_two_claims_of_one_id_are_refused(checkout: Path) -> None:
    text = (checkout / "book/claims/paper.toml").read_text("utf-8")
    (checkout / "book/claims/other.toml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"must have an id of its own, got .'paper-theorem'"):
        registry.load_papers(checkout / "book" / "claims")


def test_conditions_that_leave_several_rows_are_refused(checkout: Path) -> None:
    table = numbers.read_table(checkout / "experiments/results/slopes.csv")
    with pytest.raises(ValueError, match="must leave one row of the table, got 2"):
        numbers.cell(table, "density=laplace", "slope")
    assert numbers.cell(table, "density=laplace", "min(slope)") == -0.75
    assert numbers.cell(table, "density=laplace; n=1000", "abs(slope)") == 0.75


def test_an_unknown_paper_is_refused() -> None:
    with pytest.raises(ValueError, match=r"paper must be one of .* got 'none'"):
        page.claims_of("none")


def test_numbers_of_formulas_need_no_source() -> None:
    claim = replace(CLAIMS[0][1], found="With $l = 1.5$ and `0.25`, twice.", numbers={})
    assert list(numbers.number_problems(claim)) == []
