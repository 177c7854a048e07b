"""Models that Visformer cannot open, recognised by the names of their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from visformer.language import N_, _

_KNOWN = {  # what it is -> a pattern that matches names only in such files
    "T5": r"(en|de)coder\.block\.\d+\.layer\.\d+\.(Self|EncDec)Attention\.",
    N_("BERT, an encoder without a decoder"): r"\.layer\.\d+\.attention\.self\.query\.",
    N_("DistilBERT, an encoder without a decoder"): r"layer\.\d+\.attention\.q_lin\.",
    N_("GPT, a decoder without an encoder"): (
        r"(^|\.)h\.\d+\.(attn|attention|self_attention)\.|gpt_neox\.layers\."
    ),
    N_("a language model like Llama, a decoder without an encoder"): (
        r"^(model\.)?layers\.\d+\.self_attn\.(q_proj|qkv_proj)\."
    ),
    "Whisper": r"encoder\.conv1\.",
    N_("BART or mBART"): r"(en|de)coder\.layernorm_embedding\.",
    N_(
        "NLLB, M2M100 or another relative of Marian"
    ): r"^model\.(en|de)coder\.layer_norm\.",
    "OpenNMT": r"make_embedding\.emb_luts\.|\.(self_attn|context_attn)\.linear_keys\.",
    "fairseq": (
        r"^(en|de)coder\.(version$|embed_positions\._float_tensor$|layers\.\d+\."
        r"(self_attn_layer_norm|encoder_attn_layer_norm|layer_norms|encoder_attn)\.)"
    ),
    "JoeyNMT": r"\.(trg_trg_att|src_trg_att|src_src_att)\.[kqv]_layer\.",
    "The Annotated Transformer": r"\.self_attn\.linears\.\d\.",
    N_("hyunwoongko/transformer, on which the modular tutorial is based"): (
        r"layers\.\d+\.(attention|self_attention|enc_dec_attention)\.w_[qkv]\."
    ),
    N_("a vision Transformer"): r"blocks\.\d+\.attn\.qkv\.|patch_embed",
    N_("a recurrent network"): r"\.weight_(ih|hh)_l\d|\.bias_ih_l\d",
}


def foreign(names: Iterable[str]) -> str:
    """Name the kind of model that has these tensors; "" if it is not recognised."""
    every = list(names)
    for what, pattern in _KNOWN.items():
        if any(map(re.compile(pattern).search, every)):
            return _(what)
    return ""


def supported() -> str:
    """Say in one sentence which models Visformer opens."""
    return _(
        "Visformer opens its own and Marian folders, and models of "
        "torch.nn.Transformer and the five tutorials."
    )
