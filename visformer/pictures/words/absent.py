"""Descriptions of what a Trace lacks, in place of a picture."""

from visformer.language import N_, _, clauses, listed, ngettext
from visformer.values.facts import KINDS, Kind, ModelFacts, SentenceSide
from visformer.values.reading_order import LEAST, unshown
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, percent

_MISSING: dict[tuple[Kind, ...], str] = {  # by the kinds present
    ("encoder",): N_("This is an encoder-only model: it has no decoder and no steps."),
    ("decoder",): N_(
        "This model ran decoder-only: it has no encoder and no cross-attention."
    ),
    ("cross",): N_("This trace has no self-attention, only cross-attention."),
    ("encoder", "decoder"): N_("This trace has no cross-attention."),
    ("encoder", "cross"): N_("This trace has no decoder self-attention."),
    ("decoder", "cross"): N_("This trace has no encoder self-attention."),
}
NO_ATTENTION = N_("This trace contains no attention: there is nothing to show.")
CAPTURED = N_("weights as captured from the model, not derived from queries and keys")


def missing_kinds_words(model: ModelFacts | None) -> str:
    """Name the missing kinds of attention; "" if all three are present."""
    if model is None or model.kinds == KINDS:
        return ""
    return _(_MISSING[model.kinds])


def facts_words(model: ModelFacts) -> str:
    """Name a recorded model of which only the attention, or only a part, is known.

    Its kinds of attention follow with their layers and heads.
    """
    kinds = (
        _(
            "{kind} {layers} × {heads}",
            kind=_(KIND_NAMES[kind]),
            layers=ngettext("{n} layer", "{n} layers", facts.layers),
            heads=ngettext("{n} head", "{n} heads", facts.heads),
        )
        for kind, facts in model.attention.items()
    )
    return _(
        "model: {name}, {kinds}, {device}, recorded",
        name=model.name,
        kinds=listed(kinds),
        device=model.device,
    )


def weights_words(trace: Trace, kind: Kind, layers: range) -> str:
    """Say that weights of some layers were captured, or are cut; "" if none are."""
    captured = any(trace.is_captured(kind, layer) for layer in layers)
    said = [_(CAPTURED)] if captured else []
    if (on := unshown(trace, kind, layers)) > LEAST:
        share = percent(on)
        said += [_("rows read later tokens, not shown: {share} at most", share=share)]
    return clauses(said)


def has_target(trace: Trace) -> bool:
    """Whether there is a decoder, and therefore rows to step through."""
    return "decoder" in trace.kinds or "cross" in trace.kinds


def has_source(trace: Trace) -> bool:
    """Whether there are source tokens besides the decoder's own sequence."""
    return "encoder" in trace.kinds or "cross" in trace.kinds


def has_output(trace: Trace) -> bool:
    """Whether the decoder's output was stored."""
    facts = trace.model.stacks.get("decoder")
    return facts is not None and bool(facts.output or facts.hidden)


def no_output_words(trace: Trace) -> str:
    """Explain why the decoder's output cannot be shown; "" if it can."""
    if not has_target(trace):
        return _("This model has no decoder: it predicts no next token.")
    if not has_output(trace):
        return _("This trace does not contain the decoder's output.")
    return ""


def no_lens_words(trace: Trace) -> str:
    """Explain why the logit lens cannot be computed; "" if it can."""
    facts = trace.model.stacks.get("decoder")
    if facts is None:
        return _("There is no logit lens: this trace has no decoder stack.")
    if trace.model.known is None and not facts.read_out:
        return _(
            "There is no logit lens: only the attention of “{model}” is known, not its "
            "output projection.",
            model=trace.model.name,
        )
    if not facts.hidden:
        return _("There is no logit lens: this trace has no hidden states.")
    if len(trace) and not trace.steps:
        return _("There is no logit lens: this trace has no steps.")
    return ""


def sides_of(trace: Trace | None) -> tuple[SentenceSide, ...]:
    """Return the sides of a sentence that a Trace has."""
    there = {
        "source": trace is None or has_source(trace),
        "target": trace is None or has_target(trace),
    }
    both: tuple[SentenceSide, ...] = ("source", "target")
    return tuple(side for side in both if there[side])


def without_steps_words(trace: Trace) -> str:
    """Explain why nothing is predicted; "" if there are steps, now or later."""
    if not has_target(trace):
        return _("This model has no decoder: it predicts no next token.")
    if trace.whole.steps or not len(trace.whole):
        return ""
    return _("This trace does not contain what the model predicted.")
