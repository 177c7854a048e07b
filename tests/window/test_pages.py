from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QTabBar

from visformer.ui.views.view import Page, Pages


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
