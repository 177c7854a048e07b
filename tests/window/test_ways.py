"""Undo, Redo, Back and Forward in the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.windows import Pair, answer, translate
from visformer.ui.window.window import MainWindow
from visformer.values.changes.mask_changes import Causal
from visformer.values.intervention import Intervention

Key = Qt.Key
CONTROL, ALT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
OPEN = Intervention(masks=(Causal(None),))


def able(window: MainWindow) -> list[bool]:
    ways = window.ways
    entries: list[QAction] = [ways.undo_entry, ways.redo_entry]
    entries += [ways.back_entry, ways.forward_entry]
    return [entry.isEnabled() for entry in entries]


def test_what_leads_nowhere_is_grey_and_its_key_does_nothing(
    pair: Pair, qtbot: QtBot
) -> None:
    window, engine = pair
    assert able(window) == [False, False, False, False]
    translate(window, engine, "one two")
    window.tabs.setFocus()
    assert able(window)[:2] == [False, False]
    translate(window, engine, "three")
    assert able(window)[:2] == [True, False]
    assert window.ways.undo_entry.text() == "&Undo the new sentence"
    asked = len(engine.requests)
    window.tabs.setFocus()
    qtbot.keyClick(window.tabs, Key.Key_Z, CONTROL)
    assert able(window)[:2] == [False, True]
    assert window.ways.redo_entry.text() == "&Redo the new sentence"
    assert window.source.text() == "one two"
    qtbot.keyClick(window.tabs, Key.Key_Z, CONTROL)
    assert window.session.state.wish.sentence == "one two"
    qtbot.keyClick(window.tabs, Key.Key_Z, CONTROL | Qt.KeyboardModifier.ShiftModifier)
    assert window.source.text() == "three"
    qtbot.keyClick(window.tabs, Key.Key_Z, CONTROL)
    qtbot.keyClick(window.tabs, Key.Key_Y, CONTROL)
    assert window.source.text() == "three"
    assert able(window)[:2] == [True, False]
    assert len(engine.requests) == asked


def test_the_reference_follows(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    window.reference.setText("un deux")
    window.reference.submit()
    answer(window, engine)
    window.ways.undo()
    assert window.reference.text() == ""
    window.ways.redo()
    assert window.reference.text() == "un deux"
    assert window.session.state.wish.reference == "un deux"


def test_typing_is_undone_before_the_run_is(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    for text in ("one two", "three"):
        translate(window, engine, text)
    window.source.setFocus()
    qtbot.keyClicks(window.source, "x")
    qtbot.keyClick(window.source, Key.Key_Z, CONTROL)
    assert (window.source.text(), able(window)[1]) == ("three", False)
    qtbot.keyClick(window.source, Key.Key_Z, CONTROL)  # nothing typed is left
    assert window.source.text() == "one two"
    assert able(window)[1]


def test_the_bar_of_a_modified_run_greys_too(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    window.change_run(OPEN)
    undo, redo, _restore = window.modified.buttons
    assert (undo.isEnabled(), redo.isEnabled()) == (True, False)


def test_alt_left_and_right_go_through_places(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    translate(
        window, engine, "a b c d e f", make_trace(source=6, target=5, layers=3, heads=4)
    )
    window.tabs.setFocus()
    window.session.set(step=2)
    window.session.set(tab="masks")
    here = window.session.state.place
    assert able(window)[2:] == [True, False]
    qtbot.keyClick(window.tabs, Key.Key_Left, ALT)
    assert (window.session.state.tab, window.session.state.step) == ("attention", 2)
    assert able(window)[2:] == [True, True]
    qtbot.keyClick(window.tabs, Key.Key_Right, ALT)
    assert window.session.state.place == here
    assert window.tabs.shown is window.tabs.view("masks")
