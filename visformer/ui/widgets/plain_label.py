"""Labels that may contain tokens, and so never are rich text; some words have hues."""

import html

from PySide6.QtCore import QCoreApplication, QEvent, QPointF, QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QApplication, QLabel, QSizePolicy, QToolTip, QWidget

from visformer.pictures.picture import raw_label
from visformer.pictures.words.role_text import RoleSpan, RoleText
from visformer.ui.look.theme import hue, letter_width

MOST_CHARACTERS = 40  # whose room a label asks for
MOST_SHOWN = 2000  # characters that are measured, painted or told


class PlainLabel(QLabel):
    """Text that is never read as markup; a long one is cut where room is short.

    It never widens the window by more than ``MOST_CHARACTERS``; a tooltip has the
    whole text.
    """

    def minimumSizeHint(self) -> QSize:
        hint = super().minimumSizeHint()
        most = MOST_CHARACTERS * letter_width(self.fontMetrics())
        return QSize(min(hint.width(), most), hint.height())

    @property
    def cut(self) -> str:
        """The text as it fits; "" where all of it does, or it is of several lines."""
        if self.wordWrap() or "\n" in self.text():
            return ""
        room = self.contentsRect().width() - 2 * self.margin()
        metrics, text = self.fontMetrics(), self.text()
        if metrics.horizontalAdvance(text[:MOST_SHOWN]) <= room:
            return ""
        return cut_to_room(text[:MOST_SHOWN], metrics, room) or "…"

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text, cut where there is no room for it."""
        cut = self.cut
        if not cut:
            super().paintEvent(event)
            return
        margin = self.margin()
        self.style().drawItemText(
            QPainter(self),
            self.contentsRect().adjusted(margin, 0, -margin, 0),
            self.alignment(),
            self.palette(),
            self.isEnabled(),
            cut,
            self.foregroundRole(),
        )

    def event(self, event: QEvent) -> bool:
        """Show the whole text in a tooltip where it is cut."""
        if not isinstance(event, QHelpEvent):  # most: told faster than by their type
            return super().event(event)
        if event.type() == QEvent.Type.ToolTip and not self.toolTip() and self.cut:
            place = event.globalPos()
            words = html.escape(self.text()[:MOST_SHOWN])
            QToolTip.showText(place, f"<qt>{words}</qt>", self)
            return True
        return super().event(event)


def cut_to_room(text: str, metrics: QFontMetrics, room: float) -> str:
    """Return a text as it fits into ``room`` pixels, cut at its end."""
    return metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(room))


class Hint(PlainLabel):
    """A faint line that may be missing: whole, or where it has no room, not there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)
        self.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint all of the line, or nothing."""
        if not self.cut:
            super().paintEvent(event)


def plain_label(
    text: str = "", parent: QWidget | None = None, *, faint: bool = False
) -> QLabel:
    """Build a label that never reads its text as markup: ``<s>`` is a token."""
    label = PlainLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setText(text)
    if faint:
        label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label


def paragraph(name: str, text: str = "") -> QLabel:
    """Build a plain label of several lines; ``name`` is the accessible name."""
    label = plain_label(text)
    label.setWordWrap(True)
    label.setAccessibleName(name)
    return label


def write_in(words: QWidget, role: QPalette.ColorRole, ink: QColor) -> None:
    """Give a label or button a colour in this role of its palette, unless it has it."""
    if words.palette().color(role) != ink:
        palette = QPalette(words.palette())
        palette.setColor(role, ink)
        words.setPalette(palette)


def wrapped_height(metrics: QFontMetrics, text: str, width: int) -> int:
    """Return the height of a text wrapped to ``width``, in pixels; 0 for no text."""
    if not text:
        return 0
    room = QRect(0, 0, max(1, width), 1 << 16)
    return metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, text).height()


def plain_tip(words: str) -> str:
    """Return words as a tool tip; only those with ``<`` or ``&`` are changed."""
    if "<" not in words and "&" not in words:
        return words
    text = html.escape(words).replace("\n", "<br>")
    return f"<qt>{text}</qt>"


_RAW = "raw pieces"  # a property of the application, as the theme's size of text is


def show_raw(*, raw: bool) -> None:
    """Write tokens so; what is written already is measured and written again."""
    app = QApplication.instance()
    if isinstance(app, QApplication) and bool(app.property(_RAW)) != raw:
        app.setProperty(_RAW, raw)
        for widget in app.allWidgets():
            QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.FontChange))


def is_raw() -> bool:
    """Tell whether tokens are written as their vocabulary has them."""
    app = QCoreApplication.instance()
    return app is not None and bool(app.property(_RAW))


def written(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels as they are written now."""
    return tuple(map(raw_label, labels)) if is_raw() else labels


LINE_END = "\u2028"  # within one layout


class RoleLabel(PlainLabel):
    """Wraps a RoleText, which is never read as markup, or any other text.

    What has no room is cut at the end of the last line, and is in the tool tip.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        """``name`` is the accessible name."""
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAccessibleName(name)
        self.spans: tuple[RoleSpan, ...] = ()
        self._laid: tuple[tuple[object, ...], QTextLayout] | None = None

    def setText(self, text: str) -> None:
        """Show a text; if it is a RoleText, with its hues."""
        spans = text.spans if isinstance(text, RoleText) else ()
        if (text, spans) != (self.text(), self.spans):
            self.spans = spans
            super().setText(str(text))

    @property
    def cut(self) -> str:
        """The text as it fits; "" where all of it does."""
        text, room = self._shown, self.contentsRect()
        whole = self._lay(text)
        lines = [whole.lineAt(at) for at in range(whole.lineCount())]
        fitting = [
            line for line in lines if line.y() + line.height() <= room.height() + 1
        ]
        if len(fitting) == len(lines) or not lines:
            return ""
        start = lines[max(0, len(fitting) - 1)].textStart()
        return text[:start] + cut_to_room(
            text[start:], self.fontMetrics(), room.width()
        )

    @property
    def _shown(self) -> str:
        return self.text()[:MOST_SHOWN].replace("\n", LINE_END)

    def _lay(self, text: str) -> QTextLayout:
        """Break a text into lines; the last one that was asked for is kept."""
        room, palette = self.contentsRect(), self.palette()
        looks = text, self.spans, room.width(), self.font(), palette.cacheKey()
        if self._laid is not None and self._laid[0] == looks:
            return self._laid[1]
        layout = QTextLayout(text, self.font(), self)
        option = QTextOption(self.alignment() & Qt.AlignmentFlag.AlignHorizontal_Mask)
        option.setWrapMode(QTextOption.WrapMode.WordWrap)
        layout.setTextOption(option)
        layout.setFormats([self._format(span) for span in self.spans])
        layout.beginLayout()
        y = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(room.width())
            line.setPosition(QPointF(0, y))
            y += line.height()
        layout.endLayout()
        self._laid = looks, layout
        return layout

    def _format(self, span: RoleSpan) -> QTextLayout.FormatRange:
        made, ink = QTextLayout.FormatRange(), QTextCharFormat()
        ink.setForeground(hue(self.palette(), span.role))
        made.start, made.length, made.format = span.start, span.length, ink
        return made

    def paintEvent(self, event: QPaintEvent) -> None:
        cut = self.cut
        if self.hasSelectedText() or not (self.spans or cut):
            super(PlainLabel, self).paintEvent(event)
            return
        layout = self._lay(cut or self._shown)
        last = layout.lineAt(layout.lineCount() - 1)
        room, high = self.contentsRect(), last.y() + last.height()
        top = room.top()
        if self.alignment() & Qt.AlignmentFlag.AlignVCenter and high < room.height():
            top += round((room.height() - high) / 2)
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        layout.draw(painter, QPointF(room.left(), top))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._laid = None
