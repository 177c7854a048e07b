"""What every test of the watched models compares, and where it writes it down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visformer.watching.watcher import Watched, watch

CLOSE = 2e-5
TABLE: list[tuple[str, str, float]] = []  # model, what was compared, largest difference


def apart(first: Any, second: Any) -> float:
    """Return the largest difference; of NaN and NaN, none."""
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    assert one.shape == two.shape
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    return float(np.where(same, 0, np.abs(one - two)).max(initial=0))


def kept_weights(model: nn.Module) -> list[Tensor]:
    """Return the weights that a model's modules kept themselves, in their order."""
    kept = [getattr(module, "seen", None) for module in model.modules()]
    return [weights for weights in kept if isinstance(weights, Tensor)]


def assert_watched(
    name: str,
    model: nn.Module,
    args: Sequence[Any] = (),
    kinds: Sequence[str] = (),
    own: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Watched:
    """Watch one call: kinds, the model's own weights, output, Traces, certificate."""
    with torch.no_grad():
        watched = watch(model, **options)(*args, **(kwargs or {}))
    assert [one.kind for one in watched.attentions] == list(kinds)
    assert all(one.verified for one in watched.attentions)
    assert watched.output_difference is not None
    assert watched.output_difference <= CLOSE
    own = kept_weights(model) if own is None else own
    pairs = list(zip(watched.attentions, own, strict=bool(own)))
    worst = max((apart(one.weights, theirs) for one, theirs in pairs), default=0.0)
    assert worst <= CLOSE
    assert watched.certificate.worst <= CLOSE
    if own:
        TABLE.append((name, f"{len(pairs)} attentions against its own", worst))
    TABLE.append((name, "computed again from q, k, v", watched.certificate.worst))
    TABLE.append((name, "output, watched against not", watched.output_difference))
    in_traces = _traces_apart(watched)
    TABLE.append((name, "weights in the Traces", in_traces))
    assert in_traces <= CLOSE
    return watched


def _traces_apart(watched: Watched) -> float:
    """Return how far the weights of the Traces are from those of the attentions."""
    worst = 0.0
    for row, trace in enumerate(watched.traces):
        for kind in trace.kinds:
            same = [one for one in watched.last_run if one.kind == kind]
            assert len(same) == trace.layers(kind)
            for layer, one in enumerate(same):
                worst = max(
                    worst, apart(trace.attention(kind, layer), one.weights[row])
                )
    return worst
