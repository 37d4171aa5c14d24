"""The claims as text for the book: one block per claim, and a table that counts verdicts."""

from collections import Counter
from collections.abc import Iterator

from book.claims.registry import HOW, VERDICTS, Claim, Paper, anchor, load_papers


def claims_of(key: str) -> str:
    """All claims of one paper, as MyST."""
    papers = {paper.key: paper for paper in load_papers()}
    if key not in papers:
        raise ValueError(f"paper must be one of {list(papers)}, got {key!r}")
    return "\n\n".join(_block(papers[key], claim) for claim in papers[key].claims)


def verdict_counts() -> str:
    """Table of the number of claims of each verdict, per paper, as MyST."""
    papers = load_papers()
    lines = [
        "| paper | claims | " + " | ".join(VERDICTS) + " |",
        "|:--|--:|" + "--:|" * len(VERDICTS),
    ]
    lines += [_count_row(paper) for paper in papers]
    everything = Counter(claim.verdict for paper in papers for claim in paper.claims)
    lines.append(_row("all", everything))
    return "\n".join(lines)


def _count_row(paper: Paper) -> str:
    title = f"[{paper.title}](#claims-{paper.key})"
    return _row(title, Counter(claim.verdict for claim in paper.claims))


def _row(title: str, counts: Counter[str]) -> str:
    numbers = [counts.total(), *(counts[verdict] for verdict in VERDICTS)]
    return f"| {title} | " + " | ".join(map(str, numbers)) + " |"


def _block(paper: Paper, claim: Claim) -> str:
    kind = VERDICTS[claim.verdict]
    return "\n".join(
        [
            f"(claim-{paper.key}-{claim.id})=",
            f":::{{div}} claim claim-{kind}",
            f"[{said(claim)}]{{.verdict}} **{claim.place}.** {claim.says}",
            "",
            f"*Here:* {claim.found}",
            "",
            *_power(claim),
            *_details(claim),
            ":::",
        ]
    )


def said(claim: Claim) -> str:
    """Both words of a verdict: what was found, and how."""
    return f"{claim.verdict} · {HOW[claim.how]}" if claim.how else claim.verdict


def _power(claim: Claim) -> Iterator[str]:
    """Write what a measurement that saw nothing could have seen."""
    if claim.smallest:
        yield f"*Smallest detectable:* {claim.smallest}. *The paper:* {claim.paper}."
        yield ""


def _details(claim: Claim) -> Iterator[str]:
    """Scope and links, in small print."""
    link = f"../notebooks/{claim.page}.html#{anchor(claim.section)}"
    number = int(claim.page.partition("_")[0])
    title = claim.section.replace("`", "")
    parts = [f'<a class="reference internal" href="{link}">chapter {number}, {title}</a>']
    parts += [f"{{download}}`{name} <../experiments/results/{name}>`" for name in claim.results]
    parts += [f"`{name}`" for name in claim.tests]
    scope = f"{claim.scope} " if claim.scope else ""
    yield f"[{scope}{' · '.join(parts)}]{{.claim-details}}"
    yield ""
