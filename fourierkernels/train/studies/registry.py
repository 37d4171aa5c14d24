"""The table of studies; adding one is adding a file and a row."""

from fourierkernels.train.studies.control import STUDY as CONTROL
from fourierkernels.train.studies.glue import STUDY as GLUE
from fourierkernels.train.studies.images import STUDY as IMAGES
from fourierkernels.train.studies.language import STUDY as LANGUAGE
from fourierkernels.train.studies.lra import STUDY as LRA
from fourierkernels.train.studies.masked import STUDY as MASKED
from fourierkernels.train.studies.series import STUDY as SERIES
from fourierkernels.train.studies.study import Preset, Study
from fourierkernels.train.studies.translation import STUDY as TRANSLATION
from fourierkernels.validation import check_choice

STUDIES: dict[str, Study] = {
    "language": LANGUAGE,
    "translation": TRANSLATION,
    "images": IMAGES,
    "series": SERIES,
    "control": CONTROL,
    "masked": MASKED,
    "glue": GLUE,
    "lra": LRA,
}


def choose_study(name: str) -> Study:
    """Return a study by its name."""
    return STUDIES[check_choice("study", name, list(STUDIES))]


def choose_preset(study: Study, name: str) -> Preset:
    """Return a preset of a study by its name."""
    return study.presets[check_choice("preset", name, list(study.presets))]
