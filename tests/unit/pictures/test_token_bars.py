"""The bars of the next token add up to all of the probability."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.traces import VOCABULARY, fed, make_trace
from tests.unit.pictures.test_output import state_of
from visformer.pictures.candidates import bars_table, headline, token_bars
from visformer.pictures.output import known_rows, settled_layer
from visformer.values.step import LensRows


def test_all_bars_sum_to_one_and_every_token_is_counted() -> None:
    trace = make_trace()
    bars = token_bars(trace.until(2))
    best, rest = bars[:-1], bars[-1]
    assert [bar.rank for bar in best] == [1, 2, 3, 4, 5]  # the five that a step keeps
    assert rest.name == f"{VOCABULARY - 5} others"
    assert sum(bar.p for bar in bars) == pytest.approx(1)
    assert [bar.own for bar in bars] == [True, *[False] * 5]
    assert token_bars(trace.until(0)) == token_bars(None) == ()
    table = bars_table(bars)
    assert table is not None
    assert table.values[0] == (1, trace.steps[1].probability)
    assert bars_table(()) is None


def test_a_fed_token_beyond_the_best_has_a_bar_of_its_own() -> None:
    trace = fed(make_trace(), {1: "reference"}, wrong=(1,)).until(2)
    own = token_bars(trace)[-2]
    assert (own.name, own.rank, own.own, own.fed) == ("w", 7, True, True)
    assert own.words == "rank 7: “w”, p = 0.0300"
    assert "others: " in token_bars(trace)[-1].words
    said = "Step 2, after “t0”: fed: “w” 0.0300; the model would say: “t1” 0.5498"
    assert headline(trace) == said
    assert headline(None) == ""


@pytest.mark.parametrize(
    ("ranks", "layer"),
    [([5, 1, 1, 1], 1), ([1, 2, 1, 1], 2), ([1, 1, 1, 1], 0), ([1, 1, 1, 2], None)],
)
def test_the_layer_from_which_the_token_is_the_best(
    ranks: list[int], layer: int | None
) -> None:
    state = state_of(3)
    look = known_rows(state.visible, state.lens)[2]
    assert state.lens is not None
    changed = replace(look, chosen_ranks=np.array(ranks))
    lens = LensRows(of=state.lens.of, strategy=state.lens.strategy, rows={2: changed})
    assert settled_layer(state.visible, lens) == layer
    assert settled_layer(state.visible, None) is None
