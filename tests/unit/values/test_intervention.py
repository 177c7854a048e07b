"""What an Intervention changes, and the text form that says it."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import make_trace, with_config
from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.changes.mask_changes import Causal, Cell, HideSource
from visformer.values.changes.position_change import (
    PositionChange,
    PositionForm,
    change_table,
)
from visformer.values.changes.run_change import RunChange
from visformer.values.changes.weight_changes import ScoreScale
from visformer.values.facts import KINDS
from visformer.values.intervention import NO_CHANGES, Intervention, parse

CAUSAL = np.tri(3, dtype=bool)
ALL = np.ones((3, 3), bool)

layers = st.none() | st.integers(0, 5)
changes = (
    st.builds(Causal, st.none() | st.integers(-4, 4), layers)
    | st.builds(HideSource, st.integers(0, 99), layers)
    | st.builds(
        Cell,
        st.sampled_from(KINDS),
        st.integers(0, 9),
        st.integers(0, 9),
        st.booleans(),
        layers,
    )
)
scalings = st.builds(ScoreScale, st.none() | st.floats(-1000, 1000), layers)
positions = (
    st.none()
    | st.builds(PositionChange, st.sampled_from(["interleaved", "halves", "none"]))
    | st.builds(PositionChange, st.just("scaled"), st.floats(-1000, 1000))
    | st.builds(
        PositionChange, st.just("permuted"), st.integers(2, 60), st.integers(0, 99)
    )
)


@given(
    st.lists(changes, max_size=5),
    st.none() | st.floats(-1e9, 1e9),
    positions,
    st.lists(scalings, max_size=3),
)
def test_the_text_form_and_the_data_say_all(
    made: list[RunChange],
    value: float | None,
    table: PositionChange | None,
    scales: list[ScoreScale],
) -> None:
    intervention = Intervention(masked_value=value, positions=table)
    for change in made:
        intervention = intervention.with_change(change)
    for scale in scales:
        intervention = intervention.with_change(scale)
    assert parse([str(intervention)]) == intervention
    data = json.loads(json.dumps(intervention.to_json()))
    assert Intervention.from_json(data) == intervention


def test_the_text_form() -> None:
    text = "causal +1 @ L2; hide 3; cell cross 2 5 off; multiply; positions none"
    assert parse(["causal +1 @ L2", *text.split(";")]) == Intervention(
        masks=(Causal(1, 1), HideSource(2), Cell("cross", 1, 4, False)),
        masked_value=0.0,
        positions=PositionChange("none"),
    )
    assert str(parse([text])) == text
    assert parse(["causal +1 @ layer 2"]) == parse(["causal +1@L2"])
    assert not parse([""])
    assert parse([text])


BAD = (
    *("causal", "hide 0", "hide -1", "cell cross 1 on", "positions", "x"),
    *("masked score", "fill"),
    *("positions scaled 1e9", "positions permuted 1", "positions shifted 0.5"),
    *("scale", "scale 1e4", "scale inf", "scale off 2", "scale 2 @ L0"),
    *("causal off @ L0", "hide 1 @ layer x", "cell self 1 1 on"),
)


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_said_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse([text])


def test_the_masked_score_has_one_spelling_and_its_former_one_is_read() -> None:
    altered = Intervention(masked_value=-1e4)
    assert str(altered) == "masked score -10000"
    assert parse(["masked score -1e4"]) == parse(["fill -1e4"]) == altered


def test_the_data_of_each_change_counts_from_0() -> None:
    altered = parse(["causal off @ L2; hide 3; cell cross 2 5 off; multiply"])
    written: list[dict[str, Any]] = [
        {"what": "causal", "layer": 1, "do": "off"},
        {"what": "hide", "token": 2, "do": ""},
        {"what": "cell", "kind": "cross", "query": 1, "key": 4, "do": "off"},
        {"what": "multiply", "do": ""},
    ]
    assert altered.to_json() == written
    (head,) = parse(["head cross off @ L2H5"]).to_json()
    assert head == {
        **{"what": "head", "kind": "cross", "layer": 1, "head": 4, "do": "off"}
    }
    infinite = Intervention(masked_value=-math.inf).to_json()
    assert infinite == [{"what": "masked score", "do": "-inf"}]
    for data in (written, [head], infinite):
        assert Intervention.from_json(data).to_json() == data


def test_the_data_of_older_files_is_read() -> None:
    older: list[dict[str, Any]] = [
        {"change": "causal", "offset": None, "layer": 1},
        {"change": "hide", "token": 2, "layer": None},
        {
            **{"change": "cell", "kind": "cross", "query": 1, "key": 4},
            **{"allowed": False, "layer": None},
        },
        {"change": "masked score", "masked_value": "-inf"},
    ]
    text = "causal off @ L2; hide 3; cell cross 2 5 off; masked score -inf"
    assert Intervention.from_json(older) == parse([text])


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"what": "head", "kind": "cross", "do": "off", "more": 1},
        {"what": "head", "kind": "cross", "layer": 1.5, "do": "off"},
        {"what": "head", "kind": "cross", "layer": -1, "do": "off"},
        {"what": "head", "kind": ["cross"], "do": "off"},
        {"what": "head", "kind": "cross", "do": ["off"]},
        {"what": "hide", "token": True, "do": ""},
        {"what": "hide", "token": 1},
        {"what": "sideways", "do": ""},
        {"what": "cell", "kind": "cross", "query": 1, "do": "off"},
    ],
)
def test_data_of_no_change_is_refused_in_the_new_form(wrong: dict[str, Any]) -> None:
    with pytest.raises((InputError, ValueError, TypeError, KeyError)):
        Intervention.from_json([wrong])


def test_data_of_version_3_is_read() -> None:
    older = {
        "masks": [{"change": "hide", "token": 2, "layer": None}],
        "masked_value": "-inf",
        "scales": [{"factor": None, "layer": 1}, {"factor": 2.0, "layer": None}],
        "positions": {"form": "scaled", "amount": 2.0, "seed": 0},
    }
    texts = "hide 3", "masked score -inf", "scale off @ L2", "scale 2"
    expected = parse([*texts, "positions scaled 2"])
    assert Intervention.from_json(older) == expected
    del older["scales"]  # the oldest files have none
    assert Intervention.from_json(older) == Intervention(
        *(one for one in expected if one.point != "scale")
    )


def test_the_last_scale_of_a_layer_holds() -> None:
    both = parse(["scale 2", "scale off @ L2"])
    assert [both.scale(0.25, "cross", layer) for layer in (0, 1)] == [0.5, 1.0]
    assert both.without(ScoreScale(None, 1)) == parse(["scale 2"])
    assert parse(["scale off @ L2", "scale 2"]).scale(0.25, "cross", 1) == 0.5
    assert Intervention().scale(0.25, "cross", 0) == 0.25
    assert not both.reaches_back
    assert both.whole


OLDER: dict[str, Any] = {
    "masks": [],
    "masked_value": None,
    "scales": [],
    "positions": None,
}
WRONG: tuple[dict[str, Any], ...] = (
    {"masks": [{"change": "sideways", "layer": None}]},
    {"masks": [{"change": "causal", "offset": 1.5, "layer": None}]},
    {"masks": [{"change": "causal", "offset": 1, "layer": -1}]},
    {"masks": [{"change": "hide", "token": None, "layer": 0}]},
    {"masks": [{"change": "hide"}]},
    {"masks": [{"change": "cell", "kind": "x", "query": 0, "key": 0, "allowed": 1}]},
    {"masked_value": "low"},
    {"positions": {"form": "woven", "amount": 0.0, "seed": 0}},
    {"positions": {"form": "scaled", "amount": True, "seed": 0}},
    {"positions": {"form": "scaled", "amount": 2.0, "seed": 0, "extra": 1}},
    {"masks": None},
    {"scales": [{"factor": "2", "layer": None}]},
    {"scales": [{"factor": 2.0, "layer": -1}]},
    {"scales": [2.0]},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_data_of_no_change_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((InputError, ValueError, TypeError, KeyError)):
        Intervention.from_json({**OLDER, **wrong})
    if masks := wrong.get("masks"):
        with pytest.raises((InputError, ValueError, TypeError, KeyError)):
            Intervention.from_json(masks)


def test_causal_masks_move_and_go() -> None:
    def decoder(*made: Causal) -> list[list[int]]:
        changed = Intervention(masks=made).mask("decoder", 0, CAUSAL, ALL)
        rows: list[list[int]] = changed.astype(int).tolist()
        return rows

    assert decoder(Causal(None)) == [[1, 1, 1], [1, 1, 1], [1, 1, 1]]
    assert decoder(Causal(1)) == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert decoder(Causal(-1)) == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert decoder(Causal(None, layer=1)) == CAUSAL.astype(int).tolist()


def test_causal_changes_leave_padding_hidden() -> None:
    opened = np.array([[1, 1, 0]] * 3, bool)  # the last token is a pad
    changed = Intervention(masks=(Causal(None),))
    assert (changed.mask("decoder", 0, CAUSAL & opened, opened) == opened).all()


def test_tokens_are_hidden_and_cells_painted() -> None:
    made = Intervention(masks=(HideSource(1), Cell("cross", 2, 1, True)))
    cross = made.mask("cross", 0, ALL, ALL)
    assert cross.astype(int).tolist() == [[1, 0, 1], [1, 0, 1], [1, 1, 1]]
    encoder = made.mask("encoder", 3, ALL, ALL)
    assert encoder.astype(int).tolist() == [[1, 0, 1]] * 3
    assert made.mask("decoder", 0, CAUSAL, ALL) is CAUSAL
    later = Intervention(masks=(Cell("decoder", 7, 1, True),))
    assert (later.mask("decoder", 0, CAUSAL, ALL) == CAUSAL).all()


def test_a_later_change_of_a_place_replaces_the_earlier() -> None:
    made = Intervention().with_change(Cell("cross", 1, 1, False))
    made = made.with_change(Cell("cross", 1, 1, True, layer=0))
    made = made.with_change(Cell("cross", 1, 1, True))
    assert made.masks == (Cell("cross", 1, 1, True, 0), Cell("cross", 1, 1, True))
    assert made.by_layer("cross")
    assert not made.by_layer("decoder")


def test_tables_change() -> None:
    table = np.arange(12, dtype=np.float32).reshape(6, 2)

    def changed(form: PositionForm, amount: float = 0.0, seed: int = 0) -> Floats:
        return change_table(table, PositionChange(form, amount, seed))

    assert change_table(table, None) is table
    assert (changed("none") == 0).all()
    assert (changed("scaled", -0.5) == table * -0.5).all()
    assert (changed("shifted", 4) == table[[4, 5, 5, 5, 5, 5]]).all()
    assert (changed("constant", 3) == table[3]).all()
    shuffled = changed("permuted", 4, 1)
    assert (shuffled[4:] == table[4:]).all()
    assert not (shuffled == table).all()  # although that seed draws 0 1 2 3 first
    assert sorted(shuffled[:, 0]) == table[:, 0].tolist()
    assert (shuffled == changed("permuted", 4, 1)).all()


def test_sinusoids_in_both_layouts() -> None:
    table = np.zeros((3, 4), np.float32)
    woven = change_table(table, PositionChange("interleaved"))
    halves = change_table(table, PositionChange("halves"))
    assert woven.dtype == halves.dtype == np.float32
    expected = [np.sin(2), np.cos(2), np.sin(2 / 100), np.cos(2 / 100)]
    np.testing.assert_allclose(woven[2], expected, rtol=1e-6)
    np.testing.assert_allclose(halves[2], np.array(expected)[[0, 2, 1, 3]], rtol=1e-6)


def test_what_does_not_fit_the_model_is_refused() -> None:
    model = with_config(make_trace().model, max_positions=8)
    for text, words in {
        "hide 5": "the source has 4 tokens",
        "cell cross 1 5 off": "the source has 4 tokens",
        "cell encoder 5 1 off": "the source has 4 tokens",
        "causal off @ L9": "the model has 2 such layers",
        "positions shifted 8": "from 0 to 7",
    }.items():
        with pytest.raises(InputError, match=words):
            parse([text]).check(model, 4)
    parse(["cell decoder 90 90 on; hide 4; positions shifted 7"]).check(model, 4)
    NO_CHANGES.check(model, 1)
