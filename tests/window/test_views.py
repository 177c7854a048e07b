"""The table of views: adding one is one entry."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QTabBar, QVBoxLayout
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.system.formats.folders import write_letters
from tests.traces import make_trace
from tests.window.parts import click
from tests.window.windows import make_window
from visformer.cli import main
from visformer.program import ahead
from visformer.session.looked import PAGES
from visformer.session.state import Session, State
from visformer.ui import views
from visformer.ui.changed import Changed
from visformer.ui.views.view import Page, Pages, View
from visformer.ui.window.window import MainWindow


class LengthView(View):
    """How many tokens there are; a click goes back to the start."""

    name, title, purpose = "length", "Length", "How many tokens there are."

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.button = QPushButton()
        self.button.clicked.connect(lambda: session.set(step=0))
        QVBoxLayout(self).addWidget(self.button)

    def draw(self, state: State) -> None:
        if state.visible is not None and self._changed("tokens", state.visible):
            self.button.setText(f"{len(state.visible)} tokens")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "VIEWS", (*views.VIEWS, LengthView))
    monkeypatch.setitem(PAGES, "length", ())


@pytest.mark.usefixtures("added")
def test_a_view_is_drawn_and_its_click_reaches_the_state(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.session.set(**ran(make_trace(5, 4)), step=3)
    window.tabs.bar.setCurrentIndex(len(views.VIEWS) - 1)
    assert window.session.state.tab == "length"
    assert window.tabs.bar.tabText(window.tabs.bar.currentIndex()) == "Length"
    tips = [window.tabs.bar.tabToolTip(at) for at in range(len(views.VIEWS))]
    assert tips[-1] == "How many tokens there are."
    assert all(tip.endswith(".") for tip in tips)
    view = window.tabs.shown
    assert isinstance(view, LengthView)
    assert view.button.text() == "3 tokens"
    click(qtbot, view.button)
    assert window.session.state.step == 0
    assert view.button.text() == "0 tokens"


@pytest.mark.usefixtures("added")
def test_render_takes_it_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(write_letters(tmp_path / "letters"))
    arguments = ["render", "--checkpoint", model, "--text", "abc"]
    picture = tmp_path / "length.png"
    assert main([*arguments, "--view", "length", "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        main(["render", "--help"])
    assert "diagnosis, length" in " ".join(capsys.readouterr().out.split())
    assert main([*arguments, "--view", "longth", "-o", str(picture)]) != 0
    assert "diagnosis, length." in capsys.readouterr().err


def test_names_and_titles_are_there_once() -> None:
    tables = [[(view.name, view.title) for view in views.VIEWS]]
    tables += [[(page.name, page.title) for page in v.pages] for v in views.VIEWS]
    for table in tables:
        assert len({name for name, _title in table}) == len(table)
        assert len({title for _name, title in table}) == len(table)


def test_what_a_view_needs_is_what_it_imports_anyway() -> None:
    code = (
        "import sys\n"
        "from visformer.ui.views import VIEWS\n"
        "for view in VIEWS:\n"
        "    assert not {*view.needs} & {*sys.modules}, view.name\n"
        "    view.kind\n"
        "    assert {*view.needs} <= {*sys.modules}, view.name\n"
        "assert any(view.needs for view in VIEWS)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_view_is_found_by_its_name(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "PAUSE_MS", 0)
    loaded: list[str] = []
    entries = [
        views.LazyView(v.name, v.title, v.class_name, v.purpose) for v in views.VIEWS
    ]

    def load(name: str) -> ModuleType:
        loaded.append(name)
        return import_module(name)

    monkeypatch.setattr(views, "import_module", load)
    monkeypatch.setattr(views, "VIEWS", tuple(entries))
    window, _engine = make_window(qtbot, tmp_path)
    assert loaded == ["visformer.ui.views.attention.attention"]  # that on screen
    window.tabs.load_ahead()
    kinds = [kind for entry in views.VIEWS for kind in (entry.kind, *entry.pages)]
    built = window.tabs.findChildren
    qtbot.waitUntil(lambda: {type(view) for view in built(View)} == {*kinds})
    assert len(built(View)) == len(kinds)
    for entry in entries:
        assert window.tabs.view(entry.name).name == entry.name


# ---- pages of a view --------------------------------------------------------------


def test_pages_are_turned_by_name_not_by_title(qtbot: Any) -> None:
    first, second = QLabel("one"), QLabel("two")
    pages = Pages(
        Page("a", "Lab", lambda: (first, None)),
        Page("b", "Lab", lambda: (second, None)),
    )
    qtbot.addWidget(pages)
    pages.build("a")
    pages.show()
    assert first.isVisible()
    assert (pages.names, pages.current) == (("a", "b"), "a")
    assert second.parent() is None  # it is built when it is turned to
    with qtbot.waitSignal(pages.turned):
        pages.turn("b")
    assert pages.current == "b"
    assert second.isVisible()
    assert not first.isVisible()
    with pytest.raises(ValueError, match="not in tuple"):
        pages.turn("Lab")


def test_a_tool_stands_beside_its_page_and_the_focus_stays_near(qtbot: Any) -> None:
    tool, field, corner = QPushButton("run"), QLineEdit(), QPushButton("corner")
    pages = Pages(
        Page("a", "A", lambda: (field, tool)),
        Page("b", "B", lambda: (QLabel("two"), None)),
        corner=corner,
    )
    qtbot.addWidget(pages)
    pages.build("a")
    pages.show()
    pages.activateWindow()
    for focused in (field, tool):
        pages.turn("a")
        focused.setFocus()
        pages.turn("b")
        assert not tool.isVisible()
        assert corner.isVisible()
        assert isinstance(pages.focusWidget(), QTabBar)
    pages.turn("a")
    assert tool.isVisible()


# ---- what has changed since it was drawn ------------------------------------------


def test_a_part_is_drawn_first_and_then_from_other_things() -> None:
    changed = Changed()
    assert changed("map", 1, "fixed")
    assert not changed("map", 1, "fixed")
    assert changed("map", 2, "fixed")
    assert changed("map", 1, "fixed")  # the last alone is remembered
    assert changed("map", 1)
    assert changed("map")
    assert not changed("map")


def test_parts_are_apart_and_are_forgotten() -> None:
    changed = Changed()
    assert changed("map", 1)
    assert changed("bar", 1)
    changed.forget("map")
    assert changed("map", 1)
    assert not changed("bar", 1)
    changed.forget()
    assert changed("bar", 1)


def test_traces_and_arrays_are_the_same_where_they_are_one() -> None:
    changed, values, trace = Changed(), np.zeros(3), make_trace()
    assert changed("map", values, trace)
    assert not changed("map", values, trace)
    assert changed("map", values.copy(), trace)
    assert changed("map", None, trace)
    assert changed("map", values, trace)
    assert changed("map", values, make_trace())
