"""Folders of sounds, in the order of their paths, and their samples."""

import warnings
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.checkpoints.file_folders import FileFolder, files_under
from fourierkernels.foundation.arrays import FloatArray

SOUND_FORMATS = (".wav",)
_RATES = (1_000, 400_000)  # beyond, a header alone could ask for all memory


class SoundFolder(FileFolder):
    """The WAV files under a folder, in the order of their paths; iterating gives the paths."""


def read_sounds(folder: str | Path) -> SoundFolder:
    """Return the WAV files in a folder and its subfolders.

    Their samples are read with the network.

    Raises
    ------
    ValueError
        If there is no such folder or it has no WAV file.
    """
    return SoundFolder.of(files_under("sound", folder, SOUND_FORMATS))


def read_sound(file: Path, *, rate: int) -> FloatArray:
    """Return the samples of a WAV file between -1 and 1, ``(samples,)``.

    Channels are averaged, and another rate is changed to `rate` by ``scipy.signal.resample_poly``.

    Parameters
    ----------
    rate : int
        Samples per second that the network hears.

    Raises
    ------
    ValueError
        If the file is no WAV file that scipy reads, or has no samples or some that are not finite.
    """
    found, samples = _read(file)
    mono = _scaled(samples)
    mono = mono.mean(axis=1) if mono.ndim == 2 else mono
    if not mono.size or not np.isfinite(mono).all():
        raise ValueError(f"sounds must have samples, all of them finite, got {file}")
    if found == rate:
        return mono
    from scipy.signal import resample_poly  # takes a while to load

    common = gcd(found, rate)
    resampled: FloatArray = resample_poly(mono, rate // common, found // common)
    return resampled


def _read(file: Path) -> tuple[int, Any]:
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # on chunks of other data
            rate, samples = wavfile.read(file)
    except Exception as error:  # scipy's own, of struct and of numpy
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise ValueError(f"sounds must be WAV files, got {file}: {reason}") from error
    least, most = _RATES
    if not least <= rate <= most:
        raise ValueError(
            f"sounds must have a rate of {least:,} to {most:,} per second, got {rate} in {file}"
        )
    return int(rate), samples


def _scaled(samples: Any) -> FloatArray:
    """Return samples between -1 and 1: whole numbers are fractions of the largest."""
    wide: FloatArray = samples.astype(np.float64)
    if samples.dtype.kind == "f":
        return wide
    half: float = 2.0 ** (8 * samples.dtype.itemsize - 1)
    return wide / half - (1 if samples.dtype.kind == "u" else 0)
