"""Every tab and page in Chinese: nothing English, cut off, or written over another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from tests.catalogue import LANGUAGES, forms_of, read, sentences
from tests.tiny_models import tiny_checkpoint
from tests.window.painted import Word, painted
from tests.window.parts import pages, settle, unwrap
from tests.window.plain_font import plain_font
from tests.window.pseudo_reader import Reader
from tests.window.windows import make_window
from visformer import language
from visformer.ui.look.theme import CHINESE

PO = LANGUAGES / "zh" / "LC_MESSAGES" / f"{language.DOMAIN}.po"
TOUCH = 4  # pixels by which the boxes of two words may overlap


@pytest.fixture
def chinese(qapp: QApplication) -> Iterator[None]:
    language.use("zh")
    with plain_font(CHINESE[0]):
        yield


def box(word: Word) -> QRectF:
    cover = QFontMetricsF(word.font).tightBoundingRect(word.text)
    return word.turned.mapRect(cover).translated(word.x, word.y)


def collisions(words: Iterable[Word]) -> list[tuple[str, str]]:
    boxes = [(word.text, box(word)) for word in words if word.text.strip()]
    found = []
    for (one, here), (other, there) in combinations(boxes, 2):
        both = here.intersected(there)
        if min(both.width(), both.height()) > TOUCH:
            found.append((one, other))
    return found


def see_all_of(view: QWidget) -> None:
    """Make its window so high that nothing of it is scrolled out of sight.

    What is painted is known without what the edge of a scrolled area cuts off.
    """
    window, area, left = view.window(), view.parentWidget(), 1
    while not isinstance(area, QScrollArea):
        assert area is not None
        area = area.parentWidget()
    while left:
        settle(4)  # a part is laid out after those that it is in
        left = area.verticalScrollBar().maximum()
        window.resize(window.width(), window.height() + left)


def test_every_tab_is_chinese_and_has_room(
    chinese: None, qtbot: QtBot, tmp_path: Path
) -> None:
    reader = Reader(*make_window(qtbot, tmp_path), tiny_checkpoint())
    window = reader.window
    reader.run()
    translated = {
        forms_of(message.id)[0]: forms_of(message.string or "")[0]
        for message in sentences(read(PO))
    }
    for page in pages(window):
        reader.answer()
        view = unwrap(window.tabs.shown)
        see_all_of(view)
        words = painted(window).words
        assert collisions(tuple(words)) == [], page
        cut = {w.text for w in words if w.text.endswith("…")}
        assert cut <= {*translated.values()}, page
        reader.read(view, paint=False)
    reader.read(paint=False)
    left = {text.strip() for text in reader.read_texts} & translated.keys()
    assert not {text for text in left if translated[text] != text}
