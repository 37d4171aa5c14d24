"""``fourierkernels train``: a study of a paper, from data on disk to a measured checkpoint."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fourierkernels.foundation.console import standard_output

if TYPE_CHECKING:
    from fourierkernels.studies import Setup


class CorporaAtHelp(TyperCommand):
    """Fills studies, presets and corpora into the help when it is displayed."""

    def format_help(self, *arguments: Any) -> None:
        """Fill in the names and where data are had, then write the help."""
        from fourierkernels.studies import STUDIES
        from fourierkernels.studies.engine.overview import data_rows

        studies = [
            f"{name}: {study.title}. Presets: "
            + "; ".join(f"{size}, {preset.summary}" for size, preset in study.presets.items())
            + f". Mixers: {', '.join(study.mixers())}."
            for name, study in STUDIES.items()
        ]
        corpora = [
            f"{name}: {row.title}. Had: {row.had}. Layout: {row.layout}."
            for name, row in data_rows().items()
        ]
        self.epilog = "\n\n".join(("Studies.", *studies, "Data.", *corpora))
        super().format_help(*arguments)


_Study = Annotated[
    str | None, typer.Argument(help="A study, see below.", show_default="required but for --list")
]
_Data = Annotated[
    str | None, typer.Option(help="Folder of the data, or a corpus without one; see below.")
]
_Mixer = Annotated[str | None, typer.Option(help="Token mixer; fourier by default.")]
_Options = Annotated[
    list[str] | None,
    typer.Option("--mixer-option", help="NAME=VALUE for the mixer, as power=2; repeat for more."),
]
_Preset = Annotated[
    str | None, typer.Option(help="Size of the study; tiny by default, digits of images.")
]
_Output = Annotated[
    Path | None, typer.Option(help="Folder of the run; STUDY-PRESET-MIXER by default.")
]
_Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
_Limit = Annotated[
    int | None, typer.Option(min=1, help="Stop after so many updates in all, to be resumed later.")
]
_Seed = Annotated[int | None, typer.Option(help="Seed of everything random.")]
_Plan = Annotated[
    bool, typer.Option("--plan", help="Show parameters, tokens, memory and time; do not train.")
]
_List = Annotated[
    bool,
    typer.Option(
        "--list",
        help="Show each study's state: its presets, which of its data are in --data or in a folder "
        "there, and the results of runs in --output or in the current folder.",
    ),
]
_Board = Annotated[
    bool,
    typer.Option(
        "--tensorboard", help="Write TensorBoard's files too; needs the extra of that name."
    ),
]
_Teacher = Annotated[
    Path | None,
    typer.Option(
        help="Learn from a trained model, too: folder of its run or of a checkpoint, or its file "
        "of weights. It has to read the same words; its mixer and size may be others."
    ),
]
_Weight = Annotated[
    float | None, typer.Option(help="Share of the teacher in the loss, in (0, 1]; 0.5 by default.")
]
_From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="Begin with a pre-trained model: folder of a run of study masked or of a checkpoint, "
        "or its file of weights. The study glue needs one, and takes its mixer.",
    ),
]
_Temperature = Annotated[
    float | None, typer.Option(help="Divides the logits of teacher and model; 1 by default.")
]


def train(
    study: _Study = None,
    data: _Data = None,
    mixer: _Mixer = None,
    mixer_option: _Options = None,
    preset: _Preset = None,
    output: _Output = None,
    resume: _Resume = False,
    limit_steps: _Limit = None,
    seed: _Seed = None,
    plan: _Plan = False,
    list_studies: _List = False,
    tensorboard: _Board = False,
    teacher: _Teacher = None,
    teacher_weight: _Weight = None,
    temperature: _Temperature = None,
    start: _From = None,
) -> None:
    """Train a model of a study and measure it; keep its best and its last checkpoint.

    Several processes: torchrun --nproc-per-node 2 -m fourierkernels.cli train STUDY. On GPUs they
    may share the parameters: accelerate launch --use_fsdp --fsdp_version 2 -m fourierkernels.cli
    train STUDY.

    With a teacher the loss is that of distillation, word by word: (1 - w) times the study's and
    w T² times the divergence of the model from the teacher at temperature T. The run keeps the
    digest of its weights; resumed, it needs the same ones.

    Example: fourierkernels train language --mixer fourier --preset tiny
    """
    from fourierkernels.studies import train_command  # loads torch

    if list_studies:
        standard_output().print(train_command.studies_table(data, output))
        return
    run = train_command.choose_run(
        study,
        data=data,
        mixer=mixer,
        mixer_options=train_command.read_options(mixer_option or []),
        preset=preset,
        seed=seed,
        resumed=output if resume else None,
        teacher=teacher,
        teacher_weight=teacher_weight,
        temperature=temperature,
        start=start,
    )
    _train(run, output, plan=plan, resume=resume, limit=limit_steps, tensorboard=tensorboard)


def _train(run: "Setup", output: Path | None, *, plan: bool, **options: Any) -> None:
    """Show what a run will cost, or train."""
    from fourierkernels.studies import train_command

    console = standard_output()
    if plan:
        console.print(train_command.plan_table(run))
        return
    folder = output or Path(f"{run.study}-{run.preset}-{run.mixer}")
    if measured := train_command.train(run, folder, **options):
        console.print(train_command.results_table(measured))
        console.print(f"written: {folder}", soft_wrap=True, markup=False)
