"""The five explorations by name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from fourierkernels.explore.density_view import DensityExploration
from fourierkernels.explore.error_view import ErrorExploration
from fourierkernels.explore.regression_view import RegressionExploration
from fourierkernels.theory.densities import Density

if TYPE_CHECKING:
    from fourierkernels.explore.attention_view import AttentionExploration
    from fourierkernels.explore.heads_view import HeadsExploration
    from fourierkernels.report.lens import HeadLens
    from fourierkernels.report.opened import Network


def density(x: ArrayLike) -> DensityExploration:
    """Explore a density estimate: move radius, kernel, and where the bins begin.

    Above, histogram and estimate with its modes; below, cross-validation and the plug-in error
    against the radius, and the choice of every rule. Bins change with their start, modes with the
    radius, and the criteria are flat to the right.

    Parameters
    ----------
    x : array_like, shape (n,)
        At least two values.

    Raises
    ------
    ValueError
        If there are fewer, or they are not finite or all the same.

    Examples
    --------
    >>> import numpy as np
    >>> view = density(np.random.default_rng(0).normal(size=500))
    >>> view.set(radius=3.0, kernel="gaussian").state.radius
    3.0
    >>> sorted(view.finish().later.chosen)[:3]
    ['improved_sheather_jones', 'lscv', 'normal_reference']
    """
    return DensityExploration(x)


def regression(x: ArrayLike, y: ArrayLike) -> RegressionExploration:
    """Explore a regression: drag a sample, move the query, change radius, kernel and degree.

    Above, samples and fit; below, the weight of each sample in the fit at the query, the row of the
    hat matrix. The sentence has the residual of the sample that is held, with and without it in
    the fit. Arrow keys move the query and the sample.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        At least three samples.

    Raises
    ------
    ValueError
        If there are fewer, or they are not finite, or x is constant.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> view = regression(x, np.sin(6.0 * x)).set(degree=1, query=0.5)
    >>> float(view.result.weights.sum().round(9))
    1.0
    """
    return RegressionExploration(x, y)


def error(density: "Density | str" = "gaussian") -> ErrorExploration:
    """Explore the exact error of a density estimate: move radius, sample size and kernel.

    Above, signal |p̂|² and noise 1/(N + 1) against the frequency; below, squared bias, variance and
    exact MISE against the radius, and the least MISE against N with its slope. For l = 1 the best
    radius is where signal meets noise.

    Parameters
    ----------
    density : Density or str
        A name, or a text such as ``"0.3 normal(-2, .5) + 0.7 laplace(1, 2)"``, of one dimension.

    Raises
    ------
    ValueError, TypeError
        If it is no density of one dimension.

    Examples
    --------
    >>> view = error("laplace").set(n=10_000)
    >>> view.result.best.radius.__round__(2)
    9.95
    """
    return ErrorExploration(density)


def attention(checkpoint: "Network | HeadLens", text: Any) -> "AttentionExploration":
    """Explore attention as a regression: move layer, head, query, temperature, centre of the keys.

    Above, the row of softmax beside that of the regression with a Gaussian kernel, which differ by
    the norms of the keys; below, the keys in their two principal axes.

    Parameters
    ----------
    checkpoint : str, Path, CheckpointFiles, nn.Module or HeadLens
        What :func:`~fourierkernels.report.head_report` takes; a
        :class:`~fourierkernels.report.HeadLens` if it needs more said.
    text : str or what the network reads
        The reader's own sentence.

    Raises
    ------
    ValueError, TypeError
        For a network that cannot be found, or no layer that attends over the whole text.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> from fourierkernels.report import HeadLens
    >>> sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 9, "n_positions": 16}
    >>> config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    >>> view = attention(HeadLens(GPT2LMHeadModel(config), tokens="ids"), "3 1 4 1 5")
    >>> view.set(head=1, token=4).result.softmax.shape
    (5,)
    """
    from fourierkernels.explore.attention_view import AttentionExploration

    return AttentionExploration(checkpoint, text)


def heads(checkpoint: "Network | HeadLens", texts: Sequence[Any]) -> "HeadsExploration":
    """Explore the heads of a layer: move sharpness, control, two heads, and mask one.

    Above, distances of all pairs and two maps; below, mean distance against sharpness beside that
    of heads that share nothing. Distance follows sharpness, near is not dispensable, and the
    control decides the sign.

    Parameters
    ----------
    checkpoint : str, Path, CheckpointFiles, nn.Module or HeadLens
        As for :func:`attention`.
    texts : sequence
        Each in one window of the network.

    Raises
    ------
    ValueError, TypeError
        For a network that cannot be found, one text in place of a list, or none.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> from fourierkernels.report import HeadLens
    >>> sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 9, "n_positions": 16}
    >>> config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    >>> view = heads(HeadLens(GPT2LMHeadModel(config), tokens="ids"), ["3 1 4 1 5", "2 7 1 8"])
    >>> view.set(sharpness=4.0).result.distances.shape
    (2, 2)
    """
    from fourierkernels.explore.heads_view import HeadsExploration

    return HeadsExploration(checkpoint, texts)
