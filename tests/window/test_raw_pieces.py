"""Words on screen, whose pieces are chips that touch; raw pieces behind one switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QAction, QGuiApplication
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.traces import fed, make_trace
from tests.window.exports import csv_of
from tests.window.painted import painted
from tests.window.parts import unwrap, view_of
from tests.window.windows import Pair, decoded, make_window
from visformer.pictures.selection import Form
from visformer.ui.bars.strips import TokenStrip
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.table_view import Role
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace

SPLIT = ("▁did", "n", "'", "▁ti", "red")


def split() -> Trace:
    """Return a run whose first source word has three pieces, the second two."""
    trace = make_trace(source=5, target=4)
    return fed(replace(trace, source=SPLIT, source_spans=()), {1: "forced"}, wrong=(1,))


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    window = decoded(pair)
    window.resize(1280, 800)
    window.session.set(**ran(split()), step=3, kind="cross", tab="attention")
    window.show()
    return window


def switch(window: MainWindow) -> QAction:
    actions = window.findChildren(QAction)
    return next(
        one for one in actions if one.text().replace("&", "") == "Show raw pieces"
    )


def attention(window: MainWindow) -> AttentionView:
    return view_of(window, AttentionView)


def seen(window: MainWindow, form: Form = "map") -> set[str]:
    """Return all words that the map of cross-attention and the strips paint."""
    window.session.set(look=replace(window.session.state.look, form=form))
    view = attention(window)
    shown = view.panels["cross"], window.strips, window.candidates.table.viewport()
    return {word.text for one in shown for word in painted(one).words}


@pytest.mark.parametrize("form", ["map", "arcs"])
def test_no_mark_is_seen_unless_it_is_asked_for(window: MainWindow, form: Form) -> None:
    read = {"did", "n", "ti", "red", "t0", "t2", "⇢ w"}
    raw = {"▁did", "n", "▁ti", "red", "▁t0", "▁t2", "⇢ ▁w"}
    assert read <= seen(window, form)
    assert not any("▁" in text for text in seen(window, form))
    switch(window).trigger()
    assert window.session.state.look.pieces
    assert raw <= seen(window, form)
    assert not {"did", "ti", "t0"} & seen(window, form)
    switch(window).trigger()
    assert read <= seen(window, form)


def test_a_text_is_running_with_words_and_with_pieces(window: MainWindow) -> None:
    assert "didn' tired" in " ".join(sorted(seen(window, "text")))
    switch(window).trigger()
    assert "▁didn' ▁tired" in " ".join(sorted(seen(window, "text")))


def test_files_have_raw_pieces_either_way(window: MainWindow) -> None:
    heat_map = attention(window).maps["cross"]
    files = {csv_of(heat_map.export)}
    switch(window).trigger()
    files.add(csv_of(heat_map.export))
    (text,) = files
    first, second, *_rest = text.splitlines()
    assert first.endswith(',"▁did","n","\'","▁ti","red"')
    assert second.startswith('"<s> → ▁t0",0.')


def test_the_switch_is_remembered_and_reset(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    switch(window).trigger()
    other, _engine = make_window(qtbot, tmp_path)
    assert other.session.state.look.pieces
    other.appearance.reset()
    assert not other.session.state.look.pieces
    assert not make_window(qtbot, tmp_path)[0].session.state.look.pieces


def test_pieces_of_a_word_touch_and_words_do_not(window: MainWindow) -> None:
    row = window.strips.source.row
    gaps = [
        b.left() - a.right() for a, b in zip(row.boxes, row.boxes[1:], strict=False)
    ]
    assert [gap > 2 for gap in gaps] == [False, False, True, False]
    assert {gap for gap in gaps if gap <= 2} == {0}  # they share the line between them
    joins = [look.joins for look in row._looks]
    ends = [(False, True), (True, True), (True, False)]
    assert joins == [*ends, ends[0], ends[2]]  # rounded at the word's ends alone


def test_a_chip_says_its_raw_piece_and_its_id(window: MainWindow) -> None:
    row = window.strips.source.row
    ids = unwrap(window.session.state.visible)
    assert row.words(3).startswith(f"piece ▁ti, id {ids.source_ids[3]}, weight 0.")
    index = window.candidates.table.model().index(0, 1)
    assert index.data(Role.ToolTipRole).startswith("piece ▁t2, id ")


def test_copied_tokens_are_raw(window: MainWindow) -> None:
    strip: TokenStrip = window.strips.source
    strip.menu().actions()[0].trigger()
    assert QGuiApplication.clipboard().text() == "▁did n ' ▁ti red"
