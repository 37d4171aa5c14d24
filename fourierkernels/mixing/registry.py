"""The table of token mixers: how each is built, what it costs, whether it can be causal.

Adding a mixer is adding a row: :func:`create_mixer`, every model, the cost table, saved files, the
benchmark and the tests read the rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fourierkernels.foundation.validation import check_choice
from fourierkernels.mixing import costs
from fourierkernels.mixing.attention import FourierMixer, GaussianMixer, SoftmaxMixer
from fourierkernels.mixing.baselines import DenseMixer, HadamardMixer, NoMixer
from fourierkernels.mixing.causal import CausalDFTMixer
from fourierkernels.mixing.costs import Count
from fourierkernels.mixing.features import LinearFourierMixer
from fourierkernels.mixing.fourier import DFTMixer
from fourierkernels.mixing.hard_gaussian import HardGaussianMixer
from fourierkernels.mixing.mixer import TokenMixer
from fourierkernels.mixing.options import check_own_options, own_options
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


def _attention(cls: Build) -> Build:
    def build(*, dim: int, length: int | None, heads: int, causal: bool, **own: Any) -> TokenMixer:
        return cls(dim, heads=heads, length=length, causal=causal, **own)

    return build


def _without_heads(cls: Build, **fixed: Any) -> Build:
    def build(*, dim: int, length: int | None, heads: int, causal: bool, **own: Any) -> TokenMixer:
        return cls(dim, length=length, causal=causal, **fixed, **own)

    return build


def _in_one_form(cls: Build, **fixed: Any) -> Build:
    """Build a mixer that is always causal or never, and so has no such option."""

    def build(*, dim: int, length: int | None, heads: int, causal: bool, **own: Any) -> TokenMixer:
        return cls(dim, length=length, **fixed, **own)

    return build


def _attention_row(cls: type[TokenMixer], extra: int = 0) -> Mixer:
    return Mixer(
        _attention(cls),
        encoder=True,
        decoder=True,
        parameters=lambda s: 4 * s.dim**2 + extra,
        operations=costs.attention,
        formula="2N²E + 4NE²",
        attention=True,
        drops_weights=True,
        options=own_options(cls),
    )


def _linear_fourier_row() -> Mixer:
    return Mixer(
        _attention(LinearFourierMixer),
        encoder=True,
        decoder=True,
        parameters=lambda s: 4 * s.dim**2 + 1,
        operations=costs.linear_attention,
        formula=f"6mNE + 4NE², m = {costs.FEATURES}",
        attention=True,
        options=own_options(LinearFourierMixer),
    )


def _performer_row() -> Mixer:
    return Mixer(
        _attention(PerformerMixer),
        encoder=True,
        decoder=True,
        parameters=lambda s: 4 * s.dim**2,
        operations=costs.positive_features,
        formula=f"4mNE + 4NE², m = {costs.FEATURES}",
        attention=True,
        options=own_options(PerformerMixer),
    )


def _dense_row(learn: bool) -> Mixer:
    return Mixer(
        _without_heads(DenseMixer, learn=learn),
        encoder=True,
        decoder=True,
        parameters=lambda s: (s.length**2 + s.dim**2) * learn,
        operations=costs.dense,
        formula="N²E + NE²",
        options=own_options(DenseMixer, "learn"),
    )


def _dft_row(norm: str) -> Mixer:
    return Mixer(
        _in_one_form(DFTMixer, norm=norm),
        encoder=True,
        decoder=False,
        parameters=costs.nothing,
        operations=costs.fft,
        formula="NE log N + NE log E",
        complex_operations=True,
        options=own_options(DFTMixer, "norm"),
    )


MIXERS: dict[str, Mixer] = {
    "softmax": _attention_row(SoftmaxMixer),
    "gaussian": _attention_row(GaussianMixer),
    "fourier": _attention_row(FourierMixer, extra=1),
    "linear_fourier": _linear_fourier_row(),
    "performer": _performer_row(),
    "hard_gaussian": Mixer(
        _attention(HardGaussianMixer),
        encoder=True,
        decoder=True,
        parameters=lambda s: 2 * s.dim**2,
        operations=costs.hard_attention,
        formula="N²E + 2NE²",
        options=own_options(HardGaussianMixer),
        projects=True,
        reads=True,
    ),
    "linear": _dense_row(learn=True),
    "random": _dense_row(learn=False),
    "none": Mixer(
        _without_heads(NoMixer),
        encoder=True,
        decoder=True,
        parameters=costs.nothing,
        operations=costs.nothing,
        formula="0",
        options=own_options(NoMixer),
    ),
    "fnet": _dft_row("backward"),
    "dft": _dft_row("ortho"),
    "hadamard": Mixer(
        _in_one_form(HadamardMixer),
        encoder=True,
        decoder=False,
        parameters=costs.nothing,
        operations=costs.hadamard,
        formula="NE log N + NE log E",
        options=own_options(HadamardMixer),
    ),
    "parametrised": Mixer(
        _without_heads(ParametrisedDFTMixer),
        encoder=True,
        decoder=True,
        parameters=lambda s: 2 * s.length,
        operations=costs.scaled_fft,
        formula="NE log N + NE log E",
        complex_operations=True,
        options=own_options(ParametrisedDFTMixer),
    ),
    "causal_dft": Mixer(
        _in_one_form(CausalDFTMixer),
        encoder=False,
        decoder=True,
        parameters=costs.nothing,
        operations=costs.halving,
        formula="NE log² N + NE log E",
        complex_operations=True,
        options=own_options(CausalDFTMixer),
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
        If it has no such option, or a flag is neither true nor false.

    Examples
    --------
    >>> check_options("gaussian", {"bandwidth": 1})
    Traceback (most recent call last):
    TypeError: option of mixer gaussian must be one of bias, dropout, sigma, got 'bandwidth'
    """
    row = MIXERS[check_choice("mixer", name, list(MIXERS))]
    if row.options is not None:
        check_own_options(name, row.options, options)
    return row
