from __future__ import annotations

import numpy as np

from tests.traces import make_trace
from visformer.ui.changed import Changed


def test_a_part_is_drawn_first_and_then_from_other_things() -> None:
    changed = Changed()
    assert changed("map", 1, "fixed")
    assert not changed("map", 1, "fixed")
    assert changed("map", 2, "fixed")
    assert changed("map", 1, "fixed")  # the last alone is remembered
    assert changed("map", 1)
    assert changed("map")
    assert not changed("map")


def test_parts_are_apart_and_are_forgotten() -> None:
    changed = Changed()
    assert changed("map", 1)
    assert changed("bar", 1)
    changed.forget("map")
    assert changed("map", 1)
    assert not changed("bar", 1)
    changed.forget()
    assert changed("bar", 1)


def test_traces_and_arrays_are_the_same_where_they_are_one() -> None:
    changed, values, trace = Changed(), np.zeros(3), make_trace()
    assert changed("map", values, trace)
    assert not changed("map", values, trace)
    assert changed("map", values.copy(), trace)
    assert changed("map", None, trace)
    assert changed("map", values, trace)
    assert changed("map", values, make_trace())
