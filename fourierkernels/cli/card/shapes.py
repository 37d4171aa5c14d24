"""The problems that are timed."""

from dataclasses import dataclass, replace
from itertools import product


@dataclass(frozen=True)
class Shape:
    """Self-attention of a batch; values have as many columns as keys have features."""

    name: str
    batch: int
    heads: int
    n: int
    dim: int
    causal: bool = False

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that it sees."""
        seen = self.n * (self.n + 1) // 2 if self.causal else self.n**2
        return self.batch * self.heads * seen

    @property
    def tensor_bytes(self) -> int:
        """Bytes of one of query, key and value in float32."""
        return 4 * self.batch * self.heads * self.n * self.dim


_LONG_HEADS = 8
_LENGTHS = tuple(2**exponent for exponent in range(10, 17))  # 1k to 64k
_DIMS = (16, 32, 64, 128, 256)

_ROWS = (
    Shape("language model, small", 96, 8, 256, 16),
    Shape("language model, medium", 56, 8, 384, 32),
    Shape("DeiT-tiny", 256, 3, 197, 64),
    *(
        Shape(f"N = {n // 1024}k, D = {dim}", 1, _LONG_HEADS, n, dim)
        for n, dim in product(_LENGTHS, _DIMS)
    ),
)
# In the order of a run: what models use, then from short to long.
SHAPES: dict[str, Shape] = {row.name: row for row in _ROWS}
QUICK = (Shape("quick", 1, 2, 64, 16),)


def both_ways(shape: Shape) -> tuple[Shape, Shape]:
    """Return the problem without and with the causal mask."""
    return replace(shape, causal=False), replace(shape, causal=True)
