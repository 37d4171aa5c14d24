"""The table of corpora of documents: where to get each, how it lies on disk, how it is read.

Adding a corpus is adding a row: the command line, its help and the tests read the rows.
"""

from pathlib import Path

from fourierkernels.studies.engine.data_sets import DataSet, find_row
from fourierkernels.studies.masked.document_files import DocumentFiles, build_document_files
from fourierkernels.studies.masked.documents import (
    DocumentSource,
    has_c4,
    open_c4,
    open_python,
    open_texts,
    open_wikitext,
)
from fourierkernels.studies.masked.drawn import open_drawn
from fourierkernels.studies.texts.plain import has_texts, has_wikitext

# The first row that recognises a folder reads it.
DOCUMENTS: dict[str, DataSet[DocumentSource]] = {
    "c4": DataSet(
        title="C4, the corpus of the FNet paper, as it is distributed",
        source="https://huggingface.co/datasets/allenai/c4, folder en (305 GB)",
        layout="c4-train.*.json.gz and c4-validation.*.json.gz",
        recognises=has_c4,
        open=open_c4,
    ),
    "wikitext-articles": DataSet(
        title="WikiText-103, WikiText-2 or a part of them, an article being a document",
        source="as for the language study",
        layout="wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens, or .raw (or .gz)",
        recognises=has_wikitext,
        open=open_wikitext,
    ),
    "text-documents": DataSet(
        title="plain text, a sentence or paragraph on each line",
        source="your own; experiments/data_manuals.py --documents fetches the manuals of "
        "LibreOffice and Debian",
        layout="train.txt, valid.txt and test.txt, blank lines between documents, or any .txt "
        "files, a document each (or .gz)",
        recognises=has_texts,
        open=open_texts,
    ),
    "python-documents": DataSet(
        title="the manual and the docstrings that Python ships, a document a topic or module",
        source="on every machine that has Python",
        layout="no folder",
        open=open_python,
        needs_folder=False,
    ),
    "drawn-documents": DataSet(
        title="documents of names and values, in which other words tell a masked one",
        source="drawn when they are read",
        layout="no folder",
        open=open_drawn,
        needs_folder=False,
    ),
}


def read_documents(
    data: str | Path, *, size: int, length: int, folder: Path | None = None
) -> DocumentFiles:
    """Return the files of a corpus on disk, built at the first call.

    Parameters
    ----------
    data : str or Path
        A folder, or the name of a corpus that needs none.
    size, length, folder
        As for ``build_document_files``.

    Raises
    ------
    ValueError
        If there is no such folder, no reader knows its files, or they cannot be read.
    """
    name, place = find_row(DOCUMENTS, data)
    return build_document_files(
        name, DOCUMENTS[name].open(place), size=size, length=length, folder=folder
    )
