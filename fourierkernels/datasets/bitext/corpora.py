"""The table of corpora of two languages: where each is had, how it lies on disk, how it is read.

Adding a corpus is adding a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.datasets.bitext.building import build_pair_files
from fourierkernels.datasets.bitext.filters import LengthRule
from fourierkernels.datasets.bitext.iwslt import is_iwslt, open_iwslt
from fourierkernels.datasets.bitext.lines import has_lines, open_lines
from fourierkernels.datasets.bitext.pair_files import PairFiles
from fourierkernels.datasets.bitext.pairs import PairSource
from fourierkernels.datasets.bitext.tmx import has_tmx, open_tmx
from fourierkernels.datasets.bitext.wmt import is_wmt, open_wmt

SIZE = 35_000  # of the vocabulary, [chen_attention]_ section 4.1


@dataclass(frozen=True)
class Bitext:
    """One row of :data:`BITEXTS`.

    Attributes
    ----------
    title : str
        What the texts are.
    had : str
        Where they are had.
    layout : str
        How they lie on disk.
    recognises : callable
        Whether a folder has the files of this corpus.
    open : callable
        From a folder and the two languages, or None, to the texts; it raises ValueError for what is
        missing or foreign.
    """

    title: str
    had: str
    layout: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path, tuple[str, str] | None], PairSource]


# The first row that recognises a folder reads it.
BITEXTS: dict[str, Bitext] = {
    "iwslt14": Bitext(
        title="IWSLT'14 German-English, talks",
        had="https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",
        layout="de-en/train.tags.de-en.{de,en}, de-en/IWSLT14.TED*.de-en.{de,en}.xml",
        recognises=is_iwslt,
        open=open_iwslt,
    ),
    "wmt": Bitext(
        title="WMT, news and parliaments; the report's English-Italian lay so",
        had="https://www.statmt.org/wmt14/translation-task.html",
        layout="CORPUS.SRC-TGT.SRC and CORPUS.SRC-TGT.TGT (or .gz), test sets NAME-src.SRC.sgm and "
        "NAME-ref.TGT.sgm",
        recognises=is_wmt,
        open=open_wmt,
    ),
    "tmx": Bitext(
        title="translation memories",
        had="https://opus.nlpl.eu, or your own",
        layout="any .tmx or .tmx.gz files, split here",
        recognises=has_tmx,
        open=open_tmx,
    ),
    "lines": Bitext(
        title="line-aligned texts",
        had="your own; experiments/data_bitext.py fetches manuals in English, Italian and German",
        layout="train.SRC, train.TGT, valid.SRC, … (or .gz); or any NAME.SRC and NAME.TGT, with "
        "NAME.documents if known, split here; bpe.json of a run to read its subwords",
        recognises=has_lines,
        open=open_lines,
    ),
}


def read_bitext(
    data: str | Path,
    *,
    pair: str | None = None,
    size: int = SIZE,
    longest: int = LengthRule.longest,
    difference: int = LengthRule.difference,
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
    folder : Path, optional
        Folder of all token files;
        :func:`~fourierkernels.datasets.token_files.cache_folder` by default.

    Raises
    ------
    ValueError
        If there is no such folder, no reader knows its files, or a text cannot be read.
    """
    name, source = open_bitext(data, pair=pair)
    rule = LengthRule(longest, difference)
    return build_pair_files(name, source, size=size, rule=rule, folder=folder)


def open_bitext(data: str | Path, *, pair: str | None = None) -> tuple[str, PairSource]:
    """Return the reader's name and the texts of a folder, not read yet."""
    languages, place = _languages(pair), Path(data)
    if not place.is_dir():
        raise ValueError(f"data must be a folder, got {data}")
    for name, row in BITEXTS.items():
        if row.recognises(place):
            return name, row.open(place, languages)
    layouts = "; ".join(f"{name}: {row.layout}" for name, row in BITEXTS.items())
    names = sorted(path.name for path in place.iterdir())[:5]
    raise ValueError(
        f"data must be a folder that a reader knows ({layouts}), "
        f"got {place} with {', '.join(names) or 'nothing in it'}"
    )


def _languages(pair: str | None) -> tuple[str, str] | None:
    if pair is None:
        return None
    one, _, two = pair.partition("-")
    if not (one and two) or one == two:
        raise ValueError(f"pair must be two languages, such as en-it, got {pair!r}")
    return one, two
