"""How a network of transformers that hears is run: Whisper's encoder, Wav2Vec2 and its kin, AST.

Each sound is a batch of its own, so that none is padded to the length of another. What turns it
into the network's input is the feature extractor that the folder prescribes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from fourierkernels.checkpoints.checkpoint import AttentionPart, Checkpoint
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.offline import offline_and_quiet, one_line
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.checkpoints.running import as_pair
from fourierkernels.checkpoints.sounds import read_sound
from fourierkernels.foundation.run_folder import PREPROCESSING

SOUNDS = ("input_values", "input_features")  # what networks that hear call their input


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
    extract = _extractor(files)

    def features(sound: Path) -> Any:
        samples = read_sound(sound, rate=extract.sampling_rate)
        return extract(samples, sampling_rate=extract.sampling_rate, return_tensors="pt")[name]

    def run(batch: Sequence[Any]) -> Any:
        return model(**{name: torch.cat([features(sound) for sound in batch])})

    def labels(sound: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        n = _count_tokens(model, lambda: run([sound]))
        names = _patches(model.config, n) or _times(extract, sound, n)
        return names, names

    return Checkpoint(
        files=files,
        model=model,
        limit=None,
        vocabulary=None,
        reads="sounds",
        run=run,
        selects=lambda call: not call.cross,
        batch_key=lambda sound: sound,
        spans=lambda sound: None,
        labels=labels,
    )


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


@torch.inference_mode()
def _count_tokens(model: Any, run: Callable[[], Any]) -> int:
    """Return the number of tokens of an input, as the last layer sees it."""
    with recording(model) as heard:
        run()
    return int(heard[-1].maps.shape[-1])


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
