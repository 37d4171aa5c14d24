"""Training of the papers' models, from a data set on disk to a measured checkpoint.

A study (:data:`STUDIES`) has models in several sizes, readers of its data, a recipe for each size
and the paper's metric. The engine is transformers' Trainer with accelerate; the files of a run are
.safetensors, JSON and CSV.

Examples
--------
>>> import fourierkernels.train as training
>>> training.setup("language", preset="tiny", mixer="fourier").recipe.batch
16
"""

from fourierkernels.lazy import loaded_on_first_use

_HOMES = {
    "ARCHIVES": "fourierkernels.datasets.series.archives",
    "BITEXTS": "fourierkernels.datasets.bitext.corpora",
    "CONTROL_SETS": "fourierkernels.datasets.control.sets",
    "CORPORA": "fourierkernels.datasets.corpora",
    "IMAGE_SETS": "fourierkernels.datasets.images.sets",
    "STUDIES": "fourierkernels.train.studies.registry",
    "SCHEDULES": "fourierkernels.train.schedules",
    "Recipe": "fourierkernels.train.recipe",
    "Setup": "fourierkernels.train.run_setup",
    "Teacher": "fourierkernels.train.teacher",
    "choose_teacher": "fourierkernels.train.teacher",
    "compare_translations": "fourierkernels.train.translation_measures",
    "evaluate": "fourierkernels.train.run",
    "plan": "fourierkernels.train.planning",
    "read_corpus": "fourierkernels.datasets.corpora",
    "setup": "fourierkernels.train.run_setup",
    "train": "fourierkernels.train.run",
    "train_command": "fourierkernels.train.train_command",
    "translate_command": "fourierkernels.train.translate_command",
    "write_distilled": "fourierkernels.train.distilled_text",
}
__all__ = sorted(_HOMES)

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES, extra="train")
