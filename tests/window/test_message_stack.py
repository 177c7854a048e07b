"""Messages stand below the next tokens where there is room, else below."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget

from tests.window.parts import settle
from tests.window.windows import Pair, translate
from visformer.ui.bars.message_stack import MessageStack
from visformer.ui.window.window import MainWindow


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    window, engine = pair
    translate(window, engine, "a b")
    window.session.set(tab="attention")
    return window


def place(window: MainWindow, part: QWidget) -> QRect:
    return QRect(part.mapTo(window, QPoint()), part.size())


def told(window: MainWindow, words: str) -> QRect:
    """Return where a message stands."""
    window.session.set(notice=words)
    settle(3)
    stack = window.findChildren(MessageStack)[0]
    assert stack.isVisible()
    assert window.notice.words.height() >= window.notice.words.heightForWidth(
        window.notice.words.width()
    )
    return place(window, stack)


def test_without_room_it_stands_below_the_pictures(window: MainWindow) -> None:
    long = told(window, "A very long sentence. " * 40)
    assert long.width() > 0.9 * window.large.width()
    window.side.show(False)
    folded = told(window, "A short one.")
    assert folded.width() > 0.9 * window.large.width()
    assert folded.top() > place(window, window.large).bottom()
    window.side.show(True)
    assert told(window, "A short one.").width() < 0.5 * window.large.width()


def test_a_message_that_stands_asks_for_nothing(window: MainWindow) -> None:
    told(window, "A sentence that stays.")
    stack, asked = window.findChildren(MessageStack)[0], []
    stack.changed.connect(lambda: asked.append(1))
    settle(10)
    assert len(asked) <= 1  # a window that is looked at needs no processor
