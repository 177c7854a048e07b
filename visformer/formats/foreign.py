"""Models that Visformer does not read, known by the names of their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

READS = (
    "Visformer reads its own folders and Marian's, torch.nn.Transformer and the five "
    "tutorials' models"
)
_KNOWN = {  # what it is -> a name that only such a file has
    "T5": r"(en|de)coder\.block\.\d+\.layer\.\d+\.(Self|EncDec)Attention\.",
    "BERT, an encoder without decoder": r"\.layer\.\d+\.attention\.self\.query\.",
    "DistilBERT, an encoder without decoder": r"layer\.\d+\.attention\.q_lin\.",
    "GPT, a decoder without encoder": (
        r"(^|\.)h\.\d+\.(attn|attention|self_attention)\.|gpt_neox\.layers\."
    ),
    "a language model like Llama, a decoder without encoder": (
        r"^(model\.)?layers\.\d+\.self_attn\.(q_proj|qkv_proj)\."
    ),
    "Whisper": r"encoder\.conv1\.",
    "BART or mBART": r"(en|de)coder\.layernorm_embedding\.",
    "NLLB, M2M100 or another relative of Marian": r"^model\.(en|de)coder\.layer_norm\.",
    "OpenNMT": r"make_embedding\.emb_luts\.|\.(self_attn|context_attn)\.linear_keys\.",
    "fairseq": (
        r"^(en|de)coder\.(version$|embed_positions\._float_tensor$|layers\.\d+\."
        r"(self_attn_layer_norm|encoder_attn_layer_norm|layer_norms|encoder_attn)\.)"
    ),
    "JoeyNMT": r"\.(trg_trg_att|src_trg_att|src_src_att)\.[kqv]_layer\.",
    "The Annotated Transformer": r"\.self_attn\.linears\.\d\.",
    "hyunwoongko/transformer, the model of the modular tutorial": (
        r"layers\.\d+\.(attention|self_attention|enc_dec_attention)\.w_[qkv]\."
    ),
    "a vision Transformer": r"blocks\.\d+\.attn\.qkv\.|patch_embed",
    "a recurrent network": r"\.weight_(ih|hh)_l\d|\.bias_ih_l\d",
}


def foreign(names: Iterable[str]) -> str:
    """Return what the model is that has these tensors; "" where that is not known."""
    every = list(names)
    for what, pattern in _KNOWN.items():
        if any(map(re.compile(pattern).search, every)):
            return what
    return ""
