"""Training of the papers' models, from a data set on disk to a measured checkpoint.

A study (:data:`STUDIES`) has models in several sizes, readers of its data, a recipe for each size
and the paper's metric. The engine is transformers' Trainer with accelerate; the files of a run are
.safetensors, JSON and CSV.

Examples
--------
>>> import fourierkernels.studies as training
>>> training.setup("language", preset="tiny", mixer="fourier").recipe.batch
16
"""

from fourierkernels.foundation.lazy import loaded_on_first_use

_HOMES = {
    "ARCHIVES": "fourierkernels.studies.series.series_data",
    "BITEXTS": "fourierkernels.studies.translation.corpora",
    "CONTROL_SETS": "fourierkernels.studies.control.sets",
    "CORPORA": "fourierkernels.studies.language.corpora",
    "IMAGE_SETS": "fourierkernels.studies.images.sets",
    "STUDIES": "fourierkernels.studies.registry",
    "SCHEDULES": "fourierkernels.studies.engine.recipe",
    "ChosenMixer": "fourierkernels.studies.engine.mixers",
    "Recipe": "fourierkernels.studies.engine.recipe",
    "Setup": "fourierkernels.studies.engine.run_setup",
    "Teacher": "fourierkernels.studies.engine.teacher",
    "choose_teacher": "fourierkernels.studies.engine.teacher",
    "compare_translations": "fourierkernels.studies.translation.translation_measures",
    "evaluate": "fourierkernels.studies.engine.run",
    "plan": "fourierkernels.studies.engine.planning",
    "read_corpus": "fourierkernels.studies.language.corpora",
    "setup": "fourierkernels.studies.engine.run_setup",
    "train": "fourierkernels.studies.engine.run",
    "write_distilled": "fourierkernels.studies.translation.translate_command",
}
_MODULES = (
    "fourierkernels.studies.engine.train_command",
    "fourierkernels.studies.translation.translate_command",
)
__all__ = sorted([*_HOMES, *(module.rpartition(".")[2] for module in _MODULES)])

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES, modules=_MODULES, extra="train")
