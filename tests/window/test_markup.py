"""Tokens and names that look like markup are shown, and never read as such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QTableView, QWidget

from tests.traces import make_trace
from tests.window.windows import Pair
from visformer.session import runs
from visformer.ui.views import VIEWS
from visformer.ui.views.view import Pages
from visformer.ui.widgets.plain_label import plain_tip
from visformer.ui.window.window import MainWindow

MARKUP = '<img src="file:///dev/null">x'


def pages(window: MainWindow) -> Iterator[None]:
    """Turn to every page of every tab."""
    for view in VIEWS:
        window.session.set(tab=view.name, step=2)
        found = window.tabs.view(view.name).findChildren(Pages)
        for one in found:
            for name in one.names:
                one.turn(name)
                yield
        if not found:
            yield


def tips(window: MainWindow) -> Iterator[str]:
    """Yield the tips of all widgets, and labels that may read markup."""
    for widget in window.findChildren(QWidget):
        yield widget.toolTip()
        plain = Qt.TextFormat.PlainText
        if isinstance(widget, QLabel) and widget.textFormat() != plain:
            yield widget.text()
        if isinstance(widget, QTableView) and widget.model() is not None:
            model, role = widget.model(), Qt.ItemDataRole.ToolTipRole
            cells = [(r, c) for r in range(4) for c in range(4)]
            yield from (str(model.index(*cell).data(role)) for cell in cells)
            for way in (Qt.Orientation.Horizontal, Qt.Orientation.Vertical):
                yield str(model.headerData(0, way, role))


def test_what_looks_like_markup_is_shown_as_it_is(pair: Pair) -> None:
    window, _engine = pair
    made = make_trace(source=4, target=4, layers=2)
    four = (MARKUP,) * 4
    model = replace(made.model, name=MARKUP)
    trace = replace(made, source=four, target=four, source_text=MARKUP, model=model)
    window.session.do(runs.show_trace, trace)
    found: set[str] = set()
    for _page in pages(window):
        QApplication.processEvents()
        found |= {*tips(window)}
    assert any("&lt;img" in tip for tip in found)
    assert [tip for tip in found if "<img" in tip] == []


def test_only_tips_that_need_it_are_changed() -> None:
    assert plain_tip("one\ntwo") == "one\ntwo"
    assert plain_tip("<s>\na & b") == "<qt>&lt;s&gt;<br>a &amp; b</qt>"
