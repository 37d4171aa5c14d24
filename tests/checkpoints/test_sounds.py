"""Networks that hear: Whisper's encoder, Wav2Vec2 and AST on WAV files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from scipy.io import wavfile

from fourierkernels.checkpoints import load_checkpoint, read_sounds
from fourierkernels.checkpoints.formats.sound_networks import read_sound
from fourierkernels.diagnostics.networks.samples import head_samples
from fourierkernels.report import head_report

Run = Callable[..., tuple[int, str, str]]
RATE = 16_000

CONFIGS: dict[str, Callable[[], transformers.PreTrainedConfig]] = {
    "whisper": lambda: transformers.WhisperConfig(
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        vocab_size=20,
        num_mel_bins=8,
        max_source_positions=50,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    "wav2vec2": lambda: transformers.Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(8, 8),
        conv_kernel=(10, 8),
        conv_stride=(40, 8),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
    ),
    "ast": lambda: transformers.ASTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        num_mel_bins=16,
        max_length=24,
        patch_size=8,
        frequency_stride=8,
        time_stride=8,
    ),
}
EXTRACTORS = {
    "whisper": lambda: transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1),
    "wav2vec2": lambda: transformers.Wav2Vec2FeatureExtractor(),
    "ast": lambda: transformers.ASTFeatureExtractor(num_mel_bins=16, max_length=24),
}
KINDS = list(CONFIGS)


def as_published(folder: Path, kind: str) -> transformers.PreTrainedModel:
    """Save a tiny network with its feature extractor."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = transformers.AutoModel.from_config(CONFIGS[kind](), attn_implementation="eager")
    model.save_pretrained(folder)
    EXTRACTORS[kind]().save_pretrained(folder)
    return model.eval()


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    """Three sounds of different lengths."""
    folder, rng = tmp_path / "sounds", np.random.default_rng(0)
    folder.mkdir()
    for number, length in enumerate((8_000, 6_000, 7_000)):
        noise = rng.normal(scale=3_000, size=length).astype(np.int16)
        wavfile.write(folder / f"{number}.wav", RATE, noise)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_maps_are_those_that_the_network_returns(kind: str, sounds: Path, tmp_path: Path) -> None:
    model = as_published(tmp_path / kind, kind)
    checkpoint = load_checkpoint(tmp_path / kind)
    assert (checkpoint.reads, checkpoint.reads_texts) == ("sounds", False)
    files = list(read_sounds(sounds))
    found = {sample.index: sample for sample in head_samples(checkpoint, files)}
    for number, file in enumerate(files):
        _, samples = wavfile.read(file)
        given = EXTRACTORS[kind]()(samples / 2**15, sampling_rate=RATE, return_tensors="pt")
        network = model.get_encoder() if kind == "whisper" else model
        with torch.no_grad():
            expected = network(**given, output_attentions=True).attentions
        maps = np.stack([layer[0].numpy() for layer in expected])
        np.testing.assert_allclose(found[number].maps, maps, atol=1e-6)
        queries, keys = checkpoint.labels(file)
        assert len(queries) == len(keys) == maps.shape[-1]


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("whisper", "0.00 s", "0.98 s"),
        ("wav2vec2", "0.00 s", "0.48 s"),
        ("ast", "class", "band 1, frame 2"),
    ],
)
def test_tokens_are_named_by_time_or_place(
    kind: str, first: str, last: str, sounds: Path, tmp_path: Path
) -> None:
    as_published(tmp_path / kind, kind)
    names, _ = load_checkpoint(tmp_path / kind).labels(sounds / "0.wav")
    assert (names[0], names[-1]) == (first, last)


@pytest.mark.parametrize("kind", KINDS)
def test_command_reads_a_folder_of_sounds(
    kind: str, sounds: Path, tmp_path: Path, run: Run
) -> None:
    as_published(tmp_path / kind, kind)
    options = ("--importance", "masking") if kind == "ast" else ()
    status, out, err = run(tmp_path / kind, "--sounds", sounds, *options)
    assert (status, err) == (0, "")
    assert "3 texts, 3 windows; 2 heads" in out
    assert ("loss: states" in out) == bool(options)


def test_page_names_the_tokens_of_a_sound(sounds: Path, tmp_path: Path, run: Run) -> None:
    as_published(tmp_path / "ast", "ast")
    options = ("--no-baseline", "--output", tmp_path / "out")
    status, _, err = run(tmp_path / "ast", "--sounds", sounds, *options)
    assert (status, err) == (0, "")
    assert "band 1, frame 2" in (tmp_path / "out" / "heads.html").read_text()


def test_report_reads_a_folder_of_sounds_from_python(sounds: Path, tmp_path: Path) -> None:
    as_published(tmp_path / "whisper", "whisper")
    report = head_report(tmp_path / "whisper", sounds, baseline=False, examples=1)
    assert report.kind == "text"
    assert report.first.examples[0].keys[1] == "0.02 s"


def test_part_and_missing_rules_are_refused(sounds: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "whisper"
    as_published(folder, "whisper")
    with pytest.raises(ValueError, match="part must be encoder for a network that hears, got 'cro"):
        load_checkpoint(folder, part="cross")
    (tmp_path / "t.txt").write_text("a b\n")
    status, _, err = run(folder, "--text", tmp_path / "t.txt", "--tokens", "words")
    assert (status, err) == (2, "error: sounds must be paths of files, got a b\n")
    (folder / "preprocessor_config.json").unlink()
    status, _, err = run(folder, "--sounds", sounds)
    assert status == 2
    assert "checkpoint must hold preprocessor_config.json, which says how sounds are read" in err


# WAV files


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "float32"])
def test_samples_lie_between_minus_one_and_one_whatever_their_type(
    kind: str, tmp_path: Path
) -> None:
    wave = 0.5 * np.sin(np.arange(400) / 5)
    scale = {"uint8": 127, "int16": 2**15, "int32": 2**31, "float32": 1}[kind]
    stored = (wave * scale + (128 if kind == "uint8" else 0)).astype(kind)
    wavfile.write(tmp_path / "a.wav", RATE, stored)
    found = read_sound(tmp_path / "a.wav", rate=RATE)
    np.testing.assert_allclose(found, wave, atol=2e-2 if kind == "uint8" else 1e-4)


def test_channels_are_averaged_and_rates_changed(tmp_path: Path) -> None:
    times = np.arange(44_100) / 44_100
    wave = np.sin(2 * np.pi * 440 * times).astype(np.float32)
    wavfile.write(tmp_path / "a.wav", 44_100, np.stack([wave, wave / 2], axis=1))
    found = read_sound(tmp_path / "a.wav", rate=RATE)
    assert found.shape == (RATE,)
    expected = 0.75 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    np.testing.assert_allclose(found[200:-200], expected[200:-200], atol=5e-3)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text", b"no sound", "sounds must be WAV files, got .*a.wav: "),
        ("cut", b"RIFF\x00\x00\x00\x00WAVE", "sounds must "),
        ("empty", np.zeros(0, dtype=np.int16), "sounds must "),
        ("nan", np.full(9, np.nan, dtype=np.float32), "sounds must have samples, all of them fin"),
    ],
)
def test_what_is_no_sound_is_refused_in_one_line(
    name: str, content: object, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.wav"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        wavfile.write(file, RATE, content)
    with pytest.raises(ValueError, match=rf"^{message}[^\n]*$"):
        read_sound(file, rate=RATE)


@pytest.mark.parametrize("rate", [1, 999, 400_001, 2**30])
def test_rates_that_nothing_hears_are_refused(rate: int, tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", rate, np.ones(9, dtype=np.int16))
    with pytest.raises(ValueError, match=f"rate of 1,000 to 400,000 per second, got {rate} in "):
        read_sound(tmp_path / "a.wav", rate=RATE)


def test_folder_without_sounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sound folder must hold sounds \(\.wav\), got none"):
        read_sounds(tmp_path)
    with pytest.raises(ValueError, match="sound folder must exist"):
        read_sounds(tmp_path / "none")
