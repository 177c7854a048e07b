"""Importance of made-up numbers, for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from visformer.values.arrays import Doubles
from visformer.values.facts import StackName
from visformer.values.measured import Importance, ImportanceOfPairs, Patched
from visformer.values.trace import Trace


def make_importance(trace: Trace) -> Importance:
    """Head 1 of the last cross layer matters most, head 2 of the first one harms."""
    kinds = trace.kinds
    heads = {kind: np.zeros((trace.layers(kind), trace.heads(kind))) for kind in kinds}
    heads["cross"][-1, 0], heads["cross"][0, 1] = -2.5, 0.75
    gradient = {kind: 0.5 * changes for kind, changes in heads.items()}
    return Importance(
        log_p=np.full(len(trace.target), -0.5),
        heads=heads,
        layers={kind: changes.sum(1) for kind, changes in heads.items()},
        source=-np.arange(1.0, 1 + len(trace.source)),
        gradient=gradient,
        sensitivity=gradient,
    )


def over_pairs(trace: Trace) -> ImportanceOfPairs:
    made = make_importance(trace)
    return ImportanceOfPairs(pairs=3, mean=made.heads, spread=made.gradient)


def with_patches(trace: Trace) -> Importance:
    """Token 2 carries what differs, from the encoder into the decoder's last layer."""
    source = np.zeros((trace.layers("encoder"), len(trace.source)))
    target = np.zeros((trace.layers("decoder"), len(trace.target)))
    source[:, 1] = target[-1, 1] = 4
    into: dict[StackName, Doubles] = {"encoder": source, "decoder": target}
    taken: dict[StackName, Doubles] = {"encoder": -source, "decoder": -target}
    patched = Patched(other=-6.5, into_other=into, from_other=taken)
    return replace(make_importance(trace), patched=patched)
