"""One report by several workers: shards are measured, kept as they finish, and added up."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.tokens import InputCounts, check_known
from fourierkernels.diagnostics.networks.profile import check_counts
from fourierkernels.diagnostics.profile import HeadProfile
from fourierkernels.foundation.files import write_bytes, write_text
from fourierkernels.foundation.provenance import kept_or_scratch
from fourierkernels.foundation.workers import spread
from fourierkernels.report.options import Team
from fourierkernels.report.shards import SHARDS, Pass, Shard, forget_networks, unpacked

KEPT = ".shards"  # folder of finished shards, inside the one that is named
_MANIFEST = "shards.json"


def measure_together(
    passes: Sequence[Pass],
    team: Team,
    facts: Mapping[str, object],
    progress: Callable[[str, float], None],
) -> dict[str, HeadProfile]:
    """Return the profile of each pass, by the name of its network.

    Parameters
    ----------
    facts : mapping
        All that the numbers depend on.
    progress : callable
        Given the name of a network and the share of its shards that is finished.

    Raises
    ------
    ValueError
        If a shard fails, or the folder holds shards of another report.
    OSError, ImportError
        If a shard cannot be written, the scheduler not be reached, or a shard ends the workers that
        take it. Finished shards are kept in every case, if a folder is named.
    """
    place = None if team.resume is None else Path(team.resume) / KEPT
    with kept_or_scratch(place) as folder:
        of = _agreed(folder, team.shards, facts)
        shards = [Shard(whole, number, of) for whole in passes for number in range(of)]
        todo = [shard for shard in shards if _read(folder, shard) is None]
        left = {whole.network: sum(shard.whole is whole for shard in todo) for whole in passes}
        try:
            with spread(SHARDS, todo, workers=team.workers, scheduler=team.scheduler) as finished:
                for shard, content in finished:
                    write_bytes(_file(folder, shard), content)
                    left[shard.whole.network] -= 1
                    progress(shard.whole.network, 1 - left[shard.whole.network] / of)
        finally:
            forget_networks()
            if not any(folder.glob("*.npz")):  # so that nothing blocks a corrected call
                (folder / _MANIFEST).unlink()
        return {whole.network: _added_up(folder, whole, of) for whole in passes}


def _agreed(folder: Path, shards: int, facts: Mapping[str, object]) -> int:
    """Return the number of shards of each network: that of the run that began the folder.

    Raises
    ------
    ValueError
        If it holds shards of another report.
    """
    file, mine = folder / _MANIFEST, json.loads(json.dumps(facts, default=str))
    if not file.exists():
        write_text(file, json.dumps({"shards": shards, "facts": mine}, indent=1) + "\n")
        return shards
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        theirs, count = dict(record["facts"]), int(record["shards"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} must say what the shards beside it are of, got {error}"
        ) from error
    names = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    if names:
        raise ValueError(
            f"{folder} must hold shards of this report, got those of one with other "
            f"{', '.join(names)}: remove the folder, or name another one"
        )
    return count


def _file(folder: Path, shard: Shard) -> Path:
    return folder / f"{shard.whole.network}-{shard.place + 1}-of-{shard.of}.npz"


def _read(folder: Path, shard: Shard) -> Any:
    """Return what is kept of a shard; None if it is not there, damaged, or of another report."""
    try:
        content = unpacked(_file(folder, shard).read_bytes())
    except (OSError, ValueError):  # it is measured again
        return None
    return content if content["key"] == shard.key else None


def _added_up(folder: Path, whole: Pass, of: int) -> HeadProfile:
    asked = whole.measures(None)
    counts = None
    for place in range(of):
        content = _read(folder, Shard(whole, place, of))
        asked.merge(content["states"])
        counts = InputCounts(**content["counts"])
    if counts is None:
        raise ValueError(f"shards must be at least one, got {of}")
    check_counts(counts, whole.read.context)
    check_known(counts)
    return asked.profile(counts)
