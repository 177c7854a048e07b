"""Every token of the vocabulary: its probability after a row, and its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.rows import host
from visformer.core.sampling import most_probable
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.language import _
from visformer.values.arrays import Floats, read_only
from visformer.values.distribution import WholeDistribution
from visformer.values.pieces import SPACE, begins_word, marks_of, plain

MOST_FOUND = 50  # tokens of one name


@torch.inference_mode()
def distribution_of(checkpoint: Checkpoint, stream: Floats) -> WholeDistribution:
    """Return every token with its probability, of what leaves the last layer [D].

    Raises InputError for a stream of another width than the model's.
    """
    width = checkpoint.config.d_model
    if stream.shape != (width,):
        raise InputError(
            _(
                "The residual stream has shape {found}, but must have {expected}.",
                found=list(stream.shape),
                expected=[width],
            )
        )
    rows = torch.tensor(stream[None], device=checkpoint.device)
    with few_threads(width * checkpoint.config.target_vocabulary):
        out = checkpoint.model.decoder.norm(rows)
        logits = checkpoint.logits_from(checkpoint.packed, out)
    p, ids, _entropy = most_probable(logits, logits.shape[-1])
    return whole_distribution(p[0], ids[0], checkpoint.tokenizer.target.token)


def whole_distribution(
    p: Tensor, ids: Tensor, token: Callable[[int], str]
) -> WholeDistribution:
    """Return probabilities [V] with their tokens, in the order of ``ids`` [V]."""
    order = read_only(ids.to("cpu", torch.int64).numpy())
    return WholeDistribution(
        ids=order,
        tokens=tuple(map(token, order.tolist())),
        probabilities=host(p[ids]),
    )


def named(text: str, tokens: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """Return the ids and tokens that a text names, the most alike first.

    Of tokens as alike the one that begins a word comes first, then one of the same
    case: that is what is meant where nobody types its mark. With the mark, or "_" for
    it, only such are meant.
    """
    typed, every = text.strip().casefold(), tuple(tokens)
    marks = marks_of(every)
    begins_only = typed[:1] == SPACE or (typed[:1] == "_" and len(typed) > 1)
    wanted = typed[begins_only:]
    found: list[tuple[int, bool, bool, int, str]] = []
    for id, token in enumerate(every if typed else ()):
        begins, read = begins_word(token, "", marks), plain(token, marks)
        place = read.casefold().find(wanted)
        if place >= 0 and (begins or not begins_only):
            unlike = max(place, len(read) - len(wanted))
            other_case = text.strip()[begins_only:] not in read
            found.append((unlike, not begins, other_case, id, token))
    return tuple((id, token) for *_unlike, id, token in sorted(found)[:MOST_FOUND])
