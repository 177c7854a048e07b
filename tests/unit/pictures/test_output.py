"""The pictures of the Output tab: what they show, and that the numbers add up."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.existing import existing
from tests.lenses import plain_lens
from tests.states import ran
from tests.traces import VOCABULARY, fed, make_trace, with_config
from visformer.pictures.output import (
    AHEAD,
    AROUND,
    BEST,
    MOST_ROWS,
    MOST_STEPS,
    all_lens,
    chosen_line,
    flow_words,
    how_words,
    known_rows,
    lens_cell_words,
    logit_table,
    missing,
    output_picture,
    output_words,
    product_table,
    rank_words,
    settled_layer,
    softmax_words,
    step_lens,
)
from visformer.pictures.picture import Matrix
from visformer.session.state import State
from visformer.values.step import Draw, LensRows, Strategy
from visformer.values.trace import Trace
from visformer.words import share

WEIGHT = np.random.default_rng(5).standard_normal((VOCABULARY, 8)).astype(np.float32)
BIAS = np.random.default_rng(6).standard_normal(VOCABULARY).astype(np.float32)


def state_of(
    step: int = 4,
    *,
    known: range | None = None,
    strategy: Strategy | None = None,
    trace: Trace | None = None,
    **changes: Any,
) -> State:
    trace = trace or make_trace(target=6, layers=3)
    how = strategy or Strategy()
    rows = range(len(trace)) if known is None else known
    made = plain_lens(trace, rows, WEIGHT, BIAS, temperature=how.temperature)
    lens = LensRows(
        of=trace.storage, strategy=how, rows=dict(zip(rows, made, strict=True))
    )
    shown = trace.until(step)
    fields = {"visible": shown, "step": step, "lens": lens, **changes}
    return State(**ran(trace), **fields)


def of(state: State) -> tuple[Trace | None, LensRows | None]:
    return state.visible, state.lens


def output_picture_of(state: State) -> Matrix:
    assert state.visible is not None
    return existing(output_picture(state.visible))


def wanted(state: State) -> tuple[int, ...]:
    return missing(*of(state), busy=bool(state.busy))


def test_future_rows_are_not_shown() -> None:
    state = state_of(3)
    picture = output_picture_of(state)
    assert state.trace is not None
    assert (picture.values == state.trace.decoder_output[:3]).all()
    assert picture.rows[2] == "3: t2"
    assert "row t read tokens 1..t, predicts t + 1" in picture.title
    top = np.abs(picture.values).max()
    np.testing.assert_allclose(picture.shade, picture.values / (2 * top) + 0.5)
    words = output_words(state.trace, 2)
    assert "Row 3 of Z" in words
    assert "tokens 1 to 3 (“<s>” … “t1”) only." in words
    assert "predicts “t2” (0." in words
    assert "token 1 (“<s>”) only." in output_words(state.trace, 0)
    assert flow_words(state.visible).startswith("Step 3: target tokens 1 to 3 (")
    assert " → row 3 of Z → times W: 50 logits z → " in flow_words(state.visible)


def test_nothing_decoded_is_drawn() -> None:
    state = state_of(0)
    picture = output_picture_of(state)
    assert picture.values.shape == (0, 8)
    assert "Nothing is decoded yet" in flow_words(state.visible)
    tables = (
        product_table(*of(state)),
        logit_table(*of(state)),
        step_lens(*of(state)),
    )
    assert (*tables, all_lens(*of(state), "best")) == (None,) * 4
    assert (wanted(state), softmax_words(*of(state))) == ((), "")
    assert "No sentence" in flow_words(None)


def test_only_the_last_rows_of_a_long_sentence_are_drawn() -> None:
    trace = make_trace(source=2, target=MOST_ROWS + 10, layers=1)
    picture = output_picture_of(state_of(MOST_ROWS + 5, known=range(0), trace=trace))
    assert (picture.values == trace.decoder_output[5 : MOST_ROWS + 5]).all()
    assert picture.rows[0].startswith("6: ")
    assert picture.row_names[0].startswith("row 6: ")
    assert f"rows 6 to {MOST_ROWS + 5}" in picture.title


def numbers_in(text: str) -> list[float]:
    found = re.findall(r"−?\d[\d,]*\.?\d*(?:e[+−-]?\d+)?", text)
    return [float(n.replace("−", "-").replace(",", "")) for n in found]


def test_the_softmax_written_out_adds_up() -> None:
    state = state_of(4)
    words = softmax_words(*of(state))
    exponent = existing(
        re.search(r"p = exp\((.*?) − (−?[\d.]+)\) = exp\((.*?)\) = (\S+)\.", words)
    )
    logit, total, gap, p = (float(part.replace("−", "-")) for part in exponent.groups())
    assert logit - total == pytest.approx(gap, abs=2e-4)
    assert np.exp(gap) == pytest.approx(p, abs=1e-4)
    assert f"all {VOCABULARY} logits" in words
    assert "+ bias" in words
    shares = existing(
        re.search(r"hold (\S+) of the probability, the other 38 tokens (\S+)\.", words)
    )
    assert sum(map(float, shares.groups())) == pytest.approx(1, abs=1e-3)


def test_products_sum_to_the_logit() -> None:
    state = state_of(4)
    table, look = existing(product_table(*of(state))), known_rows(*of(state))[3]
    assert table.rows == ("Z[t]", "W[:, token]", "product")
    np.testing.assert_allclose(table.values[0] * table.values[1], table.values[2])
    assert look.bias is not None
    summed = float(table.values[2].sum()) + look.bias
    assert summed == pytest.approx(float(look.chosen_logits[-1]), abs=1e-5)
    bare = existing(product_table(state.visible, None))
    assert bare.rows == ("Z[t]",)


def test_the_table_of_logits_holds_the_chosen_token_too() -> None:
    state = state_of(5)
    table, line, look = (
        existing(logit_table(*of(state))),
        existing(chosen_line(*of(state))),
        known_rows(*of(state))[4],
    )
    rank = int(look.chosen_ranks[-1])
    assert rank > 12  # of random numbers; else another seed tests nothing
    assert line == 12
    assert table.rows[line] == f"{rank}  t4"
    z, p = table.values.T
    np.testing.assert_allclose(np.exp(z - look.log_sums[-1]), p, rtol=1e-4)


def test_sampling_says_what_it_draws_from() -> None:
    """What its own step was drawn from, whatever is chosen for the next run."""
    hot, trace = Strategy("sample", temperature=0.5), make_trace(target=6, layers=3)
    steps = list(trace.steps)
    steps[1] = replace(steps[1], origin="drawn", drawn=Draw(0.25, 0.5, 5, 1.0))
    trace = replace(trace, steps=tuple(steps))
    words = softmax_words(*of(state_of(2, strategy=hot, trace=trace)))
    look = known_rows(*of(state_of(2, strategy=hot, trace=trace)))[1]
    sampling = words.partition("Sampling")[2]
    drawn = np.exp(2 * look.chosen_logits[-1] - look.tempered_log_sum)
    assert "softmax(z / 0.5) gives" in words
    assert numbers_in(sampling.partition(" = ")[2])[0] == pytest.approx(drawn, rel=1e-3)
    kept = "It was drawn with 0.2500 (temperature 0.5, top-k 5)."
    assert words.endswith(kept)
    words = softmax_words(*of(state_of(2, trace=trace)))
    assert words.endswith(kept)
    assert "Sampling" not in words  # at another temperature
    for step in (1, 3):  # nothing was drawn there
        words = softmax_words(*of(state_of(step, strategy=hot, trace=trace)))
        assert "drawn" not in words


def test_the_lens_of_a_step() -> None:
    state = state_of(4)
    written, look = existing(step_lens(*of(state))), known_rows(*of(state))[3]
    matrix = written.matrix
    assert matrix.values.shape == (4, 1 + BEST)
    assert (matrix.values[:, 0] == look.chosen_probabilities).all()
    assert (matrix.values[:, 1:] == look.probabilities[:, :BEST]).all()
    assert matrix.rows == ("0: input", "1", "2", "3: model")
    assert written.texts[2][0] == (
        f"#{look.chosen_ranks[2]}",
        share(float(look.chosen_probabilities[2])),
    )
    assert written.texts[1][3][0] == look.tokens[1][2].removeprefix("▁")
    ranks = " → ".join(map(str, look.chosen_ranks))
    assert f"rank {ranks};" in rank_words(*of(state))
    said = lens_cell_words(*of(state), 3, 0)
    assert "after the input: " + f"“{look.tokens[0][0].removeprefix('▁')}”" in said
    said = lens_cell_words(*of(state), 3, 1)
    assert said.startswith(f"Step 4, after layer 1: “{look.tokens[1][0][1:]}”")


@pytest.mark.parametrize(
    ("ranks", "layer"),
    [
        ([3, 1, 2, 1], 3),
        ([1, 2, 1, 1], 2),
        ([2, 1, 1, 1], 1),
        ([1, 1, 1, 1], 0),
        ([1, 1, 1, 2], None),
    ],
)
def test_a_token_is_settled_from_the_layer_after_the_last_other_one(
    ranks: list[int], layer: int | None
) -> None:
    state = state_of(4)
    assert state.lens is not None
    look = replace(state.lens.rows[3], chosen_ranks=np.array(ranks))
    lens = replace(state.lens, rows={3: look})
    assert settled_layer(state.visible, lens) == layer


def test_the_lens_of_all_steps() -> None:
    state = state_of(5, known=range(1, 6))
    best, chosen = (
        existing(all_lens(*of(state), "best")),
        existing(all_lens(*of(state), "chosen")),
    )
    assert best.matrix.values.shape == (5, 4)
    assert best.texts[0] == (("…", ""),) * 4  # has not come yet
    look = known_rows(*of(state))[2]
    assert best.texts[2][1][0] == look.tokens[1][0].removeprefix("▁")
    assert best.matrix.values[2, 1] == look.probabilities[1, 0]
    assert chosen.matrix.values[2, 1] == look.chosen_probabilities[1]
    assert chosen.texts[2][1][0] == f"#{look.chosen_ranks[1]}"
    assert best.matrix.rows[4] == "5: t4"


def test_the_map_of_all_steps_ends_at_the_current_one() -> None:
    trace = make_trace(source=2, target=MOST_STEPS + 9, layers=1)
    state = state_of(MOST_STEPS + 4, known=range(1), trace=trace)
    assert known_rows(*of(state))
    written = existing(all_lens(*of(state), "best"))
    assert len(written.texts) == MOST_STEPS
    assert written.matrix.rows[0] == "5: t4"
    assert f"steps 5 to {MOST_STEPS + 4}:" in written.matrix.title


def test_only_missing_rows_are_asked_for_the_nearest_first() -> None:
    trace = make_trace(source=2, target=2 * AROUND, layers=1)
    state = state_of(4, known=range(2), trace=trace)
    assert wanted(state) == (3, 2, *range(4, 4 + AHEAD))
    assert wanted(replace(state, busy="decoding")) == (3,)
    assert wanted(replace(state, step=1, visible=trace.until(1), busy="x")) == ()
    end = replace(state, step=2 * AROUND, visible=trace)
    assert wanted(end) == tuple(range(2 * AROUND - 1, AROUND - 2, -1))
    assert state.lens is not None
    assert wanted(replace(state, lens=replace(state.lens, refused=True))) == ()
    short = replace(state, visible=replace(trace.until(4), cut_from=None))
    assert wanted(short) == (3, 2)  # a pass has no rows ahead


def test_rows_of_another_run_are_not_shown() -> None:
    state = state_of(3)
    other = make_trace(target=6, layers=3, seed=1)
    moved = replace(state, **ran(other), visible=other.until(3))
    assert not known_rows(*of(moved))
    assert wanted(moved)[0] == 2
    assert "requested" in softmax_words(*of(moved))
    assert state.lens is not None
    lost = replace(state, lens=replace(state.lens, rows={}, refused=True))
    assert "could not compute" in softmax_words(*of(lost))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"final_norm": True}, "the final norm of each layer's stream, then"),
        ({"norm_first": True}, "as it is (there is no final norm)"),
        ({}, "which ends with the layer's own norm"),
        ({"output_bias": True}, "the output projection with its bias"),
    ],
)
def test_how_the_lens_was_made_is_said(choices: dict[str, Any], words: str) -> None:
    said = how_words(with_config(make_trace().model, **choices))
    assert words in said
    assert "the last row is the model's own prediction" in said.replace("Last", "last")
    assert "not what the model computes" in said


def test_the_lens_in_full_names_what_the_model_would_have_said() -> None:
    trace = fed(make_trace(target=6, layers=3), {1: "reference"}, wrong=(1,))
    state = state_of(2, trace=trace)
    steps, layers = (
        existing(all_lens(*of(state), "best")),
        existing(step_lens(state.visible, state.lens)),
    )
    said = "▁w (fed; the model would say: “t1” "
    assert steps.matrix.rows[1] == "2: w (fed)"
    assert steps.matrix.table.rows[1].startswith(f"2: {said}")
    assert layers.matrix.columns[0] == "w (fed)"
    assert layers.matrix.table.columns[0].startswith(said)
