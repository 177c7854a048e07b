from __future__ import annotations

import pytest

from tests.traces import make_trace
from visformer.analysis.head_measures import entropy, maximum, place_correlation
from visformer.pictures.attention.ranking import Ranking, order_words, ranking_parts
from visformer.pictures.selection import Order
from visformer.values.facts import Kind
from visformer.values.trace import Trace

PLACES = [(layer, head) for layer in range(2) for head in range(2)]


def ranked(trace: Trace, kind: Kind, order: Order) -> Ranking:
    parts = list(ranking_parts(trace, kind, order))
    assert parts[:-1] == [None] * 4
    last = parts[-1]
    assert last is not None
    return last


@pytest.mark.parametrize(
    ("order", "measure", "sign"),
    [("entropy", entropy, 1), ("maximum", maximum, -1)],
)
def test_heads_stand_in_the_order_of_their_measure(
    order: Order, measure: object, sign: int
) -> None:
    trace = make_trace(7, 6, sharpness=2)
    assert callable(measure)
    values = {at: measure(trace.attention("cross", *at)) for at in PLACES}
    ranking = ranked(trace, "cross", order)
    assert list(ranking.order) == sorted(PLACES, key=lambda at: sign * values[at])
    layer, head = ranking.order[0]
    caption = f"L{layer + 1} H{head + 1} {values[layer, head]:.2f}"
    assert ranking.captions[0] == caption


def test_alignment_is_another_for_cross_and_for_self() -> None:
    trace = make_trace(7, 6, sharpness=2)
    values = {at: place_correlation(trace.attention("cross", *at)) for at in PLACES}
    ranking = ranked(trace, "cross", "alignment")
    assert list(ranking.order) == sorted(PLACES, key=lambda at: -abs(values[at]))
    assert "correlation" in ranking.words
    beside = ranked(trace, "decoder", "alignment")
    assert beside.captions[0].split()[2] in ("prev", "self", "next")
    assert "next token" in beside.words


def test_heads_without_a_number_come_last_in_their_places() -> None:
    ranking = ranked(make_trace(7, 1), "cross", "alignment")  # one query: no line
    assert list(ranking.order) == PLACES
    assert ranking.captions[0] == "L1 H1 NaN"


def test_in_place_there_is_no_ranking() -> None:
    assert not list(ranking_parts(make_trace(), "cross", "place"))
    assert order_words("place", "cross") == ""
