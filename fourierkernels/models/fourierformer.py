"""Checkpoints of the code that the FourierFormer authors published, by the names of its tensors.

[nguyen2022fourierformer]_; the names are those of github.com/minhtannguyen/FourierFormer_NeurIPS.
To reproduce its numbers three details of it matter: 1e-6 is added to the denominator of attention;
the last token of a text has position 0; and the clusters of the adaptive softmax are stored last
band first.

Its training script saves the whole model, which cannot be read without running code; save
``model.state_dict()`` there first.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fourierkernels.models.language import LanguageModel
from fourierkernels.models.published_language import (
    EPS,
    log_radius,
    published_config,
    published_model,
)
from fourierkernels.models.tensor_files import Rule, load_exactly, read_tensors, rename, unwrapped
from fourierkernels.models.vision import VisionTransformer, vision_config

_BOTH = r"(weight|bias)"


def _thirds(tensor: Tensor) -> Sequence[Tensor]:
    return tensor.chunk(3)


_VISION_RULES = (
    Rule(r"cls_token", ("prefix",)),
    Rule(r"pos_embed", ("positions",)),
    Rule(rf"patch_embed\.proj\.{_BOTH}", (r"patches.\1",)),
    Rule(rf"blocks\.(\d+)\.norm1\.{_BOTH}", (r"blocks.\1.around_mixer.norm.\2",)),
    Rule(rf"blocks\.(\d+)\.norm2\.{_BOTH}", (r"blocks.\1.around_feed_forward.norm.\2",)),
    Rule(
        rf"blocks\.(\d+)\.attn\.qkv\.{_BOTH}",
        tuple(rf"blocks.\1.mixer.{name}_projection.\2" for name in ("query", "key", "value")),
        _thirds,
    ),
    Rule(rf"blocks\.(\d+)\.attn\.proj\.{_BOTH}", (r"blocks.\1.mixer.output_projection.\2",)),
    Rule(r"blocks\.(\d+)\.attn\.paramR", (r"blocks.\1.mixer.log_radius",), log_radius),
    Rule(rf"blocks\.(\d+)\.mlp\.fc1\.{_BOTH}", (r"blocks.\1.feed_forward.widen.\2",)),
    Rule(rf"blocks\.(\d+)\.mlp\.fc2\.{_BOTH}", (r"blocks.\1.feed_forward.narrow.\2",)),
    Rule(rf"norm\.{_BOTH}", (r"final_norm.\1",)),
    Rule(rf"head\.{_BOTH}", (r"heads.0.\1",)),
)


def load_published_language(
    path: str | Path, *, preset: str = "small", **changes: Any
) -> LanguageModel:
    """Load a published language model, Fourier or softmax; its sizes are read off the tensors.

    Parameters
    ----------
    path : str or Path
        A state dict, see :func:`fourierkernels.models.tensor_files.read_tensors`.
    preset, **changes
        What no tensor says, see
        :func:`~fourierkernels.models.published_language.published_config`: ``heads``, ``length``,
        ``cutoffs``, ``mixer_options``.

    Raises
    ------
    ValueError
        If tensors are missing, unexpected or misshapen; all are listed.
    """
    tensors = unwrapped(read_tensors(path))
    return published_model(tensors, published_config(tensors, preset=preset, **changes))


def load_published_vision(path: str | Path, *, heads: int = 3) -> VisionTransformer:
    """Load a published DeiT, Fourier or softmax; its sizes are read off the tensors.

    Parameters
    ----------
    path : str or Path
        A state dict, see :func:`fourierkernels.models.tensor_files.read_tensors`.
    heads : int
        3 in the published code; no tensor says so.

    Raises
    ------
    ValueError
        If tensors are missing, unexpected or misshapen; all are listed.
    """
    tensors = unwrapped(read_tensors(path))
    kernel = _required(tensors, "patch_embed.proj.weight")  # (E, channels, patch, patch)
    patches = _required(tensors, "pos_embed").shape[1] - 1
    model = VisionTransformer(
        vision_config(
            "deit_tiny",
            image=round(patches**0.5) * kernel.shape[2],
            patch=kernel.shape[2],
            channels=kernel.shape[1],
            classes=_required(tensors, "head.weight").shape[0],
            dim=kernel.shape[0],
            layers=_count(tensors, "blocks"),
            heads=heads,
            hidden=_required(tensors, "blocks.0.mlp.fc1.weight").shape[0],
            **_mixer(tensors.get("blocks.0.attn.paramR")),
        )
    )
    load_exactly(model, rename(tensors, _VISION_RULES))
    return model.eval()


def _mixer(radius: Tensor | None) -> dict[str, Any]:
    if radius is None:
        return {"mixer": "softmax"}
    shape = "feature" if radius.numel() > 1 else "scalar"
    return {"mixer": "fourier", "mixer_options": {"eps": EPS, "radius_shape": shape}}


def _required(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ValueError(
            f"checkpoint must hold the tensors of the published model, missing: {name}"
        )
    return tensors[name]


def _count(tensors: Mapping[str, Tensor], stack: str) -> int:
    numbers = {int(name.split(".")[1]) for name in tensors if name.startswith(f"{stack}.")}
    return max(numbers, default=-1) + 1
