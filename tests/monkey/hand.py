"""The monkey's hand: one real event after the other, on whatever is visible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QMenu, QWidget

from tests.monkey.odd_texts import odd_text
from visformer.ui.window.window import MainWindow

MODIFIERS = (
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.AltModifier,
)
K = Qt.Key
KEYS = (
    *(K.Key_Left, K.Key_Right, K.Key_Up, K.Key_Down, K.Key_Home, K.Key_End),
    *(K.Key_PageUp, K.Key_PageDown, K.Key_Space, K.Key_Return, K.Key_Escape),
    *(K.Key_Tab, K.Key_Backspace, K.Key_Delete, K.Key_BracketLeft, K.Key_BracketRight),
    *(K.Key_F1, K.Key_F5, K.Key_F10, K.Key_F11, K.Key_1, K.Key_2, K.Key_3),
    *(K.Key_A, K.Key_B, K.Key_C, K.Key_D, K.Key_F, K.Key_M, K.Key_S, K.Key_T, K.Key_V),
    *(K.Key_X, K.Key_Y, K.Key_Z, K.Key_Plus, K.Key_Minus, K.Key_0, K.Key_Period),
)
SIZES = ((1280, 800), (1920, 1080), (800, 600), (640, 480), (500, 1000), (1600, 500))


class Hand:
    """Does one thing at a time; ``said`` is what it did, the newest last."""

    def __init__(self, window: MainWindow, files: list[str], chance: Random) -> None:
        self._window, self._files, self._chance = window, files, chance
        self.said: list[str] = []
        self._acts: list[tuple[Callable[[], None], int]] = [
            (self._click, 30),
            (self._key, 25),
            (self._hover, 15),
            (self._type, 8),
            (self._drag, 5),
            (self._wheel, 5),
            (self._context, 2),
            (self._resize, 1),
            (self._open, 1),
        ]

    def act(self) -> None:
        """Do something; where a menu is open, in the menu."""
        menu = QApplication.activePopupWidget()
        if menu is not None:
            self._in_menu(menu)
            return
        acts, weights = zip(*self._acts, strict=True)
        self._chance.choices(acts, weights)[0]()

    def _say(self, what: str, *more: object) -> None:
        self.said.append(" ".join((what, *(ascii(each)[:80] for each in more))))
        del self.said[:-60]

    def _widget(self) -> QWidget:
        """Return a visible widget, of the dialog in front if there is one."""
        front = [
            w
            for w in QApplication.topLevelWidgets()
            if w.isVisible() and isinstance(w, QDialog)
        ]
        root = front[-1] if front else self._window
        parts = [w for w in root.findChildren(QWidget) if w.isVisible() and w.width()]
        return self._chance.choice([root, *parts])

    def _point(self, widget: QWidget) -> QPoint:
        wide, high = max(1, widget.width()), max(1, widget.height())
        return QPoint(self._chance.randrange(wide), self._chance.randrange(high))

    def _place(self, what: str) -> tuple[QWidget, QPoint]:
        """Return a widget and a point in it, and say what is done there."""
        widget = self._widget()
        at = self._point(widget)
        self._say(what, type(widget).__name__, at)
        return widget, at

    def _click(self) -> None:
        double = self._chance.random() < 0.15
        widget, at = self._place("double click" if double else "click")
        modifier = self._chance.choice(MODIFIERS[:4])
        click = QTest.mouseDClick if double else QTest.mouseClick
        click(widget, Qt.MouseButton.LeftButton, modifier, at)

    def _key(self) -> None:
        key, modifier = self._chance.choice(KEYS), self._chance.choice(MODIFIERS)
        widget = QApplication.focusWidget() or self._window
        self._say("key", key.name, modifier.name, type(widget).__name__)
        QTest.keyClick(widget, key, modifier)

    def _hover(self) -> None:
        widget, at = self._place("hover")
        QTest.mouseMove(widget, at)

    def _type(self) -> None:
        text = odd_text(self._chance)
        line = self._chance.choice((self._window.source, self._window.reference))
        self._say("paste", text)
        QGuiApplication.clipboard().setText(text)
        line.setFocus()
        if self._chance.random() < 0.7:
            line.selectAll()
        QTest.keyClick(line, K.Key_V, Qt.KeyboardModifier.ControlModifier)
        if self._chance.random() < 0.8:
            QTest.keyClick(line, K.Key_Return)

    def _drag(self) -> None:
        widget, begin = self._place("drag")
        end = self._point(widget)
        left = Qt.MouseButton.LeftButton
        QTest.mousePress(widget, left, Qt.KeyboardModifier.NoModifier, begin)
        if QApplication.activePopupWidget() is None:
            QTest.mouseMove(widget, end)
            QTest.mouseRelease(widget, left, Qt.KeyboardModifier.NoModifier, end)

    def _wheel(self) -> None:
        way = self._chance.choice((-120, 120, 15))
        widget, at = self._place(f"wheel {way}")
        event = QWheelEvent(
            *(QPointF(at), QPointF(widget.mapToGlobal(at))),
            *(QPoint(0, 0), QPoint(0, way)),
            Qt.MouseButton.NoButton,
            self._chance.choice(MODIFIERS[:4]),
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(widget, event)

    def _context(self) -> None:
        widget, at = self._place("context menu")
        mouse = QContextMenuEvent.Reason.Mouse
        event = QContextMenuEvent(mouse, at, widget.mapToGlobal(at))
        QApplication.sendEvent(widget, event)

    def _resize(self) -> None:
        size = self._chance.choice(SIZES)
        self._say("resize", size)
        self._window.resize(*size)

    def _open(self) -> None:
        path = self._chance.choice(self._files)
        self._say("open", Path(path).name)
        self._window.open(path)

    def _in_menu(self, menu: QWidget) -> None:
        keys = (
            K.Key_Down,
            K.Key_Down,
            K.Key_Up,
            K.Key_Return,
            K.Key_Right,
            K.Key_Escape,
        )
        key = self._chance.choice(keys)
        active = menu.activeAction() if isinstance(menu, QMenu) else None
        self._say("menu key", key.name, active.text() if active else "")
        QTest.keyClick(menu, key)
