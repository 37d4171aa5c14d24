"""The weighted kernel sum as code: compiled loops for the CPU, CUDA, the reference, torch's op.

Nothing is imported here: :mod:`fourierkernels.ops.bits` and :mod:`~fourierkernels.ops.pairs` need
no torch, the operator does.
"""
