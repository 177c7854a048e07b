"""``inspect --check``: measures the identities that hold for a correct model."""

from __future__ import annotations

import numpy as np

from visformer.core.loaded import Loaded
from visformer.core.mask_rules import RULES, padded
from visformer.core.models import Model, SourceTokens
from visformer.core.native_run import NativeRun
from visformer.core.passes import run
from visformer.values.facts import KINDS
from visformer.values.intervention import NO_CHANGES
from visformer.values.trace import Trace

TOLERANCE = 2e-5  # of the largest magnitude, at least 1
LENGTH = 12


def check(model: Model) -> dict[str, object]:
    """Compare a model's ways to compute a row, on a few ids.

    Every entry is the largest difference divided by max(1, largest magnitude); float32
    rounding stays below 2e-5.
    """
    report = {} if model.extras.differences is None else model.extras.differences()
    small = all(
        isinstance(v, int) or float(str(v)) <= TOLERANCE for v in report.values()
    )
    return {**report, "tolerance": TOLERANCE, "passed": small}


def differences(checkpoint: Loaded) -> dict[str, object]:
    """Compare cached decoding, the full pass and a batch row on random ids.

    Positions that restart at each step are excluded: by the model's own rule they
    differ from a full pass.
    """
    tokenizer, config = checkpoint.tokenizer, checkpoint.config
    if config.encoder_norm_length or config.decoder_norm_length:
        return _check_whole(checkpoint)
    generator = np.random.default_rng(0)
    length = min(LENGTH, config.max_positions - 1)
    drawn: list[int] = generator.integers(0, tokenizer.source.size, length).tolist()
    source = [id for id in drawn if id != tokenizer.source_pad] or [tokenizer.eos]
    decoded = NativeRun(checkpoint, SourceTokens(source), NO_CHANGES, length)
    fed, target = config.position_axis == "restart", [tokenizer.bos]
    while len(target) < length:
        target.append(int(decoded.to(target, fed=fed)[1].logits[-1].argmax()))
    cached = decoded.to(target, fed=fed)[0].trace((), length)
    full = run(checkpoint, [source], [target])[0]
    padding = RULES[config.mask_rule]
    longer = [*source, tokenizer.eos] if padding.source_keys else source
    lengths = [len(source), len(longer)] if padding.by_length else None
    batch = run(
        checkpoint,
        padded([source, longer], tokenizer.source_pad),
        padded([target, target], tokenizer.pad),
        source_lengths=lengths,
    )[0]
    return {
        "cached decoding against the full pass": _difference(cached, full),
        "batch row against the single sentence": _difference(batch, full),
        "attention rows that do not sum to 1": _odd_rows(full),
    }


def _check_whole(checkpoint: Loaded) -> dict[str, object]:
    """Check a model whose norms allow only one length, and thus no single steps."""
    config, generator = checkpoint.config, np.random.default_rng(0)
    rows = config.source_vocabulary, config.target_vocabulary
    lengths = config.encoder_norm_length, config.decoder_norm_length
    source, target = (
        generator.integers(0, count, [2, length or LENGTH])
        for count, length in zip(rows, lengths, strict=True)
    )
    batch, full = (
        run(checkpoint, source, target)[0],
        run(checkpoint, source[:1], target[:1])[0],
    )
    return {
        "batch row against the single sentence": _difference(batch, full),
        "attention rows that do not sum to 1": _odd_rows(full),
    }


def _difference(trace: Trace, full: Trace) -> float:
    rows = [(trace.decoder_rows, full.decoder_rows), (trace.logits, full.logits)]
    source = len(full.source)
    rows.append((trace.encoder_rows[:source], full.encoder_rows))
    return max(
        float(np.abs(a - b).max() / max(1.0, float(np.abs(b).max()))) for a, b in rows
    )


def _odd_rows(trace: Trace) -> int:
    """Count the rows that do not sum to 1, of those that may attend to something."""
    odd = 0
    for kind in KINDS:
        for layer in range(trace.layers(kind)):
            sums = trace.attention(kind, layer).sum(-1)
            wrong = ~np.isclose(sums, 1, atol=1e-5)
            odd += int((wrong & trace.mask(kind, layer).any(-1)).sum())
    return odd
