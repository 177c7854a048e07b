"""Teacher forcing in sight: that the reference is fed, its loss, and the way out."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QLinearGradient, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.pictures.teacher_forcing import is_taught, legend_ends, score_words
from visformer.session.live import fixed_words
from visformer.session.state import State
from visformer.ui.changed import Changed
from visformer.ui.theme import CAPTION, fed_colour, gap, loss_colour, sized
from visformer.ui.widgets.plain_label import plain_label, write_in
from visformer.ui.widgets.plain_tip import plain_tip
from visformer.ui.widgets.role_label import RoleLabel


class TeachingPanel(QWidget):
    """Below the next token, where it pushes no picture; hidden without a reference."""

    chosen = Signal(bool)  # whether the reference is to be fed
    dropped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._changed = Changed()
        self.tag = plain_label("")
        self.words = RoleLabel(_("how well the model predicts the reference"))
        self.words.setMinimumWidth(1)
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.legend = LossLegend()
        self.fed = _side(_("fed"), _("Feed the reference, token by token"))
        self.free = _side(
            _("free running"),
            _("Let the model decode, and compare it with the reference"),
        )
        self._sides = QButtonGroup(self)
        for button in (self.fed, self.free):
            self._sides.addButton(button)
        self.fed.clicked.connect(lambda: self.chosen.emit(True))
        self.free.clicked.connect(lambda: self.chosen.emit(False))
        self.end = QToolButton()
        self.end.setText("×")
        self.end.setAutoRaise(True)
        self.end.setToolTip(_("Forget the reference: the model decodes"))
        self.end.setAccessibleName(_("Forget the reference: the model decodes"))
        self.end.clicked.connect(self.dropped)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._rows = QHBoxLayout(), QHBoxLayout()
        for row, parts in zip(
            self._rows, ((self.tag, self.end), (self.fed, self.free)), strict=True
        ):
            for part in parts:
                row.addWidget(part)
            row.insertStretch(1 if self.tag in parts else len(parts), 1)
            self._column.addLayout(row)
        self._column.addWidget(self.words)
        self._column.addWidget(self.legend)
        self._dress()
        self.hide()

    def draw(self, state: State) -> None:
        """Show whether a reference is fed, and how well the model predicts it."""
        wish, trace = state.wish, state.trace
        if not self._changed("all", trace, wish.reference, wish.fed, state.opened):
            return
        taught = is_taught(trace)
        there = taught or bool(wish.reference)
        self.setVisible(there)
        if not there:
            return
        self.tag.setText(_("teacher forcing") if taught else _("free running"))
        words = score_words(trace) if taught and trace is not None else ""
        self.words.setText(words or _("The reference is not fed, only compared with."))
        tip = "\n".join((words, _words_tip())) if taught else ""
        self.words.setToolTip(plain_tip(tip))
        self.legend.setVisible(taught)
        fixed = fixed_words(state)
        for button, on in ((self.fed, taught), (self.free, not taught)):
            with QSignalBlocker(button):
                button.setChecked(on)
            button.setEnabled(not fixed)
        self.end.setVisible(bool(wish.reference) and not fixed)

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette and font."""
        super().changeEvent(event)
        kinds = QEvent.Type.PaletteChange, QEvent.Type.FontChange
        if event.type() in kinds and "_rows" in self.__dict__:
            self._dress()

    def _dress(self) -> None:
        for row in (self._column, *self._rows):
            row.setSpacing(gap(self))
        self.tag.setFont(sized(self.font(), 1.0, bold=True))
        for label in (self.words, self.legend):
            label.setFont(sized(self.font(), CAPTION))
        fed = fed_colour(self.palette())
        write_in(self.tag, QPalette.ColorRole.WindowText, fed)


def _side(name: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(name)
    button.setToolTip(tip)
    button.setCheckable(True)
    return button


def _words_tip() -> str:
    return _(
        "Each row of the decoder reads the reference's tokens before it and is scored "
        "on the next one: cross-entropy = Σ −ln p of these tokens, perplexity = e to "
        "the cross-entropy per token. All rows are computed in one pass, as in "
        "training."
    )


class LossLegend(QWidget):
    """The colours of losses, with their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(_("colours of the loss, −ln p of a token in nats"))
        self.setToolTip(_("colours of the loss, −ln p of a token in nats"))

    def sizeHint(self) -> QSize:
        """Return the room for the name, both ends and the colours."""
        self.ensurePolished()
        metrics = self.fontMetrics()
        texts = sum(metrics.horizontalAdvance(text) for text in self._texts())
        return QSize(texts + 6 * metrics.height(), metrics.height())

    def minimumSizeHint(self) -> QSize:
        """Never be cut."""
        return self.sizeHint()

    @staticmethod
    def _texts() -> tuple[str, str, str]:
        return _("loss"), *legend_ends()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self.font())
        painter.setPen(self.palette().placeholderText().color())
        em = self.fontMetrics().height()
        name, low, high = self._texts()
        x = 0
        for text in (f"{name}  {low}", "", high):
            if not text:
                bar = QRect(x, self.height() // 2 - em // 4, 4 * em, em // 2)
                ramp = QLinearGradient(bar.topLeft(), bar.topRight())
                ramp.setColorAt(0, loss_colour(self.palette(), 0))
                ramp.setColorAt(1, loss_colour(self.palette(), 1))
                painter.fillRect(bar, ramp)
                painter.drawRect(bar)
                x = bar.right() + em // 2
                continue
            wide = painter.fontMetrics().horizontalAdvance(text)
            box = QRect(x, 0, wide, self.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, text)
            x += wide + em // 2
