"""The weighted kernel sum as code: compiled loops for the CPU, CUDA, the reference, the operator.

Nothing is imported here: `kernel_sums`, `pairs`, `series` and `bits` do not need torch; the
operator and what it calls do.
"""
