"""Boxes, buttons and titles of fields, set up in one way everywhere."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from PySide6.QtCore import QEvent, QSignalBlocker, QSize, Qt, SignalInstance
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLabel,
    QMenu,
    QSpinBox,
    QTabBar,
    QToolButton,
    QWidget,
)

from visformer.language import _

Offer = tuple[str, Callable[[], None]]  # the title of a menu's entry, what it does
Spin = TypeVar("Spin", QSpinBox, QDoubleSpinBox)


def add_offers(menu: QMenu, offers: Iterable[Offer]) -> None:
    """Put entries into a menu, apart from those that follow."""
    for title, do in offers:
        menu.addAction(title).triggered.connect(lambda _=False, do=do: do())
    if menu.actions():
        menu.addSeparator()


SHORTEST = 0.75  # of the width that a box with a most would like, in a narrow window


class ComboBox(QComboBox):
    """Qt keeps the least size of the font before; the size that it would like is right.

    (QComboBox caches it while the new font is not polished yet.)
    """

    def minimumSizeHint(self) -> QSize:
        """Ask for no more than the box would like."""
        wanted = self.sizeHint()
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        if self.sizeAdjustPolicy() == policy:  # titles may be cut
            return QSize(round(SHORTEST * wanted.width()), wanted.height())
        return super().minimumSizeHint().boundedTo(wanted)

    def offer(self, items: Mapping[Any, str], chosen: object) -> None:
        """List titles by their data, unless they are listed, and choose one."""
        listed = {self.itemData(at): self.itemText(at) for at in range(self.count())}
        with QSignalBlocker(self):
            if listed != items or [*listed] != [*items]:
                self.clear()
                for data, title in items.items():
                    self.addItem(title, data)
            self.setCurrentIndex([*items].index(chosen) if chosen in items else -1)


def chooser(
    name: str, items: Mapping[Any, str] | None = None, *, most: int | None = None
) -> ComboBox:
    """Build a box of titles by their data; ``name`` is its accessible name.

    The titles are those marked for the catalogue. The box is as wide as the longest
    one, or at most ``most`` characters: longer ones may be cut until they are chosen.
    """
    box = ComboBox()
    titles = {data: _(title) for data, title in (items or {}).items()}
    for data, title in titles.items():
        box.addItem(title, data)
    box.setAccessibleName(name)
    policy = QComboBox.SizeAdjustPolicy.AdjustToContents
    if most is not None:
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        box.setMinimumContentsLength(min(most, max(map(len, titles.values()))))
    box.setSizeAdjustPolicy(policy)
    return box


def tool_button(
    name: str, slot: Callable[..., object] | SignalInstance | None = None
) -> QToolButton:
    """Build a flat button, for an icon; ``name`` is its tip and accessible name."""
    button = QToolButton()
    button.setAutoRaise(True)
    button.setToolTip(name)
    button.setAccessibleName(name)
    if slot is not None:
        button.clicked.connect(slot)
    return button


def word_button(
    text: str, tip: str, slot: Callable[..., object] | SignalInstance | None = None
) -> QToolButton:
    """Build a button that shows a word."""
    button = QToolButton()
    button.setText(text)
    button.setToolTip(tip)
    if slot is not None:
        button.clicked.connect(slot)
    return button


def whole_field(name: str, least: int, most: int, *, prefix: str = "") -> QSpinBox:
    """Build a field for a whole number; ``prefix`` stands before it."""
    box = QSpinBox()
    box.setRange(least, most)
    return _named(box, name, prefix)


def number_field(
    name: str, least: float, most: float, *, prefix: str = ""
) -> QDoubleSpinBox:
    """Build a field for any number."""
    box = QDoubleSpinBox()
    box.setRange(least, most)
    return _named(box, name, prefix)


def _named(box: Spin, name: str, prefix: str) -> Spin:
    box.setAccessibleName(name)
    box.setPrefix(f"{prefix} " if prefix else "")
    box.setKeyboardTracking(False)  # one picture per number, not per digit
    return box


def titled(title: str, field: QWidget) -> QLabel:
    """Return a field's title, whose key leads to the field."""
    label = QLabel(title)
    label.setBuddy(field)
    return label


def keeps(event: QEvent, keys: Collection[Qt.Key]) -> bool:
    """Take one of these keys, pressed alone, before a shortcut of the window does."""
    override = QEvent.Type.ShortcutOverride
    if not isinstance(event, QKeyEvent) or event.type() != override:
        return False
    plain = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
    if event.modifiers() not in plain or Qt.Key(event.key()) not in keys:
        return False
    event.accept()
    return True


Bar = TypeVar("Bar", bound=QTabBar)


def prepared(bar: Bar, name: str, titles: Iterable[str] = ()) -> Bar:
    """Set a row of tabs up; ``name`` is its accessible name."""
    bar.setAccessibleName(name)
    bar.setDrawBase(False)
    bar.setExpanding(False)
    for title in titles:
        bar.addTab(title)
    return bar
