"""``fourierkernels train``: a study of a paper, from data on disk to a measured checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fourierkernels.foundation.console import standard_output

if TYPE_CHECKING:
    from fourierkernels.studies import Setup


class StudiesAtHelp(TyperCommand):
    """Fills the studies into the help when it is displayed; none of them is imported for that."""

    def format_help(self, *arguments: Any) -> None:
        """Fill in names and titles, then write the help."""
        from fourierkernels.studies.registry import STUDIES

        rows = (f"{name}: {row.title}." for name, row in STUDIES.rows.items())
        self.epilog = "Studies; train STUDY --list shows all of one.\n\n" + "\n".join(rows)
        super().format_help(*arguments)


_Study = Annotated[
    str | None, typer.Argument(help="A study, see below.", show_default="required, but for --list")
]
_Data = Annotated[
    str | None, typer.Option(help="Folder, or the name of a data set that needs none.")
]
_Mixer = Annotated[str | None, typer.Option(help="Token mixer; fourier by default.")]
_Options = Annotated[
    list[str] | None,
    typer.Option("--mixer-option", help="NAME=VALUE, as power=2; repeat for more."),
]
_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="NAME=VALUE of the recipe, as steps=1e5 or precision=bf16; repeat for more.",
    ),
]
_Workers = Annotated[int, typer.Option(min=0, help="Processes that load batches ahead.")]
_Preset = Annotated[str | None, typer.Option(help="Size of the study; each has its default.")]
_Output = Annotated[
    Path | None, typer.Option(help="Folder; by default STUDY-PRESET-MIXER and what is changed.")
]
_Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
_Limit = Annotated[
    int | None, typer.Option(min=1, help="Stop after N updates, earlier ones included.")
]
_Seed = Annotated[int | None, typer.Option(help="Seed of everything random.")]
_Plan = Annotated[bool, typer.Option("--plan", help="Show size, memory and time; do not train.")]
_List = Annotated[
    bool,
    typer.Option("--list", help="Show studies, or presets, data and settings of one; results."),
]
_Board = Annotated[
    bool, typer.Option("--tensorboard", help="Write TensorBoard's files; needs its extra.")
]
_Teacher = Annotated[
    Path | None, typer.Option(help="Run or weights of a model to learn from, too.")
]
_Weight = Annotated[
    float | None, typer.Option(help="Its share w of the loss, (0, 1]; 0.5 by default.")
]
_Temperature = Annotated[
    float | None, typer.Option(help="T, by which both divide their logits; 1 by default.")
]
_From = Annotated[Path | None, typer.Option("--from", help="Run of masked that glue starts from.")]

_Pair = Annotated[str | None, typer.Option(help="Source and target languages, as en-it.")]


def train(
    study: _Study = None,
    data: _Data = None,
    mixer: _Mixer = None,
    mixer_option: _Options = None,
    settings: _Settings = None,
    preset: _Preset = None,
    output: _Output = None,
    resume: _Resume = False,
    limit_steps: _Limit = None,
    seed: _Seed = None,
    plan: _Plan = False,
    list_studies: _List = False,
    tensorboard: _Board = False,
    workers: _Workers = 0,
    teacher: _Teacher = None,
    teacher_weight: _Weight = None,
    temperature: _Temperature = None,
    start: _From = None,
    pair: _Pair = None,
) -> None:
    """Train a model of a study and measure it; keep its best and its last checkpoint.

    Several processes: torchrun --nproc-per-node 2 -m fourierkernels.cli train STUDY.
    Shared parameters on GPUs: accelerate launch --use_fsdp --fsdp_version 2 -m
    fourierkernels.cli train STUDY.

    With a teacher the loss is (1 - w) times the study's and w T² times the divergence from
    the teacher at temperature T, word by word: distillation.

    Example: fourierkernels train language --mixer fourier --preset tiny
    """
    if list_studies:
        _show_studies(study, data, output)
        return
    from fourierkernels.studies import train_command  # loads torch

    run = train_command.choose_run(
        study,
        data=data,
        mixer=mixer,
        mixer_options=mixer_option or [],
        preset=preset,
        settings=settings or [],
        seed=seed,
        resumed=output if resume else None,
        lesson=train_command.Lesson(teacher, teacher_weight, temperature),
        start=start,
        pair=pair,
    )
    _train(run, output, plan=plan, way=_Way(resume, limit_steps, tensorboard, workers))


@dataclass(frozen=True)
class _Way:
    """How a run goes, which decides none of its numbers."""

    resume: bool
    limit: int | None
    tensorboard: bool
    workers: int


def _show_studies(study: str | None, data: str | None, runs: Path | None) -> None:
    """Show what there is of each study, or all that can be chosen in one."""
    from fourierkernels.studies import train_command

    shown = train_command.studies_table(study, data, runs)
    standard_output().print(shown, markup=False, highlight=False)


def _train(run: "Setup", output: Path | None, *, plan: bool, way: _Way) -> None:
    """Show what a run will cost, or train and show what has been measured."""
    from fourierkernels.studies import train_command

    if plan:
        standard_output().print(train_command.plan_table(run))
        return
    folder = output or Path(train_command.folder_name(run))
    measured = train_command.train(
        run,
        folder,
        resume=way.resume,
        limit=way.limit,
        tensorboard=way.tensorboard,
        workers=way.workers,
    )
    if measured:  # by the first process
        standard_output().print(train_command.results_table(measured))
        standard_output().print(f"written: {folder}", soft_wrap=True, markup=False)
