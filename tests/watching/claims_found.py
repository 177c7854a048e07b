"""What findings claim, by their template: a predicate over what was observed.

The places and numbers that they name are asked of the weights themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.pictures.sweep import listening
from visformer.analysis.checks import table
from visformer.analysis.checks.observation import Observation
from visformer.values.watched_attention import WatchedAttention
from visformer.watching import certifying_watched

Found = Callable[[dict[str, Any], Observation], bool]
Heard = list[tuple[str, dict[str, Any], Observation]]


@contextmanager
def findings_heard() -> Iterator[Heard]:
    """Let every sentence of a finding be heard, with what it was found in."""
    heard: Heard = []
    whole, looking = table.findings_of, list[Observation]()

    def hear(template: str, fields: dict[str, Any], _text: str) -> None:
        if looking:
            heard.append((template, fields, looking[-1]))

    def found(seen: Observation) -> Any:
        looking.append(seen)
        try:
            return whole(seen)
        finally:
            looking.pop()

    with patch.object(certifying_watched, "findings_of", found), listening(hear):
        yield heard


def is_read(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether some attention gives the key named the weight that is said."""
    row, head, key = (int(fields[name]) - 1 for name in ("row", "head", "key"))
    batches: slice | list[int] = slice(None)
    if "batch" in fields:
        batches = [int(fields["batch"]) - 1]
    return any(
        bool(np.isclose(one.weights[batches, head, row, key], weight, rtol=1e-5).any())
        for one in _fitting(seen, head, row, key)
        for weight in [fields["weight"]]
    )


def _fitting(
    seen: Observation, head: int, row: int, key: int = 0
) -> Iterator[WatchedAttention]:
    """Yield the attentions that have such a place."""
    for one in seen.attentions:
        heads, queries, keys = one.weights.shape[1:]
        if head < heads and row < queries and key < keys:
            yield one


def is_later(fields: dict[str, Any], seen: Observation) -> bool:
    return fields["key"] > fields["row"] and is_read(fields, seen)


def is_pad(fields: dict[str, Any], seen: Observation) -> bool:
    batch, key = int(fields["batch"]) - 1, int(fields["key"]) - 1
    return is_read(fields, seen) and any(
        one.key_ids is not None
        and key < one.key_ids.shape[1]
        and one.key_ids[batch, key] == seen.pad
        for one in seen.attentions
    )


def is_one_ahead(fields: dict[str, Any], seen: Observation) -> bool:
    row, head, key = (int(fields[name]) - 1 for name in ("row", "head", "key"))
    return key == row + 1 and any(
        bool((one.weights[:, head, row, key] > 0).any())
        for one in _fitting(seen, head, row, key)
    )


def sums_to(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether the row named of some attention sums to what is said, and not to 1."""
    row, head = int(fields["row"]) - 1, int(fields["head"]) - 1
    told = float(fields["sum"])
    return not math.isclose(told, 1, abs_tol=1e-3) and any(
        bool(np.isclose(np.nan_to_num(one.weights[:, head, row]).sum(-1), told).any())
        for one in _fitting(seen, head, row)
    )


def reads_nothing(fields: dict[str, Any], seen: Observation) -> bool:
    batch, head, row = (int(fields[name]) - 1 for name in ("batch", "head", "row"))
    return any(
        bool(one.masked[batch, head, row].all()) for one in _fitting(seen, head, row)
    )


def is_scale(fields: dict[str, Any], seen: Observation) -> bool:
    return any(
        math.isclose(one.scale, fields["scale"], rel_tol=1e-6)
        and one.queries.shape[3] == fields["d"]
        for one in seen.attentions
    )


def counts_labels(fields: dict[str, Any], seen: Observation) -> bool:
    given, labels = seen.given, seen.labels
    assert given is not None
    assert labels is not None
    real = (labels >= 0) & (labels != (-1 if seen.pad is None else seen.pad))
    same = int(((given == labels) & real).sum())
    return (fields["n"], fields["all"]) == (same, int(real.sum()))


_IN = "(in {n} of {all} attentions)."
CLAIMS: dict[str, Found] = {
    "The causal mask is off by one: every row reads one token ahead, as row {row} of "
    f"head {{head}} reads key {{key}} {_IN}": is_one_ahead,
    "The causal mask is missing, or does not hide: row {row} of head {head} reads key "
    f"{{key}}, which comes after it, with weight {{weight:.3g}} {_IN}": is_later,
    "Scores are multiplied by a mask, so a masked one counts as 0: row {row} of head "
    f"{{head}} still reads key {{key}} with weight {{weight:.3g}} {_IN}": is_read,
    "Padding is not masked, or its mask does not hide: in batch row {batch}, row {row} "
    "of head {head} reads key {key}, a padding token, with weight {weight:.3g} "
    f"{_IN}": is_pad,
    "In batch row {batch}, row {row} of head {head} may read no key, so it reads all "
    "of them, with weight {weight:.3g} at most.": reads_nothing,
    "The softmax runs over the {axis}, not over the keys: row {row} of head {head} "
    f"sums to {{sum:.3g}} {_IN}": sums_to,
    "Row {row} of head {head} sums to {sum:.3g}, not to 1.": sums_to,
    "The scores are not divided by sqrt({d}) = {root:.3g}: their scale is {scale:.3g}, "
    f"and row {{row}} of head {{head}} gives one key {{weight:.3g}} {_IN}": is_scale,
    "The scale of the scores is {scale:.3g} = {found}; for heads of {d} it ought to be "
    f"1/sqrt({{d}}) = {{right:.3g}} {_IN}": is_scale,
    "The target is not shifted: {n:,} of {all:,} labels are the very token that their "
    "row is given, so there is nothing to predict.": counts_labels,
}
