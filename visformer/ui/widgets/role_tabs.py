"""Tabs whose titles have the hues of queries, keys and values."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QPaintEvent, QPalette
from PySide6.QtWidgets import QStyle, QStyleOptionTab, QStylePainter, QTabBar

from visformer.pictures.role_text import role_text
from visformer.ui.theme import hue


class RoleTabs(QTabBar):
    """Paints its titles itself: a style sheet allows a tab bar one colour of text."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the tabs, the chosen one last, and on them their titles."""
        painter, chosen = QStylePainter(self), self.currentIndex()
        for at in sorted(range(self.count()), key=lambda at: at == chosen):
            option = QStyleOptionTab()
            self.initStyleOption(option, at)
            option.text = ""
            painter.drawControl(QStyle.ControlElement.CE_TabBarTab, option)
            self._write(painter, option, at)

    def _write(self, painter: QStylePainter, option: QStyleOptionTab, at: int) -> None:
        text, chosen = self.tabText(at), at == self.currentIndex()
        role = QPalette.ColorRole.PlaceholderText
        if chosen and self.hasFocus():
            role = QPalette.ColorRole.Highlight
        elif chosen or option.state & QStyle.StateFlag.State_MouseOver:
            role = QPalette.ColorRole.WindowText
        element = QStyle.SubElement.SE_TabBarTabText
        room = self.style().subElementRect(element, option, self)
        metrics = self.fontMetrics()
        x = room.x() + (room.width() - metrics.horizontalAdvance(text)) // 2
        usual = self.palette().color(role)
        for part, of in role_text(text).parts():
            wide = metrics.horizontalAdvance(part)
            painter.setPen(hue(self.palette(), of) if of else usual)
            box = QRect(x, room.y(), wide, room.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, part)
            x += wide
