"""Texts to texts, many at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from visformer.core.models import Model
from visformer.errors import InputError
from visformer.language import _
from visformer.values.beam_search import BeamSearch

log = logging.getLogger(__name__)


def translate(
    model: Model, sources: Sequence[str], *, beam: int | None = None
) -> list[str]:
    """Translate every text, in order; blank ones stay empty.

    ``beam`` 1 is greedy search, None the model's own number of beams. Its rules of
    generation decide which of N beams is best, by default that with the highest mean
    log-probability per token, and which tokens may be chosen. A source longer than the
    model's positions is cut. Raises InputError where the model's numbers are not
    finite, or where it does not translate.
    """
    return [
        model.vocabulary.text(made.best) if made else ""
        for made in _searched(model, sources, beam, scored=False)
    ]


def search(
    model: Model, sources: Sequence[str], *, beam: int | None = None, n_best: int = 1
) -> list[dict[str, Any]]:
    """Search every text, in order: {"source", "hypotheses"}, each the best first.

    A hypothesis has "text", "score" = "logprob" / length ** length penalty, the sum
    "logprob" of the natural logarithms "logprobs" of its "tokens", what ends it counted
    as one, and whether it "finished" by an end, not at the limit. Raises InputError for
    more than there are beams, and what ``translate`` raises.
    """
    found = []
    for source, made in zip(sources, _searched(model, sources, beam), strict=True):
        most = n_best if made is None else made.beams
        if n_best > most:
            raise InputError(
                "The number of hypotheses is {n}, but must be at most that of the "
                "beams, {most}.",
                n=n_best,
                most=most,
            )
        best = _hypotheses(model, made, n_best) if made else []
        found.append({"source": source, "hypotheses": best})
    return found


def _hypotheses(model: Model, made: BeamSearch, count: int) -> list[dict[str, Any]]:
    best = []
    for one in made.ranked()[:count]:
        ids, logprobs = made.line_of(one)
        best.append(
            {
                "text": model.vocabulary.text(ids),
                "score": one.score,
                "logprob": one.logprob,
                "tokens": model.vocabulary.pieces(ids),
                "logprobs": [*logprobs],
                "finished": one.id in made.ends,
            }
        )
    return best


def _searched(
    model: Model, sources: Sequence[str], beam: int | None, *, scored: bool = True
) -> list[BeamSearch | None]:
    """Search every text; blank ones are None."""
    if beam is not None and beam < 1:
        raise InputError("The number of beams is {n}, but must be at least 1.", n=beam)
    read = [model.vocabulary.read(text) if text.strip() else None for text in sources]
    for source in read:
        if source and source.cut_from:
            most = len(source.ids)
            log.warning("%s", cut_notice(source.cut_from, most, source.text))
    found = iter(model.search([*filter(None, read)], beam, scored=scored))
    return [next(found) if source else None for source in read]


def cut_notice(tokens: int, positions: int, text: str) -> str:
    """Say that a sentence is too long for the model."""
    return _(
        "“{text}…” is cut to {most:,} tokens, the model's limit; it has {n:,}.",
        text=text.strip()[:40],
        most=positions,
        n=tokens,
    )
