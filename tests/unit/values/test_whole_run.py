"""A whole run as arrays, and as what JSON has."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.general_traces import Shape, any_trace
from tests.traces import make_trace
from visformer.errors import InputError
from visformer.values.trace import Trace


def test_a_file_of_arrays_explains_itself() -> None:
    trace = make_trace(source=5, target=4, layers=2, heads=3, d_model=12)
    file = io.BytesIO()
    numbers: dict[str, Any] = trace.to_numpy()
    np.savez(file, **numbers)
    file.seek(0)
    kept = np.load(file)  # without pickles
    about = json.loads(str(kept["about"]))
    axes = about["attention_cross"]["axes"].split(", ")
    sizes = dict(zip(axes, kept["attention_cross"].shape, strict=True))
    assert sizes == {"layer": 2, "head": 3, "query": 4, "key": 5}
    assert {name for name in kept.files if kept[name].ndim} == about.keys()
    for name, said in about.items():
        assert kept[name].ndim == len(said["axes"].split(", ")) or "mask" in name
    assert (kept["attention_cross"][1, 2] == trace.attention("cross", 1, 2)).all()
    assert (kept["mask_decoder"] == np.tri(4, dtype=bool)).all()
    assert kept["chosen_tokens"].tolist() == [step.token for step in trace.steps]
    best = kept["candidate_probabilities"][:, 0]
    assert best.tolist() == [step.candidates[0].probability for step in trace.steps]
    losses = -kept["logprob"].astype(np.float32)
    assert losses.tolist() == trace.loss.tolist()


def test_what_is_not_finite_is_none() -> None:
    trace = make_trace()
    steps = tuple(replace(step, probability=0.0) for step in trace.steps)
    made = replace(trace, steps=steps).to_dict()
    assert set(made["logprob"]) == {None}
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_a_table_has_a_row_for_each_weight_or_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pandas")
    trace = make_trace(source=5, target=4, layers=2, heads=3, d_model=12)
    weights = trace.to_dataframe("cross")
    assert len(weights) == 2 * 3 * 4 * 5
    row = weights[(weights.layer == 1) & (weights["head"] == 2)].iloc[7]
    assert (row["query"], row["key"]) == (1, 2)
    tokens = row["query_token"], row["key_token"]
    assert tokens == (trace.target[1], trace.source[2])
    assert row["weight"] == trace.attention("cross", 1, 2)[1, 2]
    steps = trace.to_dataframe()
    assert steps["chosen_tokens"].tolist() == [step.token for step in trace.steps]
    assert steps["logprob"].sum() == pytest.approx(-trace.loss.sum())
    assert not len(any_trace(steps=False).to_dataframe())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        trace.to_dataframe()


RUNS = {
    "cut": make_trace().until(2),
    "empty": make_trace().until(0),
    "without steps": any_trace(steps=False),
    "decoder alone": any_trace(Shape(kinds=("decoder",)), prompt=2),
    "encoder alone": any_trace(Shape(kinds=("encoder",)), steps=False),
    "captured": any_trace(captured=True),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_any_run_is_written(run: Trace) -> None:
    made, arrays = run.to_dict(), run.to_numpy()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made.keys() == arrays.keys()
    for kind in run.kinds:
        assert np.array_equal(arrays[f"attention_{kind}"], run.attention(kind))
    assert len(made["rank"]) == len(made["candidate_ids"]) == len(run.steps)
