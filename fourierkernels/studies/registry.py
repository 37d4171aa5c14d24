"""The table of studies; adding one is adding a file and a row."""

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.control.study import STUDY as CONTROL
from fourierkernels.studies.engine.study import Preset, Study
from fourierkernels.studies.glue.study import STUDY as GLUE
from fourierkernels.studies.images.study import STUDY as IMAGES
from fourierkernels.studies.language.study import STUDY as LANGUAGE
from fourierkernels.studies.lra.study import STUDY as LRA
from fourierkernels.studies.masked.study import STUDY as MASKED
from fourierkernels.studies.series.study import STUDY as SERIES
from fourierkernels.studies.translation.study import STUDY as TRANSLATION

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
