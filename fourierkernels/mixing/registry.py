"""The table of token mixers: how each is built, what it costs, whether it can be causal.

Operations are multiply-adds of one forward pass over one sequence, as in Table 1 of
[leethorp2021fnet]_: real ones for attention, dense and Hadamard mixing (there additions alone),
complex ones for Fourier mixing, whose FFT of n points is counted as n log₂ n. Adding a mixer is
adding a row; tests, the cost table and the benchmark read the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, NamedTuple

from fourierkernels.mixing.attention import FourierMixer, GaussianMixer, SoftmaxMixer
from fourierkernels.mixing.baselines import DenseMixer, HadamardMixer, NoMixer
from fourierkernels.mixing.causal import CausalDFTMixer
from fourierkernels.mixing.features import LinearFourierMixer
from fourierkernels.mixing.fourier import DFTMixer
from fourierkernels.mixing.mixer import TokenMixer
from fourierkernels.mixing.parametrised import ParametrisedDFTMixer
from fourierkernels.validation import check_choice, check_integer


class Size(NamedTuple):
    """What the costs depend on: tokens N, features E."""

    length: int
    dim: int


Build = Callable[..., TokenMixer]
Count = Callable[[Size], float]


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
        :class:`Size`; biases are left out, as in the paper's table.
    formula : str
        The operations, to be read.
    complex_operations : bool
        Whether they are multiply-adds of complex numbers.
    attention : bool
        Whether its matrix is computed from the tokens, by heads.
    """

    build: Build
    source: str
    encoder: bool
    decoder: bool
    masks_padding: bool
    parameters: Count
    operations: Count
    formula: str
    complex_operations: bool = False
    attention: bool = False


def _attention(cls: Build) -> Build:
    def build(*, dim: int, length: int | None, heads: int, causal: bool, **own: Any) -> TokenMixer:
        return cls(dim, heads=heads, length=length, causal=causal, **own)

    return build


def _without_heads(cls: Build, **fixed: Any) -> Build:
    def build(*, dim: int, length: int | None, heads: int, causal: bool, **own: Any) -> TokenMixer:
        return cls(
            dim, length=length, **({"causal": causal} if cls in _BOTH else {}), **fixed, **own
        )

    return build


_BOTH: tuple[Build, ...] = (DenseMixer, NoMixer, ParametrisedDFTMixer)


def _attention_row(cls: Build, source: str, extra: int = 0) -> Mixer:
    return Mixer(
        _attention(cls),
        source,
        True,
        True,
        True,
        parameters=lambda s: 4 * s.dim**2 + extra,
        operations=lambda s: 2 * s.length**2 * s.dim + 4 * s.length * s.dim**2,
        formula="2N²E + 4NE²",
        attention=True,
    )


_FEATURES = 256  # m, the default of the mixer


def _linear_fourier_row() -> Mixer:
    return Mixer(
        _attention(LinearFourierMixer),
        "nguyen2022fourierformer",
        True,
        True,
        True,
        parameters=lambda s: 4 * s.dim**2 + 1,
        operations=lambda s: 6 * _FEATURES * s.length * s.dim + 4 * s.length * s.dim**2,
        formula="6mNE + 4NE², m = 256",
        attention=True,
    )


def _dense_row(learn: bool) -> Mixer:
    return Mixer(
        _without_heads(DenseMixer, learn=learn),
        "leethorp2021fnet",
        True,
        True,
        False,
        parameters=lambda s: (s.length**2 + s.dim**2) * learn,
        operations=lambda s: s.length**2 * s.dim + s.length * s.dim**2,
        formula="N²E + NE²",
    )


def _fft(s: Size) -> float:
    return s.length * s.dim * (log2(s.length) + log2(s.dim))


def _halving(s: Size) -> float:
    """Levels h = 32, 64, .. N/2: two FFTs and a product of 2h points for each of N/2h nodes."""
    levels = max(0, ceil(log2(s.length / 32)))
    size = 32 << levels if levels else s.length
    nodes = sum(2 * size * log2(64 << i) + size for i in range(levels))
    responses = sum((64 << i) * log2(64 << i) for i in range(levels))
    triangles = (size >> levels) * size
    per_feature = nodes + triangles + 2 * s.length + s.length * log2(s.dim)
    return float(s.dim * per_feature + responses)


def _dft_row(norm: str, source: str) -> Mixer:
    return Mixer(
        _without_heads(DFTMixer, norm=norm),
        source,
        True,
        False,
        False,
        parameters=lambda s: 0,
        operations=_fft,
        formula="NE log N + NE log E",
        complex_operations=True,
    )


def _hadamard(s: Size) -> float:
    tokens, features = ceil(log2(s.length)), ceil(log2(s.dim))
    return s.dim * (tokens << tokens) + s.length * (features << features)


MIXERS: dict[str, Mixer] = {
    "softmax": _attention_row(SoftmaxMixer, "vaswani2017attention"),
    "gaussian": _attention_row(GaussianMixer, "nguyen2022fourierformer"),
    "fourier": _attention_row(FourierMixer, "nguyen2022fourierformer", extra=1),
    "linear_fourier": _linear_fourier_row(),
    "linear": _dense_row(learn=True),
    "random": _dense_row(learn=False),
    "none": Mixer(
        _without_heads(NoMixer),
        "leethorp2021fnet",
        True,
        True,
        True,
        parameters=lambda s: 0,
        operations=lambda s: 0,
        formula="0",
    ),
    "fnet": _dft_row("backward", "leethorp2021fnet"),
    "dft": _dft_row("ortho", "chen_attention"),
    "hadamard": Mixer(
        _without_heads(HadamardMixer),
        "leethorp2021fnet",
        True,
        False,
        False,
        parameters=lambda s: 0,
        operations=_hadamard,
        formula="NE log N + NE log E",
    ),
    "parametrised": Mixer(
        _without_heads(ParametrisedDFTMixer),
        "chen_attention",
        True,
        True,
        False,
        parameters=lambda s: 2 * s.length,
        operations=lambda s: _fft(s) + s.length * s.dim,
        formula="NE log N + NE log E",
        complex_operations=True,
    ),
    "causal_dft": Mixer(
        _without_heads(CausalDFTMixer),
        "chen_attention",
        False,
        True,
        False,
        parameters=lambda s: 0,
        operations=_halving,
        formula="NE log² N + NE log E",
        complex_operations=True,
    ),
}


def mixer_names(*, causal: bool) -> list[str]:
    """Return the names of the mixers of a decoder (causal) or an encoder.

    Examples
    --------
    >>> " ".join(mixer_names(causal=True))
    'softmax gaussian fourier linear_fourier linear random none parametrised causal_dft'
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
        Of attention; the others have none.
    causal : bool
        Token m sees tokens n <= m only.
    **options
        Of the mixer's own class.

    Raises
    ------
    ValueError
        If the name is unknown, or the mixer has no causal form, or only one.
    TypeError
        If it has no such option.

    Examples
    --------
    >>> create_mixer("parametrised", dim=8, length=16)
    ParametrisedDFTMixer(dim=8, length=16, causal=False)
    """
    row = MIXERS[check_choice("mixer", name, list(MIXERS))]
    if name not in mixer_names(causal=causal):
        kind = "causal, as a decoder needs," if causal else "able to mix all tokens with all"
        raise ValueError(
            f"mixer must be {kind} and so one of {', '.join(mixer_names(causal=causal))}, "
            f"got {name!r}"
        )
    return row.build(dim=dim, length=length, heads=heads, causal=causal, **options)


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
