"""A whole run as arrays with names, axes and units: for NumPy, JSON and pandas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visformer.errors import InputError
from visformer.values.facts import Kind

if TYPE_CHECKING:
    from visformer.values.trace import Trace

Arrays = dict[str, NDArray[Any]]
ABOUT: dict[str, tuple[str, str]] = {  # of each array: its axes, and what it holds
    "source_tokens": ("source", "pieces of the vocabulary"),
    "source_ids": ("source", "token ids"),
    "target_tokens": ("row", "the piece that each row of the decoder consumes"),
    "target_ids": ("row", "token ids"),
    "chosen_tokens": ("row", "the piece that follows, as it was chosen"),
    "chosen_ids": ("row", "token ids"),
    "chosen_by": ("row", "model, rule, forced, reference, drawn or beam"),
    "logprob": ("row", "natural log of the chosen token's probability"),
    "rank": ("row", "of the chosen token, from 1"),
    "entropy": ("row", "of the next-token distribution, in bits"),
    "candidate_ids": ("row, candidate", "token ids, best first; -1 for none"),
    "candidate_tokens": ("row, candidate", "pieces of the vocabulary"),
    "candidate_probabilities": ("row, candidate", "probabilities; NaN for none"),
    "mask": ("query, key; after a layer where layers differ", "true: may be read"),
    "attention": ("layer, head, query, key", "weights, as the run used them"),
}


def run_arrays(trace: Trace) -> Arrays:
    """Return all that a run's tokens, steps and weights are; see ``Trace.to_numpy``."""
    made: Arrays = {
        "source_tokens": np.array(trace.source, str),
        "source_ids": trace.source_ids,
        "target_tokens": np.array(trace.target, str),
        "target_ids": trace.target_ids,
        **_choices(trace),
        **_candidates(trace),
    }
    for kind in trace.kinds:
        made[f"mask_{kind}"] = trace.masks[kind]
        made[f"attention_{kind}"] = trace.attention(kind)
    known = {
        "source_text": trace.source_text,
        "text": trace.text,
        "model": trace.model.name,
        "digest": trace.model.digest,
        "change": str(trace.intervention),
    }
    return {name: np.array(text) for name, text in known.items()} | made


def _choices(trace: Trace) -> Arrays:
    steps = trace.steps
    return {
        "chosen_tokens": np.array([step.token for step in steps], str),
        "chosen_ids": np.array([step.id for step in steps], np.int64),
        "chosen_by": np.array([step.origin for step in steps], str),
        "logprob": np.array([-step.loss for step in steps], np.float64),
        "rank": np.array([step.rank for step in steps], np.int64),
        "entropy": np.array([step.entropy for step in steps], np.float64),
    }


def _candidates(trace: Trace) -> Arrays:
    steps = trace.steps
    shape = len(steps), max((len(step.candidates) for step in steps), default=0)
    ids, probabilities = np.full(shape, -1), np.full(shape, np.nan, np.float32)
    tokens = np.full(shape, "", object)
    for row, step in enumerate(steps):
        many = len(step.candidates)
        ids[row, :many], probabilities[row, :many] = step.candidates.numbers
        tokens[row, :many] = step.candidates.tokens
    return {
        "candidate_ids": ids,
        "candidate_tokens": tokens.astype(str),
        "candidate_probabilities": probabilities,
    }


def about(arrays: Arrays) -> dict[str, dict[str, str]]:
    """Return the axes and the unit of each array that has axes."""
    said = {}
    for name, array in arrays.items():
        if array.ndim:
            axes, unit = ABOUT.get(name) or ABOUT[name.split("_")[0]]
            said[name] = {"axes": axes, "unit": unit}
    return said


def as_numpy(trace: Trace) -> Arrays:
    """Return the arrays with one more, ``about``, which says what they are in JSON."""
    arrays = run_arrays(trace)
    return {"about": np.array(json.dumps(about(arrays)))} | arrays


def as_dict(trace: Trace) -> dict[str, Any]:
    """Return the arrays as lists; a number that is NaN or infinite is None."""
    arrays = run_arrays(trace)
    return {"about": about(arrays)} | {name: _plain(a) for name, a in arrays.items()}


def as_frame(trace: Trace, kind: Kind | None) -> Any:
    """Return a row for each choice, or for each weight of a kind; see ``Trace``."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise InputError("Tables need pandas: pip install pandas") from error
    if kind is None:
        read = np.array(trace.target[: len(trace.steps)], str)
        return DataFrame({"target_tokens": read, **_choices(trace)})
    weights = trace.attention(kind)
    layer, head, query, key = (axis.ravel() for axis in np.indices(weights.shape))
    queries, keys = (np.array(tokens, str) for tokens in trace.tokens(kind))
    columns = {
        **{"layer": layer, "head": head, "query": query, "key": key},
        **{"query_token": queries[query], "key_token": keys[key]},
        "weight": weights.ravel(),
    }
    return DataFrame(columns)


def _plain(array: NDArray[Any]) -> Any:
    if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
        array = array.astype(object)
        array[~finite] = None
    return array.tolist()
