"""Recorded episodes are read as they are distributed, and nothing in a file is run."""

import copyreg
import io
import os
import pickle  # noqa: TID251 (to write what is read, and what must be refused)
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from payload import Payload
from tiny_control import GLIDER, Parts, as_episodes, episodes, flat, write_hdf5, write_pickle
from training_runs import error_of

from fourierkernels.foundation.plain_pickle import read_plain_pickle
from fourierkernels.studies.control import d4rl, sets
from fourierkernels.studies.control.control_data import prepare
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.control.episodes import Episodes, checked, open_recorded, write_recorded
from fourierkernels.studies.control.generating import BEHAVIOURS, Search, generate, kept_generated
from fourierkernels.studies.control.sets import CONTROL_SETS, read_episodes
from fourierkernels.studies.engine.data_sets import DataSet

FEW = Search(rounds=2, policies=3, kept=2, steps=6)


@pytest.fixture(autouse=True)
def _glider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "glider", GLIDER)


def same(found: Episodes, expected: Episodes) -> None:
    for name in ("observations", "actions", "rewards", "ends"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_read_in_every_binary_protocol(protocol: int, tmp_path: Path) -> None:
    found = episodes(5)
    write_pickle(tmp_path, found, protocol=protocol)
    read = read_episodes(tmp_path)
    same(read, as_episodes(found))
    assert (read.environment, read.corpus) == ("glider", "glider-mixed-v2")


class _Older(pickle._Pickler):  # type: ignore[name-defined]
    """Writes numpy's modules by the names that they had before version 2."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = getattr(obj, "__module__", "")
        if not module.startswith("numpy._core"):
            super().save_global(obj, name)
            return
        self.save(module.replace("_core", "core"))
        self.save(obj.__name__)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)

    dispatch = {**pickle._Pickler.dispatch, types.FunctionType: save_global}  # type: ignore[attr-defined]  # noqa: RUF012

    def reducer_override(self, obj: Any) -> Any:
        return NotImplemented


@pytest.mark.parametrize("protocol", [4, 5])
def test_pickles_of_older_numpy_are_read(protocol: int, tmp_path: Path) -> None:
    found, content = episodes(4), io.BytesIO()
    _Older(content, protocol).dump(found)
    assert b"numpy.core." in content.getvalue()
    assert b"_core" not in content.getvalue()
    (tmp_path / "glider-mixed-v2.pkl").write_bytes(content.getvalue())
    same(read_episodes(tmp_path), as_episodes(found))


def test_arrays_of_other_layouts_and_sizes_are_the_same(tmp_path: Path) -> None:
    found = episodes(4)
    other = [
        {**own, "observations": np.asfortranarray(own["observations"].astype(np.float64))}
        | {"actions": own["actions"].astype(">f4"), "scale": np.float32(2), "note": "none", "n": 3}
        for own in found
    ]
    write_pickle(tmp_path, other)
    same(read_episodes(tmp_path), as_episodes(found))


class _Sets:
    """Fills its attributes on unpickling."""

    def __reduce__(self) -> tuple[object, ...]:
        return (np.zeros, (1,), {"a": 1})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_is_not_run(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "made by the payload"
    found: list[Any] = [*episodes(3), Payload(target)]
    file = write_pickle(tmp_path, found, protocol=protocol)
    message = error_of(lambda: read_episodes(tmp_path))
    assert message.startswith(f"ValueError: {file} must hold arrays, lists and dictionaries alone")
    if protocol > 1:
        assert message.endswith(f"got {os.name}.mkdir")
    assert message.count("\n") == 0
    assert not target.exists()


@pytest.mark.parametrize(
    ("inside", "named"),
    [
        (_Sets(), "numpy.zeros"),
        (eval, "builtins.eval"),
        (OrderedDict(a=1), "collections.OrderedDict"),
        (defaultdict(list), "collections.defaultdict"),
        (np.random.default_rng(0), "numpy.random._pickle.__generator_ctor"),
        (np.zeros(2).view(np.recarray), "recarray"),
        (copyreg.__newobj__, "copyreg.__newobj__"),
        (np.array(["x", None], dtype=object), "dtype 'O8'"),
        (np.array(["x"]), "dtype 'U1'"),
        (np.zeros(1, dtype="f4,i4"), "dtype 'V8'"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "dtype 'M8'"),
        (1j * np.ones(2), "dtype 'c16'"),
        ({1: np.zeros(1)}, "must have a str there, got int"),
        ({1, 2}, "EMPTY_SET"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_anything_but_arrays_is_refused_by_name(inside: Any, named: str, tmp_path: Path) -> None:
    file = write_pickle(tmp_path, [inside])
    message = error_of(lambda: read_episodes(file))
    assert message.startswith(f"ValueError: {file} must ")
    assert named in message


def instructions(*parts: bytes) -> bytes:
    return b"\x80\x04" + b"".join(parts) + b"."


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
KIND = b"cnumpy\ndtype\n\x8c\x02f4K\x00K\x01\x87R"


@pytest.mark.parametrize(
    "content",
    [
        instructions(b"cnumpy\nndarray\n}\x8c\x01aK\x01sb"),  # attributes of the class itself
        instructions(
            b"cnumpy.core.multiarray\n_reconstruct\n}\x8c\x01aK\x01sb"
        ),  # or of a function
        instructions(b"cnumpy\nndarray\n)R"),  # a call of what is no function of ours
        instructions(
            ARRAY, b"(K\x01K\x02\x85", KIND, b"K\x00C\x04aaaatb"
        ),  # bytes of another shape
        instructions(ARRAY, b"(K\x01J\xff\xff\xff\xff\x85", KIND, b"K\x00C\x04aaaatb"),  # size -1
        instructions(ARRAY, b"(K\x01\x8a\x09", b"\xff" * 8, b"\x00\x85", KIND, b"K\x00C\x00tb"),
        instructions(KIND, b"(K\x03\x8c\x01<cnumpy\ndtype\nNNK\x00K\x00tb"),  # a dtype within
        instructions(b"cnumpy\ndtype\n\x8c\x02f3\x85R"),
        instructions(b"h\x05"),  # memory that is not there
        instructions(b"a"),  # a list that is not there
        instructions(b"t"),  # a mark that is not there
        instructions(),
        b"",
        b"no pickle",
        instructions(b"\x8e" + (2**62).to_bytes(8, "little") + b"abc"),  # more bytes than there are
        instructions(b"c_codecs\nencode\n\x8c\x01a\x8c\x04rot1\x86R"),
    ],
    ids=range(16),
)
def test_forged_pickles_are_one_clear_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "glider-mixed-v2.pkl"
    file.write_bytes(content)
    message = error_of(lambda: read_episodes(file))
    assert message.startswith(f"ValueError: {file} must "), message
    assert len(message) < 300


def test_truncated_pickles_are_one_clear_error(tmp_path: Path) -> None:
    file = write_pickle(tmp_path, episodes(3))
    whole = file.read_bytes()
    for size in range(1, len(whole) - 1, 97):
        file.write_bytes(whole[:size])
        assert error_of(lambda: read_plain_pickle(file)).startswith(f"ValueError: {file} must "), (
            size
        )


def test_lists_within_themselves_end(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    file = write_pickle(tmp_path, endless)
    assert "must be a dictionary, got list" in error_of(lambda: read_episodes(file))


def without(name: str) -> Callable[[Parts], None]:
    return lambda own: own.__delitem__(name)


def put(name: str, change: Callable[[Any], Any]) -> Callable[[Parts], None]:
    def apply(own: Parts) -> None:
        own[name] = change(own[name].copy())

    return apply


def poisoned(values: Any) -> Any:
    values[1] = np.nan
    return values


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("rewards"), "must have observations, actions, rewards, terminals, got no rewards"),
        (without("terminals"), "got no terminals"),
        (put("rewards", lambda v: v[:-1]), "rewards must have as many steps as the observations"),
        (put("rewards", poisoned), "rewards must be finite, got nan at step 1 of episode 1"),
        (put("observations", poisoned), "observations must be finite, got nan at step 1"),
        (put("actions", lambda v: v * 0 + 2), "actions must be in [-1, 1], got 2"),
        (put("actions", lambda v: v[:, :1]), "must have episodes of one shape"),
        (put("rewards", lambda v: 3.0), "rewards must be an array, got float in"),
        (put("rewards", lambda v: v[0]), "rewards must be an array, got float in"),
    ],
)
def test_damaged_episodes_are_one_clear_error(
    damage: Callable[[Parts], None], message: str, tmp_path: Path
) -> None:
    found = episodes(4)
    damage(found[1])
    file = write_pickle(tmp_path, found)
    said = error_of(lambda: read_episodes(file))
    assert said.startswith("ValueError: ")
    assert message in said
    assert str(file) in said


def test_episode_of_one_step_is_read(tmp_path: Path) -> None:
    found = episodes(4)
    found[2] = {name: values[:1] for name, values in found[2].items()}
    write_pickle(tmp_path, found)
    read = read_episodes(tmp_path)
    assert np.diff(read.ends, prepend=0)[2] == 1
    assert sum(prepare(read).counts.values()) == len(read.rewards)


def test_hdf5_is_cut_where_an_episode_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d4rl, "SLAB", 7)
    found, last = episodes(6), episodes(1, seed=3)[0]
    parts = flat(found)
    rest = {name: np.concatenate([parts[name], 0 * last[name]]) for name in last if name in parts}
    rest["timeouts"] = np.concatenate([parts["timeouts"], np.zeros(len(last["rewards"]), bool)])
    write_hdf5(tmp_path, rest)
    read = read_episodes(tmp_path)
    same(read, as_episodes(found))
    assert read.unfinished == len(last["rewards"])
    assert read.corpus == "glider-mixed-v2"


def test_layouts_of_one_data_set_have_one_digest(tmp_path: Path) -> None:
    found = episodes(12)
    write_pickle(tmp_path / "a", found)
    write_hdf5(tmp_path / "b", flat(found))
    digests = {prepare(read_episodes(tmp_path / name)).digest for name in "ab"}
    assert len(digests) == 1
    found[0]["rewards"] = found[0]["rewards"] + 1
    write_pickle(tmp_path / "a", found)
    assert prepare(read_episodes(tmp_path / "a")).digest not in digests


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "terminals", "timeouts"])
def test_hdf5_without_a_part_is_one_clear_error(name: str, tmp_path: Path) -> None:
    parts = flat(episodes(3))
    del parts[name]
    file = write_hdf5(tmp_path, parts)
    message = error_of(lambda: read_episodes(tmp_path))
    assert message.startswith(f"ValueError: {file} must have {name}, got ")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (put("rewards", poisoned), "rewards must be finite, got nan at step 1"),
        (put("actions", lambda v: v[:-1]), "actions must have"),
        (put("terminals", lambda v: 0 * v), "at least"),
        (put("terminals", lambda v: v.astype("f4") + 0.5), "terminals must be 0 or 1"),
        (put("observations", lambda v: np.hstack([v, v])), "observations must have shape"),
        (put("actions", lambda v: v[:, 0]), "actions must have shape"),
        (put("rewards", lambda v: np.stack([v, v], 1)), "rewards must be one number per step"),
        (put("rewards", lambda v: v.astype("S4")), "rewards must be an array of numbers, got |S4"),
    ],
)
def test_damaged_hdf5_is_one_clear_error(
    damage: Callable[[Parts], None], message: str, tmp_path: Path
) -> None:
    parts = flat(episodes(3))
    if message == "at least":
        parts["timeouts"] = 0 * parts["timeouts"]
        message = "terminals or timeouts must end an episode, got none in"
    damage(parts)
    write_hdf5(tmp_path, parts)
    said = error_of(lambda: read_episodes(tmp_path))
    assert said.startswith(f"ValueError: {message}")


def test_columns_of_one_number_are_read(tmp_path: Path) -> None:
    found = episodes(3)
    parts = flat(found)
    for name in ("rewards", "terminals", "timeouts"):
        parts[name] = parts[name][:, None]
    write_hdf5(tmp_path, parts)
    same(read_episodes(tmp_path), as_episodes(found))


def test_truncated_hdf5_and_links_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    file = write_hdf5(tmp_path / "whole", flat(episodes(3)))
    cut = tmp_path / "cut" / file.name
    cut.parent.mkdir()
    cut.write_bytes(file.read_bytes()[:3000])
    assert "must be a whole HDF5 file" in error_of(lambda: read_episodes(cut))
    linking = tmp_path / "linking" / file.name
    linking.parent.mkdir()
    parts = flat(episodes(3))
    write_hdf5(linking.parent, {name: v for name, v in parts.items() if name != "rewards"})
    with h5py.File(linking, "a") as content:
        content["rewards"] = h5py.ExternalLink(str(file), "rewards")
    message = "rewards must be an array in the file itself, got a link"
    assert message in error_of(lambda: read_episodes(linking))
    with h5py.File(linking, "a") as content:
        del content["rewards"]
        outside = [(str(tmp_path / "cut" / file.name), 0, h5py.h5f.UNLIMITED)]
        content.create_dataset("rewards", (len(parts["rewards"]),), "f4", external=outside)
    assert message in error_of(lambda: read_episodes(linking))


def test_missing_packages_are_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hdf5(tmp_path, flat(episodes(3)))
    for name in ("h5py", "mujoco"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: read_episodes(tmp_path), ENVIRONMENTS["hopper"].make):
        message = error_of(call)
        assert message.startswith("MissingExtra: ")
        assert message.endswith("pip install 'fourierkernels[control]'")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    given = as_episodes(episodes(5), targets=(3.5, 1.25), limit=9, generated=True)
    write_recorded(tmp_path / "glider-mixed-generated.npz", given)
    found = read_episodes(tmp_path)
    same(found, given)
    assert (found.targets, found.limit, found.generated) == ((3.5, 1.25), 9, True)
    assert found.corpus == "glider-mixed"


def test_foreign_and_damaged_npz_are_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    np.savez(file, a=np.zeros(1))
    assert "must have been written by experiments/data_control.py" in error_of(
        lambda: open_recorded(file)
    )
    write_recorded(file, as_episodes(episodes(3), limit=9))
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"PK", pickle.dumps([1])):
        file.write_bytes(content)
        assert "must have been written by" in error_of(lambda: open_recorded(file))
    target = tmp_path / "made by the payload"
    with np.load(io.BytesIO(whole)) as content:
        parts = dict(content)
    parts["corpus"] = np.array([Payload(target)], dtype=object)
    np.savez(file, allow_pickle=True, **parts)
    assert "must have been written by" in error_of(lambda: open_recorded(file))
    assert not target.exists()
    parts["corpus"] = np.zeros(3)
    np.savez(file, **parts)
    assert "must have arrays of numbers, got others: corpus" in error_of(
        lambda: open_recorded(file)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment": "pong"}, "environment must be one of hopper, "),
        ({"ends": np.array([], dtype=np.int64)}, "must have an episode that ends, got none in"),
        ({"ends": np.array([3, 3])}, "ends must rise to the number of steps"),
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"actions": np.zeros((9, 2), np.float32)}, "actions must have shape"),
    ],
)
def test_episodes_are_checked(changes: dict[str, Any], message: str) -> None:
    assert message in error_of(lambda: checked(as_episodes(episodes(3), **changes)))


def test_actions_that_never_change_are_refused() -> None:
    found = as_episodes(episodes(3))
    same_action = np.ones_like(found.actions)
    assert "actions must not be all alike" in error_of(
        lambda: checked(as_episodes(episodes(3), actions=same_action))
    )


@pytest.fixture
def two(tmp_path: Path) -> Path:
    write_pickle(tmp_path, episodes(3))
    write_pickle(tmp_path, episodes(4), name="glider-other-v2.pkl")
    return tmp_path


def test_one_file_of_several_has_to_be_named(two: Path) -> None:
    assert "data must be one file, or a folder with one, got" in error_of(
        lambda: read_episodes(two)
    )
    assert len(read_episodes(two / "glider-other-v2.pkl").ends) == 4
    (two / "x.dat").write_text("x")
    assert "data must be a file that a reader knows" in error_of(
        lambda: read_episodes(two / "x.dat")
    )
    file = write_pickle(two / "third", episodes(3), name="pong-v2.pkl")
    assert "got pong-v2.pkl" in error_of(lambda: read_episodes(file))


def test_layout_can_be_added_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = as_episodes(episodes(3))
    row = DataSet(
        title="t", source="h", layout="l", recognises=lambda place: True, open=lambda place: mine
    )
    monkeypatch.setattr(sets, "CONTROL_SETS", {"mine": row, **CONTROL_SETS})
    assert read_episodes(tmp_path) is mine


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_generated_episodes_are_those_of_their_seed(behaviour: str) -> None:
    one, again, other = (generate("glider", behaviour, seed=seed, search=FEW) for seed in (1, 1, 2))
    same(one, again)
    assert not np.array_equal(one.actions[:3], other.actions[:3])
    assert len(one.ends) == FEW.rounds * FEW.policies
    assert np.diff(one.ends, prepend=0).max() <= FEW.steps == one.limit
    assert one.targets == pytest.approx((one.returns.max(), one.returns.max() / 2), abs=0.06)
    assert (one.generated, one.corpus) == (True, f"glider-{behaviour}-generated")


def test_search_finds_better_policies() -> None:
    search = Search(rounds=6, policies=20, kept=5, steps=12)
    found = generate("glider", "replay", search=search).returns.reshape(6, 20).mean(axis=1)
    assert found[-1] > found[0] + 2


def test_generated_set_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fourierkernels.studies.control import generating

    asked = []

    def few() -> Episodes:
        asked.append(1)
        return generate("glider", search=FEW)

    monkeypatch.setattr(generating, "generate", few)
    same(read_episodes("generated", cache=tmp_path), kept_generated(tmp_path))
    assert len(asked) == 1
