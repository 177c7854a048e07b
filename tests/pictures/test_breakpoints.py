"""Where play stops, and what it says then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import fed, make_trace
from visformer.analysis.leaks import leaks
from visformer.pictures.breakpoints import Breakpoints
from visformer.values.trace import Trace

RUN = fed(make_trace(target=4), {1: "reference"}, wrong=(1,))  # step 2 is ▁w, p 0.03


def stops(wanted: Breakpoints, run: Trace) -> list[int]:
    """The steps at which play would stop, from the start."""
    return [n for n in range(len(run) + 1) if wanted.reason(run.until(n))]


def test_each_stops_where_it_says() -> None:
    assert stops(Breakpoints(), RUN) == []
    for token in ("w", "▁w"):
        assert stops(Breakpoints(token=token), RUN) == [2]
    said = Breakpoints(below=0.05).reason(RUN.until(2))
    assert said == "Stopped at step 2: “w” has probability 0.0300, below 0.05."
    best = RUN.steps[1].candidates[0]
    said = Breakpoints(other=True).reason(RUN.until(2))
    assert said.startswith("Stopped at step 2: “w” is not the model's best token, “")
    assert f"{best.probability:.4f}" in said
    highest = max(range(4), key=lambda at: RUN.steps[at].entropy)
    bound = sorted(step.entropy for step in RUN.steps)[-2]
    assert stops(Breakpoints(above=bound), RUN) == [highest + 1]


@given(st.floats(0, 1), st.floats(0.01, 6))
def test_numbers_stop_exactly_beyond_their_limits(below: float, above: float) -> None:
    either = Breakpoints(below=below, above=above)
    assert stops(either, RUN) == [
        at + 1
        for at, step in enumerate(RUN.steps)
        if step.probability < below or step.entropy > above
    ]


def test_a_fault_is_a_leak_that_the_step_brings_or_nan() -> None:
    faults = Breakpoints(faults=True)
    assert stops(faults, RUN) == []
    masks = {**RUN.masks, "decoder": np.ones((4, 4), bool)}  # reads what comes later
    leaking = replace(RUN, masks=masks)
    assert leaks(leaking)
    assert stops(faults, leaking) == [2, 3, 4]  # at the first there is no later one
    assert "reads the later token" in faults.reason(leaking.until(2))
    nan = replace(RUN.steps[2], probability=np.nan)
    broken = replace(RUN, steps=(*RUN.steps[:2], nan, RUN.steps[3]))
    assert stops(faults, broken) == [3]
    assert faults.reason(broken.until(3)).endswith("all probabilities are NaN.")


def test_nan_is_neither_below_nor_above() -> None:
    nan = float("nan")
    steps = tuple(replace(one, probability=nan, entropy=nan) for one in RUN.steps)
    run, wanted = replace(RUN, steps=steps), Breakpoints(below=1.0, above=0.01)
    assert stops(wanted, run) == []
