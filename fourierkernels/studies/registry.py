"""The table of studies: where each lies. A study is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.engine.recipe import Preset

if TYPE_CHECKING:
    from fourierkernels.studies.engine.study import Study


@dataclass(frozen=True)
class StudyRow:
    """One row of :data:`STUDIES`.

    Attributes
    ----------
    title : str
        What is studied, in a line.
    module : str
        Where its ``STUDY`` is; another package may have it.
    """

    title: str
    module: str


class Studies(Mapping[str, "Study[Any, Any, Any]"]):
    """Studies by their names.

    Attributes
    ----------
    rows : dict of str to StudyRow
        Where they lie; one row more is one study more.
    """

    def __init__(self, rows: Mapping[str, StudyRow]) -> None:
        self.rows = dict(rows)

    def __getitem__(self, name: str) -> "Study[Any, Any, Any]":
        row = self.rows[name]
        with needed_for(__package__, extra="train"):
            module = import_module(row.module)
        if not hasattr(module, "STUDY"):
            raise TypeError(f"module of the study {name} must have STUDY, got none in {row.module}")
        study: Study[Any, Any, Any] = module.STUDY
        study.name = name
        return study

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


STUDIES = Studies(
    {
        "language": StudyRow(
            "Language modelling: the FourierFormer paper's tables 1, 4 and 5",
            "fourierkernels.studies.language.study",
        ),
        "translation": StudyRow(
            'Translation: "Do You Really Need Attention?", tables 2 and 3',
            "fourierkernels.studies.translation.study",
        ),
        "images": StudyRow(
            "Image classification: the FourierFormer paper's table 2",
            "fourierkernels.studies.images.study",
        ),
        "series": StudyRow(
            "Time series: the FourierFormer paper's table 3, ten problems of the UEA archive",
            "fourierkernels.studies.series.study",
        ),
        "control": StudyRow(
            "Control: the FourierFormer paper's table 4, decision transformers on D4RL",
            "fourierkernels.studies.control.study",
        ),
        "masked": StudyRow(
            "Masked pre-training: the FNet paper's table 2",
            "fourierkernels.studies.masked.study",
        ),
        "glue": StudyRow(
            "Fine-tuning on GLUE: the FNet paper's table 4",
            "fourierkernels.studies.glue.study",
        ),
        "lra": StudyRow(
            "Long-Range Arena: the FNet paper's table 6",
            "fourierkernels.studies.lra.study",
        ),
    }
)


def choose_study(name: str) -> "Study[Any, Any, Any]":
    """Return a study by its name."""
    return STUDIES[check_choice("study", name, list(STUDIES))]


def choose_preset(study: "Study[Any, Any, Any]", name: str) -> Preset:
    """Return a preset of a study by its name."""
    chosen: Preset = study.presets[check_choice("preset", name, list(study.presets))]
    return chosen
