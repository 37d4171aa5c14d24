# mypy: disable-error-code="no-untyped-call"
"""How the loops of the CPU are compiled: once on a machine, and inner ones for each other alone.

numba gives what it compiles a way in from Python. For a function of a layout of attention, thirty
arrays to unpack, this takes it longer than the function itself; what only other compiled functions
call goes without, and would crash if Python called it.
"""

from functools import partial

from numba import njit

entry = partial(njit, cache=True, no_cfunc_wrapper=True)
inner = partial(entry, no_cpython_wrapper=True)
