"""Passes for side requests: a batch of texts, a shuffled source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from visformer.core.checkpoint import Checkpoint, OwnDecoding
from visformer.core.mask_rules import RULES, padded
from visformer.core.passes import run
from visformer.core.rows import source_pieces
from visformer.core.search import search
from visformer.errors import InputError
from visformer.language import _
from visformer.values.intervention import Intervention
from visformer.values.modified_positions import permutation
from visformer.values.trace import Trace


def run_texts(
    checkpoint: Checkpoint | OwnDecoding, sources: Sequence[str]
) -> list[Trace]:
    """Translate each text greedily, then run all as one padded batch: a Trace per text.

    Raises InputError if a text is empty.
    """
    if not sources or not all(text.strip() for text in sources):
        raise InputError(_("Each line of the batch needs a sentence."))
    if not isinstance(checkpoint, Checkpoint):
        return checkpoint.batch(sources)
    tokenizer = checkpoint.tokenizer
    rows = [[p.id for p in source_pieces(checkpoint, text)[0]] for text in sources]
    translations = search(checkpoint, rows, beam=1)
    # the last choice is never read: a row consumes the token before it
    targets = [[tokenizer.bos, *ids[:-1]] for ids in translations]
    lengths = [len(row) for row in rows]
    traces = run(
        checkpoint,
        padded(rows, tokenizer.source_pad),
        padded(targets, tokenizer.pad),
        source_lengths=lengths
        if RULES[checkpoint.config.mask_rule].by_length
        else None,
    )
    return [
        replace(trace, source_text=text)
        for trace, text in zip(traces, sources, strict=True)
    ]


def run_shuffled(
    checkpoint: Checkpoint,
    source: str,
    target: Sequence[int],
    *,
    intervention: Intervention | None = None,
    seed: int = 0,
) -> tuple[tuple[int, ...], Trace, Trace]:
    """Run a source as it is and in another order, with the same ``target`` ids.

    Returns the order (the original place of each token of the shuffled source; the last
    token stays) and both Traces. Raises InputError for fewer than three tokens.
    """
    ids = [piece.id for piece in source_pieces(checkpoint, source)[0]]
    if len(ids) < 3:
        raise InputError(_("Shuffling needs a sentence of at least two words."))
    moved = permutation(len(ids) - 1, seed).tolist()
    order = (*moved, len(ids) - 1)
    # separately: positions that run along the batch would differ between the two
    baseline, shuffled = (
        run(checkpoint, [row], [target], intervention=intervention)[0]
        for row in (ids, [ids[at] for at in order])
    )
    return order, baseline, shuffled
