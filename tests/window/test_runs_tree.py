"""The page Tree of the tab Runs: what it says of runs, and what keys and mouse do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QLineEdit, QTreeWidgetItem
from pytestqt.qtbot import QtBot

import visformer
from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.painted import painted
from tests.window.parts import click, unwrap, view_of
from tests.window.windows import Pair, answer, translate
from visformer.pictures.words.translation_text import first_difference
from visformer.session import runs
from visformer.ui.views.runs import runs as tab
from visformer.ui.views.runs.runs import MADE, NAME, SIGNS, TEXT, RunsView, TreePage
from visformer.ui.window import session_files
from visformer.ui.window.window import MainWindow
from visformer.values.intervention import parse
from visformer.values.trace import Trace

HIDDEN = parse(["hide 3"])
TRACE = make_trace(source=6, target=5)


def saying(text: str, seed: int = 0) -> Trace:
    trace = make_trace(source=6, target=5, seed=seed)
    return replace(trace, steps=tuple(replace(s, text=text) for s in trace.steps))


@pytest.fixture
def page(pair: Pair) -> TreePage:
    """Three runs: a sentence, a change of it, another sentence."""
    window, engine = pair
    window.receive(opened_model(TRACE.model, path="/m"))
    translate(window, engine, "one two", saying("le chat est noir"))
    window.change_run(HIDDEN)
    answer(window, engine, replace(saying("le chien est noir", 1), intervention=HIDDEN))
    translate(window, engine, "three", saying("trois", 2))
    window.session.do(runs.change_run, parse([]))
    window.session.set(tab="runs")
    page = view(window).page(TreePage)
    page.runs.setFocus()
    return page


def view(window: MainWindow) -> RunsView:
    return view_of(window, RunsView)


def window_of(page: TreePage) -> MainWindow:
    window = page.window()
    assert isinstance(window, MainWindow)
    return window


def items(page: TreePage) -> dict[str, QTreeWidgetItem]:
    return {item.text(NAME): item for item in page.runs._by_key().values()}


def choose(page: TreePage, name: str) -> None:
    page.runs.setCurrentItem(items(page)[name])


def shown(page: TreePage) -> str:
    run = page.session.state.run
    return "" if run is None else run.name


def test_each_run_stands_below_the_one_it_came_from(page: TreePage) -> None:
    found = items(page)
    assert [*found] == ["run 1", "run 2", "run 3"]
    assert found["run 2"].parent() is found["run 1"]
    assert found["run 3"].parent() is None  # of another sentence
    assert found["run 1"].text(MADE) == "“one two”"
    assert found["run 2"].text(MADE) == "hide 3"
    assert found["run 3"].text(MADE) == "“three”, without a change"
    assert [item.text(SIGNS) for item in found.values()] == ["", "", "on screen"]
    assert found["run 2"].text(TEXT) == "le chien est noir"


def test_the_tree_is_presented(qtbot: QtBot, page: TreePage) -> None:
    window = window_of(page)
    qtbot.keyClick(window, Qt.Key.Key_F5)
    assert window.large.picture is page.runs


def test_the_first_difference_is_underlined_and_nothing_else(page: TreePage) -> None:
    seen = painted(window_of(page), page.runs.viewport())
    drawn = [word.text for word in seen.words]
    for words in ("le", " chien", " est noir", "le chat est noir", "trois"):
        assert words in drawn, words


def test_enter_and_a_double_click_show_a_run(qtbot: QtBot, page: TreePage) -> None:
    choose(page, "run 2")
    qtbot.keyClick(page.runs, Qt.Key.Key_Return)
    assert shown(page) == "run 2"
    assert window_of(page).source.text() == "one two"
    box: QRect = page.runs.visualItemRect(items(page)["run 1"])
    place = QPoint(box.left() + 40, box.center().y())
    click(qtbot, page.runs.viewport(), place)
    qtbot.mouseDClick(page.runs.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert shown(page) == "run 1"
    assert items(page)["run 1"].text(SIGNS) == "on screen"
    qtbot.keyClick(window_of(page), Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert shown(page) == "run 2"


def test_a_name_is_edited_in_its_place(qtbot: QtBot, page: TreePage) -> None:
    for name, now in (("the changed one", "the changed one"), ("run 1", "run 2")):
        choose(page, "run 2")
        qtbot.keyClick(page.runs, Qt.Key.Key_F2)
        editor = window_of(page).focusWidget()
        assert isinstance(editor, QLineEdit)
        editor.setText(name)
        qtbot.keyClick(editor, Qt.Key.Key_Return)
        QApplication.processEvents()
        assert now in items(page)
        if now != "run 2":
            page.runs.renamed.emit(page.runs.chosen[0], "run 2")  # back again
    assert "Another run is called “run 1”" in page.session.state.error


def test_p_pins_and_delete_deletes_which_undo_brings_back(
    qtbot: QtBot, page: TreePage
) -> None:
    choose(page, "run 1")
    qtbot.keyClick(page.runs, Qt.Key.Key_P)
    assert items(page)["run 1"].text(SIGNS) == "baseline"
    assert unwrap(page.session.state.compared).name == "run 1"
    qtbot.keyClick(page.runs, Qt.Key.Key_Delete)
    assert [*items(page)] == ["run 2", "run 3"]
    assert "its comparison is closed" in page.session.state.notice
    assert page.session.state.compared is None
    window_of(page).ways.undo()
    assert [*items(page)] == ["run 1", "run 2", "run 3"]


def test_runs_that_are_chosen_are_saved_together(
    qtbot: QtBot, page: TreePage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(page, "run 1")
    items(page)["run 2"].setSelected(True)
    for suffix in ("vis", "json"):
        path = tmp_path / f"runs.{suffix}"
        monkeypatch.setattr(session_files, "ask_where", lambda *_: str(path))  # noqa: B023
        page.acts()[4 if suffix == "vis" else 5][2]()
        qtbot.waitUntil(lambda: "Saved as" in page.session.state.notice)
        page.session.set(notice="")
        assert path.is_file()
    found = visformer.open_session(tmp_path / "runs.vis")
    assert found.names == ("run 1", "run 2")
    assert found.runs[1].parent == 0
    path = tmp_path / "no.png"
    page.acts()[4][2]()
    assert ".vis" in page.session.state.error


def test_what_is_copied_is_on_the_clipboard(page: TreePage) -> None:
    choose(page, "run 2")
    page.acts()[6][2]()
    text = QApplication.clipboard().text()
    assert text.startswith("visformer render --checkpoint /m --text 'one two'")
    assert "--change 'hide 3'" in text
    page.acts()[7][2]()
    assert "intervention='hide 3'" in QApplication.clipboard().text()
    assert page.session.state.notice.startswith("Copied: ")


def test_what_cannot_be_done_is_grey(page: TreePage) -> None:
    page.runs.selectAll()
    enabled = [button.isEnabled() for button in page.buttons]
    assert enabled == [False, False, False, True]
    page.runs.clearSelection()
    assert not page.more.isEnabled()
    assert not page.buttons[3].isEnabled()


def test_a_long_beginning_leaves_what_differs_in_sight(page: TreePage) -> None:
    words = " ".join(["mot"] * 60)
    cut = tab.in_sight(first_difference(f"{words} un", f"{words} deux"), 200, page.runs)
    assert cut[0].text.startswith("…")
    wide = sum(page.runs.fontMetrics().horizontalAdvance(p.text) for p in cut)
    assert wide <= 200 + page.runs.fontMetrics().horizontalAdvance(" un")


def test_a_run_that_grows_changes_its_row_alone(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one", saying("un"))
    window.session.set(tab="runs")
    page = view(window).page(TreePage)
    (item,) = items(page).values()
    translate(window, engine, "one", saying("deux"))
    assert items(page)["run 1"] is item
    assert item.text(TEXT) == "deux"
