"""The ids and the names of a model's blocks."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.language import N_, _
from visformer.values.facts import Kind
from visformer.words import layer_words

STACKS = {"encoder": N_("encoder"), "decoder": N_("decoder")}
PARTS = {  # of a layer, in lists
    "self_attention": N_("self-attention"),
    "self_attention_norm": N_("self-attention norm"),
    "cross_attention": N_("cross-attention"),
    "cross_attention_norm": N_("cross-attention norm"),
    "feed_forward": N_("feed-forward"),
    "feed_forward_norm": N_("feed-forward norm"),
}
OUTSIDE = {  # the layers, in lists
    "source_embedding": N_("source embedding"),
    "target_embedding": N_("target embedding"),
    "source_positions": N_("source positions"),
    "target_positions": N_("target positions"),
    "encoder.norm": N_("encoder norm"),
    "decoder.norm": N_("decoder norm"),
    "output": N_("output"),
}
_LAYERS = {"encoder": N_("Encoder {layer}"), "decoder": N_("Decoder {layer}")}
_PART_TITLES = {
    "self_attention": N_("Multi-head attention"),
    "self_attention.mask": N_("Mask of the multi-head attention"),
    "self_attention.add": N_("Residual connection of the multi-head attention"),
    "self_attention_norm": N_("Norm of the multi-head attention"),
    "cross_attention": N_("Multi-head cross-attention"),
    "cross_attention.mask": N_("Mask of the multi-head cross-attention"),
    "cross_attention.add": N_("Residual connection of the multi-head cross-attention"),
    "cross_attention_norm": N_("Norm of the multi-head cross-attention"),
    "feed_forward": N_("Feed-forward"),
    "feed_forward.add": N_("Residual connection of the feed-forward network"),
    "feed_forward_norm": N_("Norm of the feed-forward network"),
}
_DECODER_TITLES = {  # that differ from the encoder's
    "self_attention": N_("Masked multi-head attention"),
    "self_attention.mask": N_("Mask of the masked multi-head attention"),
    "self_attention.add": N_("Residual connection of the masked multi-head attention"),
    "self_attention_norm": N_("Norm of the masked multi-head attention"),
}
_OUTSIDE_TITLES = {
    "source_tokens": N_("Source tokens"),
    "target_tokens": N_("Target tokens"),
    "source_embedding": N_("Source embedding"),
    "target_embedding": N_("Target embedding"),
    "source_positions": N_("Positional encoding"),
    "target_positions": N_("Positional encoding"),
    "encoder.norm": N_("Final norm of the encoder"),
    "decoder.norm": N_("Final norm of the decoder"),
    "output": N_("Linear"),
    "softmax": N_("Softmax"),
    "prediction": N_("Next token"),
}


@dataclass(frozen=True, slots=True)
class BlockPath:
    """The parts of a block's id, such as ``encoder.0.self_attention``."""

    stack: str  # "encoder", "decoder", or the id of a block outside both
    layer: int | None
    part: str  # "self_attention", "self_attention.mask", "" for a whole layer

    @property
    def kind(self) -> Kind:
        """The attention that the block belongs to, or its stack's self-attention."""
        if self.part.startswith("cross_attention"):
            return "cross"
        return "encoder" if self.stack == "encoder" else "decoder"


def block_path(id: str) -> BlockPath:
    """Read a block's id."""
    stack, _dot, rest = id.partition(".")
    number, _dot, part = rest.partition(".")
    if number.isdigit():
        return BlockPath(stack, int(number), part)
    return BlockPath(stack, None, rest)


def title(id: str) -> str:
    """Name a block as the papers do."""
    path = block_path(id)
    if path.layer is None:
        return _(_OUTSIDE_TITLES.get(id, id))
    if not path.part:
        return _(_LAYERS[path.stack], layer=layer_words(path.layer))
    if path.stack == "decoder" and path.part in _DECODER_TITLES:
        return _(_DECODER_TITLES[path.part])
    return _(_PART_TITLES[path.part])


def block_words(id: str) -> str:
    """Name a block in a list, its layer from 1: encoder layer 2 self-attention.

    Names that only a file uses are kept, with spaces.
    """
    path = block_path(id)
    if path.layer is None or path.stack not in STACKS:
        return _(OUTSIDE[id]) if id in OUTSIDE else _spaced(id)
    stack, layer = _(STACKS[path.stack]), layer_words(path.layer)
    if not path.part:
        return _("{stack} {layer}", stack=stack, layer=layer)
    part = _(PARTS[path.part]) if path.part in PARTS else _spaced(path.part)
    return _("{stack} {layer} {part}", stack=stack, layer=layer, part=part)


def _spaced(id: str) -> str:
    return id.replace(".", " ").replace("_", " ")
