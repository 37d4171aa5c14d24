"""One problem on a device beside float64 on the CPU: the output and every gradient."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.cases import SEED, Case, draw

_SINGLE = {"value": 5e-6, "gradient": 5e-5}

BOUNDS: dict[str, dict[str, float]] = {
    "float64": {"value": 1e-12, "gradient": 1e-9},
    "float32": _SINGLE,
    "bfloat16": {kind: bound + 2.0**-8 for kind, bound in _SINGLE.items()},
    "float16": {kind: bound + 2.0**-11 for kind, bound in _SINGLE.items()},
}
# Where an exact result is small all over, as the gradient of a row with one key, which is zero,
# errors are relative to this number for each entry instead: those of the inputs are near one.
SMALL = 1e-2
SIGMAS = 5.0  # the share of kept weights may be as far from 1 - p, in standard deviations
LEAVES = ("query", "key", "value", "radius")
PLAIN = Case("", "", queries=130, keys=130, features=32, columns=32, causal=True)

Attend = Callable[..., Tensor]
_VALUES = ("output", "weights")
_VISIBLE = 1e-30  # a weight as small may be rounded to zero, and says nothing on what was dropped


class NotHere(Exception):  # noqa: N818 (no error: a fact about the machine)
    """The check has no meaning on this device; the message says why."""


@dataclass(frozen=True)
class Measure:
    """An error beside its bound."""

    quantity: str
    error: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the error is within the bound; NaN never is."""
        return not math.isnan(self.error) and self.error <= self.bound


@dataclass(frozen=True)
class Row:
    """A line of the results.

    Attributes
    ----------
    status : str
        "ok", "miss", "skipped" or "failed".
    note : str
        Why it was skipped, or the error it failed with.
    """

    group: str
    case: str
    dtype: str
    quantity: str
    error: float
    bound: float
    status: str
    note: str = ""

    @property
    def bad(self) -> bool:
        """Whether this row must not be."""
        return self.status in ("miss", "failed")

    @property
    def sentence(self) -> str:
        """The row in words."""
        place = ", ".join(part for part in (self.group, self.case, self.dtype) if part)
        if self.note:
            return f"{place}: {self.note}"
        return f"{place}: {self.quantity} {self.error:.2e}, bound {self.bound:.1e}"


def inputs_on(device: torch.device, case: Case = PLAIN, seed: int = 0) -> list[Tensor]:
    """Return query, key, value and radius as leaves, and a cotangent of the output."""
    tensors = draw(case)
    turned = [tensors[name].roll(seed, dims=-2) for name in (*LEAVES, "output")]
    dtype = getattr(torch, case.dtype)
    return [
        tensor.to(device, dtype).requires_grad_(name != "output")
        for name, tensor in zip((*LEAVES, "output"), turned, strict=True)
    ]


def results(
    inputs: Sequence[Tensor], attend: Attend = fourier_attention, **options: Any
) -> list[Tensor]:
    """Return the output and the gradients of query, key, value and radius."""
    *leaves, cotangent = inputs
    output = attend(*leaves, **({"is_causal": True} | options))
    return [output.detach(), *torch.autograd.grad(output, leaves, cotangent)]


def compare(case: Case, device: torch.device) -> list[Measure]:
    """Return the relative errors of the output, of the weights, and of every gradient.

    Dropout is compared for one draw: which weights were kept is read from the weights that the
    device returns for a seed, and given to the reference; the call without weights, for the same
    seed, has to have kept the same.
    """
    drawn = draw(case)
    kept = None
    if case.dropout:
        kept = _on_device(case, drawn, device, weights=True)["weights"].double().cpu() != 0
    found = _on_device(case, drawn, device, weights=case.weights)
    exact, probabilities = _by_reference(case, drawn, kept)
    bounds = {kind: bound * _amplified(probabilities) for kind, bound in BOUNDS[case.dtype].items()}
    measures = [
        Measure(
            name,
            relative_error(found[name], exact[name]),
            bounds["value" if name in _VALUES else "gradient"],
        )
        for name in found
    ]
    if kept is not None:
        measures.append(Measure("share kept", _sigmas(kept, probabilities, case.dropout), SIGMAS))
    return measures


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Return ‖found - exact‖ / ‖exact‖, where exact entries of size 0.01 are the least counted.

    Examples
    --------
    >>> relative_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
    0.0
    """
    least = SMALL * math.sqrt(exact.numel())
    gap = (found.detach().double().cpu() - exact.detach()).norm()
    return float(gap / exact.detach().norm().clamp(min=least))


def _amplified(probabilities: Tensor) -> float:
    """Return max_i Σ_j |P_ij|, at least 1: what signed weights of an odd power do to rounding.

    The relative error of a sum is that of its terms times Σ|w| / |Σw|.
    """
    return max(1.0, float(probabilities.abs().sum(dim=-1).max()))


def _on_device(
    case: Case, drawn: dict[str, Tensor], device: torch.device, *, weights: bool
) -> dict[str, Tensor]:
    """Return the output and gradients of the fused operator."""
    dtype = getattr(torch, case.dtype)
    moved = {
        name: tensor.to(device, tensor.dtype if tensor.dtype is torch.bool else dtype)
        for name, tensor in drawn.items()
    }
    leaves = _leaves(case, moved)
    torch.manual_seed(SEED)
    attend: Attend = fourier_attention
    result = attend(
        *(leaves[name] for name in LEAVES),
        power=case.power,
        attn_mask=leaves.get("mask", moved.get("mask")),
        is_causal=case.causal,
        dropout_p=case.dropout,
        eps=case.eps,
        return_weights=weights,
        allow_signed=case.power % 2 == 1,
    )
    outputs = dict(zip(_VALUES, result, strict=True)) if weights else {"output": result}
    return outputs | _gradients(leaves, outputs, moved)


def _by_reference(
    case: Case, drawn: dict[str, Tensor], kept: Tensor | None
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the same by the formula W = P keep / (1 - p), O = W v, and P."""
    leaves = _leaves(case, drawn)
    _, probabilities = fourier_attention(
        *(leaves[name] for name in LEAVES),
        power=case.power,
        attn_mask=leaves.get("mask", drawn.get("mask")),
        is_causal=case.causal,
        eps=case.eps,
        return_weights=True,
        allow_signed=case.power % 2 == 1,
        implementation="reference",
    )
    weights = probabilities if kept is None else probabilities * kept / (1.0 - case.dropout)
    outputs = {"output": weights @ leaves["value"], "weights": weights}
    asked = outputs if case.weights else {"output": outputs["output"]}
    return outputs | _gradients(leaves, asked, drawn), probabilities.detach()


def _leaves(case: Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    names = (*LEAVES, *(["mask"] if case.mask_gradient else []))
    return {name: tensors[name].detach().requires_grad_() for name in names}


def _gradients(
    leaves: dict[str, Tensor], outputs: dict[str, Tensor], cotangents: dict[str, Tensor]
) -> dict[str, Tensor]:
    found = torch.autograd.grad(
        list(outputs.values()), list(leaves.values()), [cotangents[name] for name in outputs]
    )
    return {f"gradient of {name}": grad for name, grad in zip(leaves, found, strict=True)}


def _sigmas(kept: Tensor, probabilities: Tensor, dropout: float) -> float:
    visible = probabilities.abs() > _VISIBLE
    count = float(visible.sum())
    share = float((kept & visible).sum()) / count
    return abs(share - (1.0 - dropout)) / math.sqrt(dropout * (1.0 - dropout) / count)
