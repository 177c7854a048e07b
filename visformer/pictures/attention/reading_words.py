"""What a Reading shows and what was done to its weights, in words."""

from __future__ import annotations

from visformer.language import _, ngettext
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.look import TOKEN_GROUPS, Look
from visformer.pictures.selection import Selection
from visformer.pictures.words.absent import captured_words
from visformer.values.facts import Kind
from visformer.values.pieces import marks_of
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, layer_words


def layers_taken(trace: Trace, look: Look, kind: Kind, layer: int) -> range:
    """Return the layers that a look takes together."""
    match look.summary:
        case "all":
            return range(trace.layers(kind))
        case "rollout" if kind != "cross":
            return range(layer + 1)
    return range(layer, layer + 1)


def done_words(trace: Trace, look: Look, kind: Kind, layer: int) -> str:
    """Say how the weights were captured, and what the look does to them.

    "" for one head's own, derived.
    """
    parts = (
        captured_words(trace, kind, layers_taken(trace, look, kind, layer)),
        *_done_parts(trace, look, kind),
    )
    return "; ".join(filter(None, parts))


def title_words(trace: Trace, selection: Selection, look: Look, kind: Kind) -> str:
    """Name the kind, and which layers and heads are shown."""
    name, (layer, head) = _(KIND_NAMES[kind]), layer_and_head(trace, selection, kind)
    match look.summary:
        case "head":
            return _("{kind} · {head}", kind=name, head=head_words(layer, head))
        case "all":
            return ngettext(
                "{kind} · {n} layer",
                "{kind} · all {n} layers",
                trace.layers(kind),
                kind=name,
            )
        case "rollout" if kind != "cross":
            return _("{kind} · layers 1 to {layer}", kind=name, layer=layer + 1)
    return _("{kind} · {layer}", kind=name, layer=layer_words(layer))


def small_title(kind: Kind, layer: int, head: int) -> str:
    """Name a kind and a head where there is little room."""
    return _(
        "{kind} · L{layer} H{head}",
        kind=_(KIND_NAMES[kind]),
        layer=layer + 1,
        head=head + 1,
    )


def _done_parts(trace: Trace, look: Look, kind: Kind) -> list[str]:
    heads = trace.heads(kind)
    mean = ngettext("mean of {n} head", "mean of {n} heads", heads)
    match look.summary:
        case "mean":
            first = mean
        case "max":
            first = ngettext(
                "maximum of {n} head",
                "maximum of {n} heads: rows need not sum to 1",
                heads,
            )
        case "all":
            first = _(
                "mean of {layers} × {heads}",
                layers=ngettext("{n} layer", "{n} layers", trace.layers(kind)),
                heads=ngettext("{n} head", "{n} heads", heads),
            )
        case "rollout" if kind == "cross":
            first = _("{mean}, times the rollout of the whole encoder", mean=mean)
        case "rollout":
            first = _(
                "rollout: {mean}, 0.5 A + 0.5 I, rows renormalised, product of layers",
                mean=mean,
            )
        case _:
            first = ""
    return [first, _hidden_words(look), _merge_words(look, trace, kind)]


def _hidden_words(look: Look) -> str:
    if not look.hide:
        return ""
    names = (_(title) for name, title in TOKEN_GROUPS.items() if name in look.hide)
    tokens = ", ".join(names)
    if look.renormalise:
        return _("{tokens} hidden, renormalised", tokens=tokens)
    return _("{tokens} hidden, not renormalised", tokens=tokens)


def _merge_words(look: Look, trace: Trace, kind: Kind) -> str:
    if not look.words:
        return ""
    if any(map(marks_of, trace.tokens(kind))):
        return _("subwords merged: keys summed, queries averaged")
    return _("no subwords to merge")
