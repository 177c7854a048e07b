"""Descriptions of a model of which only the attention is known."""

from __future__ import annotations

from visformer.language import N_, _, ngettext
from visformer.pictures.diagram.block_names import BlockPath
from visformer.values.facts import AttentionFacts, Kind, ModelFacts

_BLOCKS: dict[Kind, tuple[str, str]] = {  # own keys for each head; shared keys
    "encoder": (
        N_("Self-attention  {heads} × {size}"),
        N_("Self-attention  {heads} × {size}, {keys}"),
    ),
    "decoder": (
        N_("Self-attention  {heads} × {size}"),
        N_("Self-attention  {heads} × {size}, {keys}"),
    ),
    "cross": (
        N_("Cross-attention  {heads} × {size}"),
        N_("Cross-attention  {heads} × {size}, {keys}"),
    ),
}
OTHER_BLOCKS = N_("other blocks: not known")
_SUMMARIES: dict[Kind, tuple[str, str]] = {  # likewise
    "encoder": (
        N_("Encoder self-attention: {layers}, {heads} × {size}."),
        N_("Encoder self-attention: {layers}, {heads} × {size}, {keys}."),
    ),
    "decoder": (
        N_("Decoder self-attention: {layers}, {heads} × {size}."),
        N_("Decoder self-attention: {layers}, {heads} × {size}, {keys}."),
    ),
    "cross": (
        N_("Cross-attention: {layers}, {heads} × {size}."),
        N_("Cross-attention: {layers}, {heads} × {size}, {keys}."),
    ),
}


def attention_words(model: ModelFacts, kind: Kind) -> str:
    """Name an attention block by its heads, their size, and shared keys."""
    facts = model.attention[kind]
    template = _BLOCKS[kind][facts.key_heads < facts.heads]
    return _(template, heads=facts.heads, size=facts.head_size, keys=_keys(facts))


def part_facts_words(model: ModelFacts, path: BlockPath, part: str) -> str:
    """Name a part of a layer."""
    if part == "other":
        return _(OTHER_BLOCKS)
    own: Kind = "encoder" if path.stack == "encoder" else "decoder"
    return attention_words(model, "cross" if part == "cross_attention" else own)


def about_facts(model: ModelFacts) -> tuple[str, ...]:
    """Describe what is known of the model, one sentence per line."""
    kinds = tuple(_kind_words(kind, facts) for kind, facts in model.attention.items())
    return (_("Only the attention of “{model}” is known.", model=model.name), *kinds)


def _kind_words(kind: Kind, facts: AttentionFacts) -> str:
    return _(
        _SUMMARIES[kind][facts.key_heads < facts.heads],
        layers=ngettext("{n} layer", "{n} layers", facts.layers),
        heads=_heads(facts),
        size=facts.head_size,
        keys=_keys(facts),
    )


def _heads(facts: AttentionFacts) -> str:
    return ngettext("{n} head", "{n} heads", facts.heads)


def _keys(facts: AttentionFacts) -> str:
    return ngettext("{n} key head", "{n} key heads", facts.key_heads)
