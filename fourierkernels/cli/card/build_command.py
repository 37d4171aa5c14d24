"""What the build command does; PyTorch is loaded only to ask for the architecture of the card."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from fourierkernels.cli.card.libraries import Built, build_all, wanted
from fourierkernels.foundation.console import standard_output


def build_command(
    archs: Sequence[str],
    reals: Sequence[str],
    sizes: Sequence[int],
    output: Path | None,
    *,
    jobs: int,
) -> list[Built]:
    """Build what is asked for and show what was made and what was there.

    Raises
    ------
    ValueError
        For an architecture, type or size without a library, or no architecture where PyTorch sees
        no card.
    BuildError
        The first failure.
    """
    libraries = wanted(archs or _archs_here(), reals, sizes)
    rows = build_all(libraries, output, elsewhere=bool(archs), jobs=jobs)
    made, console = sum(row.made for row in rows), standard_output()
    console.print(_table(rows))
    places = ", ".join(dict.fromkeys(str(row.path.parent) for row in rows))
    console.print(f"{made} built, {len(rows) - made} there already, in {places}", soft_wrap=True)
    return rows


def _table(rows: Sequence[Built]) -> Table:
    """Return one line for each library: whether it was made, in what time, and its size."""
    table = Table("library", "arch", "", "seconds", "MB", box=box.SIMPLE_HEAD)
    for row in rows:
        state = "built" if row.made else "there already"
        seconds = f"{row.seconds:.1f}" if row.made else ""
        table.add_row(row.library, row.arch, state, seconds, f"{row.bytes / 1e6:.2f}")
    return table


def _archs_here() -> list[str]:
    """Return the architectures of all cards, each once."""
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "arch must be given where PyTorch sees no card, such as --arch sm_90, got none"
        )
    known = [torch.cuda.get_device_capability(card) for card in range(torch.cuda.device_count())]
    return list(dict.fromkeys(f"sm_{major}{minor}" for major, minor in known))
