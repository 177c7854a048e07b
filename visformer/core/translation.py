"""Texts to texts, many at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from visformer.core.models import Model
from visformer.errors import InputError
from visformer.language import _

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
    if beam is not None and beam < 1:
        raise InputError("The number of beams is {n}, but must be at least 1.", n=beam)
    read = {
        index: model.vocabulary.read(text)
        for index, text in enumerate(sources)
        if text.strip()
    }
    for source in read.values():
        if source.cut_from:
            most = len(source.ids)
            log.warning("%s", cut_notice(source.cut_from, most, source.text))
    results = [""] * len(sources)
    found = model.search([*read.values()], beam)
    for index, ids in zip(read, found, strict=True):
        results[index] = model.vocabulary.text(ids)
    return results


def cut_notice(tokens: int, positions: int, text: str) -> str:
    """Say that a sentence is too long for the model."""
    return _(
        "“{text}…” is cut to {most:,} tokens, the model's limit; it has {n:,}.",
        text=text.strip()[:40],
        most=positions,
        n=tokens,
    )
