"""The look of buttons, fields, tabs and bars, in the colours of a theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visformer import paths

if TYPE_CHECKING:
    from visformer.ui.theme import Colours

FIELDS = "QLineEdit, QComboBox, QAbstractSpinBox, QPlainTextEdit"
SHEET = """
{fields} {{
    background: {base}; border: 1px solid {line};
    border-radius: {round}px; padding: {thin}px {space}px;
    selection-background-color: {accent}; selection-color: {on_accent};
}}
QPushButton {{
    background: {raised}; border: 1px solid {line};
    border-radius: {round}px; padding: {thin}px {wide}px;
}}
QToolButton {{
    background: transparent; border: 1px solid transparent;
    border-radius: {round}px; padding: {thin}px;
}}
TokenStrip > QToolButton {{ background: {window}; }}
QPushButton:hover, QToolButton:hover, QComboBox:hover {{ border-color: {faint}; }}
QPushButton:pressed, QToolButton:pressed, QToolButton:checked {{
    background: {held}; border-color: {faint};
}}
QLineEdit:focus, QComboBox:focus, QAbstractSpinBox:focus, QPushButton:focus,
QToolButton:focus, QPlainTextEdit:focus {{ border-color: {accent}; }}
QPushButton::menu-indicator, QComboBox::down-arrow {{
    image: url("{down}"); width: {arrow}px; height: {arrow}px;
}}
QPushButton::menu-indicator {{
    subcontrol-origin: padding; subcontrol-position: right center; right: {thin}px;
}}
QToolButton::menu-indicator {{ image: none; width: 0; }}
QToolButton::up-arrow {{ image: url("{up}"); }}
QToolButton::down-arrow {{ image: url("{down}"); }}
QToolButton::right-arrow {{ image: url("{right}"); }}
QComboBox {{ padding-right: {drop}px; }}
QComboBox::drop-down {{
    subcontrol-origin: padding; subcontrol-position: right center;
    width: {drop}px; border: none;
}}
QAbstractSpinBox {{ padding: {thin}px {drop}px {thin}px {space}px; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{
    subcontrol-origin: border; width: {drop}px; border: none; background: transparent;
}}
QAbstractSpinBox::up-button {{ subcontrol-position: top right; }}
QAbstractSpinBox::down-button {{ subcontrol-position: bottom right; }}
QAbstractSpinBox::up-arrow {{
    image: url("{up}"); width: {arrow}px; height: {arrow}px;
}}
QAbstractSpinBox::down-arrow {{
    image: url("{down}"); width: {arrow}px; height: {arrow}px;
}}
QTabBar::tab {{
    background: transparent; color: {faint}; border: none;
    border-bottom: {bold}px solid transparent; padding: {thin}px {wide}px;
}}
QTabBar::tab:selected {{ color: {text}; border-bottom-color: {accent}; }}
QTabBar::tab:hover {{ color: {text}; }}
QTabBar::tab:focus {{ color: {accent}; }}
QFileDialog {{
    backward-icon: url("{left}"); forward-icon: url("{right}");
    filedialog-parent-directory-icon: url("{up}");
}}
QMenu {{ background: {base}; color: {text}; border: 1px solid {line}; }}
QMenu::item {{ padding: {space}px {wider}px; }}
QMenu::item:selected {{ background: {accent}; color: {on_accent}; }}
QMenu::item:disabled {{ color: {off}; }}
QMenu::right-arrow {{
    image: url("{right}"); width: {arrow}px; height: {arrow}px; right: {space}px;
}}
QMenu::separator {{ height: 1px; background: {line}; margin: {thin}px 0; }}
QMenu::indicator {{ width: {arrow}px; height: {arrow}px; left: {space}px; }}
QMenu::indicator:checked {{ image: url("{check}"); }}
QToolTip {{
    background: {raised}; color: {text}; border: 1px solid {line};
    padding: {thin}px;
}}
QSplitter::handle {{ background: transparent; }}
QSplitter::handle:hover {{ background: {line}; }}
QSplitter::handle:horizontal {{ width: {space}px; }}
QSplitter::handle:vertical {{ height: {space}px; }}
QScrollBar {{ background: transparent; }}
QScrollBar:vertical {{ width: {bar}px; margin: 0; }}
QScrollBar:horizontal {{ height: {bar}px; margin: 0; }}
QScrollBar::handle {{
    background: {line}; border-radius: {nub}px; min-height: {wider}px;
    min-width: {wider}px;
}}
QScrollBar::handle:hover {{ background: {faint}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QStatusBar::item {{ border: none; }}
KeyCap {{
    background: {raised}; border: 1px solid {line};
    border-radius: {round}px; padding: 0 {space}px;
}}
Drawer, MessageStack {{
    background: {raised}; border: 1px solid {line}; border-radius: {round}px;
}}
MessageStack {{ border-color: {faint}; }}
"""


def style_sheet(name: str, colours: Colours, line: int) -> str:
    """Return the sheet of a theme for text whose lines are ``line`` pixels high."""
    bar = max(8, line * 6 // 10)
    return SHEET.format(
        fields=FIELDS,
        window=colours.window,
        base=colours.base,
        raised=colours.raised,
        text=colours.text,
        faint=colours.faint,
        line=colours.line,
        off=colours.off,
        # text and icons stay legible where lines have their colour
        held=colours.raised if colours.line == colours.text else colours.line,
        accent=colours.accent,
        on_accent=colours.on_accent,
        down=_arrow(name, "down"),
        up=_arrow(name, "up"),
        left=_arrow(name, "left"),
        right=_arrow(name, "right"),
        check=_arrow(name, "check"),
        thin=max(1, line // 8),
        space=max(2, line // 3),
        wide=max(4, line * 6 // 10),
        wider=line * 16 // 10,
        round=max(2, line // 4),
        bold=max(2, line // 8),
        arrow=max(6, line // 2),
        drop=line,
        bar=bar,
        nub=bar // 2,
    )


def _arrow(name: str, shape: str) -> str:
    return paths.resource("arrows").joinpath(f"{name}-{shape}.svg").as_posix()
