"""A problem ready to be learned: three splits of standardised series without gaps.

As github.com/gzerveas/mvts_transformer prepares it (src/datasets/data.py, src/main.py): what is
missing is interpolated in its channel; each channel gets mean 0 and variance 1 over all training
steps, the validation series left out; series that are longer than the longest of the training file
are cut off there. A fifth of each class of the training file is for validation, one series at the
least: the archive has no validation split. It is the same fifth for all runs, so that they can be
compared.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.files import file_digest
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.series.problems import ENDINGS, PARTS, PROBLEMS, find_files
from fourierkernels.studies.series.ts_files import TsFile, Values, read_ts

HELD_OUT, SPLIT_SEED = 0.2, 1337
_RULE = f"series 1, {HELD_OUT} of each class by {SPLIT_SEED}"
_CONSTANT = 1e-6  # deviation by the mean below which a channel is constant, rounding aside

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesSplit:
    """Series end to end.

    Attributes
    ----------
    values : ndarray, shape (steps of all, channels)
    ends : ndarray, shape (n,)
        Where each series ends.
    labels : ndarray, shape (n,)
        Places of their labels.
    """

    values: Values
    ends: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def series(self, place: int) -> Values:
        """Return a series, ``(steps, channels)``."""
        start = int(self.ends[place - 1]) if place else 0
        return self.values[start : int(self.ends[place])]


@dataclass(frozen=True)
class SeriesData:
    """A problem.

    Attributes
    ----------
    corpus, source : str
        Name of the problem, and where it lies.
    digest : str
        SHA-256 of its files and of how they are split.
    classes : tuple of str
        Labels.
    length : int
        Steps of the longest series.
    mean, deviation : ndarray, shape (channels,)
        By which the series have been standardised.
    splits : mapping of str to SeriesSplit
        By "train", "valid" and "test".
    missing, cut : mapping of str to int
        Values that were missing in the files "train" and "test", and series that were cut off.
    """

    corpus: str
    source: str
    digest: str
    classes: tuple[str, ...]
    length: int
    mean: Floats
    deviation: Floats
    splits: Mapping[str, SeriesSplit]
    missing: Mapping[str, int]
    cut: Mapping[str, int]

    @property
    def channels(self) -> int:
        """Channels of every series."""
        return len(self.mean)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The classes, by the name that the engine has for what is predicted."""
        return self.classes

    @property
    def counts(self) -> dict[str, int]:
        """Series of each split."""
        return {name: len(split) for name, split in self.splits.items()}

    @property
    def unknown(self) -> dict[str, int]:
        """Nothing: a label that is not known is refused."""
        return {}


def read_series(folder: str | Path, problem: str | None = None) -> SeriesData:
    """Read a problem.

    Parameters
    ----------
    folder : str or Path
        Has NAME_TRAIN.ts and NAME_TEST.ts, or a folder NAME with them.
    problem : str, optional
        NAME; by default that of the only problem in the folder.

    Raises
    ------
    ValueError
        If a file is missing or broken (:func:`~.ts_files.read_ts`), the two do not belong together,
        they have not as many series as the archive's problem of that name, or no class has two
        training series.
    """
    name, files = find_files(Path(folder), problem)
    read = {part: read_ts(file) for part, file in files.items()}
    _check_pair(read["train"], read["test"])
    _check_numbers(name, read)
    length = max(len(series) for series in read["train"].series)
    cut = {part: sum(len(s) > length for s in file.series) for part, file in read.items()}
    missing = {part: fill_gaps(file) for part, file in read.items()}
    splits = _split(read["train"], read["test"], length)
    mean, deviation = statistics(splits["train"].values)
    for split in splits.values():
        _standardise(split.values, mean, deviation)
    return SeriesData(
        corpus=name,
        source=str(folder),
        digest=_digest(files),
        classes=read["train"].classes,
        length=length,
        mean=mean,
        deviation=deviation,
        splits=splits,
        missing=missing,
        cut=cut,
    )


def held_out(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which series are for validation: a fifth of each class that has two or more.

    Examples
    --------
    >>> held_out(np.array([0] * 10 + [1] * 3 + [2])).nonzero()[0].tolist()
    [6, 7, 10]
    """
    rng = np.random.default_rng(SPLIT_SEED)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        count = max(1, round(HELD_OUT * len(members))) if len(members) > 1 else 0
        held[members[:count]] = True
    return held


def fill_gaps(file: TsFile) -> int:
    """Interpolate what is missing, each channel for itself, and return how much it was.

    Between two values the line through them, before the first and after the last that value. A
    channel without any value stays NaN.
    """
    missing = 0
    for series in file.series:
        gaps = np.isnan(series)
        missing += int(gaps.sum())
        for channel in np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0)):
            known = np.flatnonzero(~gaps[:, channel])
            lost = np.flatnonzero(gaps[:, channel])
            series[lost, channel] = np.interp(lost, known, series[known, channel])
    return missing


def statistics(values: Values) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each channel over all steps ``(steps, channels)``.

    Where a channel has no value, 0 and 1; where it is constant, the deviation is 1.
    """
    channels = values.shape[1]
    mean, deviation = np.zeros(channels), np.ones(channels)
    for channel in range(channels):
        known = values[:, channel].astype(np.float64)
        known = known[~np.isnan(known)]
        if len(known):
            mean[channel] = known.mean()
        spread = known.std(ddof=1) if len(known) > 1 else 0.0
        if spread > _CONSTANT * abs(mean[channel]):
            deviation[channel] = spread
    return mean, deviation


def _split(train: TsFile, test: TsFile, length: int) -> dict[str, SeriesSplit]:
    held = held_out(train.labels)
    if not held.any():
        raise ValueError(
            f"{train.path} must have two series of a class, one to validate by, got one of each of "
            f"{len(held)} classes"
        )
    every = np.ones(len(test.labels), dtype=bool)
    chosen = {"train": (train, ~held), "valid": (train, held), "test": (test, every)}
    return {name: _joined(file, rows, length) for name, (file, rows) in chosen.items()}


def _standardise(values: Values, mean: Floats, deviation: Floats) -> None:
    """Standardise in place; a channel that a series lacks is at its mean."""
    for channel in range(values.shape[1]):
        own = (values[:, channel] - mean[channel]) / deviation[channel]
        values[:, channel] = np.nan_to_num(own, nan=0.0)


def _joined(file: TsFile, chosen: NDArray[np.bool_], length: int) -> SeriesSplit:
    series = [file.series[place][:length] for place in np.flatnonzero(chosen)]
    ends = np.cumsum([len(example) for example in series])
    return SeriesSplit(np.concatenate(series), ends, file.labels[chosen])


def _check_pair(train: TsFile, test: TsFile) -> None:
    for what in ("classes", "channels"):
        ours, theirs = getattr(train, what), getattr(test, what)
        if ours != theirs:
            raise ValueError(
                f"{test.path} must have the {what} of {train.path.name}, {ours!s:.60}, "
                f"got {theirs!s:.60}"
            )


def _check_numbers(name: str, read: Mapping[str, TsFile]) -> None:
    known = PROBLEMS.get(name)
    if known is None:
        return
    for part, file in read.items():
        found = {
            "series": (len(file.series), known.train if part == "train" else known.test),
            "channels": (file.channels, known.channels),
            "classes": (len(file.classes), known.classes),
        }
        for what, (own, expected) in found.items():
            if own != expected:
                raise ValueError(
                    f"{file.path} must have {expected} {what}, as the archive's {name}, got {own}: "
                    "the file is cut off, or it is another problem (rename it)"
                )


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256(_RULE.encode())
    for part, file in files.items():
        digest.update(f"{part} {file_digest(file)}".encode())
    return digest.hexdigest()


def has_problems(folder: Path) -> bool:
    """Return whether a folder has the training file of a problem, or a folder with one."""
    names = [f"*{PARTS['train']}{ending}" for ending in ENDINGS]
    return any(any(folder.glob(name)) or any(folder.glob(f"*/{name}")) for name in names)


# Opened with a folder and the name of a problem, which may be left out where there is one.
ARCHIVES: dict[str, DataSet[SeriesData]] = {
    "uea": DataSet(
        title="problems of the UEA archive, multivariate time series with a class each",
        source="https://www.timeseriesclassification.com; experiments/data_series.py fetches "
        "JapaneseVowels and BasicMotions",
        layout="NAME_TRAIN.ts and NAME_TEST.ts, in the folder or in its folder NAME",
        recognises=has_problems,
        open=read_series,
    ),
}
