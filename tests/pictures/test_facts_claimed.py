"""What is said of norms, positions, lenses and NaN follows from the run's arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.general_traces import any_trace
from tests.models import tiny_checkpoint
from tests.pictures.computed import looked_at, state_of
from tests.traces import make_trace
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.side_runs import run_shuffled
from visformer.pictures.computation.stages import picture, stage_of
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.explanations import explanation
from visformer.pictures.logit_lens import how_words
from visformer.pictures.position_lab import result_words, shuffle_words
from visformer.pictures.scene import Scene
from visformer.pictures.selection import Selection
from visformer.session.state import State
from visformer.values.arrays import Floats
from visformer.values.change_text import parse
from visformer.values.intervention import Intervention
from visformer.values.modified_positions import adds_positions
from visformer.values.trace import Trace

HEAD = Selection(kind="cross", layer=0, head=0)


def decoded(change: str = "", text: str = "abc", **sizes: Any) -> tuple[Any, Trace]:
    checkpoint = tiny_checkpoint(**sizes)
    changes = parse([change])
    return checkpoint, Decoding(
        checkpoint, text, limit=4, intervention=changes
    ).finish()


def scene(trace: Trace, **fields: Any) -> Scene:
    return replace(Scene(trace=trace, model=trace.model, selection=HEAD), **fields)


def all_words(trace: Trace, block: str) -> str:
    """Return every word of the diagram with a block's inside shown."""
    drawn = architecture(trace, None, HEAD, chosen=block)
    assert drawn is not None
    said = (" ".join((box.title, box.detail, box.words)) for box in drawn.boxes)
    return " ".join(" ".join(said).split())


def stage_words(state: State, stage: str) -> str:
    made = picture(stage_of(stage), looked_at(state))
    return made if isinstance(made, str) else f"{made.formula} {made.words}"


# ---- positions -------------------------------------------------------------------


def added(checkpoint: Checkpoint, trace: Trace) -> Floats:
    """Return what entered the encoder beside the embeddings, [S, D]."""
    table = checkpoint.model.source_embedding.weight.detach().numpy()
    scale = np.sqrt(np.float32(16)) if checkpoint.config.embedding_scale else 1
    rows: Floats = trace.hidden("encoder", 0) - scale * table[trace.source_ids]
    return rows


@pytest.mark.parametrize("embedding_scale", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize(
    "change",
    [
        *("", "positions none", "positions scaled 0", "positions shifted 3"),
        *("positions interleaved", "positions constant 2", "causal off"),
    ],
)
def test_a_position_is_added_where_it_is_said_to_be(
    change: str, positions: str, embedding_scale: bool
) -> None:
    sizes: Any = {"positions": positions, "embedding_scale": embedding_scale}
    checkpoint, trace = decoded(change, **sizes)
    rows = added(checkpoint, trace)
    adds = bool((np.abs(rows) > 1e-5).any())
    assert adds_positions(trace.model, trace.intervention.positions) == adds

    page = explanation(("positions", "input"), scene(trace))
    assert ("no position is added" in page) == (not adds)
    assert ("times √16" in page) == embedding_scale
    own = np.abs(rows - rows[0]).max() > 1e-5 and "shifted" not in change
    assert not own or ("plus its position's row" in page) == ("positions" not in change)

    state = state_of(checkpoint, trace, kind="encoder")
    said = stage_words(state, "input")
    assert ("embedding + position" in said) == adds
    assert ("scaled embedding" in said) == embedding_scale

    said = all_words(trace, "source_positions")
    assert ("no positional encoding" in said) == (not adds or positions == "none")
    if "positions" in change:
        assert f"Changed in this run: {change}" in said


@pytest.mark.parametrize("axis", ["batch", "restart"])
def test_a_row_that_is_not_the_tokens_own_is_not_said_to_be(axis: str) -> None:
    _checkpoint, trace = decoded(position_axis=axis)
    page = explanation(("positions", "input"), scene(trace))
    assert "plus a row of the table" in page
    assert "is added to the token at that position" not in all_words(
        trace, "source_positions"
    )


def test_positions_that_are_not_known_are_not_described() -> None:
    trace = any_trace()
    for page in ("table", "input"):
        assert explanation(("positions", page), scene(trace)) == ""
    nothing = decoded(positions="none")[1]
    assert explanation(("positions", "table"), scene(nothing)) == ""


def test_a_table_that_a_run_was_not_given_is_not_called_its_own() -> None:
    _checkpoint, trace = decoded("positions constant 0")
    said = explanation(("positions", "table"), scene(trace))
    assert said.endswith("This run was given others.")


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_a_lens_begins_with_what_enters_the_first_layer(positions: str) -> None:
    for trace in (decoded(positions=positions)[1], any_trace()):
        assert "Row 0 is what enters the first layer" in how_words(trace.model)
        assert "position" not in how_words(trace.model)


def test_one_of_two_changes_is_not_called_the_cause() -> None:
    _checkpoint, trace = decoded("positions none; hide 2")
    other = replace(trace.until(1), intervention=Intervention())
    said = result_words(trace, other)
    assert said == f"With hide 2; positions none “{other.text}” becomes “{trace.text}”."


@pytest.mark.parametrize(
    ("text", "change", "verdict"),
    [
        ("abcde", "", "the model knows the order"),
        ("abcde", "positions none", "a bag of words"),
        ("abcde", "positions none; hide 1", "other words stand now"),
        ("abcde", "positions none; cell encoder 1 2 off", "other words stand now"),
        ("aaa", "", "the same sentence again"),
    ],
)
def test_a_shuffled_run_says_what_follows_from_it(
    text: str, change: str, verdict: str
) -> None:
    order, plain, shuffled = run_shuffled(
        tiny_checkpoint(), text, [2, 5, 6], intervention=parse([change]), seed=3
    )
    said = shuffle_words(plain, shuffled, order)
    assert verdict in said
    assert ("knows the order" in said) == (verdict == "the model knows the order")


def test_outputs_of_nan_say_nothing_about_order() -> None:
    trace = make_trace()
    broken = replace(trace, encoder_rows=np.full_like(trace.encoder_rows, np.nan))
    other = replace(broken, source=trace.source[::-1])
    said = shuffle_words(broken, other, tuple(range(len(trace.source))))
    assert said.endswith("Outputs that are NaN say nothing about order.")
