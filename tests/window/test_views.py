"""The table of views: adding one is one entry."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QVBoxLayout
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.system.formats.folders import write_letters
from tests.traces import make_trace
from tests.window.windows import make_window
from visformer.cli import main
from visformer.program import ahead
from visformer.session.looked import PAGES
from visformer.session.state import Session, State
from visformer.ui import views
from visformer.ui.views.view import View


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
    qtbot: QtBot, tmp_path: Path
) -> None:
    window, _engine = make_window(qtbot, tmp_path)
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
    qtbot.mouseClick(view.button, Qt.MouseButton.LeftButton)
    assert window.session.state.step == 0
    assert view.button.text() == "0 tokens"


@pytest.mark.usefixtures("added")
def test_render_takes_it_and_names_it(
    qtbot: QtBot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
