"""A column that waits stands as one that Qt lays out anew whenever a text changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QRect
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QWidget
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.parts import settle
from tests.window.seen import Seen
from visformer.session.runs import show_trace
from visformer.ui.layout import LeastColumn, LeastSize, Still, laid_out_once
from visformer.ui.widgets.plain_label import paragraph, plain_label
from visformer.ui.window.window import MainWindow

LINE = "words that need some room and then some more of it"
LONG = "andonethatislongerthanallothers"  # every seventh text ends in it
Change = tuple[int, int]  # which part, and how many words it says; 0: it is hidden


class Column(QWidget):
    """Three wrapped texts, one more beside a title, and a map's free room."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = [paragraph(f"text {at}", LINE) for at in range(4)]
        self.map = QWidget()
        self.map.setMinimumHeight(20)
        column, row = LeastColumn(self), QHBoxLayout()
        self.texts.append(plain_label("title"))
        row.addWidget(self.texts[4])
        row.addWidget(self.texts[3], 1)
        for text in self.texts[:2]:
            column.addWidget(text)
        column.addLayout(row)
        column.addWidget(self.map, 1)
        column.addWidget(self.texts[2])

    def change(self, part: int, count: int) -> None:
        """Say other words in one part, or hide it."""
        words = ["words"] * count + [LONG] * (count % 7 == 6)
        self.texts[part].setText(" ".join(words))
        self.texts[part].setVisible(bool(count))

    @property
    def places(self) -> list[QRect]:
        parts = (*self.texts, self.map)
        return [part.geometry() for part in parts if not part.isHidden()]


def shown(qtbot: QtBot, size: tuple[int, int]) -> tuple[LeastSize, Column]:
    scroll, column = LeastSize(), Column()
    qtbot.addWidget(scroll)
    scroll.setWidget(column)
    scroll.resize(*size)
    scroll.show()
    settle()
    return scroll, column


changes = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), max_size=3),
        st.sampled_from((150, 300, 1400)),
    ),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes)
@example([([(3, 7)], 1400), ([(3, 20)], 150)])  # a longer word in a wide row
@example([([], 150), ([(0, 6)], 1400), ([(0, 1)], 150)])  # the longest word is gone
@example([([(0, 22)], 300), ([(0, 19)], 150)])  # fewer lines without the scroll bar
def test_what_waits_stands_where_it_would_stand(
    qtbot: QtBot, changes: list[tuple[list[Change], int]]
) -> None:
    (first, waiting), (second, usual) = [shown(qtbot, (300, 200)) for _one in range(2)]
    for together, wide in changes:
        with laid_out_once(waiting):
            for change in together:
                waiting.change(*change)
        for change in together:
            usual.change(*change)
        settle()
        assert waiting.places == usual.places
        for scroll in (first, second):
            scroll.resize(wide, 200)
        settle()
        assert waiting.places == usual.places
    for scroll in (first, second):
        scroll.close()


def test_a_width_that_comes_back_needs_the_height_that_it_needed(qtbot: QtBot) -> None:
    scroll, column = shown(qtbot, (150, 200))
    column.change(2, 20)
    settle()
    narrow = column.size(), column.places
    assert column.height() > 200
    for wide in (300, 150):
        scroll.resize(wide, 200)
        settle()
    assert (column.size(), column.places) == narrow


def test_words_that_need_no_other_room_lay_nothing_out(qtbot: QtBot) -> None:
    scroll, column = shown(qtbot, (300, 400))
    seen, text = Seen(scroll, Column), column.texts[0]
    with laid_out_once(column):
        text.setText(LINE[::-1].replace(LINE[0], LINE[1]))
    settle()
    assert seen.most(QEvent.Type.LayoutRequest) == 0
    with laid_out_once(column):
        text.setText(" ".join([LINE] * 4))
    settle()
    assert seen.most(QEvent.Type.LayoutRequest) > 0
    assert text.height() == text.heightForWidth(text.width())


def test_what_is_still_asks_for_room_only_where_it_needs_it(qtbot: QtBot) -> None:
    scroll, whole = LeastSize(), QWidget()
    qtbot.addWidget(scroll)
    row, label = QHBoxLayout(whole), plain_label("12")
    still, beside = Still(label), QWidget()
    row.addWidget(still)
    row.addWidget(beside, 1)
    scroll.setWidget(whole)
    scroll.show()
    settle()
    label.setText("13")
    settle()  # it learns what it needs
    seen = Seen(scroll, QWidget)
    label.setText("14")
    settle()
    asked = [part for part, kind in seen.of if kind == QEvent.Type.LayoutRequest]
    assert asked == [still]
    label.setText("wider than before")
    settle()
    assert label.width() >= label.fontMetrics().horizontalAdvance(label.text())
    assert beside.x() > still.geometry().right()


@pytest.mark.parametrize("change", [{"step": 21}, {"head": 2}])
@pytest.mark.parametrize(
    ("tab", "stage"),
    [("computation", "softmax"), ("computation", "scale"), ("output", "")],
)
def test_a_step_and_a_head_arrange_neither_page_nor_window(
    window: MainWindow, tab: str, stage: str, change: dict[str, Any]
) -> None:
    window.session.do(show_trace, make_trace(12, 30, heads=4))
    window.session.set(tab=tab, step=20, head=1, kind="decoder")
    if stage:
        window.session.set(stage=stage)
    settle()
    window.session.set(**{name: value - 2 for name, value in change.items()})
    settle()
    seen = Seen(window, QWidget)
    window.installEventFilter(seen)
    window.session.set(**change)
    settle()
    asked = {part for part, kind in seen.of if kind == QEvent.Type.LayoutRequest}
    view = window.tabs.view(tab)
    parts = {window, window.status, window.candidates, window.tabs, view}
    assert not asked & (parts | set(view.findChildren(QSplitter)))
