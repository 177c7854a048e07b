"""Zoom that holds: every tab and page, at every size of the text and of the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QFontMetrics, QRegion
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QScrollBar,
    QTabBar,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.pseudo import Unmarked
from tests.tiny_models import tiny_checkpoint
from tests.window.painted import painted
from tests.window.parts import unwrap
from tests.window.pseudo_reader import Reader
from tests.window.windows import corner_button, dress_hidden, make_window
from visformer.pictures.computation.stages import STAGES
from visformer.ui.layout import LeastSize
from visformer.ui.look.theme import CAPTION, sized
from visformer.ui.views import VIEWS
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.view import PagedView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import PlainLabel

LEAST_MAP = 120  # pixels of a map's longer side
MOST_ABOVE = 0.28  # of the window's height: rows above the tabs
SMALL, LARGE, LEAST = (1280, 800), (1920, 1080), (800, 600)
PLACES = [
    *((SMALL, zoom) for zoom in (100, 130, 150, 200)),
    *((LARGE, zoom) for zoom in (100, 130, 150, 200)),
    (LEAST, 100),
]
FEW = [(SMALL, 100), (SMALL, 200), (LEAST, 100)]


def faults(root: QWidget) -> Iterator[str]:
    """Name each text that is cut without a sign, and each map that is too small."""
    for widget in root.findChildren(QWidget):
        if not widget.isVisible() or widget.visibleRegion().isEmpty():
            continue
        metrics, size = widget.fontMetrics(), widget.size()
        where = f"{type(widget).__name__} {size.toTuple()}"
        match widget:
            case HeatMap() if widget.matrix is not None and widget.matrix.values.size:
                sides = widget.canvas.size().toTuple()
                if max(sides) < LEAST_MAP:
                    yield f"map of {sides} in {where}: {widget.accessibleName()}"
                yield from unlabelled(widget, where)
            case QLabel() if widget.text():
                yield from _label(widget, where)
            case QAbstractButton() if widget.text() and not _is_icon(widget):
                text = metrics.size(0, widget.text().replace("&", ""))
                if text.width() > size.width() or text.height() > size.height():
                    yield f"button {widget.text()!r} in {where}"
            case QLineEdit() | QComboBox():
                if metrics.height() > size.height():
                    yield f"field in {where}: {widget.accessibleName()}"
            case QTabBar():
                for tab in range(widget.count()):
                    if metrics.height() > widget.tabRect(tab).height():
                        yield f"tab {widget.tabText(tab)!r} in {where}"


def sideways(root: QWidget) -> Iterator[str]:
    """Name views that are scrolled sideways."""
    for area in root.findChildren(LeastSize):
        if area.horizontalScrollBar().isVisible():
            yield f"scrolled sideways: {area.size().toTuple()}"


def unlabelled(heat_map: HeatMap, where: str) -> Iterator[str]:
    """Name labels that are missing where they have room, overlap, or are not whole."""
    rows, columns = heat_map.row_labels, heat_map.column_labels
    line = heat_map.fontMetrics().height()
    letter = heat_map.fontMetrics().averageCharWidth()
    if heat_map.width() > LEAST_MAP + 2 * line + 6 * letter and not rows.isVisible():
        yield f"no row labels in {where}"
    if heat_map.height() > LEAST_MAP + 5.5 * line and not columns.isVisible():
        yield f"no column labels in {where}"
    closest = QFontMetrics(sized(heat_map.font(), CAPTION)).height() - 1
    words = painted(heat_map, rows).words if rows.isVisible() else []
    if rows.isVisible() and len(words) < len(rows._marked):
        yield f"{len(rows._marked)} rows are marked, {len(words)} named in {where}"
    for one, other in pairwise(sorted(word.y for word in words)):
        if other - one < closest:
            yield f"row labels {other - one} pixels apart in {where}"
    words = painted(heat_map, columns).words if columns.isVisible() else []
    numbered = columns.upright or columns.brief
    for word in words if numbered else ():
        end = word.x + heat_map.fontMetrics().horizontalAdvance(word.text)
        if word.x < -1 or end > heat_map.width() + 1:
            yield f"column label {word.text!r} beyond the edge of {where}"
    turned_ones = () if numbered else [word.x for word in words if len(word.text) > 2]
    for one, other in pairwise(sorted(turned_ones)):
        if other - one < closest:
            yield f"column labels {other - one} pixels apart in {where}"


def covered(root: QWidget) -> Iterator[str]:
    """Name the words that a picture's corner button covers while the mouse is there."""
    for picture in root.findChildren(QWidget):
        if picture.isVisible() and (button := corner_button(picture)) is not None:
            place = QRegion(button.geometry().adjusted(1, 1, -1, -1))  # rounded
            for bar in picture.findChildren(QScrollBar):  # they hide cells themselves
                corner = bar.mapTo(picture, QPoint())
                place -= QRect(corner, bar.size() * int(bar.isVisible()))
            for word in painted(picture).words:
                letters = (letter.toRect() for letter in word.letters())
                if any(map(place.intersects, letters)):
                    yield f"{word.text!r} of {picture.accessibleName()} below {place}"
            button.hide()


def _is_icon(button: QAbstractButton) -> bool:
    icons = Qt.ToolButtonStyle.ToolButtonIconOnly
    shows = isinstance(button, QToolButton) and button.toolButtonStyle() == icons
    return shows and not button.icon().isNull()


def _label(label: QLabel, where: str) -> Iterator[str]:
    text, metrics = label.text(), label.fontMetrics()
    text = text.replace("&", "") if label.buddy() is not None else text
    if label.wordWrap():
        room = label.contentsRect()
        flags = 0x1000  # wrapped between words
        box = metrics.boundingRect(QRect(0, 0, room.width(), 1 << 16), flags, text)
        if box.height() > room.height() + 1:
            yield f"text of {box.height()} pixels in {where}: {text!r}"
        return
    told = isinstance(label, PlainLabel) and bool(label.cut)
    if metrics.size(0, text).width() > label.contentsRect().width() and not told:
        yield f"line cut in {where}: {text!r}"
    if metrics.height() > label.height() + 1:
        yield f"line of {metrics.height()} pixels in {where}: {text!r}"


def turned(reader: Reader) -> Iterator[str]:
    """Show every tab and page, one after another; give its name."""
    for kind in VIEWS:
        reader.window.session.set(tab=kind.name)
        reader.answer()
        view = reader.window.tabs.view(kind.name)
        for page in kind.pages or (None,):
            if page is not None:
                assert isinstance(view, PagedView)
                view.turn(page.name)
                reader.answer()
            settle(reader.window)
            yield f"{kind.name} {page.name if page is not None else ''}"
        for stage in STAGES if kind is ComputationView else ():
            reader.window.session.set(stage=stage.name)
            reader.answer()
            settle(reader.window)
            yield f"{kind.name} {stage.name}"


def settle(root: QWidget) -> None:
    """Let all be drawn: what takes several turns is not painted before the last."""
    QApplication.processEvents()
    while not all(part.updatesEnabled() for part in root.findChildren(QWidget)):
        QApplication.processEvents()


def check(
    reader: Reader,
    places: list[tuple[tuple[int, int], int]],
    faults: Callable[[QWidget], Iterable[str]] = faults,
) -> None:
    window, found = reader.window, []
    for size, zoom in places:
        if zoom != window.appearance.zoom:  # 0 would be 100 %
            window.appearance.zoom_by(zoom - window.appearance.zoom)
        dress_hidden()
        window.resize(*size)
        for name in turned(reader):
            window.resize(*size)
            settle(window)
            place = f"{size} at {zoom} %, {name}: "
            if window.size().toTuple() != size:
                found.append(f"{place}window of {window.size().toTuple()}")
            found += [place + fault for fault in faults(window)]
            if window.large.y() > MOST_ABOVE * size[1]:
                found.append(f"{place}pictures begin at {window.large.y()}")
    window.appearance.zoom_by(0)
    assert not found, "\n".join(found)


@pytest.fixture
def plain(qtbot: QtBot, tmp_path: Path) -> Reader:
    model = {"norm_first": True, "final_norm": True, "output_bias": True}
    reader = Reader(*make_window(qtbot, tmp_path), tiny_checkpoint(**model))
    reader.run()
    return reader


@pytest.mark.slow
def test_everything_is_whole_at_every_size(plain: Reader) -> None:
    """Nor does the corner button cover a word, at some sizes."""

    def found(root: QWidget) -> Iterator[str]:
        yield from (*faults(root), *sideways(root))

    some = [*FEW, (SMALL, 150), (LARGE, 100)]
    check(plain, [place for place in PLACES if place not in some], found)
    check(plain, some, lambda root: (*found(root), *covered(root)))


def test_everything_is_whole_in_longer_words(
    running: Reader, missing: Unmarked
) -> None:
    check(running, FEW)


def test_what_is_presented_fits_the_screen(
    plain: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, found = plain.window, []
    monkeypatch.setattr(window, "showFullScreen", lambda: None)  # it is as large
    window.appearance.zoom_by(100)
    window.resize(*SMALL)
    window.presentation.begin()
    alone = window.large.alone
    for name in turned(plain):
        layout = unwrap(alone.layout())
        least = layout.totalMinimumHeightForWidth(alone.width())
        least = max(least, layout.totalMinimumSize().height())
        if least > SMALL[1]:
            found.append(f"{name}: {least} pixels")
    window.presentation.end()
    window.appearance.zoom_by(0)
    assert not found, "\n".join(found)
