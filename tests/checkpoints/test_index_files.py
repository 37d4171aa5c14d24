"""Weights in parts: none of them is read from outside the folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from fourierkernels.checkpoints.load import load_checkpoint

Tiny = Callable[[str], Path]
INDEX = "model.safetensors.index.json"


@pytest.fixture
def parts(own: Tiny) -> Path:
    """A network in several files."""
    folder = own("bert")
    model = transformers.BertModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


def name_part(folder: Path, part: str) -> str:
    """Let the index name another file for the first tensor; return the one it named."""
    content = json.loads((folder / INDEX).read_text())
    first = next(iter(content["weight_map"]))
    old = content["weight_map"][first]
    found = {n: part if p == old else p for n, p in content["weight_map"].items()}
    (folder / INDEX).write_text(json.dumps({**content, "weight_map": found}))
    return str(old)


def test_parts_are_read(parts: Path) -> None:
    assert load_checkpoint(parts).vocabulary == 14


@pytest.mark.parametrize("how", ["up", "absolute", "link", "linked folder"])
def test_part_outside_the_folder_is_refused(how: str, parts: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    old = name_part(parts, "x")
    (parts / old).rename(outside / old)
    place = {
        "up": f"../outside/{old}",
        "absolute": str(outside / old),
        "link": old,
        "linked folder": f"inner/{old}",
    }[how]
    if how == "link":
        (parts / old).symlink_to(outside / old)
    if how == "linked folder":
        (parts / "inner").symlink_to(outside)
    name_part(parts, place)
    with pytest.raises(ValueError, match=rf"{INDEX} must list files inside its folder, got '.*'$"):
        load_checkpoint(parts)
    assert load_checkpoint(parts, random_weights=True).vocabulary == 14  # which reads no part


def test_pickled_parts_are_held_to_the_same(own: Tiny, tmp_path: Path) -> None:
    folder = own("bert")
    names = list(load_checkpoint(folder).model.state_dict())
    (folder / "model.safetensors").rename(tmp_path / "part.bin")
    content = {"metadata": {}, "weight_map": dict.fromkeys(names, "../part.bin")}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin\.index\.json must list files inside"):
        load_checkpoint(folder)


def test_links_of_the_cache_of_hugging_face_are_followed(parts: Path, tmp_path: Path) -> None:
    """There a snapshot is a folder of links to the blobs of its repository, and to no others."""
    home = tmp_path / "models--a--b"
    (home / "blobs").mkdir(parents=True)
    snapshot = home / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for number, file in enumerate(parts.iterdir()):
        file.rename(home / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert load_checkpoint(snapshot).vocabulary == 14
    assert torch.is_tensor(load_checkpoint(snapshot).model.embeddings.word_embeddings.weight)
    (home / "blobs").rename(tmp_path / "blobs")
    (home / "blobs").symlink_to(tmp_path / "blobs")
    with pytest.raises(ValueError, match="must list files inside its folder"):
        load_checkpoint(snapshot)


@pytest.mark.parametrize("content", ["[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_damaged_index_is_refused_in_one_line(content: str, parts: Path) -> None:
    (parts / INDEX).write_text(content)
    with pytest.raises(ValueError, match=rf"^[^\n]*{INDEX} must [^\n]*$"):
        load_checkpoint(parts)
