"""The one tolerance table: relative error allowed against a float64 reference, by dtype.

`exact` is for identities that differ only by the order of additions, `fast` for a fast path
against its reference, `gradient` for a backward pass.
"""

TOLERANCE = {
    "float64": {"exact": 1e-13, "fast": 1e-12, "gradient": 1e-9},
    "float32": {"exact": 1e-6, "fast": 5e-6, "gradient": 5e-5},
}
MONTE_CARLO_SIGMAS = 4.0  # a simulated mean must lie this close to the exact value, in its errors
