"""Errors that results may have, relative to float64 on the same inputs.

Products of D sines carry the rounding of 2D sines and of their arguments, times the power: about
1e-6 in float32 at D = 128; gradients divide by sines too, and differences of nearly equal numbers
cost another digit. Half precision is computed in float32 and rounded at the end: half a unit in the
last place of 8 and 11 binary digits is added.
"""

_SINGLE = {"value": 5e-6, "gradient": 5e-5}

BOUNDS: dict[str, dict[str, float]] = {
    "float64": {"value": 1e-12, "gradient": 1e-9},
    "float32": _SINGLE,
    "bfloat16": {kind: bound + 2.0**-8 for kind, bound in _SINGLE.items()},
    "float16": {kind: bound + 2.0**-11 for kind, bound in _SINGLE.items()},
}
# Where an exact result is small all over, as the gradient of a row with one key, which is zero,
# errors are relative to this number for each entry instead: those of the inputs are near one.
SMALL = 1e-2
SIGMAS = 5.0  # the share of kept weights may be as far from 1 - p, in standard deviations
