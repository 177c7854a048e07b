"""Panel: the forms of a kind's attention beside the heat map, with words and export."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QMouseEvent,
    QPalette,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from visformer.language import _
from visformer.pictures.attention.gist import Gist
from visformer.pictures.picture import Matrix, Table
from visformer.ui.theme import TITLE, gap, sized
from visformer.ui.widgets.arc_map import ArcsCanvas
from visformer.ui.widgets.colour_bar import ColourBar
from visformer.ui.widgets.colour_map import colour_table
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.gist_label import GistLabel
from visformer.ui.widgets.kind_sign import KindSign
from visformer.ui.widgets.plain_label import paragraph, plain_label
from visformer.ui.widgets.running_text import RunningText


class Panel(QWidget):
    """Title, what was done, the picture (scrolled if it is long), its key."""

    clicked = Signal(object)  # None: beside the picture
    offer_taken = Signal()  # the range of colours that Matrix.offer names
    failed = Signal(str)

    def __init__(self, canvas: ArcsCanvas | RunningText, name: str) -> None:
        super().__init__()
        self.canvas = canvas
        self._matrix: Matrix | None = None
        self._title, self._gist = plain_label(), GistLabel()
        self._done, self._note = paragraph(name), paragraph(name)
        for label in (self._title, self._done, self._note):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._note.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._bar = ColourBar(self)
        self._bar.offer_taken.connect(self.offer_taken)
        self._bar.setVisible(isinstance(canvas, RunningText))
        self.area = QScrollArea()
        self.area.setWidget(canvas)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(4, 4, 4, 4)
        column.setSpacing(2)
        self._sign = KindSign()
        heading = self._heading = QHBoxLayout()
        heading.addWidget(self._sign)
        heading.addWidget(self._title)
        heading.addWidget(self._gist, 1)
        column.addLayout(heading)
        for part in (self._done, self.area, self._note, self._bar):
            column.addWidget(part, 1 if part is self.area else 0)
        self.export = Export(self, self.table)
        self.export.failed.connect(self.failed)
        self.setAccessibleName(name)
        self._dress()

    def draw(self, matrix: Matrix | None, note: str) -> None:
        """Show the words around the picture; ``note`` says how it is drawn."""
        self._matrix = matrix
        empty = matrix is None or not matrix.values.size
        self._title.setText(matrix.title if matrix is not None else "")
        self._sign.draw(matrix.sign if matrix is not None else None)
        self._done.setText(matrix.done if matrix is not None else "")
        self._done.setVisible(bool(self._done.text()))
        said = matrix.note if matrix is not None and empty else note
        self._note.setText(said if matrix is not None else _("Nothing to show yet."))
        self._note.setVisible(bool(self._note.text()))
        if matrix is not None:
            self._bar.draw(matrix, colour_table(self.palette(), signed=matrix.signed))

    def say(self, gist: Gist) -> None:
        """Write beside the title what there is to see."""
        self._gist.draw(gist)

    def table(self) -> Table | None:
        """Return the numbers behind the picture for export."""
        return self._matrix.table if self._matrix is not None else None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Report a click beside the picture."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(None)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer to copy and to save what is on screen."""
        self.export.popup(event.globalPos())

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and "_bar" in self.__dict__:
            self._dress()

    def _dress(self) -> None:
        self._heading.setSpacing(gap(self, 2))
        self._title.setFont(sized(self.font(), TITLE, bold=True))
