"""Names of tensors in Hugging Face models and in ours, one table for each architecture.

The tables are of state dicts as transformers 5 gives them.
"""

from collections.abc import Sequence

from torch import Tensor

from fourierkernels.models.tensor_files import Rule


def _transposed(tensor: Tensor) -> Sequence[Tensor]:
    return (tensor.mT.contiguous(),)


def _thirds(tensor: Tensor) -> Sequence[Tensor]:
    """Split query, key and value of GPT-2, whose layers hold the transposed matrix."""
    rows = tensor.mT if tensor.ndim == 2 else tensor
    return [part.contiguous() for part in rows.chunk(3)]


def _flat(tensor: Tensor) -> Sequence[Tensor]:
    return (tensor.flatten(),)


_BOTH = r"(weight|bias)"
_QKV = ("query", "key", "value")

FNET_RULES = (
    Rule(r"embeddings\.word_embeddings\.weight", ("words.weight",)),
    Rule(r"embeddings\.position_embeddings\.weight", ("positions.weight",)),
    Rule(r"embeddings\.token_type_embeddings\.weight", ("segments.weight",)),
    Rule(rf"embeddings\.LayerNorm\.{_BOTH}", (r"norm.\1",)),
    Rule(rf"embeddings\.projection\.{_BOTH}", (r"projection.\1",)),
    Rule(
        rf"encoder\.layer\.(\d+)\.fourier\.output\.LayerNorm\.{_BOTH}",
        (r"blocks.\1.around_mixer.norm.\2",),
    ),
    Rule(
        rf"encoder\.layer\.(\d+)\.intermediate\.dense\.{_BOTH}",
        (r"blocks.\1.feed_forward.widen.\2",),
    ),
    Rule(rf"encoder\.layer\.(\d+)\.output\.dense\.{_BOTH}", (r"blocks.\1.feed_forward.narrow.\2",)),
    Rule(
        rf"encoder\.layer\.(\d+)\.output\.LayerNorm\.{_BOTH}",
        (r"blocks.\1.around_feed_forward.norm.\2",),
    ),
    Rule(rf"pooler\.dense\.{_BOTH}", (r"pooler.\1",)),
    Rule(r"embeddings\.(position_ids|token_type_ids)", ()),
    Rule(r"encoder\.layer\.\d+\.fourier\.self\.dft_mat_(seq|hidden)", ()),
)
FNET_HEAD_RULES = (
    Rule(rf"cls\.predictions\.transform\.dense\.{_BOTH}", (r"transform.\1",)),
    Rule(rf"cls\.predictions\.transform\.LayerNorm\.{_BOTH}", (r"norm.\1",)),
    Rule(r"cls\.predictions\.bias", ("output.bias",)),
    Rule(r"cls\.predictions\.decoder\.weight", ("output.weight",)),
    Rule(r"cls\.predictions\.decoder\.bias", ()),  # the same as cls.predictions.bias
    Rule(rf"cls\.seq_relationship\.{_BOTH}", (r"next_sentence.\1",)),
)
_GPT2_BLOCK = (
    Rule(rf"h\.(\d+)\.ln_1\.{_BOTH}", (r"blocks.\1.around_mixer.norm.\2",)),
    Rule(
        r"h\.(\d+)\.attn\.c_attn\.(weight|bias)",
        tuple(rf"blocks.\1.mixer.{name}_projection.\2" for name in _QKV),
        _thirds,
    ),
    Rule(
        r"h\.(\d+)\.attn\.c_proj\.weight",
        (r"blocks.\1.mixer.output_projection.weight",),
        _transposed,
    ),
    Rule(r"h\.(\d+)\.attn\.c_proj\.bias", (r"blocks.\1.mixer.output_projection.bias",)),
    Rule(rf"h\.(\d+)\.ln_2\.{_BOTH}", (r"blocks.\1.around_feed_forward.norm.\2",)),
    Rule(r"h\.(\d+)\.mlp\.c_fc\.weight", (r"blocks.\1.feed_forward.widen.weight",), _transposed),
    Rule(r"h\.(\d+)\.mlp\.c_fc\.bias", (r"blocks.\1.feed_forward.widen.bias",)),
    Rule(r"h\.(\d+)\.mlp\.c_proj\.weight", (r"blocks.\1.feed_forward.narrow.weight",), _transposed),
    Rule(r"h\.(\d+)\.mlp\.c_proj\.bias", (r"blocks.\1.feed_forward.narrow.bias",)),
    Rule(rf"ln_f\.{_BOTH}", (r"final_norm.\1",)),
)


def _under(prefix: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(Rule(prefix + rule.pattern, rule.names, rule.change) for rule in rules)


GPT2_RULES = (
    *_under(r"transformer\.", _GPT2_BLOCK),
    Rule(r"transformer\.wte\.weight", ("embedding.bands.0.weight",)),
    Rule(r"transformer\.wpe\.weight", ("positions",)),
    Rule(r"lm_head\.weight", ()),  # tied to wte
)
DECISION_RULES = (
    *_under(r"encoder\.", _GPT2_BLOCK),
    Rule(r"encoder\.wte\.weight", ()),  # not used
    Rule(r"encoder\.wpe\.weight", ("offset",)),  # its row 0 is added to every token
    Rule(r"embed_timestep\.weight", ("steps.weight",)),
    Rule(rf"embed_(return|state|action)\.{_BOTH}", (r"embed_\1.\2",)),
    Rule(rf"embed_ln\.{_BOTH}", (r"norm.\1",)),
    Rule(rf"predict_(state|return)\.{_BOTH}", (r"predict_\1.\2",)),
    Rule(rf"predict_action\.0\.{_BOTH}", (r"predict_action.\1",)),
)
DEIT_RULES = (
    Rule(r"deit\.embeddings\.cls_token", ("class",)),
    Rule(r"deit\.embeddings\.distillation_token", ("teacher",)),
    Rule(r"deit\.embeddings\.position_embeddings", ("positions",)),
    Rule(rf"deit\.embeddings\.patch_embeddings\.projection\.{_BOTH}", (r"patches.\1",)),
    *(
        Rule(
            rf"deit\.layers\.(\d+)\.attention\.{theirs}_proj\.{_BOTH}",
            (rf"blocks.\1.mixer.{ours}_projection.\2",),
        )
        for theirs, ours in zip("qkvo", (*_QKV, "output"), strict=True)
    ),
    Rule(rf"deit\.layers\.(\d+)\.layernorm_before\.{_BOTH}", (r"blocks.\1.around_mixer.norm.\2",)),
    Rule(
        rf"deit\.layers\.(\d+)\.layernorm_after\.{_BOTH}",
        (r"blocks.\1.around_feed_forward.norm.\2",),
    ),
    Rule(rf"deit\.layers\.(\d+)\.mlp\.fc1\.{_BOTH}", (r"blocks.\1.feed_forward.widen.\2",)),
    Rule(rf"deit\.layers\.(\d+)\.mlp\.fc2\.{_BOTH}", (r"blocks.\1.feed_forward.narrow.\2",)),
    Rule(rf"deit\.layernorm\.{_BOTH}", (r"final_norm.\1",)),
    Rule(rf"(?:cls_)?classifier\.{_BOTH}", (r"heads.0.\1",)),
    Rule(rf"distillation_classifier\.{_BOTH}", (r"heads.1.\1",)),
)
MARIAN_RULES = (
    Rule(r"model\.shared\.weight", ("embedding.weight",)),
    Rule(r"model\.(en|de)coder\.embed_(tokens|positions)\.weight", ()),  # shared; sinusoids
    Rule(r"lm_head\.weight", ()),  # tied
    Rule(r"final_logits_bias", ("output_bias",), _flat),
    *(
        Rule(
            rf"model\.(encoder|decoder)\.layers\.(\d+)\.{block}\.{theirs}_proj\.{_BOTH}",
            (rf"\1.\2.{sublayer}.{ours}_projection.\3",),
        )
        for block, sublayer in (("self_attn", "mixer"), ("encoder_attn", "reader"))
        for theirs, ours in zip(("q", "k", "v", "out"), (*_QKV, "output"), strict=True)
    ),
    *(
        Rule(rf"model\.(encoder|decoder)\.layers\.(\d+)\.{theirs}\.{_BOTH}", (rf"\1.\2.{ours}.\3",))
        for theirs, ours in (
            ("self_attn_layer_norm", "around_mixer.norm"),
            ("encoder_attn_layer_norm", "around_reader.norm"),
            ("final_layer_norm", "around_feed_forward.norm"),
            ("fc1", "feed_forward.widen"),
            ("fc2", "feed_forward.narrow"),
        )
    ),
)
ARCHITECTURES: dict[str, tuple[Rule, ...]] = {
    "fnet": FNET_RULES,
    "gpt2": GPT2_RULES,
    "decision_transformer": DECISION_RULES,
    "deit": DEIT_RULES,
    "marian": MARIAN_RULES,
}
