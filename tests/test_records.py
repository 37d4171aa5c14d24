"""Records of finished work are whole or absent."""

import math
import os
from pathlib import Path

import pytest

from fourierkernels.foundation import records


def test_a_line_is_read_as_it_was_written_and_a_damaged_one_is_none() -> None:
    record = {"key": "a", "row": {"loss": 0.1}}
    line = records.record_line(record)
    assert records.read_record(line[:-1]) == record
    assert records.read_record(line[:-1].replace(b"0.1", b"0.2")) is None
    assert records.read_record(b"") is None


def test_numbers_that_json_lacks_are_kept_where_they_are_wanted() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        records.record_line({"loss": math.nan})
    found = records.read_record(records.record_line({"loss": math.nan}, nan=True)[:-1])
    assert found is not None
    assert math.isnan(found["loss"])


def test_a_line_that_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    records.append_line(file, b"first\n")
    whole = os.write
    monkeypatch.setattr(os, "write", lambda handle, line: whole(handle, line[:3]))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        records.append_line(file, b"second\n")
    os.close(file)
    assert (tmp_path / "f").read_bytes() == b"first\n"
    assert records.whole_lines(b"first\nsec") == b"first\n"
