"""The logit lens again, in plain numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.step import TOP, LensRow
from visformer.values.trace import Trace


def plain_lens(
    trace: Trace,
    rows: Iterable[int],
    weight: Floats,
    bias: Floats | None = None,
    *,
    norm: Callable[[Floats], Floats] = lambda x: x,
    temperature: float = 1.0,
) -> tuple[LensRow, ...]:
    """Read rows of a Trace through ``weight`` [V, D]; token i is called ``▁wi``."""
    return tuple(_row(trace, row, weight, bias, norm, temperature) for row in rows)


def _row(
    trace: Trace,
    row: int,
    weight: Floats,
    bias: Floats | None,
    norm: Callable[[Floats], Floats],
    temperature: float,
) -> LensRow:
    layers = range(trace.layers("decoder") + 1)
    stream = np.stack([trace.hidden("decoder", n)[row] for n in layers])
    logits = norm(stream.astype(np.float64)) @ weight.T.astype(np.float64)
    if bias is not None:
        logits = logits + bias
    log_sums = np.log(np.exp(logits).sum(1))
    p = np.exp(logits - log_sums[:, None])
    best, chosen = np.argsort(-p, axis=1, kind="stable")[:, :TOP], trace.steps[row].id
    return LensRow(
        ids=best,
        tokens=tuple(tuple(f"▁w{id}" for id in ids) for ids in best),
        logits=np.take_along_axis(logits, best, 1).astype(np.float32),
        probabilities=np.take_along_axis(p, best, 1).astype(np.float32),
        log_sums=log_sums.astype(np.float32),
        chosen_logits=logits[:, chosen].astype(np.float32),
        chosen_probabilities=p[:, chosen].astype(np.float32),
        chosen_ranks=(p > p[:, [chosen]]).sum(1) + 1,
        tempered_log_sum=float(np.log(np.exp(logits[-1] / temperature).sum())),
        weight=weight[chosen],
        bias=None if bias is None else float(bias[chosen]),
    )
