"""How a network of transformers that hears is run: Whisper's encoder, Wav2Vec2 and its kin, AST.

Each sound is a batch of its own, so that none is padded to the length of another. What turns it
into the network's input is the feature extractor that the folder prescribes.
"""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from fourierkernels.checkpoints.checkpoint import AttentionPart, Checkpoint
from fourierkernels.checkpoints.contexts import offline_and_quiet, one_line
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.formats.request import as_pair
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.run_folder import PREPROCESSING

SOUNDS = ("input_values", "input_features")  # what networks that hear call their input


@dataclass(frozen=True, eq=False, kw_only=True)
class SoundCheckpoint(Checkpoint):
    """A network that reads WAV files.

    Attributes
    ----------
    input_name : str
        What it calls its input, one of `SOUNDS`.
    extract : callable
        The feature extractor of transformers.
    """

    input_name: str
    extract: Any

    @property
    def reads(self) -> str:
        """Paths of WAV files."""
        return "sounds"

    def _features(self, sound: Path) -> Any:
        rate = self.extract.sampling_rate
        samples = read_sound(sound, rate=rate)
        return self.extract(samples, sampling_rate=rate, return_tensors="pt")[self.input_name]

    def forward(self, batch: Sequence[Path]) -> Any:
        """Read sounds and run the model on them."""
        return self.model(
            **{self.input_name: torch.cat([self._features(sound) for sound in batch])}
        )

    def padding_key(self, item: Path) -> Hashable:
        """Return the sound itself."""
        return item

    def labels(self, item: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the bands and frames of a spectrogram, or the seconds of a sound."""
        with torch.inference_mode(), recording(self.model) as calls:
            self.forward([item])
        n = int(calls[-1].maps.shape[-1])  # tokens, as the last layer sees them
        names = _patches(self.model.config, n) or _times(self.extract, item, n)
        return names, names


def sound_checkpoint(
    model: Any, name: str, part: AttentionPart, files: CheckpointFiles
) -> Checkpoint:
    """Return a checkpoint that reads WAV files.

    Parameters
    ----------
    model : PreTrainedModel
        Of an encoder-decoder, its encoder.
    name : str
        What it calls its input, one of `SOUNDS`.

    Raises
    ------
    ValueError
        If the part is not the encoder, or the folder does not say how sounds are read.
    """
    if part.pairs:
        raise ValueError(f"part must be encoder for a network that hears, got {part.name!r}")
    return SoundCheckpoint(files=files, model=model, input_name=name, extract=_extractor(files))


def _extractor(files: CheckpointFiles) -> Any:
    folder = files.folder
    if folder is None or not (folder / PREPROCESSING).is_file():
        raise ValueError(
            f"checkpoint must hold {PREPROCESSING}, which says how sounds are read, "
            f"got none in {files.name}"
        )
    with offline_and_quiet(), one_line(f"{PREPROCESSING} of {folder.name} cannot be used"):
        return transformers.AutoFeatureExtractor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )


def _times(extract: Any, sound: Path, n: int) -> tuple[str, ...]:
    """Name tokens by the seconds at which they begin; Whisper hears half a minute of any sound."""
    samples = getattr(extract, "n_samples", None)
    if samples is None:
        samples = len(read_sound(sound, rate=extract.sampling_rate))
    step = samples / extract.sampling_rate / n
    return tuple(f"{number * step:.2f} s" for number in range(n))


def _patches(config: Any, n: int) -> tuple[str, ...]:
    """Name the tokens of a spectrogram by its bands and frames, after two special ones."""
    if not hasattr(config, "frequency_stride"):
        return ()
    height, width = as_pair(config.patch_size)
    bands = (config.num_mel_bins - height) // config.frequency_stride + 1
    frames = (config.max_length - width) // config.time_stride + 1
    names = [f"band {band}, frame {frame}" for band in range(bands) for frame in range(frames)]
    return ("class", "distillation", *names) if len(names) + 2 == n else ()


_RATES = (1_000, 400_000)  # beyond, a header alone could ask for all memory


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
