from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.traces import fed, make_trace
from visformer.pictures.candidates import (
    CandidateRow,
    CandidateTable,
    candidate_table,
    chosen_place,
    kept_words,
    named_rows,
    others_words,
    rest_of,
)
from visformer.values.measured import WholeDistribution


def test_best_first_and_the_choice_is_marked() -> None:
    trace = make_trace()
    table = candidate_table(trace.until(2))
    step = trace.steps[1]
    assert [row.id for row in table.rows] == [c.id for c in step.candidates]
    assert [row.chosen for row in table.rows] == [True, False, False, False, False]
    assert table.title == "next token, after “t0”"
    assert table.summary.startswith("chosen: “t1”, rank 1\nentropy")


def test_a_choice_beyond_the_candidates_has_a_row_of_its_own() -> None:
    trace = make_trace()
    rare = replace(trace.steps[0], id=3, token="</s>", rank=41, origin="forced")
    trace = replace(trace, steps=(rare, *trace.steps[1:]))
    table = candidate_table(trace.until(1))
    assert (table.rows[-1].id, table.rows[-1].rank, table.rows[-1].chosen) == (
        3,
        41,
        True,
    )
    assert "forced by you: “</s>”, rank 41" in table.summary
    assert "the model would say: “t0” 0." in table.summary


def test_a_choice_that_a_rule_changed_says_so() -> None:
    trace = make_trace()
    second = replace(trace.steps[0], id=trace.steps[0].candidates[1].id, origin="rule")
    trace = replace(trace, steps=(second, *trace.steps[1:]))
    table = candidate_table(trace.until(1))
    assert table.summary.startswith("by the generation rules: “")
    assert "most probable: “t0”" in table.summary


def test_nothing_decoded_yet() -> None:
    table = candidate_table(make_trace().until(0))
    assert table.rows == ()
    assert table.title == "next token"


def test_the_best_are_shown_and_the_others_counted() -> None:
    rows = tuple(
        CandidateRow(id, id + 1, f"▁w{id}", 0.02, chosen=id == 30) for id in range(40)
    )
    table = CandidateTable("", "", rows, vocabulary=8000)
    best = table.best()
    assert [row.id for row in best] == [*range(8), 30]
    assert others_words(table, 40) == "7,960 others  0.2000"
    assert others_words(table, 8) == "7,992 others  0.8400"
    assert others_words(replace(table, vocabulary=0), 40) == ""
    assert "the best 40 of 8,000 tokens" in kept_words(table)
    assert kept_words(replace(table, vocabulary=40)) == ""


def test_all_tokens_follow_the_best_in_the_order_of_the_step() -> None:
    trace = make_trace()
    step = trace.steps[1]
    known = [c.id for c in step.candidates]
    ids = [*known[::-1], *(id for id in range(40) if id not in known)]  # as if tied
    tokens = tuple(f"w{id}" for id in ids)
    shares = np.linspace(0.5, 0, 40, dtype=np.float32)
    whole = WholeDistribution(ids=np.array(ids), tokens=tokens, probabilities=shares)
    table = candidate_table(trace.until(2), whole=whole)
    assert [row.id for row in table.rows[:5]] == known
    assert [row.rank for row in table.rows] == list(range(1, 41))
    assert sorted(row.id for row in table.rows) == list(range(40))
    last = table.rows[-1]
    assert (last.id, last.token, last.probability) == (ids[-1], f"w{ids[-1]}", 0)
    assert table == candidate_table(trace.until(2), whole=whole)
    assert table.best() == table.rows[:8]
    assert table.rows[::-1][0] == last
    with pytest.raises(IndexError):
        table.rows[40]
    rare = next(id for id in range(40) if id not in known)
    (named, *_rest) = named_rows(table, "x", [(rare, f"w{rare}")])
    assert table.rows[named.rank - 1] == named
    assert named.id == rare


def test_a_chosen_token_far_down_stands_at_its_rank() -> None:
    trace = make_trace()
    known = [c.id for c in trace.steps[0].candidates]
    ids = [*known, *(id for id in range(40) if id not in known)]
    rare = replace(trace.steps[0], id=ids[-1], token="z", rank=40, origin="forced")
    trace = replace(trace, steps=(rare, *trace.steps[1:]))
    whole = WholeDistribution(
        ids=np.array(ids),
        tokens=tuple(f"w{id}" for id in ids),
        probabilities=np.full(40, 1 / 40, np.float32),
    )
    table = candidate_table(trace.until(1), whole=whole)
    assert len(table.rows) == 40
    assert [row.rank for row in table.rows if row.chosen] == [40]
    assert chosen_place(table.rows) == 39
    assert [row.id for row in table.best()] == [*ids[:8], ids[-1]]


def test_a_typed_text_names_tokens_of_the_whole_vocabulary() -> None:
    rows = tuple(
        CandidateRow(id, id + 1, f"▁w{id}", 0.1, chosen=False) for id in range(3)
    )
    table = CandidateTable("", "", rows)
    named = named_rows(table, "W1", [(77, "w11"), (1, "▁w1")])
    assert [(row.id, row.rank) for row in named] == [(77, 0), (1, 2)]
    assert named[1].probability == 0.1
    assert [row.id for row in named_rows(table, "w", ())] == [0, 1, 2]


def test_a_fed_token_that_the_model_would_say_too() -> None:
    trace = fed(make_trace(), {0: "reference"})
    summary = candidate_table(trace.until(1)).summary
    assert summary.startswith("fed from the reference: “t0”, rank 1\nthe model would")
    assert "the model would say the same" in summary


def test_what_is_left_beside_all_tokens_is_never_negative() -> None:
    assert (rest_of(0.75), rest_of(1.0000001)) == (0.25, 0.0)
    assert np.isnan(rest_of(float("nan")))
