"""Small models of every variant, and how Traces are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import visformer
from tests.core.references import Reference
from visformer.core.checkpoint import Checkpoint
from visformer.core.passes import run
from visformer.values.facts import KINDS
from visformer.values.trace import Trace

SMALL: dict[str, Any] = {
    "source_vocabulary": 23,
    "target_vocabulary": 19,
    "d_model": 16,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "feed_forward": 24,
}
SHARED = {"paper", "marian"}


def small(preset: str, seed: int = 0, **sizes: Any) -> Checkpoint:
    """Build a small preset, with biases and norms that are not their initial ones."""
    fields = {**SMALL, **sizes}
    if preset in SHARED:
        fields["source_vocabulary"] = fields["target_vocabulary"]
    checkpoint = visformer.build(preset, seed=seed, device="cpu", **fields)
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in checkpoint.model.named_parameters():
            if parameter.dim() == 1 or "positions" in name:
                noise = torch.randn(parameter.shape, generator=drawn)
                parameter.add_(noise, alpha=0.2)
            elif ".layers." in name:
                parameter.mul_(2)  # attention far from uniform
    return checkpoint


ODD: dict[str, Any] = {
    "gate": {"gated": True, "activation": "gelu", "w2_bias": False},
    "no positions": {"positions": "none"},
    "learned": {"positions": "learned", "max_positions": 30},
    "odd width": {
        "positions": "learned",
        "max_positions": 30,
        "d_model": 15,
        "heads": 5,
    },
    "some biases": {"encoder_bias": "value_output", "decoder_bias": "value_output"},
    "pre-norm": {"norm_first": True, "final_norm": True},
    "norms without mean": {"norm": "rms", "norm_first": True, "final_norm": True},
    "scaling norms": {"norm_bias": False},
}


def reference(checkpoint: Checkpoint, **choices: Any) -> Reference:
    """Return the reference implementation of a checkpoint's weights."""
    weights = dict(checkpoint.model.named_parameters(remove_duplicate=False))
    plain = {name: weight.detach() for name, weight in weights.items()}
    return Reference(plain, checkpoint.config.heads, **choices)


def difference(ours: Any, theirs: Any) -> float:
    """Return the largest difference over max(1, largest magnitude); NaN meets NaN."""
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert a.shape == b.shape
    assert np.array_equal(np.isnan(a), np.isnan(b))
    if np.isnan(b).all():
        return 0.0
    return float(np.nanmax(np.abs(a - b)) / max(1.0, float(np.nanmax(np.abs(b)))))


def assert_same(trace: Trace, checkpoint: Checkpoint) -> None:
    """Compare a decoding with the full pass over the same ids."""
    source, target = trace.source_ids.tolist(), trace.target_ids.tolist()
    full = run(checkpoint, [source], [target])[0]
    assert difference(trace.encoder_rows, full.encoder_rows) <= 2e-5
    assert difference(trace.memory_rows, full.memory_rows) <= 2e-5
    assert difference(trace.decoder_rows, full.decoder_rows) <= 2e-5
    assert difference(trace.logits, full.logits) <= 2e-5
    for kind in KINDS:
        assert np.array_equal(trace.masks[kind], full.masks[kind])
        assert difference(trace.attention(kind, 0), full.attention(kind, 0)) <= 2e-5
