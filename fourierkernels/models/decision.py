"""The decision transformer: offline reinforcement learning as prediction of the next action.

[chen2021decision]_ section 3; [nguyen2022fourierformer]_ (conference version) section 4.4 replaces
its attention. A trajectory is the sequence (return to go, state, action) of each time step, three
tokens that share one embedding of the time step; GPT-2 blocks with ReLU; the action is read from
the token of the state.

The presets by the name of an environment have the sizes of [chen2021decision]_ (1 head, 128
features). [nguyen2022fourierformer]_ follows Flowformer's script (github.com/thuml/Flowformer,
Flowformer_RL/scripts/flowformer.sh): 4 heads, 256 features, 3 layers, at a rate of 1e-3; those end
in "_flowformer". All else is one code, gym/decision_transformer of github.com/kzl/decision-
transformer: dropout 0.1 on the embedded tokens, on the weights of attention and after each
sublayer, none inside the feed-forward. Blocks start at N(0, 0.02²) with biases 0; embeddings and
predictions, which are outside its GPT-2, start as PyTorch draws them (time steps from N(0, 1)).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fourierkernels.models.blocks import build_blocks, run_blocks
from fourierkernels.models.configs import Presets, block_config
from fourierkernels.models.inputs import check_features, check_padding, check_tokens
from fourierkernels.models.parameters import initialise


@dataclass(frozen=True)
class DecisionConfig(Presets):
    """Hyperparameters of a :class:`DecisionTransformer`.

    Attributes
    ----------
    states, actions : int
        Dimensions of a state and of an action.
    context : int
        K, the time steps seen at once; the sequence has 3K tokens.
    episode : int
        Longest episode.
    bounded : bool
        Whether actions pass through tanh.
    dropout, attention_dropout : float or None
        Probabilities of dropping a number of the embedded tokens and of what a sublayer returns,
        and a weight of attention; None takes `dropout`.

    Examples
    --------
    >>> DecisionConfig.preset("halfcheetah").actions
    6
    """

    states: int = 11
    actions: int = 3
    context: int = 20
    episode: int = 4096
    dim: int = 128
    layers: int = 3
    heads: int = 1
    mixer: str = "softmax"
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    bounded: bool = True
    dropout: float = 0.1
    attention_dropout: float | None = None


_ENVIRONMENTS = {
    "hopper": DecisionConfig(states=11, actions=3),
    "halfcheetah": DecisionConfig(states=17, actions=6),
    "walker2d": DecisionConfig(states=17, actions=6),
}
DecisionConfig.presets = _ENVIRONMENTS | {
    f"{name}_flowformer": replace(config, dim=256, heads=4)
    for name, config in _ENVIRONMENTS.items()
}
decision_config = DecisionConfig.preset


class Trajectory(NamedTuple):
    """Predictions for each time step: next state, action, next return, ``(B, K, ·)``."""

    states: Tensor
    actions: Tensor
    returns: Tensor


class DecisionTransformer(nn.Module):
    """Predict actions that reach a return.

    Parameters
    ----------
    config : DecisionConfig
        For instance ``decision_config("hopper", mixer="fourier")``.

    Examples
    --------
    >>> model = DecisionTransformer(decision_config("hopper", dim=8, layers=1, episode=50))
    >>> steps = torch.arange(4).expand(2, 4)
    >>> returns, states, actions = (torch.zeros(2, 4, size) for size in (1, 11, 3))
    >>> model(returns, states, actions, steps).actions.shape
    torch.Size([2, 4, 3])
    """

    def __init__(self, config: DecisionConfig) -> None:
        super().__init__()
        self.config = config
        self.steps = nn.Embedding(config.episode, config.dim)
        self.embed_return = nn.Linear(1, config.dim)
        self.embed_state = nn.Linear(config.states, config.dim)
        self.embed_action = nn.Linear(config.actions, config.dim)
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = build_blocks(
            block_config(
                config, hidden=4 * config.dim, length=3 * config.context, causal=True, norm="pre"
            ),
            config.layers,
        )
        self.final_norm = nn.LayerNorm(config.dim)
        self.predict_state = nn.Linear(config.dim, config.states)
        self.predict_action = nn.Linear(config.dim, config.actions)
        self.predict_return = nn.Linear(config.dim, 1)
        initialise(self.blocks)

    def forward(
        self,
        returns: Tensor,
        states: Tensor,
        actions: Tensor,
        steps: Tensor,
        *,
        padding: Tensor | None = None,
    ) -> Trajectory:
        """Return the predictions; those for time t see nothing after (return, state) of t.

        Parameters
        ----------
        returns, states, actions : Tensor
            ``(B, K, 1)``, ``(B, K, states)`` and ``(B, K, actions)``; returns are those to go.
        steps : Tensor
            Time steps ``(B, K)`` of the episode.
        padding : Tensor or None
            Boolean ``(B, K)``, True before the trajectory begins.
        """
        config = self.config
        steps = check_tokens(
            steps, vocabulary=config.episode, length=config.context, name="steps", limit="context"
        )
        batch, n = steps.shape
        for name, part, size in (
            ("returns", returns, 1),
            ("states", states, config.states),
            ("actions", actions, config.actions),
        ):
            check_features(name, part, (batch, n, size))
        check_padding(padding, (batch, n))
        tokens = [self.embed_return(returns), self.embed_state(states), self.embed_action(actions)]
        x = torch.stack(tokens, dim=2) + self.steps(steps)[:, :, None]  # (B, K, 3, E)
        x = self.dropout(self.norm(x.flatten(1, 2)))  # (B, 3K, E)
        filled = None if padding is None else padding.repeat_interleave(3, dim=1)  # (B, 3K)
        x = self.final_norm(run_blocks(self.blocks, x, padding=filled))
        _, at_state, at_action = x.unflatten(1, (-1, 3)).unbind(dim=2)  # (B, K, E) each
        action = self.predict_action(at_state)
        return Trajectory(
            states=self.predict_state(at_action),
            actions=torch.tanh(action) if config.bounded else action,
            returns=self.predict_return(at_action),
        )
