"""A stand-in for the attention of timm, which is not installed everywhere."""

from torch import Tensor, nn


class TimmLike(nn.Module):
    """Attention with the names that image models of timm give its parts."""

    def __init__(self, dim: int = 8, num_heads: int = 2) -> None:
        super().__init__()
        self.num_heads, self.scale, self.fused_attn = num_heads, (dim // num_heads) ** -0.5, True
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.LayerNorm(dim // num_heads), nn.Identity()
        self.attn_drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            y = self.attn_drop((q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1)) @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, c))
