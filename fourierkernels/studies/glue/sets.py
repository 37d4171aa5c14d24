"""The table of labelled texts; adding another layout is adding a row."""

from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.glue.labelled import LabelledTexts, is_task, open_task

GLUE: dict[str, DataSet[LabelledTexts]] = {
    "glue": DataSet(
        title="the tasks of GLUE, or other labelled sentences in the layout of SST-2",
        source="https://gluebenchmark.com/tasks; experiments/data_classification.py has two others",
        layout="train.tsv, dev.tsv and, if there is one, test.tsv, or such folders (CoLA, SST-2, "
        "MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI)",
        recognises=is_task,
        open=open_task,
    ),
}
