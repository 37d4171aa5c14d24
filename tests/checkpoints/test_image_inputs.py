"""Folders of images, and pixels as networks read them."""

import json
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from batches import check_batches
from PIL import Image

from fourierkernels.checkpoints.formats.image_networks import read_preprocessing
from fourierkernels.checkpoints.input_files import read_images
from fourierkernels.checkpoints.load import load_checkpoint
from fourierkernels.diagnostics.networks.samples import head_samples
from fourierkernels.foundation.image_files import IMAGE_FORMATS, Preprocessing

Tiny = Callable[[str], Path]
SIZES = [(20, 30), (31, 17), (8, 8), (5, 40)]


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four images of different sizes, two of them in a folder of their own."""
    root = tmp_path / "images"
    (root / "cats").mkdir(parents=True)
    for number, (height, width) in enumerate(SIZES):
        place = root / "cats" if number > 1 else root
        Image.fromarray(noise(height, width, 3, seed=number)).save(place / f"{number}.png")
    (root / "notes.txt").write_text("no image")
    (root / ".hidden.png").write_text("no image")
    return root


def test_images_are_found_in_order_and_their_digest_follows_their_content(folder: Path) -> None:
    found = read_images(folder)
    names = [str(path.relative_to(folder)) for path in found]
    assert names == ["0.png", "1.png", "cats/2.png", "cats/3.png"]
    assert len(found) == 4
    assert list(found) == list(found)
    assert read_images(str(folder)).sha256 == found.sha256
    Image.fromarray(noise(8, 8, 3, seed=9)).save(folder / "0.png")
    assert read_images(folder).sha256 != found.sha256


@pytest.mark.parametrize("suffix", sorted(IMAGE_FORMATS))
def test_every_known_format_is_read(suffix: str, tmp_path: Path) -> None:
    mode = "L" if suffix == ".pgm" else "RGB"
    image = Image.new(mode, (6, 4), 128 if mode == "L" else (128, 128, 128))
    image.save(tmp_path / f"x{suffix.upper()}")
    pixels = Preprocessing(3, (4, 6))(read_images(tmp_path).files[0])
    np.testing.assert_allclose(pixels, np.full((3, 4, 6), 128 / 255 * 2 - 1), atol=0.02)


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="image folder must exist, got"):
        read_images(tmp_path / "none")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match=r"must hold images \(\.bmp, .*\), got none"):
        read_images(tmp_path)


# Preprocessing, against the classes of transformers

PROCESSORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ViT": (transformers.ViTImageProcessorPil, {"size": {"height": 8, "width": 8}}),
    "ViT, another filter": (
        transformers.ViTImageProcessorPil,
        {
            "size": {"height": 8, "width": 8},
            "resample": 3,
            "image_mean": [0.1, 0.2, 0.3],
            "image_std": [0.4, 0.5, 0.6],
            "rescale_factor": 0.01,
        },
    ),
    "ViT, no normalising": (
        transformers.ViTImageProcessorPil,
        {"size": {"height": 8, "width": 8}, "do_normalize": False},
    ),
    "DeiT": (
        transformers.DeiTImageProcessorPil,
        {"size": {"height": 12, "width": 10}, "crop_size": {"height": 8, "width": 8}},
    ),
    "crop beyond the image": (
        transformers.DeiTImageProcessorPil,
        {"do_resize": False, "crop_size": {"height": 8, "width": 8}},
    ),
    "CLIP": (
        transformers.CLIPImageProcessorPil,
        {"size": {"shortest_edge": 9}, "crop_size": {"height": 8, "width": 8}},
    ),
}


@pytest.mark.parametrize("kind", PROCESSORS)
def test_pixels_are_those_of_the_image_processors_of_transformers(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    make, options = PROCESSORS[kind]
    processor = make(**options)
    processor.save_pretrained(tmp_path)
    ours = read_preprocessing(tmp_path, height=8, width=8, channels=3)
    for file in read_images(folder):
        theirs = processor(Image.open(file), return_tensors="np")["pixel_values"][0]
        np.testing.assert_allclose(ours(file), theirs, rtol=1e-6, atol=1e-6)


def test_number_in_old_files_is_the_shorter_side_for_clip_and_both_for_others(
    tmp_path: Path,
) -> None:
    file = tmp_path / "preprocessor_config.json"
    rules = {"size": 8, "do_center_crop": True, "crop_size": 8}
    for kind, size in (("CLIPFeatureExtractor", 8), ("ViTFeatureExtractor", (8, 8))):
        file.write_text(json.dumps({**rules, "feature_extractor_type": kind}))
        found = read_preprocessing(tmp_path, height=8, width=8, channels=3)
        assert (found.size, found.crop) == (size, (8, 8))


def test_without_a_file_images_are_resized_and_lie_between_minus_one_and_one(
    folder: Path, tmp_path: Path
) -> None:
    for place in (None, tmp_path):
        chosen = read_preprocessing(place, height=8, width=6, channels=3)
        for file in read_images(folder):
            pixels = chosen(file)
            assert (pixels.shape, pixels.dtype) == ((3, 8, 6), np.float32)
    exact = noise(8, 6, 3)
    Image.fromarray(exact).save(tmp_path / "x.png")
    expected = exact.transpose(2, 0, 1) / 127.5 - 1
    np.testing.assert_allclose(chosen(tmp_path / "x.png"), expected, atol=1e-6)


def test_grey_networks_read_colours_as_grey_and_colour_networks_grey_as_colours(
    tmp_path: Path,
) -> None:
    grey = noise(4, 4)
    Image.fromarray(grey).save(tmp_path / "x.png")
    one, three = (
        read_preprocessing(None, height=4, width=4, channels=c)(tmp_path / "x.png") for c in (1, 3)
    )
    np.testing.assert_allclose(one[0], grey / 127.5 - 1, atol=1e-6)
    np.testing.assert_array_equal(three, np.repeat(one, 3, axis=0))


def test_pictures_are_turned_as_the_camera_was_held(tmp_path: Path) -> None:
    pixels = noise(4, 6)
    tag = Image.Exif()
    tag[0x0112] = 6  # to be turned by 90 degrees
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=tag)
    found = Preprocessing(1, None)(tmp_path / "x.png")
    np.testing.assert_allclose(found[0], np.rot90(pixels, -1) / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("{", "say how images are read, got JSONDecodeError"),
        ("[]", "say how images are read, got AttributeError"),
        ('{"size": {"height": 9, "width": 8}}', r"images of 8 x 8, .* got \(9, 8\)"),
        ('{"size": {"shortest_edge": 8}}', "images of 8 x 8, .* got 8"),
        ('{"size": {"longest": 8}}', "say how images are read, got KeyError"),
        ('{"size": 100000}', "size must be at most 4096, got 100000"),
        ('{"size": -1}', "size must be at least 1, got -1"),
        ('{"size": "8"}', "say how images are read, got ValueError"),
        ('{"size": 8, "image_std": [0.0]}', "image_std must be finite and greater than 0"),
        ('{"size": 8, "image_mean": [0, 0]}', "image_mean must be of 3 channels, got 2"),
        ('{"size": 8, "rescale_factor": "x"}', "rescale_factor must be a number"),
        ('{"size": 8, "resample": 77}', "77 is not a valid"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(
    rules: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(rules)
    with pytest.raises(ValueError, match=r"preprocessor_config\.json must .*" + message):
        read_preprocessing(tmp_path, height=8, width=8, channels=3)


# Files that cannot be read


def png(width: int, height: int) -> bytes:
    """Return a small, valid PNG file of many black pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot identify"),
        (b"no image", "cannot identify"),
        (png(9000, 9000), "it has 9000 x 9000 pixels"),  # pillow itself would say nothing yet
        (png(12000, 12000), "decompression bomb"),
        (png(60000, 60000), "decompression bomb"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot identify"),
    ],
    ids=["empty", "text", "large", "larger", "largest", "program"],
)
def test_files_that_are_no_image_or_unpack_to_too_much_are_named(
    content: bytes, reason: str, folder: Path
) -> None:
    (folder / "bad.png").write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # whatever the caller does with warnings
        with pytest.raises(ValueError, match=rf"bad\.png: .*{reason}"):
            read_images(folder)


def test_truncated_image_is_named_when_its_pixels_are_read(folder: Path, tiny: Tiny) -> None:
    whole = (folder / "0.png").read_bytes()
    (folder / "0.png").write_bytes(whole[: len(whole) // 2])
    files = read_images(folder).files
    with pytest.raises(
        ValueError, match=r"images must be whole files .* got .*0\.png: .*truncated"
    ):
        load_checkpoint(tiny("vit")).run(files)


def test_other_formats_and_deep_pixels_are_refused(tmp_path: Path) -> None:
    Image.fromarray(noise(4, 4).astype(np.uint16) * 200).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match=r"deep\.png: it has more than 8 bits per channel"):
        read_images(tmp_path)
    Image.new("RGB", (4, 4)).save(tmp_path / "x.eps")
    with pytest.raises(ValueError, match=r"x\.eps: suffix must be one of"):
        Preprocessing(3, None)(tmp_path / "x.eps")


# Networks


@pytest.mark.parametrize("kind", ["vit", "deit", "clip"])
def test_batches_of_images_give_what_each_gives_alone(kind: str, folder: Path, tiny: Tiny) -> None:
    name = "CLIPVisionModel" if kind == "clip" else None
    checkpoint = load_checkpoint(tiny(kind), model_class=name)
    assert (checkpoint.reads, checkpoint.limit, checkpoint.vocabulary) == ("images", None, None)
    check_batches(checkpoint, read_images(folder).files)
    assert checkpoint.positions is not None
    extra = 2 if kind == "deit" else 1
    assert checkpoint.special is not None
    assert checkpoint.special(None).sum() == extra
    assert checkpoint.positions.shape == (4 + extra, 2)


def test_network_of_words_and_images_together_is_asked_for_one_side(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match=r"got both in CLIPModel: name one side"):
        load_checkpoint(tiny("clip"))
    words = load_checkpoint(tiny("clip"), model_class="CLIPTextModel")
    assert words.reads == "tokens"


def test_images_of_a_network_that_attends_in_windows_are_run_one_by_one(
    tiny: Tiny, folder: Path
) -> None:
    checkpoint = load_checkpoint(tiny("swin"))
    files = read_images(folder).files[:2]
    samples = list(head_samples(checkpoint, files, batch_size=2))
    assert [sample.item for sample in samples] == list(files)
    for sample in samples:
        (alone,) = head_samples(checkpoint, [sample.item])
        assert (sample.shapes, sample.shapes[0][1:]) == (alone.shapes, (4, 4, 4))


def test_folder_says_how_its_images_are_read(own: Tiny, folder: Path) -> None:
    vit = own("vit")
    plain = load_checkpoint(vit)
    rules = {"size": {"height": 8, "width": 8}, "image_mean": [0.1] * 3, "image_std": [0.2] * 3}
    (vit / "preprocessor_config.json").write_text(json.dumps(rules))
    files = read_images(folder).files[:1]
    outputs = [c.run(files).last_hidden_state for c in (plain, load_checkpoint(vit))]
    assert float((outputs[0] - outputs[1]).abs().max()) > 1e-3
    (vit / "preprocessor_config.json").write_text('{"size": {"height": 9, "width": 9}}')
    with pytest.raises(ValueError, match=r"lead to images of 8 x 8, .* got \(9, 9\)"):
        load_checkpoint(vit)


def test_images_of_another_size_than_the_network_reads_are_refused(own: Tiny, folder: Path) -> None:
    vit = own("vit")
    (vit / "preprocessor_config.json").write_text('{"do_resize": false}')
    checkpoint = load_checkpoint(vit)
    checkpoint.run([folder / "cats" / "2.png"])
    with pytest.raises(ValueError, match=r"shape \(3, 8, 8\), got \(3, 20, 30\): .*0\.png"):
        checkpoint.run([folder / "0.png"])
