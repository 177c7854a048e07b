"""What every test of the watched models compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visformer.watching.watcher import Watched, watch

CLOSE = 2e-5


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


def kept_in_one_call(model: Any, *args: Any) -> list[Tensor]:
    """Call a model unwatched; return the weights that it kept, which it forgets."""
    with torch.no_grad():
        model(*args)
    own, model.kept = list(getattr(model, "kept", [])), []
    return own


def assert_watched(
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
    for one, theirs in zip(watched.attentions, own, strict=bool(own)):
        assert apart(one.weights, theirs) <= CLOSE
    assert watched.certificate.worst <= CLOSE
    assert_in_traces(watched)
    return watched


def assert_in_traces(watched: Watched) -> None:
    """Assert that the Traces hold the weights of the attentions."""
    for row, trace in enumerate(watched.traces):
        for kind in trace.kinds:
            same = [one for one in watched.last_run if one.kind == kind]
            assert len(same) == trace.layers(kind)
            for layer, one in enumerate(same):
                assert apart(trace.attention(kind, layer), one.weights[row]) <= CLOSE
