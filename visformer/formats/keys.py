"""What each layout calls our model's parts, and which layout a file's names are of.

``{l}`` stands for a layer's number, which every file counts from 0. Entries name
modules; ``weight`` and ``bias`` (or what stands for them) follow. Single tensors that
are no module's stand under their full names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor

ATTENTION = ("query", "key", "value", "output")
_NUMBERED = re.compile(
    r"(.*?(?:layers\.|blks\.block))(0|[1-9]\d{0,2})(\..+)", re.DOTALL
)
_LEAVES = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


class Keys(NamedTuple):
    """The names of one layout: its modules and single tensors -> ours."""

    modules: Mapping[str, str]
    tensors: Mapping[str, str] = {}
    leaves: tuple[str, str] = ("weight", "bias")  # of norms


class Renamed(NamedTuple):
    """A file's tensors under our names, and what the file calls each of them."""

    tensors: dict[str, Tensor]
    spelt: dict[str, str]  # our name -> the file's; unknown ones keep their own


def _attention(theirs: str, names: str, ours: str) -> dict[str, str]:
    """Name the four projections of an attention."""
    pairs = zip(names.split(), ATTENTION, strict=True)
    return {f"{theirs}.{name}": f"{ours}.{part}" for name, part in pairs}


def _layers(prefix: str, stack: str, parts: Mapping[str, str]) -> dict[str, str]:
    """Place the parts of a layer into a stack."""
    return {
        f"{prefix}{{l}}.{theirs}": f"{stack}.layers.{{l}}.{ours}"
        for theirs, ours in parts.items()
    }


def _norms(names: str, *, cross: bool) -> dict[str, str]:
    """Name a layer's norms, in the order in which they come."""
    ours = ("self_attention", *(("cross_attention",) * cross), "feed_forward")
    pairs = zip(names.split(), ours, strict=True)
    return {name: f"{part}_norm" for name, part in pairs}


_HANDOUT_FEED = {
    "ffn.linear1": "feed_forward.w1",
    "ffn.linear2": "feed_forward.w2",
}
_CAPITALS, _SMALL = "W_q W_k W_v W_o", "w_q w_k w_v fc"
HANDOUT = Keys(
    {
        "encoder_embed": "source_embedding",
        "decoder_embed": "target_embedding",
        "fc_output": "output",
        **_layers(
            "encoder.layers.",
            "encoder",
            _attention("self_att", _CAPITALS, "self_attention")
            | _HANDOUT_FEED
            | _norms("norm1 norm2", cross=False),
        ),
        **_layers(
            "decoder.layers.",
            "decoder",
            _attention("self_att", _CAPITALS, "self_attention")
            | _attention("cross_att", _CAPITALS, "cross_attention")
            | _HANDOUT_FEED
            | _norms("norm1 norm2 norm3", cross=True),
        ),
    },
    {"positional_encoding.pe": "positions"},
)

_D2L_FEED = {
    "ffn.dense1": "feed_forward.w1",
    "ffn.dense2": "feed_forward.w2",
}
D2L = Keys(
    {
        "encoder.embedding": "source_embedding",
        "decoder.embedding": "target_embedding",
        "decoder.dense": "output",
        **_layers(
            "encoder.blks.block",
            "encoder",
            _attention("attention", _CAPITALS, "self_attention")
            | _D2L_FEED
            | _norms("addnorm1.ln addnorm2.ln", cross=False),
        ),
        **_layers(
            "decoder.blks.block",
            "decoder",
            _attention("attention1", _CAPITALS, "self_attention")
            | _attention("attention2", _CAPITALS, "cross_attention")
            | _D2L_FEED
            | _norms("addnorm1.ln addnorm2.ln addnorm3.ln", cross=True),
        ),
    }
)

_LABML_HEADS = "query.linear key.linear value.linear output"
_LABML_FEED = {
    "feed_forward.layer1": "feed_forward.w1",
    "feed_forward.layer2": "feed_forward.w2",
    "feed_forward.linear_v": "feed_forward.gate",
}
LABML = Keys(
    {
        "src_embed.linear": "source_embedding",
        "tgt_embed.linear": "target_embedding",
        "generator.projection": "output",
        "encoder.norm": "encoder.norm",
        "decoder.norm": "decoder.norm",
        **_layers(
            "encoder.layers.",
            "encoder",
            _attention("self_attn", _LABML_HEADS, "self_attention")
            | _LABML_FEED
            | _norms("norm_self_attn norm_ff", cross=False),
        ),
        **_layers(
            "decoder.layers.",
            "decoder",
            _attention("self_attn", _LABML_HEADS, "self_attention")
            | _attention("src_attn", _LABML_HEADS, "cross_attention")
            | _LABML_FEED
            | _norms("norm_self_attn norm_src_attn norm_ff", cross=True),
        ),
    },
    {
        "src_embed.positional_encodings": "source_positions",
        "tgt_embed.positional_encodings": "target_positions",
    },
)

_MODULAR_FEED = {
    "ffn.fc1": "feed_forward.w1",
    "ffn.fc2": "feed_forward.w2",
}
MODULAR = Keys(
    {
        "encoder.emb.tok_emb": "source_embedding",
        "decoder.emb.tok_emb": "target_embedding",
        "decoder.linear": "output",
        **_layers(
            "encoder.layers.",
            "encoder",
            _attention("mha", _SMALL, "self_attention")
            | _MODULAR_FEED
            | _norms("ln1 ln2", cross=False),
        ),
        **_layers(
            "decoder.layers.",
            "decoder",
            _attention("mha1", _SMALL, "self_attention")
            | _attention("mha2", _SMALL, "cross_attention")
            | _MODULAR_FEED
            | _norms("ln1 ln2 ln3", cross=True),
        ),
    },
    leaves=("gamma", "beta"),
)

_SCRATCH_FEED = {
    "feed_forward.fc1": "feed_forward.w1",
    "feed_forward.fc2": "feed_forward.w2",
}
SCRATCH = Keys(
    {
        "encoder_embedding": "source_embedding",
        "decoder_embedding": "target_embedding",
        "fc_out": "output",
        **_layers(
            "encoder_layers.",
            "encoder",
            _attention("self_attn", _CAPITALS, "self_attention")
            | _SCRATCH_FEED
            | _norms("norm1 norm2", cross=False),
        ),
        **_layers(
            "decoder_layers.",
            "decoder",
            _attention("self_attn", _CAPITALS, "self_attention")
            | _attention("cross_attn", _CAPITALS, "cross_attention")
            | _SCRATCH_FEED
            | _norms("norm1 norm2 norm3", cross=True),
        ),
    },
    {"pos_encoding.pe": "positions"},
)

_TORCH_FEED = {"linear1": "feed_forward.w1", "linear2": "feed_forward.w2"}
TORCH = Keys(  # once in_proj_weight and in_proj_bias are split; and what is around it
    {
        **{name: name for name in ("source_embedding", "target_embedding", "output")},
        "encoder.norm": "encoder.norm",
        "decoder.norm": "decoder.norm",
        **_layers(
            "encoder.layers.",
            "encoder",
            _attention("self_attn", "in_q in_k in_v out_proj", "self_attention")
            | _TORCH_FEED
            | _norms("norm1 norm2", cross=False),
        ),
        **_layers(
            "decoder.layers.",
            "decoder",
            _attention("self_attn", "in_q in_k in_v out_proj", "self_attention")
            | _attention("multihead_attn", "in_q in_k in_v out_proj", "cross_attention")
            | _TORCH_FEED
            | _norms("norm1 norm2 norm3", cross=True),
        ),
    },
    {name: name for name in ("positions", "source_positions", "target_positions")},
)

_MARIAN_HEADS = "q_proj k_proj v_proj out_proj"
_MARIAN_FEED = {"fc1": "feed_forward.w1", "fc2": "feed_forward.w2"}
MARIAN = Keys(
    {
        "model.shared": "target_embedding",
        "model.encoder.embed_tokens": "source_embedding",
        "model.decoder.embed_tokens": "target_embedding",
        "lm_head": "output",
        **_layers(
            "model.encoder.layers.",
            "encoder",
            _attention("self_attn", _MARIAN_HEADS, "self_attention")
            | _MARIAN_FEED
            | _norms("self_attn_layer_norm final_layer_norm", cross=False),
        ),
        **_layers(
            "model.decoder.layers.",
            "decoder",
            _attention("self_attn", _MARIAN_HEADS, "self_attention")
            | _attention("encoder_attn", _MARIAN_HEADS, "cross_attention")
            | _MARIAN_FEED
            | _norms(
                "self_attn_layer_norm encoder_attn_layer_norm final_layer_norm",
                cross=True,
            ),
        ),
    },
    {"final_logits_bias": "output.bias"},
)

KEYS: dict[str, Keys] = {  # layout -> its names
    "handout": HANDOUT,
    "d2l": D2L,
    "labml": LABML,
    "modular": MODULAR,
    "scratch": SCRATCH,
    "torch": TORCH,
    "marian": MARIAN,
}


def our_name(keys: Keys, name: str) -> str | None:
    """Return what we call the tensor that a layout calls ``name``; None if unknown."""
    found = _NUMBERED.fullmatch(name)
    number = found[2] if found else ""
    general = f"{found[1]}{{l}}{found[3]}" if found else name
    module, _, leaf = general.rpartition(".")
    ours = keys.tensors.get(general)
    if ours is None and module in keys.modules and leaf in _LEAVES:
        ours = f"{keys.modules[module]}.{_LEAVES[leaf]}"
        if "norm" in ours and leaf not in keys.leaves:
            return None
        if "norm" not in ours and leaf not in ("weight", "bias"):
            return None
    return ours.replace("{l}", number) if ours else None


def their_name(keys: Keys, name: str) -> str:
    """Return what a layout calls the tensor that we call ``name``."""
    found = _NUMBERED.fullmatch(name)
    number = found[2] if found else ""
    general = f"{found[1]}{{l}}{found[3]}" if found else name
    for theirs, ours in keys.tensors.items():
        if ours == general:
            return theirs
    module, _, leaf = general.rpartition(".")
    if "norm" in module:
        leaf = keys.leaves[leaf == "bias"]
    for theirs, ours in keys.modules.items():
        if ours == module:
            return f"{theirs}.{leaf}".replace("{l}", number)
    return name


def renamed(keys: Keys, tensors: Mapping[str, Tensor]) -> Renamed:
    """Name a file's tensors as our model does; what is unknown becomes "?" + name."""
    made = Renamed({}, {})
    for name, tensor in tensors.items():
        ours = our_name(keys, name)
        if ours is None or ours in made.tensors:
            ours = f"?{name}"
        made.tensors[ours], made.spelt[ours] = tensor, name
    return made


def known(keys: Keys, names: Iterable[str]) -> int:
    """Count the names that belong to a layout, but for those that are ours too."""
    return sum(our_name(keys, name) not in (None, name) for name in names)
