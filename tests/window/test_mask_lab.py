"""The Lab page of the Masks tab."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.traces import make_trace
from tests.window.exports import csv_of
from tests.window.parts import unwrap, view_of
from tests.window.windows import FakeEngine, Pair, answer, translate
from visformer import words
from visformer.ui.views.masks.mask_lab import MaskLab
from visformer.ui.views.masks.masks import MasksView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow
from visformer.values.attention_heads import AttentionHeads
from visformer.values.changes.mask_changes import Causal, Cell, HideSource
from visformer.values.changes.weight_changes import ScoreScale
from visformer.values.intervention import NO_CHANGES, parse

Opened = tuple[MainWindow, FakeEngine, MaskLab]


@pytest.fixture
def opened(pair: Pair) -> Opened:
    window, engine = pair
    translate(window, engine, "one two", make_trace(source=6, target=5, layers=3))
    view = view_of(window, MasksView)
    window.session.set(tab="masks", step=4, kind="decoder")
    view.turn("lab")
    return window, engine, view.page(MaskLab)


def test_every_field_makes_its_change(opened: Opened) -> None:
    window, engine, lab = opened

    def masks() -> tuple[object, ...]:
        return window.session.state.intervention.masks

    lab.fields.causal.setCurrentIndex(lab.fields.causal.findData("off"))
    lab.fields.causal.activated.emit(lab.fields.causal.currentIndex())
    assert masks() == (Causal(None),)
    lab.fields.causal.setCurrentIndex(lab.fields.causal.findData("moved"))
    lab.fields.causal.activated.emit(lab.fields.causal.currentIndex())
    assert masks() == (Causal(1),)
    assert lab.fields.offset.isVisible()
    lab.fields.offset.setValue(-1)
    assert masks() == (Causal(-1),)
    lab.fields.causal.setCurrentIndex(lab.fields.causal.findData("own"))
    lab.fields.causal.activated.emit(lab.fields.causal.currentIndex())
    assert masks() == ()
    assert len(engine.decodes) == 4  # the first, and three modified ones
    lab.fields.layers.setCurrentIndex(2)
    lab.fields.hide_button.menu().aboutToShow.emit()
    lab.fields.hide_button.menu().actions()[3].trigger()
    assert masks() == (HideSource(3, 1),)
    assert lab.fields.hide_button.menu().actions()[3].isChecked()
    lab.fields.hide_button.menu().aboutToShow.emit()
    lab.fields.hide_button.menu().actions()[3].trigger()
    assert masks() == ()
    lab.fields.layers.setCurrentIndex(0)
    lab.mask_map.clicked.emit((1, 3))
    assert masks() == (Cell("decoder", 1, 3, True),)
    lab.fields.masked_value.setCurrentIndex(1)
    lab.fields.masked_value.activated.emit(1)
    assert window.session.state.intervention.masked_value == 0
    assert engine.decodes[-1].intervention == window.session.state.intervention


def test_the_scale_of_the_scores_is_changed_for_all_layers_or_one(
    opened: Opened,
) -> None:
    window, engine, lab = opened
    box = lab.fields.scaling

    def choose(index: int) -> tuple[ScoreScale, ...]:
        box.setCurrentIndex(index)
        box.activated.emit(index)
        return window.session.state.intervention.scales

    own = unwrap(window.session.state.trace)
    assert words.number(own.scale("decoder", 0)) in box.itemText(0)
    assert choose(1) == (ScoreScale(None),)
    assert engine.decodes[-1].intervention.scales == (ScoreScale(None),)
    lab.fields.layers.setCurrentIndex(2)
    lab.fields.layers.activated.emit(2)
    assert box.currentIndex() == 0
    assert choose(2) == (ScoreScale(None), ScoreScale(2.0, 1))
    assert choose(0) == (ScoreScale(None),)
    window.change_run(parse(["scale 3 @ L2"]))
    assert box.currentText() == "× 3"
    assert box.currentIndex() == 4


def test_the_fields_follow_undo_and_restore(opened: Opened) -> None:
    window, _engine, lab = opened
    lab.fields.causal.setCurrentIndex(lab.fields.causal.findData("off"))
    lab.fields.causal.activated.emit(1)
    lab.fields.masked_value.setCurrentIndex(1)
    lab.fields.masked_value.activated.emit(1)
    window.ways.undo()
    assert lab.fields.masked_value.currentIndex() == 0
    assert lab.fields.causal.currentData() == "off"
    window.change_run(NO_CHANGES)
    assert lab.fields.causal.currentData() == "own"


def test_the_altered_run_stands_beside_the_untouched(opened: Opened) -> None:
    window, engine, lab = opened
    assert not lab.difference.isVisible()
    lab.mask_map.clicked.emit((3, 0))
    made = make_trace(source=6, target=5, layers=3, seed=8)
    change = window.session.state.intervention
    answer(window, engine, replace(made, intervention=change))
    assert lab.difference.isVisible()
    assert lab.attention[1].isVisible()
    titles = [m.matrix.title for m in lab.attention if m.matrix is not None]
    assert [title.split(":")[0] for title in titles] == ["modified", "original"]
    assert lab.leaks.text().startswith("No leak")
    assert csv_of(lab.row.export)


def test_a_cell_in_the_maps_is_the_windows_cell(opened: Opened) -> None:
    window, _engine, lab = opened
    lab.attention[0].clicked.emit((2, 1))
    assert window.session.state.locked == ("decoder", 2, 1)
    assert "(token 3):" in lab.row_words.text()


def test_the_map_shows_the_layer_in_the_field(opened: Opened) -> None:
    window, _engine, lab = opened
    window.session.set(layer=0)
    lab.fields.layers.setCurrentIndex(2)
    lab.fields.layers.activated.emit(2)
    assert "layer 2" in unwrap(lab.mask_map.matrix).title


def test_hovering_does_not_search_for_leaks_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _engine, lab = opened
    searched: list[object] = []

    def search(trace: object) -> str:
        searched.append(trace)
        return ""

    monkeypatch.setattr("visformer.ui.views.masks.mask_lab.leak_words", search)
    lab.attention[0].hovered.emit((2, 1))
    assert not searched
    window.session.set(step=3)
    assert searched == [window.session.state.visible]


def test_a_hover_derives_no_whole_head(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of what is kept are read; scores, which are not, of one row alone."""
    window, engine, lab = opened
    lab.mask_map.clicked.emit((3, 0))
    made = make_trace(source=6, target=5, layers=3, seed=8)
    change = window.session.state.intervention
    answer(window, engine, replace(made, intervention=change))
    derived: list[tuple[str, slice]] = []
    for name in ("weights", "masked", "scores"):
        own = getattr(AttentionHeads, name)

        def counted(
            heads: AttentionHeads,
            rows: slice = slice(None),
            name: str = name,
            own: Any = own,
        ) -> object:
            derived.append((name, rows))
            return own(heads, rows)

        monkeypatch.setattr(AttentionHeads, name, counted)
    drawn: list[object] = []
    monkeypatch.setattr(HeatMap, "draw", lambda *given: drawn.append(given))
    for query in (2, 0, 1):
        lab.attention[0].hovered.emit((query, 0))
        assert f"(token {query + 1}): " in lab.row_words.text()
        row = slice(query, query + 1)
        assert derived == [("scores", row), ("masked", row)]
        derived.clear()
        lab.attention[0].hovered.emit((query, 1))  # the same row
        assert not derived
    assert not drawn


def test_causal_off_keeps_the_step_but_leaves_a_single_token(opened: Opened) -> None:
    window, _engine, lab = opened

    def cursor_after(step: int) -> int | None:
        window.change_run(NO_CHANGES)
        window.session.set(step=step)
        lab.fields.causal.setCurrentIndex(lab.fields.causal.findData("off"))
        lab.fields.causal.activated.emit(1)
        return window.session.state.cursor

    assert cursor_after(3) == 3
    assert cursor_after(1) == 5  # the last one: there is something to leak


def test_yes_and_no_stand_in_the_row_of_the_mask(opened: Opened) -> None:
    _window, _engine, lab = opened
    model = lab.row.model()
    row = lab.row.numbers.rows.index("may attend")  # type: ignore[union-attr]
    said = [model.index(row, at).data() for at in range(model.columnCount())]
    assert set(said) <= {"yes", "no"}
    assert "yes" in said
    assert "0." in model.index(row + 2, 0).data()
