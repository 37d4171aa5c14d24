"""The table of corpora of two languages."""

from pathlib import Path

from fourierkernels.studies.engine.data_sets import DataSet, find_row
from fourierkernels.studies.translation.building import build_pair_files
from fourierkernels.studies.translation.drawn import open_drawn
from fourierkernels.studies.translation.iwslt import is_iwslt, open_iwslt
from fourierkernels.studies.translation.lines import has_lines, open_lines
from fourierkernels.studies.translation.pair_files import PairFiles
from fourierkernels.studies.translation.pairs import LengthRule, PairSource
from fourierkernels.studies.translation.presets import SIZE
from fourierkernels.studies.translation.tmx import has_tmx, open_tmx
from fourierkernels.studies.translation.wmt import is_wmt, open_wmt

# Opened with a folder and its two languages, or None.
BITEXTS: dict[str, DataSet[PairSource]] = {
    "iwslt14": DataSet(
        title="IWSLT'14 German-English, talks",
        source="https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",
        layout="de-en/train.tags.de-en.{de,en}, de-en/IWSLT14.TED*.de-en.{de,en}.xml",
        recognises=is_iwslt,
        open=open_iwslt,
    ),
    "wmt": DataSet(
        title="WMT, news and parliaments; the report's English-Italian lay so",
        source="https://www.statmt.org/wmt14/translation-task.html",
        layout="CORPUS.SRC-TGT.SRC and CORPUS.SRC-TGT.TGT (or .gz), test sets NAME-src.SRC.sgm and "
        "NAME-ref.TGT.sgm",
        recognises=is_wmt,
        open=open_wmt,
    ),
    "tmx": DataSet(
        title="translation memories",
        source="https://opus.nlpl.eu, or your own",
        layout="any .tmx or .tmx.gz files, split here",
        recognises=has_tmx,
        open=open_tmx,
    ),
    "lines": DataSet(
        title="line-aligned texts",
        source="your own; experiments/data_bitext.py fetches manuals in English, Italian and "
        "German",
        layout="train.SRC, train.TGT, valid.SRC, … (or .gz); or any NAME.SRC and NAME.TGT, with "
        "NAME.documents if known, split here; bpe.json of a run to read its subwords",
        recognises=has_lines,
        open=open_lines,
    ),
    "drawn": DataSet(
        title="drawn sentences, in which a word is translated by what another one says",
        source="drawn when they are read",
        layout="no folder",
        open=open_drawn,
        needs_folder=False,
    ),
}


def read_bitext(
    data: str | Path,
    *,
    pair: str | None = None,
    size: int = SIZE,
    longest: int = LengthRule.longest,
    difference: int = LengthRule.difference,
    shared: bool = True,
    folder: Path | None = None,
) -> PairFiles:
    """Return the files of a corpus of two languages on disk, built at the first call.

    Parameters
    ----------
    data : str or Path
        A folder.
    pair : str, optional
        Source and target, such as ``"en-it"``; may be left out where the files or their folder name
        two languages.
    size : int
        Largest vocabulary.
    longest, difference : int
        Tokens of a side, and their difference, above which pairs are left out.
    shared : bool
        Whether both languages have one vocabulary.
    folder : Path, optional
        Folder of all token files;
        :func:`~fourierkernels.studies.texts.token_files.cache_folder` by default.

    Raises
    ------
    ValueError
        If there is no such folder, no reader knows its files, or a text cannot be read.
    """
    name, source = open_bitext(data, pair=pair)
    rule = LengthRule(longest, difference)
    return build_pair_files(name, source, size=size, rule=rule, shared=shared, folder=folder)


def open_bitext(data: str | Path, *, pair: str | None = None) -> tuple[str, PairSource]:
    """Return the reader's name and the texts of a folder, not read yet."""
    languages = _languages(pair)
    name, place = find_row(BITEXTS, data)
    return name, BITEXTS[name].open(place, languages)


def _languages(pair: str | None) -> tuple[str, str] | None:
    if pair is None:
        return None
    one, _, two = pair.partition("-")
    if not (one and two) or one == two:
        raise ValueError(f"pair must be two languages, such as en-it, got {pair!r}")
    return one, two
