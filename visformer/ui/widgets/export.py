"""Copies and files of a picture and its numbers, as they stand on screen."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QImage, QImageWriter, QPainter, QPalette
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

SHARPNESS = 2  # pixels of a picture for one on screen
ALTERED = "altered"  # a window's property: what is changed in the run it shows


class Export(QObject):
    """What a right click on a picture offers."""

    failed = Signal(str)  # one sentence

    def __init__(self, widget: QWidget, numbers: Callable[[], str]) -> None:
        """``numbers`` gives the numbers as CSV; empty while there are none."""
        super().__init__(widget)
        self._widget, self._numbers = widget, numbers

    @property
    def altered(self) -> str:
        """What is changed in the run that is shown; "" for the model's own."""
        return str(self._widget.window().property(ALTERED) or "")

    def numbers(self) -> str:
        """Return the numbers as CSV; the first field says what altered the run."""
        text = self._numbers()
        if not text or not self.altered:
            return text
        first, _, rest = text.partition("\n")
        fields = next(csv.reader([first]))
        fields[0] = "; ".join(filter(None, (fields[0], self.altered)))
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(fields)
        return line.getvalue() + rest

    def popup(self, place: QPoint) -> None:
        """Show the menu at a place of the screen."""
        menu = self.menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(place)

    def menu(self) -> QMenu:
        """Build the menu; disabled while there is nothing to copy."""
        menu = QMenu(self._widget)
        there = bool(self.numbers())
        for title, action in (
            ("Copy &picture", self.copy_picture),
            ("&Save picture as PNG…", self.save_picture),
            ("Copy &numbers (CSV)", self.copy_numbers),
            ("Save numbers as &CSV…", self.save_numbers),
        ):
            entry = menu.addAction(title)
            entry.setEnabled(there)
            entry.triggered.connect(lambda _checked=False, act=action: act())
        return menu

    def picture(self) -> QImage:
        """Return the widget as an image, sharper than the screen.

        Below it stands what altered the run, where something did.
        """
        widget, words = self._widget, self.altered
        room = QRect(0, 0, widget.width(), 10 * widget.fontMetrics().height())
        wrap = Qt.TextFlag.TextWordWrap
        note = (
            widget.fontMetrics().boundingRect(room, wrap, words) if words else QRect()
        )
        size = QSize(widget.width(), widget.height() + note.height())
        kind = QImage.Format.Format_ARGB32_Premultiplied
        image = QImage(size * SHARPNESS, kind)
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

    def copy_picture(self) -> None:
        """Put the picture on the clipboard."""
        QGuiApplication.clipboard().setImage(self.picture())

    def copy_numbers(self) -> None:
        """Put the numbers on the clipboard, every digit."""
        QGuiApplication.clipboard().setText(self.numbers())

    def save_picture(self) -> None:
        """Ask for a name and write the picture."""
        path = self._ask("Save picture", "picture.png", "*.png")
        if path and not QImageWriter(path, b"png").write(self.picture()):
            self.failed.emit(f"{path} cannot be written: choose another folder.")

    def save_numbers(self) -> None:
        """Ask for a name and write the numbers."""
        path = self._ask("Save numbers", "numbers.csv", "*.csv")
        if not path:
            return
        try:
            Path(path).write_text(self.numbers(), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or "the system refused"
            self.failed.emit(f"{path} cannot be written ({reason}): choose another.")

    def _ask(self, title: str, name: str, kind: str) -> str:
        path, _ = QFileDialog.getSaveFileName(self._widget, title, name, kind)
        return path
