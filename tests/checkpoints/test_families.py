"""Every family of transformers: its maps are those that it returns itself, or it is refused."""

import logging
import re
import warnings
from typing import Any

import families
import family_batches
import family_convolutions
import pytest
import transformers

# One or two for each way to write attention; the rest is slow.
FEW = [
    "albert",
    "bart",
    "bert",
    "big_bird",
    "bigbird_pegasus",
    "bloom",
    "clip_text_model",
    "clip_vision_model",
    "codegen",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "deepseek_v2",
    "deepseek_v3",
    "deit",
    "diffllama",
    "dinov2",
    "distilbert",
    "electra",
    "ernie",
    "esm",
    "falcon",
    "flaubert",
    "fnet",
    "fsmt",
    "gemma2",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "hiera",
    "ibert",
    "layoutlm",
    "led",
    "llama",
    "longformer",
    "longt5",
    "m2m_100",
    "mamba",
    "mbart",
    "minimax",
    "mistral",
    "mobilebert",
    "mpnet",
    "mpt",
    "mra",
    "mvp",
    "nystromformer",
    "olmo",
    "opt",
    "pegasus",
    "pegasus_x",
    "phi",
    "prophetnet",
    "qwen2_vl",
    "qwen3_moe",
    "qwen3_next",
    "rembert",
    "roberta",
    "rwkv",
    "siglip_vision_model",
    "splinter",
    "squeezebert",
    "swin",
    "switch_transformers",
    "t5",
    "t5gemma2",
    "vit",
    "vit_mae",
    "xglm",
    "xlm",
    "xlnet",
    "yoso",
]

REFUSALS = re.compile(
    r"refused: ("
    r"checkpoint must have attention, got none in \w+$"
    r"|checkpoint must have attention, got none in \w+: attention seen in .+ not understood "
    r"because "
    r"|checkpoint must have attention, got none of this part beside \d+ calls of others in "
    r"|checkpoint must have layers of one shape \(heads, queries, keys, features\), got "
    r"|checkpoint must attend from every token to every token, got maps of "
    r"|checkpoint must attend from all tokens to all tokens, got "
    r"|checkpoint must read token ids or images, got both in "
    r"|checkpoint must say the (image_size|patch_size) of its images, got "
    r"|checkpoint must say its number of token ids"
    r")"
)
# They return the states of linear attention, or weights of hashing, which are no softmax.
NO_SOFTMAX = {"rwkv", "yoso"}
# What has to come out for families where it could be either.
EQUAL = {*FEW} - {
    "fnet",
    "led",
    "longformer",
    "longt5",
    "mamba",
    "mra",
    "nystromformer",
    "pegasus_x",
    "prophetnet",
    "rwkv",
    "t5gemma2",
    "yoso",
}


def check(kind: str) -> None:
    outcomes = {trial.part: _outcome(trial) for trial in families.trials(_model(kind))}
    for outcome in outcomes.values():
        allowed = outcome.startswith(("equal", "not run", "nothing to compare with"))
        unheard = kind in NO_SOFTMAX and outcome.startswith("unheard: ")
        assert allowed or unheard or REFUSALS.match(outcome), outcome
    if all(outcome.startswith(("not run", "nothing")) for outcome in outcomes.values()):
        pytest.skip(f"not compared: {next(iter(outcomes.values()), 'other inputs')[:100]}")
    if kind in EQUAL:
        assert set(outcomes.values()) == {"equal"}, outcomes


def _model(kind: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return families.tiny_model(kind)
    except Exception as error:  # the recipe, or a library that is missing
        if kind in FEW:
            raise
        return pytest.skip(f"not built: {str(error)[:100]}")


def _outcome(trial: families.Trial) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return families.outcome(trial)


@pytest.fixture(autouse=True)
def _silent() -> object:
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(logging.CRITICAL)
    yield
    transformers.logging.set_verbosity(before)


@pytest.mark.parametrize("kind", FEW)
def test_maps_are_those_of_the_network_or_refused_with_a_reason(kind: str) -> None:
    check(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({*families.FAMILIES} - {*FEW}))
def test_every_family_is_equal_or_refused_with_a_reason(kind: str) -> None:
    check(kind)


def _kinds(module: Any) -> list[Any]:
    """Return the families of a module as parameters, with a mark for those that are slow."""
    return [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind in module.SLOW))
        for kind in sorted(module.MAKE)
    ]


@pytest.mark.parametrize("kind", _kinds(family_batches))
def test_no_map_and_no_module_of_attention_is_lost_in_silence(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not family_batches.silent(kind)


@pytest.mark.parametrize("kind", _kinds(family_convolutions))
def test_networks_without_attention_raise_no_alarm(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not family_convolutions.alarms(kind)
