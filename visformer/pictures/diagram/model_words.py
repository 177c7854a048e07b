"""Descriptions of the model and the current step."""

import math

from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.diagram.blocks import BlockPath, Counts, block_words, shared
from visformer.pictures.token_names import word
from visformer.pictures.words.absent import has_target, missing_kinds_words
from visformer.pictures.words.choices import choice_sentence
from visformer.values.config import ModelConfig
from visformer.values.facts import AttentionFacts, Kind, ModelFacts
from visformer.values.trace import Trace
from visformer.words import ACTIVATION_NAMES, number

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


NORMS = {
    "layer": N_("LayerNorm"),
    "unbiased": N_("LayerNorm, variance over D − 1"),
    "rms": N_("RMSNorm"),
}
POSITIONS = {
    "sinusoidal": N_("sinusoidal"),
    "halves": N_("sinusoidal, sines first"),
    "learned": N_("learned"),
    "none": N_("none"),
}
AXES = {
    "batch": N_("{encoding}, by batch row"),
    "restart": N_("{encoding}, restarting at each step"),
}
BIASES = {"all": N_("all"), "none": N_("none"), "value_output": N_("V and output only")}
_LAYERS = {  # (pre-norm, final norms)
    (True, True): N_(
        "{encoder} + {decoder} layers, pre-norm (a norm before each sublayer), with "
        "final norms"
    ),
    (True, False): N_(
        "{encoder} + {decoder} layers, pre-norm (a norm before each sublayer), "
        "without final norms"
    ),
    (False, True): N_(
        "{encoder} + {decoder} layers, post-norm (Add & Norm: a norm after each +), "
        "with final norms"
    ),
    (False, False): N_(
        "{encoder} + {decoder} layers, post-norm (Add & Norm: a norm after each +), "
        "without final norms"
    ),
}


def scale_words(model: ModelFacts) -> str:
    """Return the factor of the embeddings."""
    config = model.config
    if not config.embedding_scale:
        return _("not scaled")
    return f"× √{config.d_model} = {number(math.sqrt(config.d_model))}"


def position_words(model: ModelFacts) -> str:
    """Describe what is added for a token's position."""
    config = model.config
    encoding = _(POSITIONS.get(config.positions, config.positions))
    if config.positions == "none" or config.position_axis not in AXES:
        return encoding
    return _(AXES[config.position_axis], encoding=encoding)


def activation(config: ModelConfig) -> str:
    """Name the feed-forward's activation."""
    return ACTIVATION_NAMES.get(config.activation, config.activation)


def norm_words(model: ModelFacts) -> str:
    """Name the norm."""
    return _(NORMS.get(model.config.norm, model.config.norm))


def about(model: ModelFacts) -> tuple[str, ...]:
    """Describe the model, one sentence per line, the most important first."""
    if model.known is None:
        return about_facts(model)
    config = model.config
    return (
        missing_kinds_words(model),
        _(
            _LAYERS[config.norm_first, config.final_norm],
            encoder=config.encoder_layers,
            decoder=config.decoder_layers,
        ),
        _parameters(model),
        _sizes(config),
        _biases(config),
        _ties(model),
    )


def _parameters(model: ModelFacts) -> str:
    counts = Counts(model)
    if not counts:
        return ngettext(
            "{n:,} parameter; the file does not say how many each block has",
            "{n:,} parameters; the file does not say how many each block has",
            model.parameters,
        )
    sides = ("source", "target")
    tables = [f"{side}_{what}" for side in sides for what in ("embedding", "positions")]
    return ngettext(
        "{n:,} parameter: embeddings {embeddings:,}, encoder {encoder:,}, decoder "
        "{decoder:,}, output {output}",
        "{n:,} parameters: embeddings {embeddings:,}, encoder {encoder:,}, decoder "
        "{decoder:,}, output {output}",
        model.parameters,
        embeddings=sum(map(counts.total, tables)),
        encoder=counts.total("encoder"),
        decoder=counts.total("decoder"),
        output=counts.short("output"),
    )


def _sizes(config: ModelConfig) -> str:
    fields = {
        "width": config.d_model,
        "size": config.head_size,
        "inner": config.feed_forward,
        "activation": activation(config),
    }
    if config.gated:
        return ngettext(
            "width {width:,} = {n} head × {size}; feed-forward {inner:,}, "
            "{activation}, gated",
            "width {width:,} = {n} heads × {size}; feed-forward {inner:,}, "
            "{activation}, gated",
            config.heads,
            **fields,
        )
    return ngettext(
        "width {width:,} = {n} head × {size}; feed-forward {inner:,}, {activation}",
        "width {width:,} = {n} heads × {size}; feed-forward {inner:,}, {activation}",
        config.heads,
        **fields,
    )


def _biases(config: ModelConfig) -> str:
    attention = encoder = _(BIASES[config.encoder_bias])
    if config.encoder_bias != config.decoder_bias:
        attention = _(
            "encoder {encoder}, decoder {decoder}",
            encoder=encoder,
            decoder=_(BIASES[config.decoder_bias]),
        )
    inner = {
        "W1": config.w1_bias,
        _("gate"): config.gated and config.gate_bias,
        "W2": config.w2_bias,
    }
    return _(
        "biases: attention {attention}; feed-forward {feed_forward}; output {output}",
        attention=attention,
        feed_forward=", ".join(name for name, has in inner.items() if has) or _("none"),
        output=_("yes") if config.output_bias else _("no"),
    )


def _ties(model: ModelFacts) -> str:
    """Say which blocks share a table; "" if the model's blocks are unknown."""
    if not model.blocks:
        return ""
    both = shared(model, "source_embedding") or shared(model, "target_embedding")
    tied = block_words(shared(model, "output"))
    if both and tied:
        return _(
            "one embedding table for both sides; output projection tied to the {block}",
            block=tied,
        )
    if both:
        return _("one embedding table for both sides; output projection not tied")
    if tied:
        return _(
            "one embedding table per side; output projection tied to the {block}",
            block=tied,
        )
    return _("one embedding table per side; output projection not tied")


def sentence(trace: Trace | None) -> str:
    """Describe a Trace's last step, which need not be the last of its run."""
    if trace is None:
        return _("No sentence has been run yet, so the shapes are shown in letters.")
    if "cross" not in trace.kinds or (not trace.steps and len(trace)):
        return _part_sentence(trace)
    if not len(trace):
        return ngettext(
            "Step 0: the encoder has read {n:,} source token in one pass; the decoder "
            "has not started yet.",
            "Step 0: the encoder has read {n:,} source tokens in one pass; the decoder "
            "has not started yet.",
            len(trace.source),
        )
    first = len(trace) == 1
    return sentences((_reads(trace), choice_sentence(trace), _(_USES[first])))


_USES = {  # by whether it is the first step
    True: N_("Every later step reuses the encoder's output."),
    False: N_("The encoder's output is used again."),
}


def _reads(trace: Trace) -> str:
    """Describe what the decoder reads in a Trace's last step."""
    return ngettext(
        "Step {n}: the decoder reads {n:,} token; its newest row is “{row}”.",
        "Step {n}: the decoder reads {n:,} tokens; its newest row is “{row}”.",
        len(trace),
        row=word(trace, "target", -1),
    )


def _part_sentence(trace: Trace) -> str:
    """Describe a step without cross-attention or without the decoder's output."""
    if not has_target(trace):
        return ngettext(
            "The encoder has read {n:,} token in one pass.",
            "The encoder has read {n:,} tokens in one pass.",
            len(trace.source),
        )
    if not trace.steps:
        return ngettext(
            "The decoder has read {n:,} token; what it predicted is not in this trace.",
            "The decoder has read {n:,} tokens; what it predicted is not in this "
            "trace.",
            len(trace),
        )
    return sentences((_reads(trace), choice_sentence(trace)))
