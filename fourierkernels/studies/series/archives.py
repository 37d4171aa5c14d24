"""The table of archives of time series."""

from pathlib import Path

from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.series.problems import ENDINGS, PARTS
from fourierkernels.studies.series.series_data import SeriesData, read_series


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
