"""Options of attention as the compiled loops read them."""

from typing import NamedTuple

import numpy as np

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.cpu.dropout import Dropout, prepare_dropout


class Settings(NamedTuple):
    """`Options`, with eps in the working precision and the dropout drawn from its seed."""

    power: int
    causal: bool
    eps: np.floating
    weights: bool
    dropout: Dropout


def prepare(inputs: Inputs, options: Options, dtype: np.dtype) -> Settings:
    """Return the options as the loops read them."""
    dropout = prepare_dropout(options.dropout_p, inputs.seed, dtype)
    eps = dtype.type(options.eps)
    return Settings(options.power, options.causal, eps, options.return_weights, dropout)
