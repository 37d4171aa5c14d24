"""What the name of a file says of the data in it: the environment, and whose behaviour it is."""

import re
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.studies.control.environments import ENVIRONMENTS

_BEHAVIOUR = r"-(?!v\d+$)[a-z0-9].*"


@dataclass(frozen=True)
class Named:
    """The environment of a file, and the name of its data set."""

    environment: str
    corpus: str


def read_name(file: Path) -> Named:
    """Return what a file's name says, as D4RL and the decision transformer's authors write it.

    Raises
    ------
    ValueError
        If it does not begin with an environment.

    Examples
    --------
    >>> read_name(Path("hopper_medium_replay-v2.hdf5"))
    Named(environment='hopper', corpus='hopper-medium-replay-v2')
    >>> read_name(Path("walker2d-medium-v2.pkl")).corpus
    'walker2d-medium-v2'
    """
    corpus = file.name.partition(".")[0].replace("_", "-")
    for name in ENVIRONMENTS:
        if re.fullmatch(re.escape(name) + _BEHAVIOUR, corpus):
            return Named(name, corpus)
    raise ValueError(
        "data must be in a file whose name has its environment and behaviour, as "
        f"hopper-medium-v2.pkl, of {', '.join(ENVIRONMENTS)}, got {file.name}"
    )
