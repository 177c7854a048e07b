"""``inspect --check``: the identities that a right model keeps, measured."""

from __future__ import annotations

import numpy as np

from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.passes import padded, run
from visformer.trace import KINDS, Trace

TOLERANCE = 2e-5  # of the largest magnitude, at least 1
LENGTH = 12


def check(checkpoint: Checkpoint) -> dict[str, object]:
    """Compare cached decoding, the full pass and a batch row on made-up ids.

    Every entry is the largest difference divided by max(1, largest magnitude); float32
    rounding stays below 2e-5.
    """
    tokenizer = checkpoint.tokenizer
    generator = np.random.default_rng(0)
    length = min(LENGTH, checkpoint.config.max_positions - 1)
    drawn: list[int] = generator.integers(0, tokenizer.source.size, length).tolist()
    source = [id for id in drawn if id != tokenizer.pad] or [tokenizer.eos]
    cached = Decoding(checkpoint, source, limit=length).finish()
    target = cached.target_ids.tolist()
    full = run(checkpoint, [source], [target])[0]
    longer = [*source, tokenizer.eos]
    batch = run(
        checkpoint,
        padded([source, longer], tokenizer.pad),
        padded([target, target], tokenizer.pad),
    )[0]
    report: dict[str, object] = {
        "cached decoding against the full pass": _difference(cached, full),
        "batch row against the single sentence": _difference(batch, full),
        "attention rows that do not sum to 1": _odd_rows(full),
    }
    small = all(
        isinstance(v, int) or float(str(v)) <= TOLERANCE for v in report.values()
    )
    return {**report, "tolerance": TOLERANCE, "passed": small}


def _difference(trace: Trace, full: Trace) -> float:
    rows = [(trace.decoder_rows, full.decoder_rows), (trace.logits, full.logits)]
    source = len(full.source)
    rows.append((trace.encoder_rows[:source], full.encoder_rows))
    return max(
        float(np.abs(a - b).max() / max(1.0, float(np.abs(b).max()))) for a, b in rows
    )


def _odd_rows(trace: Trace) -> int:
    odd = 0
    for kind in KINDS:
        for layer in range(trace.layers(kind)):
            sums = trace.attention(kind, layer).sum(-1)
            odd += int((~np.isclose(sums, 1, atol=1e-5)).sum())
    return odd
