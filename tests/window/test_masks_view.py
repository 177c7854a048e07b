from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QTableView,
)

from tests.opened import opened_model
from tests.states import ran
from tests.traces import make_trace
from tests.window.parts import click, unwrap
from tests.window.windows import FakeEngine, make_view, named, show, words
from visformer.engine.messages import Batch
from visformer.pictures.masks import PARTS
from visformer.pictures.selection import AttentionCell
from visformer.session.state import Session, State
from visformer.ui.layout import LeastSize
from visformer.ui.views.masks.batch_panel import BatchPanel
from visformer.ui.views.masks.masks import MaskMaps, MasksPage, MasksView, MaskThumb
from visformer.ui.widgets.heatmap import HeatMap
from visformer.values.arrays import Bools
from visformer.values.changes.mask_changes import Causal
from visformer.values.facts import Kind
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace


def row(pads: int, text: str) -> Trace:
    """Build one row of a batch whose source ends in pads, hidden by every mask."""
    trace = make_trace(source=5, target=4, masked_value=-1e9)
    ids = np.array([9] * (5 - pads) + [trace.model.pad] * pads)
    tokens = ("<s>",) * (5 - pads) + ("<pad>",) * pads
    readable = ids != trace.model.pad
    masks: dict[Kind, Bools] = {
        **trace.masks,
        "encoder": np.broadcast_to(readable, (5, 5)),
        "cross": np.broadcast_to(readable, (4, 5)),
    }
    return replace(trace, source_text=text, source=tokens, source_ids=ids, masks=masks)


def single(batch: Sequence[Trace] = (), **changes: Any) -> State:
    trace = row(0, "I have  a cat.")
    return State(
        opened=opened_model(trace.model),
        **ran(trace, batch=batch),
        visible=trace,
        step=4,
        **changes,
    )


BATCH = (row(0, "one two three"), row(2, "four"), row(3, "five"))


@pytest.fixture
def view(qtbot: Any) -> MasksView:
    view = make_view(qtbot, MasksView)
    view.resize(1000, 620)
    return view


def thumb(view: MasksView, name: str) -> MaskThumb:
    return named(view, MaskThumb, name)


def about(view: MasksView, name: str) -> str:
    """Return what is said of a mask that is not large."""
    return thumb(view, name).accessibleDescription()


def large(view: MasksView, name: str = "") -> HeatMap:
    """Return the large map, after a click on the thumb of this name."""
    if name:
        thumb(view, name).click()
    return view.page(MasksPage).findChildren(HeatMap)[0]


def editor(view: MasksView) -> QPlainTextEdit:
    return view.findChildren(QPlainTextEdit)[0]


def button(view: MasksView) -> QPushButton:
    return next(b for b in view.findChildren(QPushButton) if "Run as" in b.text())


def test_nothing_to_show_is_said(view: MasksView) -> None:
    show(view, State())
    assert "No model is open" in words(view, "what to know about the batch")
    assert "no masks" in words(view, "what the colours mean")
    assert not button(view).isEnabled()


def test_one_sentence_has_no_padding_and_says_so(view: MasksView) -> None:
    show(view, single())
    assert "no padding" in words(view, "what to know about the batch")
    assert "25 of 25" in about(view, "padding mask of encoder self attention")
    assert "−1e9" in words(view, "what the colours mean")
    assert not named(view, QComboBox, "row of the batch that is shown").isEnabled()


def test_nothing_decoded_yet_is_drawn(view: MasksView) -> None:
    state = single()
    show(view, replace(state, visible=unwrap(state.trace).until(0), step=0))
    assert "Nothing is decoded" in about(view, "combined mask of cross attention")


def test_sentences_are_asked_for_as_a_batch(qtbot: Any) -> None:
    engine = FakeEngine()
    view = MasksView(Session(engine=engine))
    qtbot.addWidget(view)
    show(view, single())
    assert editor(view).toPlainText().splitlines()[0] == "I have a cat."
    editor(view).clear()
    qtbot.keyClicks(editor(view), "One.")
    qtbot.keyClick(editor(view), Qt.Key.Key_Return)
    qtbot.keyClick(editor(view), Qt.Key.Key_Return)
    qtbot.keyClicks(editor(view), "  Two. ")
    click(qtbot, button(view))
    assert engine.of(Batch) == [Batch(sources=("One.", "Two."))]


def test_what_the_user_typed_stays(view: MasksView, qtbot: Any) -> None:
    show(view, single())
    qtbot.keyClicks(editor(view), "Mine. ")
    typed = editor(view).toPlainText()
    show(view, single(busy="decoding"))
    assert editor(view).toPlainText() == typed


def test_too_many_or_no_sentences_are_answered(view: MasksView) -> None:
    show(view, single())
    editor(view).setPlainText("a\n" * 11)
    assert not button(view).isEnabled()
    assert "remove 3" in words(view, "what to know about the batch")
    editor(view).setPlainText(" \n")
    assert "at least one" in words(view, "what to know about the batch")


def test_a_row_of_the_batch_is_chosen(view: MasksView) -> None:
    show(view, single(batch=BATCH))
    chooser = named(view, QComboBox, "row of the batch that is shown")
    assert chooser.count() == 3
    assert chooser.currentIndex() == 2  # the shortest: its padding shows
    assert "10 of 25" in about(view, "combined mask of encoder self attention")
    chooser.setCurrentIndex(0)
    assert "25 of 25" in about(view, "combined mask of encoder self attention")
    chooser.setCurrentIndex(1)
    assert "15 of 25" in about(view, "combined mask of encoder self attention")
    table = named(view, QTableView, "source tokens and ids, one row per sentence")
    table.setCurrentIndex(table.model().index(2, 0))
    assert chooser.currentIndex() == 2
    assert "10 of 25" in about(view, "padding mask of encoder self attention")
    show(view, single(batch=BATCH, busy="decoding"))
    assert chooser.currentIndex() == 2
    show(view, single(batch=BATCH[:2]))
    assert chooser.currentIndex() == 1  # another batch begins at its shortest row


def test_the_batch_is_on_screen_with_its_pads_marked(view: MasksView) -> None:
    show(view, single(batch=BATCH))
    table = named(view, QTableView, "source tokens and ids, one row per sentence")
    model = table.model()
    assert (model.rowCount(), model.columnCount()) == (3, 5)
    real, pad = model.index(1, 0), model.index(1, 4)
    assert real.data() == "<s>\n9"
    assert pad.data() == f"<pad>\n{BATCH[1].model.pad}"
    ground = Qt.ItemDataRole.BackgroundRole
    assert real.data(ground) is None
    assert pad.data(ground).style() == Qt.BrushStyle.BDiagPattern
    assert model.headerData(2, Qt.Orientation.Vertical) == "▶ 3"


def test_the_sides_of_a_batch_stand_together_at_the_chosen_row(view: MasksView) -> None:
    names = (
        f"{side} tokens and ids, one row per sentence" for side in ("source", "target")
    )
    show(view, single(batch=BATCH * 2))
    source, target = (named(view, QTableView, name) for name in names)
    view.show()
    view.resize(1000, 1000)
    QApplication.processEvents()
    line = view.fontMetrics().lineSpacing()
    ends = source.mapTo(view, QPoint(0, source.height())).y()
    begins = target.mapTo(view, QPoint()).y()
    assert 0 < begins - ends < 4 * line  # but for what the target is
    assert source.verticalScrollBar().maximum() == 0
    view.resize(1000, 400)
    chooser = named(view, QComboBox, "row of the batch that is shown")
    chooser.setCurrentIndex(0)
    QApplication.processEvents()
    for row in (5, 0):
        chooser.setCurrentIndex(row)
        for table in (source, target):
            place = table.visualRect(table.model().index(row, 0))
            assert table.viewport().rect().contains(place)


def test_a_click_locks_the_cell_of_the_sentence_on_screen(view: MasksView) -> None:
    show(view, single())
    heat_map = large(view, "combined mask of cross attention")
    heat_map.clicked.emit((1, 2))
    state = view.session.state
    assert (state.kind, state.locked) == ("cross", AttentionCell("cross", 1, 2))
    show(view, single(batch=BATCH))
    heat_map.clicked.emit((1, 2))
    assert view.session.state.locked is None


def test_hovering_says_why_a_key_is_hidden(view: MasksView) -> None:
    show(view, single())
    heat_map = large(view, "padding mask of encoder self attention")
    heat_map.hovered.emit((0, 4))
    assert view.session.state.hovered == AttentionCell("encoder", 0, 4)
    show(view, single(batch=BATCH[1:]))
    heat_map.hovered.emit((0, 4))
    assert view.session.state.hovered is None
    assert "the key is padding" in words(view, "what the colours mean")
    heat_map.hovered.emit(None)
    assert "True (may attend)" in words(view, "what the colours mean")


def test_a_batch_can_be_left(view: MasksView) -> None:
    show(view, single())
    leave = next(b for b in view.findChildren(QPushButton) if "C&lose" in b.text())
    assert leave.isHidden()
    show(view, single(batch=BATCH))
    leave.click()
    assert view.session.state.batch == ()
    assert leave.isHidden()


def test_it_paints_and_every_label_is_plain(view: MasksView) -> None:
    show(view, single(batch=BATCH))
    view.show()
    image = view.grab().toImage()
    colours = {
        image.pixel(x, y)
        for x in range(0, image.width(), 7)
        for y in range(0, image.height(), 7)
    }
    assert len(colours) > 20
    for label in view.findChildren(QLabel):
        assert label.textFormat() == Qt.TextFormat.PlainText or not label.text().count(
            "<"
        )


def test_the_masks_are_those_of_the_layer_looked_at(view: MasksView) -> None:
    """As ``causal off @ L2`` leaves them."""
    state = single(kind="decoder")
    trace = unwrap(state.trace)
    own = trace.mask("decoder", 0)
    masks = {**trace.masks, "decoder": np.stack([own, np.ones_like(own)])}
    trace = replace(trace, masks=masks)
    state = replace(state, **ran(trace), visible=trace)
    show(view, state)
    heat_map = large(view, "combined mask of decoder self attention")
    for layer, count, verb in ((0, "10", "may not"), (1, "16", "may")):
        show(view, replace(state, layer=layer))
        assert heat_map.matrix is not None
        assert (
            heat_map.matrix.title == f"decoder self, layer {layer + 1}: combined mask"
        )
        assert heat_map.matrix.values.sum() == int(count)
        said = about(view, "combined mask of decoder self attention")
        assert said.startswith(f"{count} of 16 cells")
        heat_map.hovered.emit((0, 3))
        said = words(view, "what the colours mean")
        assert said.startswith(f"decoder self, layer {layer + 1}: ")
        assert f"(token 1) {verb} attend to key" in said


def test_the_mask_that_matters_is_large_and_a_click_changes_places(
    view: MasksView,
) -> None:
    show(view, single(kind="cross"))
    view.show()
    heat_map = large(view)
    assert heat_map.matrix is not None
    assert heat_map.matrix.title.startswith("decoder self")
    assert heat_map.isVisible()
    chosen = thumb(view, "combined mask of decoder self attention")
    assert chosen.isChecked()
    large(view, "causal mask of decoder self attention")
    assert heat_map.matrix.title == "decoder self: causal mask"
    assert not chosen.isChecked()
    show(view, single(kind="encoder", batch=BATCH))  # chosen by a key
    assert heat_map.matrix.title == "encoder self: causal mask"


def without_causal_mask(step: int) -> State:
    """Return a run whose decoder reads every token, later ones too, at a step."""
    made = make_trace(source=5, target=4, masked_value=-1e9)
    masks = {**made.masks, "decoder": np.ones_like(made.masks["decoder"])}
    change = Intervention(masks=(Causal(None),))
    trace = replace(made, masks=masks, intervention=change)
    return replace(
        single(), **ran(trace), visible=trace.until(step), intervention=change
    )


def test_without_the_causal_mask_the_leak_is_painted(view: MasksView) -> None:
    show(view, without_causal_mask(4))
    view.show()
    heat_map = large(view)
    assert heat_map.isVisible()
    assert heat_map.matrix is not None
    assert heat_map.matrix.alarms is not None
    assert (heat_map.matrix.alarms == np.triu(np.ones((4, 4), bool), 1)).all()
    assert "reads the later token" in words(view, "leaks")
    assert "attend to" in words(view, "the large mask in words")
    large(view, "causal mask of decoder self attention")
    assert heat_map.matrix.alarms is None
    show(view, single())
    assert named(view, QLabel, "leaks").isHidden()  # nothing was changed


def test_of_one_token_without_the_causal_mask_no_leak_is_denied(
    view: MasksView,
) -> None:
    show(view, without_causal_mask(1))
    view.show()
    assert "No leak" not in words(view, "leaks")
    assert "read later tokens, which are not shown" in words(view, "leaks")


def test_a_mask_that_hides_nothing_is_words_and_no_dark_square(view: MasksView) -> None:
    show(view, single())
    view.show()
    heat_map = large(view, "combined mask of encoder self attention")
    solid = named(view, QLabel, "what the large mask hides")
    assert heat_map.isHidden()
    assert solid.isVisible()
    assert "Every query may attend to every key (5 × 5 cells)" in solid.text()
    said = {name: thumb(view, f"{name} mask of cross attention").said for name in PARTS}
    assert said == dict.fromkeys(PARTS, "hides nothing")
    assert thumb(view, "causal mask of decoder self attention").said == ""
    show(view, single(batch=BATCH))
    assert solid.isHidden()
    assert heat_map.isVisible()


def test_nothing_overlaps_where_the_words_are_long(view: MasksView, qtbot: Any) -> None:
    scroll = LeastSize()
    qtbot.addWidget(scroll)
    scroll.setWidget(view)
    show(view, single(batch=BATCH))
    scroll.resize(420, 300)
    scroll.show()
    QApplication.sendPostedEvents()
    maps = view.page(MasksPage).findChildren(MaskMaps)[0]
    parts = maps.picture, maps.note
    assert not parts[0].geometry().intersects(parts[1].geometry())
    assert maps.note.height() >= maps.note.heightForWidth(maps.note.width())
    assert maps.map.canvas.width() >= 120
    assert maps.map.canvas.height() >= 120
    assert view.height() > 300
    below = view.page(MasksPage).findChildren(BatchPanel)[0]
    assert below.y() >= maps.geometry().bottom()
    scroll.resize(1400, 700)
    QApplication.sendPostedEvents()
    assert below.x() > maps.geometry().right()
    scroll.takeWidget()
