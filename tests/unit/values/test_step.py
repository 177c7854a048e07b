"""A step's candidates: a sequence of tuples, kept as arrays."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.values.step import Candidate, Candidates


def made() -> Candidates:
    ids, shares = np.array([7, 3, 5]), np.array([0.5, 0.25, 0.125])
    return Candidates(ids, ["a", "b", "c" * 2], shares)


def test_candidates_are_a_sequence() -> None:
    candidates = made()
    assert len(candidates) == 3
    assert candidates[0] == Candidate(7, "a", 0.5)
    assert candidates[-1] == (5, "cc", 0.125)
    assert candidates[:2] == (Candidate(7, "a", 0.5), Candidate(3, "b", 0.25))
    assert [type(value) for value in candidates[1]] == [int, str, float]
    assert [c.token for c in candidates] == ["a", "b", "cc"]
    with pytest.raises(IndexError):
        candidates[3]


@pytest.mark.parametrize(
    ("probability", "loss"),
    [(1.0, 0), (0.5, 0.693147), (1e-40, 92.1034), (0, math.inf)],
)
def test_a_loss_is_that_of_any_probability(probability: float, loss: float) -> None:
    step = make_trace().steps[0]
    step = replace(step, probability=probability)
    assert step.loss == pytest.approx(loss, abs=1e-4)


def test_equal_ones_are_equal() -> None:
    assert made() == made() == tuple(made())
    assert hash(made()) == hash(made())
    assert made() != made()[:2]
    assert made() != Candidates(np.array([7, 3, 4]), "abc", np.zeros(3))


def test_pickled_ones_share_their_strings() -> None:
    one, other = (pickle.loads(pickle.dumps(made())) for _ in range(2))
    assert one == made()
    assert one[2].token is other[2].token


def test_later_changes_of_the_arrays_change_nothing() -> None:
    ids, shares = np.array([7]), np.array([0.5], np.float32)
    candidates = Candidates(ids, ["a"], shares)
    ids[0], shares[0] = 8, 0.1
    assert candidates[0] == (7, "a", 0.5)
