"""A corpus with a teacher's translations: only the targets of training are others."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_bitext import lines, write_lines
from training_runs import Call, error_of
from translation_runs import mini_run

pytest.importorskip("sacrebleu")

from fourierkernels.studies.engine.distillation import load_teacher
from fourierkernels.studies.engine.teacher import choose_teacher
from fourierkernels.studies.translation.corpora import read_bitext
from fourierkernels.studies.translation.pair_files import PairFiles
from fourierkernels.studies.translation.text_translation import translate_lines
from fourierkernels.studies.translation.translate_command import load_translator, write_distilled


@pytest.fixture(scope="module")
def distilled(
    translator: Path, corpus: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    output = tmp_path_factory.mktemp("distilled") / "distilled-en-it"
    write_distilled(translator, output, data=corpus, beam=1, cache=cache)
    return output


@pytest.fixture(scope="module")
def files(distilled: Path, cache: Path) -> PairFiles:
    return read_bitext(distilled, size=120, difference=50, folder=cache)


def sentences(files: PairFiles, split: str) -> list[tuple[str, str]]:
    tokens = files.tokens(split)
    sides = [
        (tokens[start : start + n], tokens[start + n : start + n + m])
        for start, n, m in files.index(split).tolist()
    ]
    return sorted((files.bpe.decode(one), files.bpe.decode(other)) for one, other in sides)


def test_held_out_pairs_and_subwords_are_as_they_were(
    files: PairFiles, corpus: Path, cache: Path
) -> None:
    before = read_bitext(corpus, size=120, folder=cache)
    for split in ("valid", "test"):
        assert sentences(files, split) == sentences(before, split)
    assert files.vocabulary == before.vocabulary
    assert (files.languages, files.corpus) == (before.languages, "lines")
    assert files.digest != before.digest


def test_held_out_pairs_that_were_too_long_stay_out(
    translator: Path, cache: Path, tmp_path: Path
) -> None:
    """A folder that names its splits is kept whole: what was dropped must not be written there."""
    folder = write_lines(tmp_path / "long-en-it", lines(300, longest=30))
    shutil.copy(translator / "bpe.json", folder)
    before = read_bitext(folder, size=120, folder=cache)
    assert sum(sum(before.dropped[split].values()) for split in ("valid", "test")) > 0
    output = tmp_path / "distilled-en-it"
    write_distilled(translator, output, data=folder, beam=1, cache=cache)
    after = read_bitext(output, size=120, folder=cache)
    for split in ("valid", "test"):
        assert sentences(after, split) == sentences(before, split)


def test_targets_of_training_are_the_teacher_s(
    files: PairFiles, distilled: Path, translator: Path, corpus: Path, cache: Path
) -> None:
    before = dict(sentences(read_bitext(corpus, size=120, folder=cache), "train"))
    sources, targets = ((distilled / f"train.{e}").read_text().splitlines() for e in ("en", "it"))
    assert len(targets) == len(sources) >= len(before) > 100
    model, bpe = load_translator(translator)
    few = sources[::40]
    assert list(translate_lines(model, bpe, few, beam=1)) == targets[::40]
    assert {source for source, _ in sentences(files, "train")} <= before.keys()


def test_teacher_of_the_text_teaches_word_by_word_too(
    files: PairFiles, distilled: Path, translator: Path
) -> None:
    run = mini_run(distilled, "dft_encoder", teacher=choose_teacher(translator))
    assert load_teacher(run, files) is not None
    other = replace(files, languages=["it", "en"])
    message = error_of(lambda: load_teacher(run, other))
    assert "data must be from en to it, as those of" in message


def test_corpus_of_more_subwords_than_a_preset_has_is_refused(distilled: Path, cache: Path) -> None:
    message = error_of(lambda: read_bitext(distilled, size=50, folder=cache))
    assert "bpe.json must have at most 50 subwords, got" in message


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--output", "distilled"), "output must end in -en-it, the languages it is read by, got"),
        (("--output", "distilled-it-en"), "output must end in -en-it"),
        (("--output", "there-en-it"), "output must be a new folder, got there-en-it"),
        ((), "corpus must come with --output and no file, got None and None"),
    ],
)
def test_corpus_that_could_not_be_read_is_not_written(
    options: tuple[str, ...],
    rule: str,
    call: Call,
    translator: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there-en-it").mkdir()
    status, out, err = call("translate", translator, "--corpus", corpus, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert rule in err
    assert [path.name for path in tmp_path.iterdir()] == ["there-en-it"]
