"""Copies and files of a picture and its numbers, as they are on screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QBuffer, QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QImage,
    QImageWriter,
    QPainter,
    QPalette,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFileDialog, QMenu, QWidget

from visformer.errors import InputError
from visformer.files import check_suffix, exists, save_result, short
from visformer.language import N_, _
from visformer.pictures.picture import Table, csv_text
from visformer.ui.widgets.corner_button import CornerButton
from visformer.ui.window.large import can_be_large, place_of, report

SHARPNESS = 2  # pixels of a picture per pixel on screen, in each direction
MODIFIED = "modified"  # a window's property: what is changed in the run it shows


Offer = tuple[str, Callable[[], None]]  # the title of an entry, and what it does


class Format(NamedTuple):
    """One form in which a picture or its numbers leave the window."""

    copy: str  # as named in the menu, marked for the catalogue
    save: str
    file: str  # the name offered
    make: Callable[[QWidget, Table], QImage | str]


class Export(QObject):
    """The context menu of a picture, which can also be made large."""

    def __init__(self, widget: QWidget, table: Callable[[], Table | None]) -> None:
        """``table`` gives the numbers; None while there are none."""
        super().__init__(widget)
        self._widget, self._table = widget, table
        # more entries for a point of the screen, above the others
        self.offers: Callable[[QPoint], Iterable[Offer]] = lambda _place: ()
        can_be_large(widget)
        widget.installEventFilter(self)
        if isinstance(widget, QAbstractScrollArea):
            widget.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QContextMenuEvent):
            self.popup(event.globalPos())
            return True
        return False

    def table(self) -> Table | None:
        """Return the numbers; what they are is followed by what modified the run."""
        table, words = self._table(), modification(self._widget)
        if table is None or not words:
            return table
        return replace(table, about="; ".join(filter(None, (table.about, words))))

    def popup(self, place: QPoint) -> None:
        """Show the menu at a point of the screen."""
        menu = self.menu(place)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(place)

    def menu(self, place: QPoint | None = None) -> QMenu:
        """Build the menu; disabled while there is nothing to copy."""
        menu = QMenu(self._widget)
        for title, do in () if place is None else self.offers(place):
            menu.addAction(title).triggered.connect(lambda _=False, do=do: do())
        if menu.actions():
            menu.addSeparator()
        self._offer_size(menu)
        there = self._table() is not None
        for form in FORMATS:
            for title, action in ((form.copy, self.copy), (form.save, self.save)):
                entry = menu.addAction(_(title))
                entry.setEnabled(there)
                entry.triggered.connect(lambda _=False, do=action, of=form: do(of))
        return menu

    def _offer_size(self, menu: QMenu) -> None:
        place = place_of(self._widget)
        if place is None:
            return
        title = (
            _("Make it &large") if place.picture is None else _("&Back to its place")
        )
        entry = menu.addAction(title)
        entry.triggered.connect(lambda: place.toggle(self._widget))
        menu.addSeparator()

    def copy(self, form: Format) -> None:
        """Put the picture or its numbers on the clipboard."""
        table = self.table()
        if table is None:
            return
        content = form.make(self._widget, table)
        if isinstance(content, QImage):
            QGuiApplication.clipboard().setImage(content)
        else:
            QGuiApplication.clipboard().setText(content)

    def save(self, form: Format) -> None:
        """Ask for a name and write the picture or its numbers."""
        table = self.table()
        title = _("Save {name}", name=form.file)
        try:
            path = ask_where(self._widget, title, form.file)
            if not path or table is None:
                return
            content = form.make(self._widget, table)
            check_suffix(Path(path), Path(form.file).suffix)
            data = png(content) if isinstance(content, QImage) else content.encode()
            save_result(Path(path), data)
        except InputError as error:
            report(self._widget, str(error))


def modification(widget: QWidget) -> str:
    """Say what is changed in the run that a widget shows; "" if nothing is."""
    return str(widget.window().property(MODIFIED) or "")


def picture(widget: QWidget) -> QImage:
    """Return a widget as an image, sharper than the screen.

    Changes of the run are written below it.
    """
    CornerButton.leave(widget)
    words = modification(widget)
    room = QRect(0, 0, widget.width(), 10 * widget.fontMetrics().height())
    wrap = Qt.TextFlag.TextWordWrap
    note = widget.fontMetrics().boundingRect(room, wrap, words) if words else QRect()
    size = QSize(widget.width(), widget.height() + note.height())
    image = QImage(size * SHARPNESS, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(SHARPNESS)
    image.fill(widget.palette().color(QPalette.ColorRole.Window))
    widget.render(image, QPoint())
    if words:
        painter = QPainter(image)
        painter.setFont(widget.font())
        painter.setPen(widget.palette().color(QPalette.ColorRole.WindowText))
        painter.drawText(room.translated(0, widget.height()), wrap, words)
        painter.end()
    return image


def png(image: QImage) -> bytes:
    """Return an image as a PNG file."""
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, b"png").write(image)
    return bytes(buffer.data().data())


PNG = Format(
    N_("Copy &picture"),
    N_("&Save picture as PNG…"),
    "picture.png",
    lambda widget, _: picture(widget),
)
CSV = Format(
    N_("Copy &numbers (CSV)"),
    N_("Save numbers as &CSV…"),
    "numbers.csv",
    lambda _, table: csv_text(table),
)
FORMATS = (PNG, CSV)


def ask_where(parent: QWidget, title: str, near: str) -> str:
    """Return the path that was chosen, with the suffix of ``near``; "" for none.

    InputError where a name without a suffix would replace a file: the dialog asked
    about another name.
    """
    suffix = Path(near).suffix
    path, _kind = QFileDialog.getSaveFileName(parent, title, near, f"*{suffix}")
    if not path or Path(path).suffix:
        return path
    whole = path + suffix
    if exists(Path(whole)):
        raise InputError(
            "{file} exists: type the whole name to replace it.",
            file=short(Path(whole).name),
        )
    return whole
