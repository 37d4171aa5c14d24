"""A report by several workers: the same numbers, whoever measures what and whatever dies."""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fourierkernels.checkpoints.contexts import computing_on
from fourierkernels.checkpoints.formats.request import pad
from fourierkernels.foundation.workers import one_thread
from fourierkernels.report import HeadReport, head_report, shards, sharing
from fourierkernels.report import options as report_options
from fourierkernels.report.inputs import inputs_digest
from fourierkernels.report.shards import packed, unpacked

Tiny = Callable[[str], Path]
# Of uneven lengths, in batches of at most two; some are cut into several windows.
TEXTS = [" ".join("abcdefghij"[(k + j) % 10] for j in range(1 + k * 7 % 40)) for k in range(23)]
OPTIONS: dict[str, Any] = {
    "tokens": "whitespace",
    "batch_size": 2,
    "statistics": "all",
    "permutations": 3,
    "examples": 5,
    "metrics": ["frobenius_per_sqrt_n", "projected_cka"],
}


@pytest.fixture(scope="module")
def alone(tiny: Tiny) -> HeadReport:
    with one_thread():
        return head_report(tiny("bert"), TEXTS, against=tiny("roberta"), **OPTIONS)


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def same(one: HeadReport, other: HeadReport) -> None:
    """Check every number of two reports, intervals included."""
    assert list(one.profiles) == list(other.profiles)
    for metric in one.metrics:
        for network, found in one.summaries(metric).items():
            wanted = other.summaries(metric)[network]
            for name, value in vars(wanted).items():
                if isinstance(value, str):
                    assert getattr(found, name) == value
                else:
                    close(getattr(found, name), value)
            close(found.interval(), wanted.interval())
        close(one.difference(metric).low, other.difference(metric).low)  # type: ignore[union-attr]
    for name, statistic in one.first.statistics.items():
        for field in ("mean", "std_texts", "low", "high", "n_texts"):
            close(getattr(statistic, field), getattr(other.first.statistics[name], field))
    assert one.first.null is not None
    assert other.first.null is not None
    close(one.first.null.null, other.first.null.null)
    np.testing.assert_array_equal(one.first.null.p_value, other.first.null.p_value)
    assert one.first.layers == other.first.layers
    for mine, theirs in zip(one.first.examples, other.first.examples, strict=True):
        assert (mine.label, mine.queries) == (theirs.label, theirs.queries)
        np.testing.assert_array_equal(mine.maps, theirs.maps)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_shards_add_up_to_one_pass(
    count: int, alone: HeadReport, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_options, "_EACH", count)
    told: list[tuple[str, float]] = []
    options = {**OPTIONS, "against": tiny("roberta"), "resume": tmp_path}
    together = head_report(tiny("bert"), TEXTS, progress=lambda *one: told.append(one), **options)
    same(together, alone)
    assert len(told) == 3 * count
    assert told[-1] == ("other", len(TEXTS))
    assert together.origin == alone.origin


@pytest.mark.slow
def test_processes_give_the_same_numbers_though_one_is_killed(
    alone: HeadReport, tiny: Tiny
) -> None:
    killed: list[Any] = []

    def kill_one(network: str, done: float) -> None:
        if not killed:
            killed.append(multiprocessing.active_children()[0])
            killed[0].kill()

    options = {**OPTIONS, "against": tiny("roberta"), "workers": 2, "progress": kill_one}
    same(head_report(tiny("bert"), TEXTS, **options), alone)
    assert killed
    assert not multiprocessing.active_children()


class StoppedError(Exception):
    pass


def stop_after(count: int) -> Callable[[str, float], None]:
    left = [count]

    def told(network: str, done: float) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise StoppedError

    return told


QUICK: dict[str, Any] = {"tokens": "whitespace", "statistics": "none", "baseline": False}


def test_an_interrupted_run_goes_on_where_it_stopped(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**QUICK, "batch_size": 2, "resume": tmp_path}
    with pytest.raises(StoppedError):
        head_report(tiny("bert"), TEXTS, progress=stop_after(2), **options)
    kept = sorted((tmp_path / sharing.KEPT).glob("*.npz"))
    assert [file.name for file in kept] == ["trained-1-of-4.npz", "trained-2-of-4.npz"]
    kept[0].write_bytes(kept[0].read_bytes()[:-9])  # damaged: measured again
    told: list[Any] = []
    # Another number of workers goes on with the shards of the first run.
    monkeypatch.setattr(report_options, "_EACH", 3)
    found = head_report(tiny("bert"), TEXTS, progress=lambda *one: told.append(one), **options)
    assert len(told) == 3
    with one_thread():
        wanted = head_report(tiny("bert"), TEXTS, **QUICK, batch_size=2)
    close(found.summaries()["trained"].texts, wanted.summaries()["trained"].texts)


def test_shards_of_another_report_are_refused(tiny: Tiny, own: Any, tmp_path: Path) -> None:
    head_report(tiny("bert"), TEXTS, **QUICK, resume=tmp_path)
    head_report(
        tiny("bert"), TEXTS, **QUICK, spread="pairs", resume=tmp_path
    )  # only how it is shown
    with pytest.raises(ValueError, match="got those of one with other context: remove"):
        head_report(tiny("bert"), TEXTS, **QUICK, context=8, resume=tmp_path)
    with pytest.raises(ValueError, match="with other SHA-256 of inputs"):
        head_report(tiny("bert"), TEXTS[1:], **QUICK, resume=tmp_path)
    (tmp_path / sharing.KEPT / "shards.json").write_text("{}")
    with pytest.raises(ValueError, match="must say what the shards beside it are of"):
        head_report(tiny("bert"), TEXTS, **QUICK, resume=tmp_path)


def test_texts_of_several_lines_are_not_those_lines(tiny: Tiny, tmp_path: Path) -> None:
    head_report(tiny("bert"), ["a b\nc d", "d e f"], **QUICK, resume=tmp_path)
    with pytest.raises(ValueError, match="with other SHA-256 of inputs"):
        head_report(tiny("bert"), ["a b", "c d", "d e f"], **QUICK, resume=tmp_path)


@pytest.mark.parametrize("kind", [Path, str])
def test_images_with_other_pixels_are_others_under_the_same_paths(
    kind: Callable[[Path], Any], tiny: Tiny, pictures: list[Path], tmp_path: Path
) -> None:
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for file, picture in zip(files, pictures, strict=False):
        file.write_bytes(picture.read_bytes())
    options = {"statistics": "none", "baseline": False, "resume": tmp_path}
    head_report(tiny("vit"), [kind(file) for file in files], **options)
    files[0].write_bytes(pictures[1].read_bytes())
    with pytest.raises(ValueError, match="with other SHA-256 of inputs"):
        head_report(tiny("vit"), [kind(file) for file in files], **options)


def test_texts_longer_than_any_path_have_a_digest() -> None:
    assert inputs_digest(["a b " * 5000]) == sha256(b"a b " * 5000 + b"\n").hexdigest()


def test_weights_that_change_under_a_run_are_not_mixed(own: Any, tmp_path: Path) -> None:
    folder = own("bert")

    def change(network: str, done: float) -> None:
        shards.forget_networks()
        (folder / "model.safetensors").write_bytes(b"other")

    with pytest.raises(
        ValueError, match=r"shard 2 of 4 \(trained weights\) failed.*weights must be"
    ):
        head_report(folder, TEXTS, **QUICK, progress=change, resume=tmp_path)


def test_what_a_shard_refuses_is_one_error_and_leaves_nothing(tiny: Tiny, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("1 2 99\n")
    with pytest.raises(ValueError, match=r"shard 1 of 4 .* token ids must lie in") as caught:
        head_report(tiny("bert"), texts, **{**QUICK, "tokens": "ids"}, resume=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out" / sharing.KEPT).iterdir())


@pytest.mark.usefixtures("undrawn")
def test_command_keeps_shards_until_the_report_is_written(
    run: Any, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, output = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text("\n".join(TEXTS) + "\n")
    options = ("--text", texts, "--tokens", "whitespace", "--no-baseline")
    monkeypatch.setattr(report_options, "_EACH", 1)
    _, plain, _ = run(tiny("bert"), *options)

    def here(work: Any, pieces: Any, **_: Any) -> Any:  # in this process, to be quick
        assert (output / sharing.KEPT / "shards.json").exists()
        return ((piece, work.compute(piece)) for piece in pieces)

    class Spread:
        def __init__(self, *given: Any, **options: Any) -> None:
            self.finished = here(*given, **options)

        def __enter__(self) -> Iterator[Any]:
            return self.finished

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(sharing, "spread", Spread)
    status, out, err = run(tiny("bert"), *options, "--workers", 2, "--output", output)
    assert (status, err) == (0, "")
    assert out.startswith(plain.rstrip("\n").split("\n")[0])
    assert not (output / sharing.KEPT).exists()
    given = json.loads((output / "heads.json").read_text())["options"]
    assert given["workers"] == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"workers": 0}, "workers must be"),
        ({"workers": 1.5}, "workers must be"),
        ({"device": "nonsense"}, "device must be one that torch can use on this machine"),
        ({"device": "meta"}, "device must be one that torch can use on this machine"),
        ({"device": "cuda:99"}, "device must be one that torch can use on this machine"),
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any], words: str, tiny: Tiny) -> None:
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        head_report(tiny("bert"), TEXTS, **QUICK, **wrong)
    assert "\n" not in str(caught.value)


def test_device_is_where_the_network_computes(tiny: Tiny) -> None:
    found = head_report(tiny("bert"), TEXTS, **QUICK, device="cpu")
    wanted = head_report(tiny("bert"), TEXTS, **QUICK)
    one, other = (report.summaries()["trained"].distances for report in (found, wanted))
    np.testing.assert_array_equal(one, other)


def test_inputs_are_made_where_the_network_is() -> None:
    ids = [[1, 2], [3]]
    assert {one.device.type for one in pad(ids, 0)} == {"cpu"}
    with computing_on(torch.device("meta")):
        assert {one.device.type for one in pad(ids, 0)} == {"meta"}
    assert pad(ids, 0)[0].device.type == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_the_numbers_of_the_processor(tiny: Tiny) -> None:
    options = {**OPTIONS, "importance": "mean_masking", "loss": "states"}
    found = head_report(tiny("bert"), TEXTS, **options, device="cuda")
    wanted = head_report(tiny("bert"), TEXTS, **options)
    for network, summary in wanted.summaries().items():
        np.testing.assert_allclose(
            found.summaries()[network].distances, summary.distances, atol=1e-5
        )


def test_models_in_memory_are_measured_in_this_process_only(tiny: Tiny) -> None:
    import transformers

    model = transformers.AutoModel.from_pretrained(tiny("bert"))
    with pytest.raises(ValueError, match=r"workers must be 1, .* for a model in memory"):
        head_report(model, ["1 2", "3 4"], tokens="ids", workers=2)
    with pytest.raises(ValueError, match="device must be left out for a model in memory"):
        head_report(model, ["1 2", "3 4"], tokens="ids", device="cpu")


def test_packed_values_come_back_bit_by_bit_and_damage_is_told() -> None:
    value = {
        "a": [np.array([np.nan, -0.0]), {"b": np.zeros((2, 0))}],
        "c": None,
        "d": "é",
        "e": 1.5,
    }
    found = unpacked(packed(value))
    np.testing.assert_array_equal(found["a"][0], value["a"][0])  # type: ignore[index]
    assert np.signbit(found["a"][0][1])
    assert found["a"][1]["b"].shape == (2, 0)
    assert [found[name] for name in "cde"] == [None, "é", 1.5]
    content = packed(value)
    for damaged in (b"", content[: len(content) // 2], content.replace(b"1.5", b"1.6")):
        with pytest.raises(ValueError, match="content must be what packed returned"):
            shards.unpacked(damaged)


CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None,
                      host="127.0.0.1") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.mark.slow
def test_cluster_gives_the_same_numbers(alone: HeadReport, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "cluster.py").write_text(CLUSTER)
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    script = [sys.executable, str(tmp_path / "cluster.py")]
    with subprocess.Popen(script, text=True, **pipes) as process:
        try:
            address = process.stdout.readline().strip()  # type: ignore[union-attr]
            options = {**OPTIONS, "against": tiny("roberta"), "scheduler": address}
            same(head_report(tiny("bert"), TEXTS, **options), alone)
        finally:
            process.kill()
