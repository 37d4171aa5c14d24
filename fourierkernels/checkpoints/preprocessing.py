"""The preprocessing of images that a folder prescribes, in its preprocessor_config.json."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fourierkernels.foundation.image_files import MODES, Preprocessing, Resampling
from fourierkernels.foundation.run_folder import PREPROCESSING
from fourierkernels.foundation.validation import check_integer, check_number

MOST_SIDE = 4096  # of an image that a network reads


def read_preprocessing(
    folder: Path | None, *, height: int, width: int, channels: int
) -> Preprocessing:
    """Return the preprocessing that the preprocessor_config.json of a folder prescribes.

    The defaults, without that file or for what it leaves open, are those of ViT: resize bilinearly
    to the size that the network reads, divide by 255, normalise with mean 0.5 and standard
    deviation 0.5.

    Parameters
    ----------
    folder : Path or None
        None for the defaults.
    height, width : int
        Size of the images that the network reads.

    Raises
    ------
    ValueError
        If the file is not such a configuration, or leads to another size.
    """
    if channels not in MODES:
        raise ValueError(f"channels must be 1 or 3 to read images, got {channels}")
    default = Preprocessing(channels, (height, width))
    file = None if folder is None else folder / PREPROCESSING
    if file is None or not file.is_file():
        return default
    try:
        rules = json.loads(file.read_text(encoding="utf-8"))
        chosen = _from_rules(rules, default)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file.name} must say how images are read, got {error!r}") from error
    found = chosen.crop or chosen.size
    if found not in {(height, width), None}:  # None: each image must have the size itself
        raise ValueError(
            f"{file.name} must lead to images of {height} x {width}, which the network reads, "
            f"got {found}"
        )
    return chosen


def _from_rules(rules: Mapping[str, Any], default: Preprocessing) -> Preprocessing:
    """Read the entries that image processors of transformers write."""
    kind = str(rules.get("image_processor_type") or rules.get("feature_extractor_type") or "")
    size, crop = rules.get("size", default.size), rules.get("crop_size")
    normalises, channels = rules.get("do_normalize", True), default.channels
    return Preprocessing(
        channels,
        size=_size(size, square=not kind.startswith("CLIP"))
        if rules.get("do_resize", True)
        else None,
        resample=Resampling(rules.get("resample", default.resample)),
        crop=_pair(crop) if rules.get("do_center_crop") else None,
        factor=_factor(rules, default.factor) if rules.get("do_rescale", True) else 1.0,
        mean=_numbers("image_mean", rules, default.mean, channels) if normalises else (0.0,),
        std=_numbers("image_std", rules, default.std, channels) if normalises else (1.0,),
    )


def _size(size: Any, *, square: bool) -> tuple[int, int] | int:
    """Return the size; one number, in old files, is the shorter side for CLIP, else both."""
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return _side(size["shortest_edge"])
    return _pair(size) if square or not isinstance(size, int) else _side(size)


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        size = (size["height"], size["width"])
    height, width = (size, size) if isinstance(size, int) else size
    return _side(height), _side(width)


def _side(length: Any) -> int:
    if check_integer("size", length) > MOST_SIDE:
        raise ValueError(f"size must be at most {MOST_SIDE}, got {length}")
    return int(length)


def _factor(rules: Mapping[str, Any], default: float) -> float:
    return check_number("rescale_factor", rules.get("rescale_factor", default), above=0.0)


def _numbers(
    name: str, rules: Mapping[str, Any], default: tuple[float, ...], channels: int
) -> tuple[float, ...]:
    given = rules.get(name, default)
    least = 0.0 if name == "image_std" else -math.inf
    numbers = tuple(check_number(name, number, above=least) for number in given)
    if len(numbers) not in {1, channels}:
        raise ValueError(f"{name} must be of {channels} channels, got {len(numbers)}")
    return numbers
