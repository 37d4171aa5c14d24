# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba calls the functions below with its own types and code builders.
"""How the compiled loops are compiled and kept.

numba keeps what it compiles until the file of that function changes, and does not see that a
function which it calls has changed in another file: wrong numbers, without a word. So what is kept
here holds for all sources of the loops together.

numba's index of what it keeps has no lock: of two processes that compile a loop for other types at
the same moment, the entry of one may end at the code of the other, which a third process then
loads. So what is kept here says what it was compiled for, and other code is compiled again.

numba gives what it compiles a way in from Python. For a function of a layout of attention, thirty
arrays to unpack, this takes it longer than the function itself; what only other compiled functions
call goes without, and would crash if Python called it.

Such a function is always inlined. A copy of its own would be compiled twice, alone and with its
caller, each with other roundings; the process that compiles both calls the first, and those that
load what it kept have the second: their sums differed from the ninth digit.

numba optimises a function, and again with each that calls it, five deep: a quarter of the wait for
the first call. `outer` functions, which lead from the entry to the loops, are optimised with the
entry and not before. The loops themselves would be slower by a thirtieth.

numba counts who uses an array, by atomic instructions at each slice and call. For a short row these
took a third of the time. A function that neither makes nor returns an array goes without counting:
what it is given stays with its caller.

LLVM prefers vectors of 256 bits on processors of Intel that have 512, because the first of these
lowered their clock for them. Those with AVX512-FP16 do not, so there all loops have 512. This
depends on nothing but the sources and the processor's features, by which numba knows what it kept.
"""

from functools import partial
from hashlib import sha256
from pathlib import Path
from types import FunctionType

from numba import njit
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

_LOOPS = Path(__file__).parent
_OUTER = "_optimised_with_the_entry"
_NOT_SLOWED = "+avx512fp16"  # the feature of processors that 512 bits do not slow down
_WIDE = '"prefer-vector-width"="512"'


def sources_digest(folder: Path = _LOOPS) -> str:
    """Return a digest of the sources that compiled loops are made of."""
    digest = sha256()
    for file in [*sorted(folder.glob("*.py")), folder.parent / "shapes.py"]:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


_SOURCES = sources_digest()


class _Labelled(IndexDataCacheFile):  # type: ignore[misc]
    """Adds to compiled code, as numba keeps it, the key under which it was saved."""

    def load(self, key):
        """Return the code of a key, or None if there is none."""
        label, code = super().load(key) or (None, None)
        return code if label == key else None

    def save(self, key, data):
        """Keep the code of a key."""
        super().save(key, (key, data))


class _Lower(Lower):  # type: ignore[misc]
    def lower_normal_function(self, fndesc):
        """Write the function, and which vectors it prefers: LLVM chooses before it inlines."""
        super().lower_normal_function(fndesc)
        *_, features = self.context.codegen().magic_tuple()
        if _NOT_SLOWED in features.split(","):
            # Around llvmlite's check, which does not know LLVM's attributes of strings.
            set.add(self.function.attributes, _WIDE)


class _Inlined(JITCodeLibrary):  # type: ignore[misc]
    def _optimize_final_module(self):
        """Leave it to the function that this one is inlined into."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):  # type: ignore[misc]
    _name = "lowering_with_widest_vectors"

    @property
    def lowering_class(self):
        return _Lower

    def run_pass(self, state):
        """Lower the function into a library of its own."""
        if hasattr(state.func_id.func, _OUTER):
            if not state.flags.forceinline:
                name = state.func_id.func_qualname
                raise TypeError(f"an outer function must be always inlined, got {name}")
            state.library = _Inlined(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return super().run_pass(state)


class _Compiler(Compiler):  # type: ignore[misc]
    def define_pipelines(self):
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (_Lowering if step is NativeLowering else step, name)
                for step, name in pipeline.passes
            ]
        return pipelines


def entry(**options):
    """Return a decorator that compiles a loop on its first use and keeps it in numba's cache."""
    compiled = njit(cache=True, no_cfunc_wrapper=True, pipeline_class=_Compiler, **options)

    def decorate(function):
        loop = compiled(function)
        kept = loop._cache  # its files, under a stamp that is not the time and size of one source
        files = type("LabelledFiles", (_Labelled, type(kept._cache_file)), {})
        kept._cache_file = files(kept._cache_path, kept._impl.filename_base, _SOURCES)
        return loop

    return decorate


def outer(function):
    """Mark a function that is always inlined as one that the entry optimises; below `inner`.

    Raises
    ------
    TypeError
        For a function that numba has already.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"outer must stand below inner, got {function}")
    setattr(function, _OUTER, True)
    return function


allocating = partial(entry, no_cpython_wrapper=True, forceinline=True, _nrt=True)
inner = partial(entry, no_cpython_wrapper=True, forceinline=True, _nrt=False)
