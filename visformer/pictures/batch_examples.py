"""Sentences that a batch begins with, for any model."""

from __future__ import annotations

import math


def batch_examples(sentence: str) -> tuple[str, ...]:
    """Return a sentence and two beginnings of it, which its model can read, too."""
    words = sentence.split()
    parts, between = (words, " ") if len(words) > 2 else (list(sentence.strip()), "")
    halves = (math.ceil(len(parts) / share) for share in (2, 5))
    begun = (between.join(parts[:count]).strip() for count in halves)
    return tuple(dict.fromkeys((sentence, *begun)))
