"""The table of token mixers: how each is built, what it costs, whether it can be causal.

Adding a mixer is adding a row: :func:`create_mixer`, every model, the cost table, saved files, the
benchmark and the tests read the rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, NamedTuple

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.mixing import costs
from fourierkernels.mixing.attention import FourierMixer, GaussianMixer, SoftmaxMixer
from fourierkernels.mixing.baselines import DenseMixer, HadamardMixer, NoMixer
from fourierkernels.mixing.causal import CausalDFTMixer
from fourierkernels.mixing.costs import Count, Size
from fourierkernels.mixing.features import LinearFourierMixer
from fourierkernels.mixing.fourier import DFTMixer
from fourierkernels.mixing.hard_gaussian import HardGaussianMixer
from fourierkernels.mixing.mixer import TokenMixer
from fourierkernels.mixing.parametrised import ParametrisedDFTMixer
from fourierkernels.mixing.performer import PerformerMixer

Build = Callable[..., TokenMixer]


@dataclass(frozen=True)
class Mixer:
    """One row of :data:`MIXERS`.

    Attributes
    ----------
    build : callable
        From dim, length, heads, causal and the mixer's own options to a layer.
    encoder, decoder : bool
        Whether it mixes all tokens with all, and whether it has a causal form.
    parameters, operations : callable
        Trained numbers, and multiply-adds of a forward pass without its causal form, from a
        :class:`~fourierkernels.mixing.Size`; biases are left out, as in the paper's table.
    formula : str
        The operations as text.
    complex_operations : bool
        Whether they are multiply-adds of complex numbers.
    attention : bool
        Whether it builds an :class:`~fourierkernels.mixing.AttentionMixer`, whose matrix is
        computed from the tokens by heads, whose projections may have biases, and which can read
        another sequence.
    drops_weights : bool
        Whether `build` takes `dropout`, the probability of dropping a weight in training.
    options : mapping or None
        The mixer's own options with their defaults; None leaves it to `build` to refuse others.
    projects : bool
        Whether it has projections whose biases are optional without being such attention.
    reads : bool
        Whether it can read another sequence without being such attention.
    """

    build: Build
    encoder: bool
    decoder: bool
    parameters: Count
    operations: Count
    formula: str
    complex_operations: bool = False
    attention: bool = False
    drops_weights: bool = False
    options: Mapping[str, Any] | None = None
    projects: bool = False
    reads: bool = False

    @property
    def reads_memory(self) -> bool:
        """Whether it builds a ``ReadingMixer``."""
        return self.attention or self.reads

    @property
    def has_bias(self) -> bool:
        """Whether `build` takes `bias`."""
        return self.attention or self.projects


def _row(
    cls: type[TokenMixer],
    formula: str,
    operations: Count,
    parameters: Count = costs.nothing,
    *,
    encoder: bool = True,
    decoder: bool = True,
    fixed: Mapping[str, Any] | None = None,
    **facts: bool,
) -> Mixer:
    """Return the row of a class, some of whose options are fixed."""
    fixed = fixed or {}

    def build(
        *, dim: int, length: int | None, heads: int, causal: bool, **options: Any
    ) -> TokenMixer:
        if "attention" in facts or "projects" in facts:
            options["heads"] = heads
        if encoder and decoder:  # what is always causal or never has no such option
            options["causal"] = causal
        return cls(dim, length=length, **fixed, **options)

    options = {n: value for n, value in class_options(cls).items() if n not in fixed}
    return Mixer(build, encoder, decoder, parameters, operations, formula, options=options, **facts)


def class_options(cls: type) -> dict[str, Any]:
    """Return the options of a mixer's class with their defaults, read from its constructors.

    Parameters
    ----------
    cls : type
        A class whose ``__init__`` may hand further options on to the next class.

    Examples
    --------
    >>> class_options(DFTMixer)
    {'norm': 'backward', 'method': 'fft', 'real_part': 'last', 'zero_padding': False}
    """
    options: dict[str, Any] = {}
    for kind in cls.__mro__:
        if "__init__" not in vars(kind):
            continue
        parameters = signature(vars(kind)["__init__"]).parameters.values()
        keywords = {p.name: p.default for p in parameters if p.kind is Parameter.KEYWORD_ONLY}
        options = {**keywords, **options}
        if not any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
            break
    return {name: value for name, value in options.items() if name not in _OF_THE_MODEL}


_OF_THE_MODEL = ("heads", "length", "causal")  # arguments of every mixer, given by the model
_PROJECTED = "2N²E + 4NE²"
_FFT = "NE log N + NE log E"
_DENSE = "N²E + NE²"
MIXERS: dict[str, Mixer] = {
    "softmax": _row(
        SoftmaxMixer,
        _PROJECTED,
        costs.attention,
        costs.four_projections,
        attention=True,
        drops_weights=True,
    ),
    "gaussian": _row(
        GaussianMixer,
        _PROJECTED,
        costs.attention,
        costs.four_projections,
        attention=True,
        drops_weights=True,
    ),
    "fourier": _row(
        FourierMixer,
        _PROJECTED,
        costs.attention,
        costs.and_a_radius,
        attention=True,
        drops_weights=True,
    ),
    "linear_fourier": _row(
        LinearFourierMixer,
        f"6mNE + 4NE², m = {costs.FEATURES}",
        costs.linear_attention,
        costs.and_a_radius,
        attention=True,
    ),
    "performer": _row(
        PerformerMixer,
        f"4mNE + 4NE², m = {costs.FEATURES}",
        costs.positive_features,
        costs.four_projections,
        attention=True,
    ),
    "hard_gaussian": _row(
        HardGaussianMixer,
        "N²E + 2NE²",
        costs.hard_attention,
        lambda s: 2 * s.dim**2,
        projects=True,
        reads=True,
    ),
    "linear": _row(
        DenseMixer, _DENSE, costs.dense, lambda s: s.length**2 + s.dim**2, fixed={"learn": True}
    ),
    "random": _row(DenseMixer, _DENSE, costs.dense, fixed={"learn": False}),
    "none": _row(NoMixer, "0", costs.nothing),
    "fnet": _row(
        DFTMixer,
        _FFT,
        costs.fft,
        decoder=False,
        fixed={"norm": "backward"},
        complex_operations=True,
    ),
    "dft": _row(
        DFTMixer, _FFT, costs.fft, decoder=False, fixed={"norm": "ortho"}, complex_operations=True
    ),
    "hadamard": _row(HadamardMixer, _FFT, costs.hadamard, decoder=False),
    "parametrised": _row(
        ParametrisedDFTMixer,
        _FFT,
        costs.scaled_fft,
        lambda s: 2 * s.length,
        complex_operations=True,
    ),
    "causal_dft": _row(
        CausalDFTMixer,
        "NE log² N + NE log E",
        costs.halving,
        encoder=False,
        complex_operations=True,
    ),
}


def mixer_names(*, causal: bool) -> list[str]:
    """Return the names of the mixers of a decoder (causal) or an encoder.

    Examples
    --------
    >>> [name for name in mixer_names(causal=True) if not MIXERS[name].attention]
    ['hard_gaussian', 'linear', 'random', 'none', 'parametrised', 'causal_dft']
    """
    return [name for name, row in MIXERS.items() if (row.decoder if causal else row.encoder)]


def create_mixer(
    name: str,
    *,
    dim: int,
    length: int | None = None,
    heads: int = 1,
    causal: bool = False,
    **options: Any,
) -> TokenMixer:
    """Build a mixer by its name.

    Parameters
    ----------
    name : str
        A key of :data:`MIXERS`.
    dim : int
        Features E of a token.
    length : int or None
        Longest sequence L; linear, random, parametrised and causal Fourier mixing need it.
    heads : int
        Heads of attention; other mixers have none.
    causal : bool
        Token m sees tokens n <= m only.
    **options
        Options of the mixer's own class.

    Raises
    ------
    ValueError
        If the name is unknown, or the mixer has no form of this kind, causal or not.
    TypeError
        If the mixer has no such option, which ``check_options`` tells.

    Examples
    --------
    >>> create_mixer("parametrised", dim=8, length=16)
    ParametrisedDFTMixer(dim=8, length=16, causal=False)
    """
    row = check_options(name, options)
    if name not in mixer_names(causal=causal):
        kind = "causal, as a decoder needs," if causal else "able to mix all tokens with all"
        raise ValueError(
            f"mixer must be {kind} and so one of {', '.join(mixer_names(causal=causal))}, "
            f"got {name!r}"
        )
    return row.build(dim=dim, length=length, heads=heads, causal=causal, **options)


def check_options(name: str, options: Mapping[str, Any]) -> Mixer:
    """Return the row of a mixer after a look at the names of its options.

    Raises
    ------
    ValueError
        If the name of the mixer is unknown.
    TypeError
        If it has no such option, or a flag is neither true nor false; the message names the mixer,
        the option and those that it has.

    Examples
    --------
    >>> check_options("gaussian", {"bandwidth": 1})
    Traceback (most recent call last):
    TypeError: option of mixer gaussian must be one of bias, dropout, sigma, got 'bandwidth'
    """
    row = MIXERS[check_choice("mixer", name, list(MIXERS))]
    if row.options is None:
        return row
    for option, value in options.items():
        if option not in row.options:
            names = ", ".join(sorted(row.options))
            rule = f"one of {names}" if names else "absent: it has none"
            raise TypeError(f"option of mixer {name} must be {rule}, got {option!r}")
        if isinstance(row.options[option], bool) and not isinstance(value, bool):
            raise TypeError(f"{option} of mixer {name} must be true or false, got {value!r}")
    return row


class CostRow(NamedTuple):
    """Costs of one mixer: parameters of a layer, multiply-adds of a pass, and their formula."""

    name: str
    parameters: int
    operations: int
    formula: str
    complex_operations: bool


def cost_table(*, dim: int, length: int) -> list[CostRow]:
    """Return Table 1 of [leethorp2021fnet]_ for every mixer, per layer and sequence.

    Examples
    --------
    >>> softmax = cost_table(dim=768, length=512)[0]
    >>> softmax.parameters, softmax.formula
    (2359296, '2N²E + 4NE²')
    """
    size = Size(check_integer("length", length), check_integer("dim", dim))
    return [
        CostRow(
            name,
            int(row.parameters(size)),
            round(row.operations(size)),
            row.formula,
            row.complex_operations,
        )
        for name, row in MIXERS.items()
    ]
