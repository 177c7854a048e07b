"""The position lab's arithmetic and words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.existing import existing
from tests.opened import opened_model
from tests.states import ran, showing
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace, with_config
from visformer.core.decoding import Decoding
from visformer.core.side_runs import run_shuffled
from visformer.errors import InputError
from visformer.pictures.comparison import attention_pictures, text_words
from visformer.pictures.picture import Matrix
from visformer.pictures.position_lab import (
    MOST_LISTED,
    change_of,
    distance_products,
    id_words,
    input_parts,
    input_pictures,
    position_numbers,
    shuffle_words,
    table_pictures,
    telling_position,
)
from visformer.session.state import State
from visformer.values.changes.position_change import PositionChange
from visformer.values.facts import SentenceSide
from visformer.values.intervention import Intervention, parse
from visformer.values.trace import Trace


def shown(trace: Trace, **changes: Any) -> State:
    table = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)
    return showing(trace, **{"opened": opened_model(trace.model, table), **changes})


def decoded(*changes: str) -> tuple[State, np.ndarray]:
    checkpoint = tiny_checkpoint()
    made = Decoding(checkpoint, "abc", limit=4, intervention=parse(changes))
    table = checkpoint.model.positions.numpy()
    trace = made.finish()
    return shown(trace, opened=opened_model(trace.model, table)), table


def inputs(state: State, side: SentenceSide) -> tuple[Matrix, ...]:
    return input_pictures(state.visible, state.positions, side)


def tables(state: State) -> tuple[Matrix, ...]:
    change = state.intervention.positions
    return table_pictures(state.trace, state.positions, change)


def attentions(state: State) -> tuple[Matrix, ...]:
    return attention_pictures(state.visible, state.baseline, state.selection)


@pytest.mark.parametrize("changes", [(), ("positions shifted 5",)])
def test_embedding_and_position_add_up_to_the_input(changes: tuple[str, ...]) -> None:
    state, table = decoded(*changes)
    checkpoint = tiny_checkpoint()
    first = 5 if changes else 0
    for side, ids in (("source", "source_ids"), ("target", "target_ids")):
        assert state.visible is not None
        parts = existing(input_parts(state.visible, table, side))  # type: ignore[arg-type]
        tokens = getattr(state.visible, ids)
        weights = checkpoint.model.target_embedding.weight.detach().numpy()
        np.testing.assert_allclose(parts.embedding, 4 * weights[tokens], atol=1e-5)
        expected = table[first : first + len(tokens)]
        np.testing.assert_allclose(parts.position, expected, atol=1e-6)
        np.testing.assert_array_equal(parts.embedding + parts.position, parts.input)
    pictures = inputs(state, "source")
    assert [p.title.split(" [")[0] for p in pictures] == [
        "embedding × √d",
        "+ position",
        "= input",
    ]
    assert len({p.ends for p in pictures}) == 1


def test_a_learned_table_of_the_target_is_not_guessed() -> None:
    trace = make_trace(d_model=16, heads=2)
    learned = replace(trace, model=with_config(trace.model, positions="learned"))
    assert inputs(shown(learned), "target") == ()
    assert len(inputs(shown(learned), "source")) == 3


def test_positions_along_the_batch_are_the_first_for_every_token() -> None:
    trace = make_trace(d_model=16, heads=2)
    batch = replace(trace, model=with_config(trace.model, position_axis="batch"))
    state = shown(batch)
    assert state.positions is not None
    parts = existing(input_parts(batch, state.positions, "source"))
    assert (parts.position == state.positions[0]).all()


def test_dot_products_by_distance() -> None:
    table = np.array([[1, 0], [0, 1], [2, 2], [3, 0]], np.float32)
    distance, products = distance_products(table, 1, 2)
    assert distance.tolist() == [-1, 0, 1, 2]
    assert products.tolist() == [0, 1, 2, 0]


def test_fields_make_a_change() -> None:
    assert change_of(None, 3, 1) is None
    assert change_of("none", 3, 1) == PositionChange("none")
    assert change_of("permuted", 3, 1) == PositionChange("permuted", 3, 1)
    assert change_of("shifted", 3, 1) == PositionChange("shifted", 3)


def test_tables_and_attention_stand_side_by_side() -> None:
    plain = make_trace(d_model=16, heads=2)
    assert len(tables(shown(plain))) == 1
    assert len(attentions(shown(plain))) == 1
    change = Intervention(positions=PositionChange("scaled", 3))
    other = replace(make_trace(d_model=16, heads=2, seed=4), intervention=change)
    state = shown(other, baseline=plain, intervention=change, kind="cross", head=1)
    own, changed = tables(state)
    np.testing.assert_allclose(changed.values, 3 * own.values, rtol=1e-6)
    untouched, altered = attentions(state)
    np.testing.assert_array_equal(untouched.values, plain.attention("cross", 0, 1))
    np.testing.assert_array_equal(altered.values, other.attention("cross", 0, 1))
    assert text_words(state.trace, state.baseline).startswith(
        f"Original and modified, the same text: {other.text}"
    )
    early = shown(other, baseline=plain, step=2, kind="cross", head=1)
    assert [len(picture.values) for picture in attentions(early)] == [2, 2]
    state = replace(state, **ran(other, baseline=plain.until(2)))
    assert (
        text_words(state.trace, state.baseline)
        == f"Original: t0 t1\nModified: {other.text}"
    )


def test_a_bag_of_words_is_told_from_a_sentence() -> None:
    checkpoint = tiny_checkpoint()
    for text, words in (("positions none", "a bag of words"), ("", "knows the order")):
        made = parse([text])
        order, plain, shuffled = run_shuffled(
            checkpoint, "abcde", [2, 5, 6], intervention=made, seed=3
        )
        assert order[-1] == 5
        assert sorted(order) == list(range(6))
        assert list(order) != list(range(6))
        assert shuffled.source == tuple(plain.source[at] for at in order)
        assert words in shuffle_words(plain, shuffled, order)
    with pytest.raises(InputError, match="two words"):
        run_shuffled(checkpoint, "a", [2])


def test_one_tokens_vectors_are_written_out_with_its_id() -> None:
    state, table = decoded()
    trace = existing(state.visible)
    longer = replace(trace, source=("a", "bcd", "e", "</s>"[:1]))
    assert telling_position(longer, "source") == 1
    said = id_words(trace, "source")
    for token, id in zip(trace.source, trace.source_ids.tolist(), strict=True):
        assert f"{token} {id}" in said
    assert "more" not in said
    ids = np.arange(MOST_LISTED + 40)
    wordy = replace(trace, source=("a",) * len(ids), source_ids=ids)
    said = id_words(wordy, "source")
    assert said.endswith(f"a {MOST_LISTED - 1} … and 40 more")
    numbers = existing(position_numbers(inputs(state, "source"), trace, "source", 2))
    assert f"“{trace.source[2]}” (id {trace.source_ids[2]})" in numbers.rows[0]
    embedding, position, total = numbers.values
    assert position == pytest.approx(table[2], abs=1e-6)
    assert total == pytest.approx(trace.hidden("encoder", 0)[2])
    assert embedding + position == pytest.approx(total)
    assert position_numbers(inputs(state, "source"), trace, "source", 99) is None


def test_an_empty_map_says_why_it_is_empty() -> None:
    state, _table = decoded()
    assert state.trace is not None
    empty = shown(state.trace, step=0, kind="decoder")
    (picture,) = attentions(empty)
    assert not picture.values.size
    assert picture.note.startswith("Nothing is decoded yet")
