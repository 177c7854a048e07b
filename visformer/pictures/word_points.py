"""The nearest neighbours of a token by embedding: the list, the map's points, text."""

from __future__ import annotations

from typing import NamedTuple

from visformer.language import N_, _
from visformer.pictures.picture import Label, Numbers, Table
from visformer.pictures.token_names import candidate, names
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.near_words import NearWords
from visformer.values.pieces import marks_of
from visformer.values.trace import Trace
from visformer.words import number, percent

SIDES: dict[SentenceSide, str] = {
    "source": N_("source embedding"),
    "target": N_("target embedding"),
}
SHARED = N_("the one embedding of source and target")
NOT_KNOWN = N_(
    "Embeddings are looked up in an open checkpoint; those of this run's model are not "
    "known."
)


class WordPoint(NamedTuple):
    """A token on the map."""

    id: int
    label: Label
    x: float
    y: float
    cosine: float
    words: str  # the tooltip


def sides(model: ModelFacts | None) -> tuple[tuple[SentenceSide, str], ...]:
    """Return a model's embedding tables with their titles, a shared one once.

    () if its embeddings are unknown.
    """
    if model is None or model.known is None:
        return ()
    if model.known.shared_embedding:
        return (("source", _(SHARED)),)
    return tuple((side, _(title)) for side, title in SIDES.items())


def points(near: NearWords | None) -> tuple[WordPoint, ...]:
    """Return the map's tokens: the requested one, then its nearest neighbours."""
    if near is None:
        return ()
    how, made = marks_of(near.tokens), []
    for at, token in enumerate(near.tokens):
        cosine, id = float(near.cosines[at]), int(near.ids[at])
        label = candidate(token, how)
        words = _(
            "“{token}”, id {id}, cosine {cosine}",
            token=label,
            id=id,
            cosine=number(cosine),
        )
        x, y = (float(one) for one in near.places[at])
        made.append(WordPoint(id, label, x, y, cosine, words))
    return tuple(made)


def cosine_table(near: NearWords | None) -> Numbers | None:
    """Return the nearest tokens with their cosines, best first; None if none."""
    listed = points(near)[1:]
    if near is None or not listed:
        return None
    return Numbers(
        rows=tuple(point.label for point in listed),
        columns=(_("cosine"),),
        values=near.cosines[1:, None],
        axis="",
        full=(1.0,) * len(listed),
    )


def map_table(near: NearWords | None) -> Table | None:
    """Return the map's numbers for export."""
    found = points(near)
    if not found:
        return None
    return Table(
        tuple(point.label.saved for point in found),
        ("id", _("cosine"), "x", "y"),
        tuple((p.id, number(p.cosine), number(p.x), number(p.y)) for p in found),
    )


def sentence_tokens(
    trace: Trace | None, side: SentenceSide
) -> tuple[tuple[int, Label], ...]:
    """Return the ids and labels of a sentence's tokens, each once."""
    if trace is None:
        return ()
    ids = trace.source_ids if side == "source" else trace.target_ids
    return tuple(dict(zip(ids.tolist(), names(trace, side), strict=True)).items())


def near_words_text(near: NearWords | None, model: ModelFacts | None) -> str:
    """Describe what is listed and drawn, or why nothing is."""
    if not sides(model):
        return _(NOT_KNOWN)
    if near is None:
        return _("Type a token, or click one on the map.")
    if not near.tokens:
        return _("No token of this vocabulary is named “{text}”.", text=near.asked)
    first, second = near.shares
    return _(
        "“{token}” (id {id}): the {near} nearest of {size:,} tokens, by the cosine of "
        "their embeddings, {width} numbers each. The map keeps {first} + {second} of "
        "the variance, so tokens far apart on it are far apart, but neighbours on it "
        "need not be near.",
        token=points(near)[0].label,
        id=int(near.ids[0]),
        near=len(near.tokens) - 1,
        size=near.vocabulary,
        width=near.width,
        first=percent(first),
        second=percent(second),
    )


def axis_words(near: NearWords | None) -> tuple[str, str]:
    """Name the map's axes."""
    first, second = (0.0, 0.0) if near is None else near.shares
    return (
        _("first principal component ({share})", share=percent(first)),
        _("second principal component ({share})", share=percent(second)),
    )
