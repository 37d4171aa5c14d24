"""Sizes and recipes of the image study, [nguyen2022fourierformer]_ section 4.2.

"deit_tiny" follows the code that its authors published
(https://github.com/minhtannguyen/FourierFormer_NeurIPS, folder ``imagenet``, below "FF"), which is
that of DeiT (https://github.com/facebookresearch/deit, below "DeiT"; [touvron2021training]_) with
one attention more. What both take from timm (https://github.com/huggingface/pytorch-image-models)
is named by its file there:

===================== =========================================== ================================
detail                value                                       source
===================== =========================================== ================================
layers, features      12, 192, feed-forward 768, GELU             FF ``models.py``; paper, appendix
heads                 3 of 64 features ("deit_tiny")              FF ``models.py``
                      4 of 48 ("deit_tiny_4_heads")               paper, appendix
patches               16 × 16 of 224 × 224 pixels, class token,   FF ``models.py``
                      learned positions
LayerNorm             before the sublayers and the head, eps 1e-6 FF ``models.py``
dropout               none                                        FF ``main.py``, drop
stochastic depth      0 in the first layer to 0.1 in the last     FF ``main.py``, drop_path;
                                                                  ``models.py``, dpr
initial parameters    dense layers, class token, positions        FF ``models.py``, _init_weights
                      N(0, 0.02²), cut off at ±2, biases 0;
                      patches as PyTorch's convolution
φ, R                  x⁴; one trained scalar R per layer, 1 at    FF ``models.py``, FourierAttention
                      the start
denominator           plus 1e-6                                   FF ``models.py``
optimiser             AdamW, betas 0.9, 0.999, epsilon 1e-8       FF ``main.py``
decay                 0.05; none of biases, norms, R, positions   FF ``main.py``, ``models.py``
                      and class token                             no_weight_decay
rates                 5e-4 per 512 images: 1e-3; 5 epochs from    FF ``main.py``;
                      1e-6, cosine to 1e-5, by epochs             ``timm/scheduler/cosine_lr.py``
updates, batch        300 epochs of 1,251, 1,024 on 4 GPUs        FF ``README.md``, ``main.py``
clip                  none                                        FF ``main.py``
label smoothing       0.1                                         FF ``main.py``
crops                 8 to 100 % of the area, ratio 3/4 to 4/3,   ``timm/data/transforms.py``
                      bicubic; reflected with probability 1/2
RandAugment           2 operations, magnitude 9 ± 0.5, stronger   FF ``main.py``, aa;
                      with it; mean colour from outside           ``timm/data/auto_augment.py``
random erasing        probability 0.25, 2 to 33 % of the area,    FF ``main.py``, reprob;
                      noise N(0, 1)                               ``timm/data/random_erasing.py``
mixup, CutMix         α 0.8 and 1, either with probability 1/2,   FF ``main.py``;
                      256 images of one share                     ``timm/data/mixup.py``
repeated augmentation 3 times, on different GPUs                  FF ``samplers.py``
validation            middle of 224² after resizing the shorter   FF ``datasets.py``
                      side to 256, bicubic; every epoch
===================== =========================================== ================================

Not as there, and chosen here: computation is in float32, theirs in mixed precision with float16;
the model that is kept is the best by validation loss, theirs the last and the best by accuracy are
printed (they also average weights, and report the model without); photographs are turned as their
camera says. The paper does not say how its baseline differs from DeiT's: nothing in FF does.

The presets "digits", "fashion" and "cifar" are ours: small models of the same make for small
images, with label smoothing and stochastic depth, a rate that falls from its largest to 0 by a
cosine, and no augmentation but shifts and reflections of Fashion-MNIST and CIFAR. They add nothing
to the denominator, and begin with weights of N(0, 1/E), since with 0.02² so few features learn
little in so few updates. Queries and keys are then of unit size, so R begins at 0.5, as in the
small language models.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from fourierkernels.studies.engine.recipe import Preset, Recipe
from fourierkernels.studies.images.augmentation import Augmentation


@dataclass(frozen=True)
class ImagePreset(Preset):
    """A preset of the image study.

    Attributes
    ----------
    augmentation : Augmentation
        What is done to training images.
    """

    augmentation: Augmentation = field(default_factory=Augmentation)


_EPOCH = 1_251  # updates: 1,281,167 images, 1,024 at a time
_DEIT = Recipe(
    steps=300 * _EPOCH,
    batch=1_024,
    learning_rate=5e-4 * 1_024 / 512,
    schedule="deit",
    warmup=5 * _EPOCH,
    optimiser="adamw",
    weight_decay=0.05,
    label_smoothing=0.1,
    evaluate_every=_EPOCH,
    save_every=_EPOCH,
    log_every=100,
)
_DEIT_AUGMENTATION = Augmentation(
    least_area=0.08,
    flip=0.5,
    distortion=9.0,
    erase=0.25,
    mixup=0.8,
    cutmix=1.0,
    repeats=3,
    group=256,
)
_DEIT_FOURIER = {
    "fourier": {
        "power": 4,
        "radius": 1.0,
        "radius_shape": "scalar",
        "radius_parameter": "direct",
        "eps": 1e-6,
    }
}
_FOURIER: dict[str, dict[str, Any]] = {
    "fourier": {"power": 4, "radius": 0.5, "radius_shape": "scalar"}
}


def _deit_preset(summary: str, model: str) -> ImagePreset:
    return ImagePreset(
        summary=summary,
        model={"preset": model},
        recipe=_DEIT,
        mixer_options=_DEIT_FOURIER,
        augmentation=_DEIT_AUGMENTATION,
        published={
            "softmax": {"top-1": 72.23, "top-5": 91.13},
            "fourier": {"top-1": 73.25, "top-5": 91.66},
        },
    )


def _small_model(*, image: int, patch: int) -> dict[str, Any]:
    sizes = {"dim": 64, "layers": 4, "heads": 4, "hidden": 128, "std": 64**-0.5}
    return {"preset": "deit_tiny", "image": image, "patch": patch, **sizes}


_SMALL = Recipe(
    steps=1_500,
    batch=64,
    learning_rate=2e-3,
    schedule="cosine",
    warmup=150,
    optimiser="adamw",
    weight_decay=0.05,
    label_smoothing=0.1,
    clip=1.0,
    evaluate_every=500,
    save_every=500,
    log_every=50,
)


PRESETS = {
    "digits": ImagePreset(
        summary="2 layers of 2 heads of 16 features on digits of 8 × 8 pixels: seconds on one core",
        model={
            "preset": "deit_tiny",
            "image": 8,
            "patch": 2,
            "dim": 32,
            "layers": 2,
            "heads": 2,
            "hidden": 64,
            "std": 32**-0.5,
        },
        recipe=replace(
            _SMALL,
            steps=300,
            batch=32,
            learning_rate=5e-3,
            warmup=30,
            evaluate_every=100,
            save_every=100,
            log_every=20,
        ),
        mixer_options=_FOURIER,
        data="digits",
    ),
    "fashion": ImagePreset(
        summary="4 layers of 4 heads of 16 features, 28 × 28 pixels (Fashion-MNIST): minutes on "
        "one core",
        model=_small_model(image=28, patch=7),
        recipe=_SMALL,
        mixer_options=_FOURIER,
        augmentation=Augmentation(shift=2, flip=0.5),
    ),
    "cifar": ImagePreset(
        summary="4 layers of 4 heads of 16 features, 32 × 32 pixels in colour (CIFAR-10, -100)",
        model=_small_model(image=32, patch=4),
        recipe=replace(_SMALL, steps=3_000, warmup=300),
        mixer_options=_FOURIER,
        augmentation=Augmentation(shift=4, flip=0.5),
    ),
    "deit_tiny": _deit_preset(
        "DeiT-tiny as published, 3 heads of 64 features, on ImageNet: 300 epochs", "deit_tiny"
    ),
    "deit_tiny_4_heads": _deit_preset(
        "DeiT-tiny as the paper's text has it, 4 heads of 48 features", "deit_tiny_4_heads"
    ),
}
