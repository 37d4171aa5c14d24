"""Files of time series are read as they are meant, or refused with the line that is wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from tiny_series import HEADER
from training_runs import error_of

from fourierkernels.studies.series.ts_files import TsFile, read_ts

LINES = "1,2,3:4,5,6:slow\n7,8:?,-1e-3:fast\n"


def read(folder: Path, text: str, name: str = "Waves_TRAIN.ts") -> TsFile:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return read_ts(path)


@pytest.mark.parametrize("name", ["Waves_TRAIN.ts", "Waves_TRAIN.ts.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_series_of_several_channels_and_lengths_are_read(
    name: str, end: str, tmp_path: Path
) -> None:
    found = read(tmp_path, (HEADER + "\n" + LINES).replace("\n", end), name)
    assert found.classes == ("slow", "fast", "still")
    assert found.labels.tolist() == [0, 1]
    assert [series.shape for series in found.series] == [(3, 2), (2, 2)]
    assert all(series.dtype == np.float32 for series in found.series)
    np.testing.assert_array_equal(found.series[0], [[1, 4], [2, 5], [3, 6]])
    np.testing.assert_array_equal(found.series[1], np.float32([[7, np.nan], [8, -1e-3]]))


def test_tags_are_read_in_any_case_and_a_univariate_file_has_one_channel(tmp_path: Path) -> None:
    header = "@UNIVARIATE TRUE\n@classlabel True a b\n@equallength true\n@serieslength 2\n@DATA\n"
    found = read(tmp_path, header + " 1, NaN :b\n% a comment\n\n3,4:a")
    assert (found.channels, found.labels.tolist()) == (1, [1, 0])
    assert np.isnan(found.series[0][1, 0])


def test_channels_are_those_of_the_first_line_where_no_tag_says_them(tmp_path: Path) -> None:
    header = HEADER.replace("@dimensions 2\n", "")
    assert read(tmp_path, header + LINES).channels == 2
    message = error_of(lambda: read(tmp_path, header + LINES + "1:still\n"))
    assert "line 11 of " in message
    assert "must have 2 channels and a label, separated by colons, got 1 before" in message


BROKEN = {
    "a channel too many": (HEADER + LINES + "1:2:3:slow\n", "line 12 .* 2 channels .* got 3"),
    "a label alone": (HEADER + "slow\n", "line 10 .* must have 2 channels .* got 0"),
    "a line cut off in a channel": (HEADER + LINES + "1,2:3", "line 12 .* 2 channels .* got 1"),
    "no label": (HEADER + LINES + "1,2:3,4:\n", "line 12 .* label of slow, fast, still, got ''"),
    "an unknown label": (HEADER + "1:2:Slow\n", "line 10 .* slow, fast, still, got 'Slow'"),
    "a word": (HEADER + LINES + "1,x:3,4:slow\n", "line 12 .* must have numbers, got 'x'"),
    "no value": (HEADER + "1,:3,4:slow\n", "line 10 .* must have numbers, got ''"),
    "an empty channel": (HEADER + ":3,4:slow\n", "line 10 .* must have numbers, got ''"),
    "digits as Python writes them": (HEADER + "1_0:3:slow\n", "line 10 .* got '1_0'"),
    "infinity": (HEADER + "1,-inf:3,4:slow\n", "finite in single precision, got -inf"),
    "a number too large": (HEADER + "1,2:3,1e39:slow\n", "finite in single precision, got 1e.39"),
    "channels of unequal length": (
        HEADER + "1,2:3,4,5:slow\n",
        "line 10 .* equally many values in each channel, got 2 to 3",
    ),
    "another length than the header's": (
        HEADER.replace("false\n@class", "true\n@seriesLength 3\n@class") + LINES,
        "line 12 .* must have 3 values in each channel, as @seriesLength says, got 2",
    ),
    "timestamps by the header": (
        HEADER.replace("@timeStamps false", "@timeStamps true") + "(0,1):slow\n",
        "must have no timestamps, .*, got @timeStamps true",
    ),
    "timestamps in a line": (
        HEADER + "(2004-01-01,1),(2004-01-02,3):4:slow\n",
        r"line 10 .* no timestamps, .*, got \(2004-01-01,1\)",
    ),
    "no classes": (
        HEADER.replace("@classLabel true slow fast still", "@classLabel false") + LINES,
        "@classLabel true with two labels or more, got false",
    ),
    "one class": (HEADER.replace(" fast still", "") + LINES, "two labels or more, got true slow"),
    "no tag of classes": (HEADER.replace("@classLabel", "@other") + LINES, "or more, got none"),
    "a class twice": (HEADER.replace("fast", "slow") + LINES, "name each label once"),
    "no number of channels": (
        HEADER.replace("@dimensions 2", "@dimensions two") + LINES,
        "@dimensions .* must be a positive number, got 'two'",
    ),
    "data before @data": (HEADER.replace("@data\n", "") + LINES, "line 9 .* a tag before @data"),
    "a header cut off": (HEADER.replace("@data\n", ""), "must have @data, got none: .* cut off"),
    "no series": (HEADER, "must have series after @data, got none: .* cut off"),
    "an empty file": ("", "must have @data, got none"),
    "a file that is no text": (HEADER + "1:\0:slow\n", "a zero byte in line 10"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_file_is_refused_with_what_is_wrong(kind: str, tmp_path: Path) -> None:
    text, message = BROKEN[kind]
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)
