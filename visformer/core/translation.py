"""Texts to texts, many at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from visformer.core.checkpoint import Checkpoint, OwnDecoding
from visformer.core.passes import run
from visformer.core.rows import source_pieces
from visformer.core.search import search
from visformer.errors import InputError
from visformer.language import _
from visformer.values.not_finite import not_finite_words

log = logging.getLogger(__name__)


def translate(
    checkpoint: Checkpoint | OwnDecoding,
    sources: Sequence[str],
    *,
    beam: int | None = None,
) -> list[str]:
    """Translate every text, in order; blank ones stay empty.

    ``beam`` 1 is greedy search, None the checkpoint's own number of beams.
    ``checkpoint.generation`` decides which of N beams is best, by default that with the
    highest mean log-probability per token, and which tokens may be chosen. A source
    longer than the model's positions is cut. Raises InputError where the model's
    numbers are not finite.
    """
    if beam is not None and beam < 1:
        raise InputError(
            _("The number of beams is {n}, but must be at least 1.", n=beam)
        )
    if not isinstance(checkpoint, Checkpoint):
        return checkpoint.translate(sources, beam)
    beam = checkpoint.generation.beams if beam is None else beam
    tokenizer, positions = checkpoint.tokenizer, checkpoint.config.max_positions
    ids = {}
    for index, text in enumerate(sources):
        if text.strip():
            pieces, cut_from = source_pieces(checkpoint, text)
            if cut_from:
                log.warning("%s", cut_notice(cut_from, positions, text))
            ids[index] = [piece.id for piece in pieces]
    results = [""] * len(sources)
    best = search(checkpoint, list(ids.values()), beam=beam)
    for index, tokens in zip(ids, best, strict=True):
        if not tokens:
            _refuse_not_finite(checkpoint, ids[index])
        results[index] = tokenizer.decode(tokens)
    return results


def _refuse_not_finite(checkpoint: Checkpoint, source: list[int]) -> None:
    """Raise InputError where a model found no token because its numbers are NaN."""
    trace = run(checkpoint, [source], [[checkpoint.tokenizer.bos]])[0]
    if words := not_finite_words(trace):
        raise InputError(words)


def cut_notice(tokens: int, positions: int, text: str) -> str:
    """Say that a sentence is too long for the model."""
    return _(
        "“{text}…” is cut to {most:,} tokens, the model's limit; it has {n:,}.",
        text=text.strip()[:40],
        most=positions,
        n=tokens,
    )
