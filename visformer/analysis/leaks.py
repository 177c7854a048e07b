"""Leaks: queries that read later target tokens or padding."""

from typing import Literal, NamedTuple

import numpy as np

from visformer.arguments import wrong_type
from visformer.language import _
from visformer.values.arrays import Bools, later, once
from visformer.values.facts import Kind
from visformer.values.reading_order import LEAST, sealed
from visformer.values.trace import Trace


class Leak(NamedTuple):
    """The largest weight that one query of a layer gives to a key it must not read."""

    kind: Kind
    layer: int
    head: int
    query: int
    key: int
    weight: float  # in (0, 1]
    what: Literal["future", "pad"]


class Forbidden(NamedTuple):
    """What no query of a kind may read, bool [Q, K] each."""

    future: Bools
    pads: Bools
    real: Bools  # [Q]: the queries that are not pads themselves

    @property
    def nothing(self) -> bool:
        """Whether there is neither; told fast, as a long source has millions."""
        return not (once(self.future).any() or once(self.pads).any())


def leaks(trace: Trace) -> list[Leak]:
    """Find every layer and query that reads a later target token or a pad.

    Each leak names the head and the forbidden key with the query's largest weight; the
    worst query comes first. Weights up to 1e-6 are ignored. Pads are recognised by
    their ids; what pads themselves read is ignored.
    """
    if not isinstance(trace, Trace):
        raise wrong_type("trace", trace, _("a Trace"))
    all_leaks = []
    for kind in trace.kinds:
        future, pads, real = found = forbidden(trace, kind)
        if found.nothing:
            continue
        for layer in range(trace.layers(kind)):
            if sealed(trace, kind, layer, future | pads):
                continue
            weights = np.where(future | pads, trace.attention(kind, layer), 0)
            weights = np.where(real[:, None], np.nan_to_num(weights), 0)
            flat = weights.transpose(1, 0, 2).reshape(len(real), -1)  # [Q, H K]
            for query in np.flatnonzero(flat.max(-1, initial=0) > LEAST).tolist():
                head, key = divmod(int(flat[query].argmax()), weights.shape[2])
                weight = float(weights[head, query, key])
                what: Literal["future", "pad"] = "pad" if pads[query, key] else "future"
                all_leaks.append(Leak(kind, layer, head, query, key, weight, what))
    return sorted(all_leaks, key=lambda leak: -leak.weight)


def forbidden(trace: Trace, kind: Kind) -> Forbidden:
    """Return what no query may read."""
    source, target = trace.pads("source"), trace.pads("target")
    queries = source if kind == "encoder" else target
    keys = target if kind == "decoder" else source
    shape = len(queries), len(keys)
    future: Bools = np.broadcast_to(np.False_, shape)
    if kind == "decoder":
        future = later(*shape)
        future[:, : trace.prompt] = False  # given whole: nothing of it is to come
    return Forbidden(future, np.broadcast_to(keys, shape), ~queries)
