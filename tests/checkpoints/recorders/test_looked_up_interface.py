"""Models of transformers that look their attention up, and have no eager one of their own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from fourierkernels.checkpoints.recorders.recording import recording

B, N, H, D = 2, 5, 4, 8
SEEN = torch.ones(N, N, dtype=torch.bool).tril(1)
MASKS = {"none": None, "logical": SEEN, "added": torch.zeros(N, N).masked_fill(~SEEN, -1e4)}


class LookedUp(PreTrainedModel):
    """Attention as the network of waves in Qwen2.5-Omni writes it."""

    config_class = PreTrainedConfig
    _supports_sdpa = True

    def __init__(self, config: Any, groups: int = 1, **options: Any) -> None:
        super().__init__(config)
        self.q, self.options = nn.Linear(H * D, H * D), options
        self.num_key_value_groups = groups
        self.k, self.v = (nn.Linear(H * D, H * D // groups) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        parts = [one(x).unflatten(-1, (-1, D)).transpose(1, 2) for one in (self.q, self.k, self.v)]
        return attend(self, *parts, attention_mask=mask, **self.options)[0].flatten(2)


@pytest.mark.parametrize("options", [{}, {"is_causal": False}, {"scaling": 0.5}, {"groups": 2}])
@pytest.mark.parametrize("mask", MASKS)
@torch.inference_mode()
def test_attention_that_is_looked_up_is_recorded_and_puts_out_the_same(
    mask: str, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = LookedUp._from_config(PreTrainedConfig(), attn_implementation="sdpa", **options).eval()
    x = torch.randn(B, N, H * D)
    expected = model(x, MASKS[mask])
    with recording(model) as calls:
        found = model(x, MASKS[mask])
    torch.testing.assert_close(found, expected)
    assert ([call.maps.shape for call in calls], calls.unread) == ([(B, H, N, N)], {})
    maps = calls[0].maps @ calls[0].values
    torch.testing.assert_close(maps.transpose(1, 2).flatten(2), expected)
    assert "eager" not in ALL_ATTENTION_FUNCTIONS
