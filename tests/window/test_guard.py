"""Exceptions while the window draws, lays out and paints: contained, told, no more."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType

import pytest
from PySide6.QtCore import QObject, QSize
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from tests.window.windows import Pair, translate
from visformer.program import guard
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.bars.strips import TokenStrip
from visformer.ui.look.theme import Dressed
from visformer.ui.views.architecture.architecture import ArchitectureView
from visformer.ui.views.attention.attention import AttentionView

MANY = """
from visformer.program import guard

class Planted(QWidget):
    def resizeEvent(self, event):
        raise ValueError("planted")

Planted.__module__ = "visformer.planted"
"""
CONTAIN = "guard.contain_overrides()"
BARE = """
import sys
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
sys.excepthook = lambda *given: None
app = QApplication([])
{planted}
for number in range(40):
    window = QWidget()
    layout = QVBoxLayout(window)
    for _ in range(9):
        layout.addWidget(Planted())
    try:
        window.show()
    except ValueError:
        pass
    window.hide()
print("alive", sys.getrefcount(vars(Planted)["resizeEvent"]))
"""


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the program's hook."""
    told: list[str] = []
    hook = sys.excepthook
    monkeypatch.setattr(
        sys, "excepthook", lambda kind, error, trace: told.append(str(error))
    )
    assert sys.excepthook is not hook
    return told


def planted(*_given: object, **_more: object) -> None:
    raise ValueError("planted")


def is_of_qt(kind: type, name: str) -> bool:
    """Whether a class inherits a method of this name from Qt."""
    bases = (b for b in kind.__mro__[1:] if b.__module__.startswith("PySide6."))
    return name[:2] != "__" and any(name in vars(base) for base in bases)


def test_every_override_is_contained(pair: Pair) -> None:
    ours = [
        kind
        for kind in guard._subclasses(QObject)
        if kind.__module__[:10] == "visformer."
    ]
    assert len(ours) > 50
    bare = [
        f"{kind.__name__}.{name}"
        for kind in ours
        for part in kind.__mro__
        if part.__module__[:10] == "visformer."
        for name, method in vars(part).items()
        if isinstance(method, FunctionType) and is_of_qt(kind, name)
        if not hasattr(method, "__wrapped__")
    ]
    assert bare == []
    assert hasattr(TokenStrip.resizeEvent, "__wrapped__")
    assert hasattr(Dressed.changeEvent, "__wrapped__")  # no class of Qt's itself


@pytest.mark.parametrize("contained", [True, False])
def test_many_faults_in_layout_do_not_end_the_process(contained: bool) -> None:
    """Nothing loses a reference; without the guard functions of live classes do."""
    code = MANY + CONTAIN * contained
    done = subprocess.run(
        [sys.executable, "-c", BARE.format(planted=code)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    kept = done.returncode == 0 and done.stdout.split() == ["alive", "2"]
    assert kept is contained, done.stdout + done.stderr[-500:]


def test_an_exception_in_layout_or_paint_is_told_and_the_widget_lives(
    qtbot: QtBot, faults: list[str]
) -> None:
    class Odd(QWidget):
        resizeEvent = sizeHint = paintEvent = changeEvent = planted  # type: ignore[assignment]

    Odd.__module__ = "visformer.odd"
    guard.contain_overrides()
    window = QWidget()
    qtbot.addWidget(window)
    odd = Odd()
    QVBoxLayout(window).addWidget(odd)
    window.show()
    odd.grab()
    assert odd.sizeHint() == QSize()
    assert set(faults) == {"planted"}
    assert len(faults) >= 4


@pytest.mark.parametrize("part", [TokenStrip, CandidatesPanel, AttentionView])
def test_one_part_that_cannot_draw_leaves_the_others(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, faults: list[str], part: type
) -> None:
    window, engine = pair
    monkeypatch.setattr(part, "draw", planted)
    translate(window, engine, "I have a cat.")
    assert "planted" in faults
    assert window.transport._where.text() == "step 3 of 5"
    window.session.set(error="something else")
    assert window.notice.isVisible()
    assert window.notice.text() == "something else"


def test_a_tab_that_cannot_be_laid_out_is_left_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, faults: list[str]
) -> None:
    window, engine = pair
    translate(window, engine, "I have a cat.")
    monkeypatch.setattr(
        "visformer.ui.views.architecture.architecture.architecture", planted
    )
    for tab in ("architecture", "attention", "architecture", "attention"):
        window.session.set(tab=tab)
        window.resize(window.width() + 9, window.height())
        QApplication.processEvents()
    assert set(faults) == {"planted"}
    assert window.tabs.shown is window.tabs.view("attention")
    assert isinstance(window.tabs.view("architecture"), ArchitectureView)
