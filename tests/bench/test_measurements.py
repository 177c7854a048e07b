"""What a figure says, and how two sides take turns."""

from __future__ import annotations

import pytest

from tests.bench.measurements import Measurement, quantile, take_turns


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        ("at least", 2.3, True),
        ("at least", 2.2, False),
        ("at most", 2.3, True),
        ("at most", 2.4, False),
        ("at most", None, None),
        ("at most", float("nan"), False),
    ],
)
def test_a_budget_is_met_or_not(bound, value, met) -> None:  # type: ignore[no-untyped-def]
    assert Measurement(1, "step", value, "x", bound, 2.3).met is met


def test_a_line_tells_all() -> None:
    made = Measurement(7, "gap", 12.5, "ms", "at most", 10, {"turns": 400}, "offscreen")
    assert made.line() == (
        "  7  gap: 12.5 ms (at most 10 ms: MISSED)  [turns 400; offscreen]"
    )
    absent = Measurement(2, "step", None, "x", "at least", 1, note="needs a peer")
    assert absent.line() == "  2  step: not measured (needs a peer)"


def test_turns_are_compared_round_by_round() -> None:
    """The first round warms up; the computer is twice as slow in the last."""
    ours = iter([9.0, 1.0, 2.0, 4.0])
    theirs = iter([1.0, 3.0, 6.0, 16.0])
    turns = take_turns(lambda: next(ours), lambda: next(theirs), rounds=3)
    assert (turns.ours, turns.theirs) == (2.0, 6.0)
    assert turns.faster == 3.0
    assert turns.slower == pytest.approx(1 / 3)
    assert turns.milliseconds("a", "b", 2) == {"a ms": 1000.0, "b ms": 3000.0}


def test_quantiles_by_hand() -> None:
    assert quantile(range(100), 0.95) == 95
    assert quantile([3, 1, 2], 1.0) == 3
    assert quantile([5], 0.5) == 5
