"""The card of the first start."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from tests.window.parts import click, settle, unwrap
from tests.window.windows import Pair, translate
from visformer.ui.bars.first_steps import close_first_steps, show_first_steps
from visformer.ui.window.window import MainWindow


def whole(part: QWidget) -> bool:
    labels = [label for label in part.findChildren(QLabel) if label.isVisible()]
    return all(
        label.height() >= label.heightForWidth(label.width()) for label in labels
    )


@pytest.mark.parametrize("way", ["button", "key"])
def test_the_card_is_shown_once(way: str, window: MainWindow, qtbot: QtBot) -> None:
    tabs = window.tabs.geometry()
    card = unwrap(show_first_steps(window))
    assert card.isVisible()
    assert window.tabs.geometry() == tabs  # it pushes nothing
    if way == "button":
        click(qtbot, card.done)
    else:
        qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert not card.isVisible()
    assert show_first_steps(window) is None


def place(window: MainWindow, part: QWidget) -> QRect:
    """Return where a part is, as far as what scrolls around it shows it."""
    seen, around = window.rect(), [part]
    while around[-1] is not window:
        seen &= QRect(around[-1].mapTo(window, QPoint()), around[-1].size())
        around.append(around[-1].parentWidget() or window)
    return seen


def settled(window: MainWindow) -> QRect:
    """Return where the messages have come to rest."""
    settle(8)  # the font, then what it moves, then the messages
    stack = place(window, window.messages)
    QApplication.processEvents()
    assert place(window, window.messages) == stack
    return stack


@pytest.mark.parametrize("presented", [False, True])
@pytest.mark.parametrize("zoom", [100, 150])
@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_card_and_messages_hide_neither_pictures_nor_each_other(
    size: tuple[int, int], zoom: int, presented: bool, pair: Pair
) -> None:
    window, engine = pair
    window.resize(*size)
    translate(window, engine, "one two")
    window.appearance.zoom_by(zoom - 100)
    card = unwrap(show_first_steps(window))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "showFullScreen", lambda: None)
        if presented:
            window.presentation.begin()
    words = "4 sentences are read as one: this model has seen one at a time."
    for said in ("", words, words * 6):
        window.session.set(notice=said)
        stack = settled(window)
        assert window.messages.isVisible() == bool(said or not presented)
        assert card.isVisible() == (not presented)
        if not window.messages.isVisible():
            continue
        assert window.rect().contains(stack)
        assert whole(window.messages)
        if presented:  # what is said is as large as all that an audience reads
            read = window.large.words.fontMetrics()
            assert window.notice.words.fontMetrics().height() == read.height()
        pictures = window.large.pictures()
        assert pictures
        for part in (*pictures, window.candidates.summary, window.status):
            if part.isVisible():
                assert not place(window, part).intersects(stack)
        if said and not presented:
            assert not place(window, card).intersects(place(window, window.notice))
    window.presentation.end()
    assert card.isVisible()
    usual = window.status.fontMetrics().height()
    assert window.notice.words.fontMetrics().height() == usual


def test_the_card_stands_below_the_next_tokens_where_there_is_room(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    assert show_first_steps(window) is not None
    stack, pictures = settled(window), window.large.geometry()
    room = window.candidates.free_room()
    room.translate(window.candidates.mapTo(window, QPoint()))
    assert room.contains(stack)
    window.side.show(False)  # there is no such room now
    assert settled(window).width() > 0.9 * window.width()
    assert window.large.geometry().topLeft() == pictures.topLeft()  # nothing moves down
    assert window.large.height() < pictures.height()
    close_first_steps(window)
    settled(window)
    assert window.large.geometry() == pictures
