"""Tooltips of terms: written when asked for, with the numbers of that moment."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QToolTip, QWidget

from visformer.pictures.words.terms import Term, term_words

if TYPE_CHECKING:
    from visformer.session.state import Session


class TermTip(QObject):
    """Explains a term where the mouse rests on a widget; its own tip comes second."""

    def __init__(self, widget: QWidget, session: Session, *terms: Term) -> None:
        super().__init__(widget)
        self._widget, self._session, self._terms = widget, session, terms
        widget.installEventFilter(self)

    @property
    def words(self) -> str:
        """What the tip says now."""
        scene = self._session.state.scene
        said = (term_words(term, scene) for term in self._terms)
        return "\n".join(filter(None, said))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.ToolTip or not isinstance(event, QHelpEvent):
            return False
        words = self.words
        if not words:
            return False
        text = html.escape(words).replace("\n", "<br>")
        QToolTip.showText(event.globalPos(), f"<qt>{text}</qt>", self._widget)
        return True
